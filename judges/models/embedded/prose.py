"""Plain sentences for text fields that are no instruction, as DSPy's proposers ask for."""

from collections.abc import Mapping

from judges.models.embedded.request import Task
from judges.prompt import Field

SHOWN_NAMES = 6
NOTHING = "This is a statistical judge, not a language model: it rates texts by counted facets."


def describe(field: Field, task: Task, texts: Mapping[str, str]) -> str:
    """One or two true sentences about the prompt; a statistical judge knows no more."""
    read = [one.name.replace("_", " ") for one in task.reads][:SHOWN_NAMES]
    what = field.name.replace("_", " ")
    if not read:
        return NOTHING
    n_words = sum(len(text.split()) for text in texts.values())
    return (
        f"The {what} rests on the {_listed(read)} given, some {max(10, round(n_words, -1))} words "
        "in all. The task appears to be to judge texts by the qualities that its instruction names."
    )


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
