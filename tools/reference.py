"""Write docs/reference/ and docs/llms.txt from the code: `python tools/reference.py`.

Every command's flags, a run's settings, the packages' public names and the frozen judge's format
are read where they are declared; tests/test_reference.py fails where a stored page is stale.
"""

import argparse
import ast
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from textwrap import dedent
from typing import Any

import msgspec
import yaml

from data.check import parser as data_parser
from dspy_judges.commands import COMMANDS, SCRIPT
from judges.cli.command import build_parser
from judges.frozen import JudgeFile, PanelFile
from optimize.cli import alternative, compare, estimate, panel, report, tune, verify
from optimize.run.settings import GROUPS, SETTINGS, flag_of, kind_of

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
WRITTEN = "<!-- Written by tools/reference.py; change the code, not this page. -->"
PARSERS: Mapping[str, Callable[[], argparse.ArgumentParser]] = {
    "optimize": tune.parser,
    "optimize.verify": verify.parser,
    "optimize.compare": compare.parser,
    "optimize.panel": panel.parser,
    "optimize.report": report.parser,
    "optimize.estimate": estimate.parser,
    "optimize.alternative": alternative.parser,
    "judges": lambda: build_parser()[0],
    "data": data_parser,
}
PACKAGES = {
    "judges": "Define, run, freeze and load judges. Importing it imports neither DSPy nor pandas.",
    "optimize": "Tune judges against human labels, and measure anybody's numbers against them.",
    "data": "Read labels, check them, split them.",
}
KINDS = {bool: "true or false", int: "whole number", float: "number", str: "text", dict: "mapping"}


def cell(words: str) -> str:
    """Words that a table's cell can hold."""
    return " ".join(words.split()).replace("|", "\\|").replace("<", "&lt;")


def code(words: str) -> str:
    return f"`{words}`" if words else ""


def table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [heads, tuple("---" for _ in heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


# Commands


def commands_page() -> str:
    parts = [
        WRITTEN,
        "# Commands",
        f"Each is `{SCRIPT} NAME` or the `python -m` form beside it; no module of your own can "
        f'hide the former. `eval "$({SCRIPT} completion bash)"` completes its words (or `zsh`), '
        f"`{SCRIPT} --version` tells the version. stdout carries the result, stderr progress; "
        "`--json` prints the result for machines. A flag's name is written out. Keys are read from "
        "the environment and written nowhere.",
        "| Exit code | Means |\n|---|---|\n| 0 | done |\n| 1 | failed, or fell short: one line, no "
        "traceback |\n| 2 | wrong usage |\n| 130 | interrupted, and resumable |",
        table(
            ("Command", "Also", "What it does"),
            [
                (linked(name), code(command.as_module), cell(command.summary))
                for name, command in COMMANDS.items()
            ],
        ),
    ]
    for name, command in COMMANDS.items():
        if command.module in PARSERS:
            parts += [f"## {name}", *command_parts(name, parser_of(command.module, command.words))]
    return "\n\n".join(parts) + "\n"


def linked(name: str) -> str:
    words = code(f"{SCRIPT} {name}")
    return f"[{words}](#{name})" if COMMANDS[name].module in PARSERS else words


def parser_of(module: str, words: tuple[str, ...]) -> argparse.ArgumentParser:
    parser = PARSERS[module]()
    for word in words:
        choices = next(a.choices for a in parser._actions if isinstance(a.choices, dict))
        parser = choices[word]
    return parser


def command_parts(name: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    also = COMMANDS[name].as_module
    yield from prose(parser.description)
    yield f"`{SCRIPT} {name}` or `{also}`"
    formatter = parser._get_formatter()
    for group in parser._action_groups:
        actions = [a for a in group._group_actions if a.help is not argparse.SUPPRESS]
        actions = [a for a in actions if not isinstance(a, argparse._HelpAction)]
        if not actions:
            continue
        if group.title and group.title not in ("options", "positional arguments"):
            yield f"**{cell(group.title)}**"
        rows = [(code(invocation(action)), action_help(formatter, action)) for action in actions]
        yield table(("Argument", "What it says"), rows)
    yield from prose(parser.epilog)


def prose(text: str | None) -> Iterator[str]:
    """The parts of a help text: examples and what is set in columns stay as they stand."""
    for part in (text or "").strip().split("\n\n"):
        if part.startswith("examples:"):
            yield f"```bash\n{dedent(part.partition(chr(10))[2])}\n```"
        elif re.search(r"\S {2,}\S", part):
            yield f"```text\n{part}\n```"
        elif part:
            yield cell(part)


def invocation(action: argparse.Action) -> str:
    """A flag with the name of its value, or a positional argument."""
    value = action.metavar if isinstance(action.metavar, str) else ""
    if action.choices is not None and not action.metavar:
        value = ",".join(str(choice) for choice in action.choices)
    if not action.option_strings:
        return value or action.dest.upper()
    if action.nargs == 0:
        value = ""
    return f"{action.option_strings[-1]} {value}".strip()


def action_help(formatter: argparse.HelpFormatter, action: argparse.Action) -> str:
    return cell(formatter._expand_help(action)) if action.help else ""


# Settings


def settings_page() -> str:
    parts = [
        WRITTEN,
        "# Settings of a run",
        "A setting is declared once: the flag of `python -m optimize`, the key in a `--config` "
        "file, the argument of `optimize.tune()` and the line in the run folder's `config.json` "
        "follow from it. Flags beat the file, which beats a resumed run's, which beats the "
        "default. Those marked *free* may differ when a run is resumed.",
        "```yaml\n# tune.yaml, for python -m optimize --config tune.yaml\ndimension: relevance\n"
        "data: labels.csv\nmap: {relevance: my_column}\nlm: openai/gpt-4.1-mini\nmax_cost: 5\n```",
    ]
    rows: list[tuple[str, ...]] = []
    heads = ("Flag", "Key and argument", "Takes", "Default", "What it says")
    for name, declared in SETTINGS.items():
        if name in GROUPS and rows:
            parts.append(table(heads, rows))
            rows = []
        if name in GROUPS:
            parts.append(f"## {GROUPS[name].capitalize()}")
        settings = declared.metadata
        takes = ", ".join(map(code, settings["choices"])) or KINDS[kind_of(name)]
        if settings["limit"]:
            takes += f", {settings['limit'][0]}"
        default = code(repr(declared.default)) if isinstance(declared.default, int | str) else "-"
        free = "*Free.* " if settings["free"] else ""
        rows.append(
            (code(flag_of(name)), code(name), takes, default, free + cell(settings["help"]))
        )
    parts.append(table(heads, rows))
    return "\n\n".join(parts) + "\n"


# Public names


def python_page() -> str:
    parts = [
        WRITTEN,
        "# Python",
        "Every public name of the three packages, with its signature and what its docstring says. "
        "What is not listed here may move.",
    ]
    for package, about in PACKAGES.items():
        parts += [f"## {package}", about]
        for name in sorted(import_module(package).__all__):
            parts += [f"### {package}.{name}", *described(package, name)]
    return "\n\n".join(parts) + "\n"


@cache
def tree_of(module: str) -> ast.Module:
    path = ROOT.joinpath(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(file.read_text(encoding="utf-8"))


def home_of(package: str, name: str) -> str:
    """The module that the package takes the name from, for type checkers and in truth."""
    for node in ast.walk(tree_of(package)):
        if isinstance(node, ast.ImportFrom) and name in {alias.name for alias in node.names}:
            return str(node.module)
    raise LookupError(f"{package} imports no {name}")


def described(package: str, name: str) -> Iterator[str]:
    """The parts that tell of one name: a class, a function or a type's other name."""
    module = home_of(package, name)
    for node in tree_of(module).body:
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.ClassDef | ast.FunctionDef):
            targets = node.targets if isinstance(node, ast.Assign) else [node]
            names = {getattr(target, "id", getattr(target, "name", "")) for target in targets}
            if name in names:
                yield from described_node(node)
                return
    raise LookupError(f"{module} defines no {name}")


def described_node(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef):
        yield f"```python\n{signature(node, node.name)}\n```"
        yield from docstring(node)
    elif isinstance(node, ast.ClassDef):
        fields = [
            ast.unparse(part)
            for part in node.body
            if isinstance(part, ast.AnnAssign) and public(part)
        ]
        bases = ", ".join(ast.unparse(base) for base in node.bases)
        head = f"class {node.name}({bases})" if bases else f"class {node.name}"
        yield "```python\n" + "\n    ".join([head, *fields]) + "\n```"
        yield from docstring(node)
        yield from methods(node)
    else:
        yield f"```python\n{ast.unparse(node)}\n```"


def public(part: ast.AnnAssign) -> bool:
    return isinstance(part.target, ast.Name) and not part.target.id.startswith("_")


def methods(node: ast.ClassDef) -> Iterator[str]:
    """A list of what can be called or read of a class."""
    lines = []
    for part in node.body:
        if not isinstance(part, ast.FunctionDef):
            continue
        decorators = {ast.unparse(decorator) for decorator in part.decorator_list}
        if "overload" in decorators or (
            part.name.startswith("_") and part.name not in ("__call__", "__init__")
        ):
            continue
        text = next(iter((ast.get_docstring(part) or "").splitlines()), "")
        if decorators & {"property", "cached_property"}:
            returns = ast.unparse(part.returns) if part.returns else ""
            shown = f".{part.name}: {returns}"
        else:
            called = {"__call__": "", "__init__": node.name}.get(part.name, f".{part.name}")
            shown = signature(part, called, one_line=True)
        lines.append(f"- `{shown}`" + (f": {text}" if text else ""))
    if lines:
        yield "\n".join(lines)


def signature(node: ast.FunctionDef, name: str, *, one_line: bool = False) -> str:
    arguments = ast.unparse(node.args)
    arguments = re.sub(r"^(self|cls)(, )?", "", arguments)
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    if node.name == "__init__":
        returns = ""
    flat = f"{name}({arguments}){returns}"
    if one_line or len(flat) <= 100:
        return flat
    lines = ",\n    ".join(split_arguments(arguments))
    return f"{name}(\n    {lines},\n){returns}"


def split_arguments(arguments: str) -> Iterator[str]:
    """The arguments one by one; commas within brackets or quotes divide none."""
    depth, start, quote = 0, 0, ""
    for index, character in enumerate(arguments):
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif character == "," and depth == 0:
            yield arguments[start:index].strip()
            start = index + 1
    yield arguments[start:].strip()


def docstring(node: ast.FunctionDef | ast.ClassDef) -> Iterator[str]:
    """A docstring as Markdown: code that is set in stays so."""
    if text := ast.get_docstring(node):
        yield text


# The frozen judge


def judge_file_page() -> str:
    (_, parts_of_schema) = msgspec.json.schema_components(
        [JudgeFile, PanelFile], ref_template="{name}"
    )
    first, *others = parts_of_schema
    page = [
        WRITTEN,
        "# The frozen judge",
        "One JSON file: no pickle, no code, no key. Loading checks every type and bound below, "
        "that what the file says twice agrees, and a digest (`digest`: sha256 over the canonical "
        "JSON of all else, written behind it); a file that was edited is refused. A file of any "
        "earlier release loads, and scores as it did: its messages are sent word for word.",
        "`messages` is the chat as a template, with a `{{slot}}` for each text, filled in one "
        "pass. `program` rebuilds the DSPy module. `sampling` says how replies become a score. "
        "`provenance` says where the judge comes from: data with its hash, split, optimizer, "
        "seed, budget, versions, date, and the correlations of seed and tuned judge with their "
        "intervals. `lm` names a model, never an address: the file alone takes texts to no host "
        "of its choice.",
    ]
    for name in (first, *others):
        part = parts_of_schema[name]
        if "properties" not in part:
            continue
        page.append(f"## {name}")
        if name != first and part.get("description"):
            page.append(cell(part["description"]))
        required = set(part.get("required", ()))
        page.append(
            table(
                ("Key", "Holds", "Needed"),
                [
                    (code(key), cell(holds(value)), "yes" if key in required else "")
                    for key, value in part["properties"].items()
                ],
            )
        )
    return "\n\n".join(page) + "\n"


def holds(schema: Mapping[str, Any]) -> str:
    """A JSON schema's value in words."""
    if "$ref" in schema:
        return f"[{schema['$ref']}](#{schema['$ref'].lower()})"
    if "enum" in schema:
        return " or ".join(f"`{value!r}`" for value in schema["enum"])
    if "anyOf" in schema:
        return ", or ".join(dict.fromkeys(map(holds, schema["anyOf"])))
    kind = schema.get("type", "anything")
    if kind == "array":
        most = f", {schema['maxItems']:,} at most" if "maxItems" in schema else ""
        return f"list of {holds(schema.get('items', {}))}{most}"
    if kind == "object":
        values = schema.get("additionalProperties")
        return f"object of {holds(values)}" if isinstance(values, Mapping) else "object"
    words = {"string": "text", "integer": "whole number", "number": "number", "null": "null"}
    bounds = [
        f"{label} {schema[key]:,}"
        for key, label in (
            ("minimum", "from"),
            ("maximum", "to"),
            ("maxLength", "characters up to"),
        )
        if key in schema
    ]
    return " ".join([words.get(kind, str(kind)), *bounds])


# llms.txt


def llms_text() -> str:
    """The site's pages for a language model to choose from: title, address, first sentence."""
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    lines = [f"# {site['site_name']}", "", f"> {site['site_description']}"]
    for entry in site["nav"]:
        ((title, inside),) = entry.items()
        pages = inside if isinstance(inside, list) else [entry]
        if isinstance(inside, list) or lines[-1].startswith(">"):
            lines += ["", f"## {title}", ""]
        for page in pages:
            ((name, path),) = page.items()
            lines.append(f"- [{name}]({path.removesuffix('.md')}.html): {first_sentence(path)}")
    return "\n".join(lines) + "\n"


def first_sentence(path: str) -> str:
    text = PAGES[path]() if path in PAGES else (DOCS / path).read_text(encoding="utf-8")
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    prose = next(part for part in text.split("\n\n") if re.match(r"\s*[A-Za-z*\"'`]", part))
    words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(prose.split()))
    return re.split(r"(?<=[.?!]) ", words)[0]


PAGES: Mapping[str, Callable[[], str]] = {
    "reference/commands.md": commands_page,
    "reference/settings.md": settings_page,
    "reference/python.md": python_page,
    "reference/judge_file.md": judge_file_page,
}
FILES: Mapping[str, Callable[[], str]] = {**PAGES, "llms.txt": llms_text}

if __name__ == "__main__":
    for path, write in FILES.items():
        (DOCS / path).parent.mkdir(exist_ok=True)
        (DOCS / path).write_text(write(), encoding="utf-8")
    sys.stdout.write(f"{len(FILES)} files in {DOCS.relative_to(ROOT)}\n")
