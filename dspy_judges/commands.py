"""The commands by the names of the console script, and by those of `python -m`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module

SCRIPT = "dspy-judges"


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """`target` is the function that is called with `words` and what follows the command's name."""

    summary: str
    target: str
    module: str
    words: tuple[str, ...] = ()

    @property
    def as_module(self) -> str:
        """As it is called without the console script."""
        return " ".join(("python -m", self.module, *self.words))


def _of_judges(name: str, summary: str) -> Command:
    return Command(
        summary=summary, target="judges.cli.command:command", module="judges", words=(name,)
    )


def _of_data(name: str, summary: str) -> Command:
    return Command(summary=summary, target="data.check:main", module="data", words=(name,))


def _of_optimize(module: str, summary: str) -> Command:
    target = module.replace("optimize", "optimize.cli") if "." in module else "optimize.cli.tune"
    return Command(summary=summary, target=f"{target}:command", module=module)


COMMANDS: Mapping[str, Command] = {
    "tune": _of_optimize("optimize", "tune a judge against human labels"),
    "verify": _of_optimize("optimize.verify", "how far any judge agrees with people"),
    "compare": _of_optimize("optimize.compare", "models and judges side by side, with dollars"),
    "panel": _of_optimize("optimize.panel", "several judges joined in one, by what labels support"),
    "estimate": _of_optimize(
        "optimize.estimate", "what people would say on average, from few labels and a judge"
    ),
    "list": _of_judges("list", "the judges that come with this package"),
    "show": _of_judges("show", "what a judge is, and its prompt"),
    "score": _of_judges("score", "judge every row of a table"),
    "winrate": _of_judges("winrate", "compare the two outputs of every pair"),
    "export": _of_judges("export", "write a judge for another tool"),
    "check": _of_data("check", "every problem of a label file, at once"),
    "completion": Command(
        summary="print what completes these words, for bash or zsh",
        target="dspy_judges.completion:command",
        module="dspy_judges",
    ),
}
_MODULE_FORMS = {command.as_module: name for name, command in COMMANDS.items()}
# The longest first: "python -m optimize" begins "python -m optimize.verify".
_MODULE_FORM = re.compile(
    "|".join(re.escape(form) + r"(?![\w.])" for form in sorted(_MODULE_FORMS, reverse=True))
    + "|python -m (?:judges|data)(?![\\w.])"
)
_script_is_running = False


def catalogue_texts(name: str) -> tuple[str, ...] | None:
    """What the catalogue's judge of this name reads; None where it has none. For advice alone."""
    # By its name: what stands below the judges knows nothing else of them.
    catalogue = import_module("judges.catalog")
    return tuple(catalogue.find(name).inputs) if name in catalogue.names() else None


def name_by_script() -> None:
    """From now on, what is printed names the commands as the console script has them."""
    global _script_is_running
    _script_is_running = True


def as_called(text: str) -> str:
    """The text with commands named as this process was started: by the script or `python -m`."""
    if not _script_is_running:
        return text
    return _MODULE_FORM.sub(
        lambda form: f"{SCRIPT} {_MODULE_FORMS.get(form[0], '')}".rstrip(), text
    )
