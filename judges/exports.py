"""Scores in other tools' results: how each tool's are recognised, and where things stand in them.

The forms are from documentation and source, read in November 2026. Inspect: docs/eval-logs.qmd,
log/_log.py, scorer/_metric.py. promptfoo: docs/configuration/outputs.md, src/types. DeepEval:
docs/evaluation-flags-and-configs.mdx, test_run/api.py, tracing/api.py. MLflow: `result_df` in
genai/utils/trace_utils.py and genai/evaluation/entities.py; `eval_results_table` of its docs.
LangSmith: `to_pandas` in evaluation/_runner.py, `get_test_results` in client.py. Ragas:
`EvaluationResult.to_pandas` and `SingleTurnSample` in dataset_schema.py.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from data.cells import is_blank, value_in
from data.columns import OUTPUTS
from data.tables.problems import count, excerpt, joined_names
from data.tables.text import Row, TableRow, read_json_file
from dspy_judges.column_names import name_key
from judges.judgement import LARGEST_SCORE
from judges.recorded import RecordingError, read_rows


class Tool(NamedTuple):
    """A tool by columns that its rows have (patterns), and where the scores stand in a row.

    These are a list, an object by metric, or columns of a pattern: what a metric's columns have in
    common, and the metric. `rows` stand in a JSON object; without it, they are the file.
    """

    name: str
    signs: tuple[str, ...]
    scores: str
    rows: str = ""


# Ragas has the metrics beside its samples' own columns.
_METRIC = "((?!id$|user_input|.*response|.*context|reference|rubrics|persona_|query_)(.+))"
TOOLS = (
    Tool("Inspect", ("epoch", "scores"), "scores", "samples"),
    Tool("promptfoo", ("vars", "success"), "gradingResult.componentResults", "results.results"),
    Tool("DeepEval", ("actualOutput", "metricsData"), "metricsData", "testCases"),
    Tool("MLflow", ("trace_id", ".+/value"), "((.+)/)value"),
    Tool("MLflow", ("inputs", r".+/v\d/score"), r"((.+)/v\d/)score"),
    Tool("LangSmith", ("example_id", r"feedback\..+"), r"(feedback\.(.+))"),
    Tool("Ragas", ("user_input", "response"), _METRIC),
)
# Where rows have what they are known by; dots lead into objects.
IDS = ("id", "name", "example_id", "metadata.id", "vars.id", "input.id", "inputs.id", "request.id")
INPUTS = ("input", "inputs", "vars", "request", "user_input")
OUTPUT = ("output", "outputs", "response", "actualOutput")
# Where a score has what it is; a column that is one by itself has nothing else in its name.
METRIC = ("assertion.metric", "assertion.type", "name")
VALUE, VERDICT = ("score", "value", ""), ("success", "pass")
REASON = ("reason", "explanation", "rationale", "justification")
FAILURE = ("error", "error_message", "metadata.graderError")
WORDS = {"yes": 1.0, "true": 1.0, "pass": 1.0, "no": 0.0, "false": 0.0, "fail": 0.0}
INSPECT_WORDS = {"c": 1.0, "p": 0.5, "i": 0.0, "n": 0.0}
# Rows as `dspy-judges score` writes them may hold a tool's columns beside.
_OWN = re.compile("judgements|dimension|.+_failure")


class Score(float):
    """A score (NaN: none), and what was said of it."""

    reason = ""


def read_export(
    path: Path,
    wanted: Sequence[str],
    labels: Mapping[str, Mapping[str, str]],
    say: Callable[[str], None],
    *,
    with_ids: bool = True,
    verdicts: bool = False,
) -> dict[str, float] | None:
    """A tool's scores by labelled id, the others by place; None for a file that is no tool's.

    They are on the first metric `wanted` that it has, else on its only one. `labels` are texts by
    id. A row is found by the id (`with_ids`), or by exactly the same input and output. `verdicts`:
    a tool's pass or fail goes before its score. Raises RecordingError.
    """
    tool, rows = _recognised(path)
    if tool is None:
        return None
    file = f"{path.name} ({tool.name})"
    names = _labelled_ids(rows, labels, with_ids)
    found = [(row, name) for row, name in zip(rows, names, strict=True) if name]
    if not found:
        raise RecordingError(
            f"{file}: no row alone has a labelled row's id, or exactly its input and output; "
            "docs/other_tools.md says where the labels' ids are read"
        )
    given = [[*_given(tool, row)] for row in rows]
    metric = _metric(file, wanted, tool, [score for scores in given for score in scores])
    scores: dict[str, float] = {}
    for number, (row, name) in enumerate(zip(rows, names, strict=True), 1):
        place = f"{path.name}, row {number}"
        own = [entry for known_as, entry in given[number - 1] if known_as == metric] or [{}]
        if len(own) > 1:
            raise RecordingError(f"{place}: {metric!r} has two scores; name them apart")
        value, failure = _first(own[0], VALUE), _first(own[0], FAILURE)
        if verdicts and value is not None:
            value = _first(own[0], VERDICT + VALUE)
        scores[name or place] = score = Score(math.nan if failure else _counts(value, tool))
        if math.isinf(score):
            raise RecordingError(
                f"{place}: {metric!r} is {excerpt(value)}; a number is wanted, or yes or no"
            )
        said = (failure, _first(own[0], REASON), _first(row, ("error.message", "error")))
        score.reason = next((text for text in said if isinstance(text, str)), "")
    by_id = sum(name in _ids(row) for row, name in found)
    say(
        f"note: {file}: {metric!r}; matched {len(found):,} of {len(labels):,} labelled rows, "
        f"{by_id:,} by id and {len(found) - by_id:,} by their texts"
    )
    texts = [(_texts(row, OUTPUT), {*_inside([*labels[name].values()])}) for row, name in found]
    if others := sum(bool(row and label) and row.isdisjoint(label) for row, label in texts):
        say(
            f"warning: {file}: {count(others, 'row')} with another output than was labelled: "
            "people did not rate what was scored"
        )
    return scores


def _recognised(path: Path) -> tuple[Tool | None, list[Row]]:
    """The tool that wrote a file, and its rows; None where it is no tool's."""
    if path.suffix == ".eval":
        raise RecordingError(f"{path.name} is binary: `inspect log dump {path.name} > log.json`")
    content: Any = None
    # What is no JSON is refused as any table is.
    with suppress(OSError, ValueError):
        content = read_json_file(path) if path.suffix.lower() == ".json" else None
    table: Any = None if isinstance(content, dict) else [row for _, row in read_rows(path)]
    for tool in TOOLS:
        rows = _first(content, (tool.rows,)) if table is None else table
        if isinstance(rows, list) and all(isinstance(row, dict) for row in rows):
            columns = {column for row in rows for column in row}
            signs = (any(re.fullmatch(sign, column) for column in columns) for sign in tool.signs)
            if all(signs) and not any(map(_OWN.fullmatch, columns)):
                return tool, rows
    return None, []


def _labelled_ids(
    rows: Sequence[Row], labels: Mapping[str, Mapping[str, str]], with_ids: bool
) -> list[str | None]:
    """The labelled row that each row is; None for none, for several, and for another row's."""
    of_key: dict[object, set[str]] = defaultdict(set)
    for name, texts in labels.items():
        outputs = [text for text in texts if name_key(text) in OUTPUTS] or [*texts]
        pairs = {(t.strip(), texts[o].strip()) for o in outputs for i, t in texts.items() if i != o}
        for key in [*pairs, *([name] if with_ids else [])]:
            of_key[key].add(name)
    names: list[str | None] = []
    for row in rows:
        keys = [*_ids(row), *product(_texts(row, INPUTS), _texts(row, OUTPUT))]
        alike = set[str]().union(*(of_key.get(key, ()) for key in keys))
        names.append(alike.pop() if len(alike) == 1 else None)
    times = Counter(names)
    return [name if times[name] == 1 else None for name in names]


def _ids(row: Row) -> set[str]:
    return {str(_first(row, (place,))).strip() for place in IDS}


def _texts(row: Row, places: Sequence[str]) -> set[str]:
    """All texts in some columns, and in those that they lead (`inputs.question`)."""
    return {*_inside([v for c, v in row.items() if c.partition(".")[0] in places])}


def _inside(value: object) -> Iterator[str]:
    if isinstance(value, str) and value.strip():
        yield value.strip()
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for part in parts:
        yield from _inside(part)


def _given(tool: Tool, row: Row) -> Iterator[tuple[str, Row]]:
    """Each metric of a row, and what stands of it."""
    listed: Any = _first(row, (tool.scores,))
    if isinstance(listed, dict):
        yield from ((name, entry) for name, entry in listed.items() if isinstance(entry, dict))
    elif isinstance(listed, list):
        entries = (entry for entry in listed if isinstance(entry, dict))
        yield from ((str(_first(entry, METRIC)), entry) for entry in entries)
    for column in row:
        if (match := re.fullmatch(tool.scores, column)) and match.re.groups:
            n = len(match[1])
            yield match[2], {c[n:]: value for c, value in row.items() if c.startswith(match[1])}


def _metric(file: str, wanted: Sequence[str], tool: Tool, given: Sequence[tuple[str, Row]]) -> str:
    """The metric that is meant: the first wanted that there is, else the only one with a score."""
    for name in wanted:
        # DeepEval calls one "Correctness [GEval]".
        alike = {m for m, _ in given if name_key(m.partition(" [")[0]) == name_key(name)}
        if len(alike) == 1:
            return alike.pop()
    known = {m for m, entry in given if math.isfinite(_counts(_first(entry, VALUE), tool))}
    if len(known) != 1:
        raise RecordingError(
            f"{file}: {wanted[-1]!r} is none of its scores, which are on "
            f"{joined_names(sorted(known))}; say which is meant, as in --scores METRIC=FILE"
        )
    return known.pop()


def _counts(value: object, tool: Tool) -> float:
    """What a value counts; NaN where there is none, infinity for what is no score."""
    if is_blank(value):
        return math.nan
    words = WORDS | (INSPECT_WORDS if tool.name == "Inspect" else {})
    word = str(value).strip().casefold()
    with suppress(ValueError):
        number = words[word] if word in words else float(word)
        return math.inf if abs(number) > LARGEST_SCORE else number
    return math.inf


def _first(row: Row, places: Sequence[str]) -> object:
    """What stands in the first of some places that holds something."""
    values = (value_in(TableRow(0, row), place) for place in places)
    return next((value for value in values if not is_blank(value)), None)
