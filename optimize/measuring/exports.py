"""Scores from other tools' results: how a tool's file is recognised, and where its scores are.

The formats were taken from files that the tools wrote; docs/other_tools.md lists their versions.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, product
from pathlib import Path
from typing import NamedTuple

from dspy_judges.column_names import name_key
from judges.judgement import LARGEST_SCORE
from judges.labels.cells import first_value, is_blank, objects_in, value_at
from judges.labels.columns import ROW_NUMBER
from judges.labels.names import OUTPUTS
from judges.labels.types import Item
from judges.tables.problems import count, excerpt, joined_names
from judges.tables.text import Row, read_json_file
from optimize.inputs.labelled import Labelled
from optimize.measuring.recorded import RecordingError, read_rows
from optimize.measuring.recorded import read_scores as read_own_scores

# The columns in which the tools put a row's id and texts, and a score's metric, value and reason. A
# dot leads into an object. The first column that is there counts.
PLACES: dict[str, tuple[str, ...]] = {
    "id": (
        *("id", "name", "example_id", "metadata.id", "vars.id", "inputs.id", "request.id"),
        *("example.inputs.id", "example.id"),
    ),
    "input": ("input", "inputs", "vars", "request", "user_input", "example.inputs"),
    "output": ("output", "outputs", "response", "actualOutput", "run.outputs"),
    "metric": ("assertion.metric", "assertion.type", "assessment_name", "key", "name"),
    "value": ("score", "value", "feedback.value"),
    "verdict": ("success", "pass"),
    "reason": ("reason", "explanation", "rationale"),
    "failure": ("error", "feedback.error.error_message", "metadata.graderError"),
}


class Tool(NamedTuple):
    """A declaration of another tool's results: how a file is recognised, where its scores are.

    Attributes:
        name: The tool's name, for messages.
        columns: Regular expressions for column names. A file is the tool's if each expression
            matches a column of its rows.
        scores: The column that holds a row's scores: a list, or an object by metric. Or a regular
            expression for the score columns, whose group is the metric's name. Empty for a format
            with rounded scores, which is refused.
        rows: The path to the rows in a JSON object, with dots between the keys. Empty if the file
            is the list of rows itself.
        words: Words that count as a score, in addition to yes and no, true and false, pass and
            fail.
        places: The tool's own columns by what they hold, tried before those of `PLACES`: `id`,
            `input` and `output` of a row; `metric`, `value`, `verdict`, `reason` and `failure` of a
            score.
    """

    name: str
    columns: tuple[str, ...]
    scores: str
    rows: str = ""
    words: Mapping[str, float] = {}
    places: Mapping[str, tuple[str, ...]] = {}

    def columns_of(self, what: str) -> tuple[str, ...]:
        """The columns that may hold it, the tool's own first."""
        return (*self.places.get(what, ()), *PLACES[what])


# The tools whose results are read, in the order in which they are tried. A further tool is a
# further entry (docs/extend.md).
TOOLS = [
    Tool(
        "Inspect",
        ("epoch", "scores"),
        "scores",
        "samples",
        words={"c": 1.0, "p": 0.5, "i": 0.0, "n": 0.0},
    ),
    Tool("promptfoo", ("vars", "success"), "gradingResult.componentResults", "results.results"),
    Tool("promptfoo", ("Status", "Grader Reason"), ""),
    Tool("DeepEval", ("actualOutput", "metricsData"), "metricsData", "testCases"),
    Tool("MLflow", ("trace_id", "assessments"), "assessments"),
    Tool("MLflow", ("inputs", r".+/v\d/score"), r"(.+)/v\d/score"),
    Tool("LangSmith", ("example_id", r"feedback\..+"), r"feedback\.(.+)"),
    Tool("LangSmith", ("run", "evaluation_results"), "evaluation_results.results"),
    # Ragas puts each metric into a column next to the sample's own columns, and an id may be a
    # number, too.
    Tool("Ragas", ("user_input", "response"), "(?!(?:id|user_input|response|reference)$)(.+)"),
]
SCORE_OF_WORD = {"yes": 1.0, "true": 1.0, "pass": 1.0, "no": 0.0, "false": 0.0, "fail": 0.0}
# These columns mark rows that `dspy-judges score` wrote, which may have a tool's columns as well.
_OWN_COLUMNS = re.compile("judgements|dimension|.+_failure")


class Score(float):
    """A score, NaN for a missing one, with the reason that was given for it."""

    reason = ""


def read_scores(
    path: Path, dimension: str, labelled: Labelled, warn: Callable[[str], None], metric: str = ""
) -> dict[str, float]:
    """Scores by id from another tool's results, or from our own format (see `recorded`).

    Raises RecordingError for a file that holds neither.
    """
    exported = read_export(path, dimension, labelled, warn, metric)
    return read_own_scores(path, dimension) if exported is None else exported


def read_export(
    path: Path, dimension: str, labelled: Labelled, warn: Callable[[str], None], metric: str = ""
) -> dict[str, float] | None:
    """Another tool's scores by labelled id; None for a file that no known tool wrote.

    A row belongs to the labelled row with the same id, or with exactly the same input and output. A
    row without a labelled row goes by its place in the file. The scores are on the tool's metric
    called `metric`, else on the one called like the dimension, else on its only metric. If labels
    say pass or fail, a tool's verdict is preferred to its score. Scores of repeated evaluations are
    averaged. `warn` takes notes and warnings. Raises RecordingError if no row matches a labelled
    row, or for a value that is not a score.
    """
    export = _recognise(path)
    if export is None:
        return None
    tool, rows = export
    file = f"{path.name} ({tool.name})"
    ids = _labelled_ids(tool, rows, labelled)
    if not any(ids):
        raise RecordingError(
            f"{file}: no row has a labelled row's id, or its texts; see docs/other_tools.md"
        )
    row_entries = [[*_entries(tool, row)] for row in rows]
    metric = _metric(file, (metric, dimension), tool, [*chain.from_iterable(row_entries)])
    is_verdict = dimension in labelled.words
    items = {item.id: item for item in labelled.items}
    scores: dict[str, list[Score]] = defaultdict(list)
    n_other_outputs = 0
    for number, (row, row_id, entries) in enumerate(zip(rows, ids, row_entries, strict=True), 1):
        place = f"{path.name}, row {number}"
        try:
            score = _score_on(metric, tool, row, entries, is_verdict=is_verdict)
        except ValueError as error:
            raise RecordingError(f"{place}: {metric!r} {error}") from None
        if row_id and not math.isnan(score) and _has_other_output(tool, row, items[row_id]):
            n_other_outputs += 1
        else:
            scores[row_id or place].append(score)
    warn(f"note: {file}: {metric!r}; {_matches_text(tool, rows, ids, labelled)}")
    if n_other_outputs:
        left_out = count(n_other_outputs, "row")
        warn(f"warning: {file}: {left_out} of another output than people's left out")
    n_scores = max(map(len, scores.values()), default=0)
    if n_scores > 1:
        warn(f"note: {file}: up to {n_scores} scores of one output (epochs, repeats) are averaged")
    return {name: _mean(repeated) for name, repeated in scores.items()}


def _matches_text(
    tool: Tool, rows: Sequence[Row], ids: Sequence[str | None], labelled: Labelled
) -> str:
    """How many labelled rows have a row of the tool, and how these were matched."""
    row_by_id = {row_id: row for row, row_id in zip(rows, ids, strict=True) if row_id}
    n_by_id = sum(row_id in _ids(tool, row, labelled) for row_id, row in row_by_id.items())
    n_matched = f"{len(row_by_id):,} of {len(labelled.items):,} labelled rows"
    return f"matched {n_matched}, {n_by_id:,} by id and {len(row_by_id) - n_by_id:,} by their texts"


def _mean(repeated: Sequence[Score]) -> Score:
    """The mean of the scores that are not NaN, with the reason for the first of them."""
    scores = [score for score in repeated if not math.isnan(score)] or repeated
    mean = Score(math.fsum(scores) / len(scores))
    mean.reason = scores[0].reason
    return mean


def _score_on(
    metric: str, tool: Tool, row: Row, entries: Sequence[tuple[str, Row]], *, is_verdict: bool
) -> Score:
    """The row's score on a metric, NaN if it has none, with the reason that was given for it.

    Raises ValueError for two scores on the metric, and for a value that is not a score.
    """
    of_metric = [entry for name, entry in entries if name == metric] or [{}]
    if len(of_metric) > 1:
        raise ValueError("has two scores; give them different names")
    entry = of_metric[0]
    value = first_value(entry, tool.columns_of("value"))
    error = first_value(row, ("error.message", "error"))
    # promptfoo also reports a failed assertion as an error. Then the row has an output.
    has_output = bool(_texts(row, tool.columns_of("output")))
    failure = first_value(entry, tool.columns_of("failure")) or (None if has_output else error)
    if is_verdict and value is not None:
        value = first_value(entry, tool.columns_of("verdict") + tool.columns_of("value"))
    score = Score(math.nan if failure else _number(value, tool))
    if math.isinf(score):
        raise ValueError(f"is {excerpt(value)}; a number is wanted")
    comments = (failure, first_value(entry, tool.columns_of("reason")), error)
    score.reason = next((text for text in comments if isinstance(text, str)), "")
    return score


def _has_other_output(tool: Tool, row: Row, item: Item) -> bool:
    """Whether a row is about another output than the labelled one."""
    texts = {*_texts_inside([*item.texts.values()])}
    output = _texts(row, tool.columns_of("output"))
    return bool(texts and output and output.isdisjoint(texts))


def _recognise(path: Path) -> tuple[Tool, list[Row]] | None:
    """The tool that wrote a file, and the file's rows; None if no known tool wrote it."""
    if path.suffix == ".eval":
        raise RecordingError(f"{path.name} is binary: `inspect log dump {path.name} > log.json`")
    content: object = None
    # A file that is not JSON is read below as a table, which says what is wrong with it.
    with suppress(OSError, ValueError):
        content = read_json_file(path) if path.suffix.lower() == ".json" else None
    if not isinstance(content, dict):
        content = [row for _, row in read_rows(path)]
    for tool in TOOLS:
        rows = objects_in(value_at(content, tool.rows) if isinstance(content, dict) else content)
        columns = {*chain.from_iterable(rows)}
        matches = all(any(map(re.compile(pattern).fullmatch, columns)) for pattern in tool.columns)
        if matches and not any(map(_OWN_COLUMNS.fullmatch, columns)):
            if not tool.scores:
                export_command = "`promptfoo eval -o results.json`"
                raise RecordingError(f"{path.name} rounds scores; export by {export_command}")
            return tool, rows
    return None


def _labelled_ids(tool: Tool, rows: Sequence[Row], labelled: Labelled) -> list[str | None]:
    """The id of the labelled row that matches each row; None if none does, or several do."""
    ids_of_key: dict[object, set[str]] = defaultdict(set)
    for item in labelled.items:
        for key in _keys(item):
            ids_of_key[key].add(item.id)
    texts = {text.strip() for item in labelled.items for text in item.texts.values()}
    labelled_ids: list[str | None] = []
    for row in rows:
        shared_texts = (_texts(row, tool.columns_of(what)) & texts for what in ("input", "output"))
        keys = (*_ids(tool, row, labelled), *product(*shared_texts))
        # Among labels with the same context and output, the same question decides.
        n_shared = Counter(item_id for key in keys for item_id in ids_of_key.get(key, ()))
        best_ids = [item_id for item_id, n in n_shared.items() if n == max(n_shared.values())]
        labelled_ids.append(best_ids[0] if len(best_ids) == 1 else None)
    return labelled_ids


def _keys(item: Item) -> Iterator[object]:
    """Yield what identifies a labelled row: its id, and each pair of an input and an output."""
    yield item.id
    texts = {name: text.strip() for name, text in item.texts.items()}
    outputs = [name for name in texts if name_key(name) in OUTPUTS] or [*texts]
    yield from (
        (texts[input_name], texts[output_name])
        for input_name, output_name in product(texts, outputs)
        if input_name != output_name
    )


def _ids(tool: Tool, row: Row, labelled: Labelled) -> set[str]:
    # Labels without an id column are numbered, and another file does not know these numbers.
    columns = () if labelled.reading.rows.get("id") == (ROW_NUMBER,) else tool.columns_of("id")
    return {str(value_at(row, column)).strip() for column in columns}


def _texts(row: Row, columns: Sequence[str]) -> set[str]:
    """All texts in these columns, and in columns below them, such as `inputs.question`."""
    values = [value for column, value in row.items() if column.partition(".")[0] in columns]
    return {*_texts_inside([*values, *(value_at(row, column) for column in columns)])}


def _texts_inside(value: object) -> Iterator[str]:
    if isinstance(value, str) and value.strip():
        yield value.strip()
    elif isinstance(value, dict | list):
        parts = value.values() if isinstance(value, dict) else value
        yield from chain.from_iterable(map(_texts_inside, parts))


def _entries(tool: Tool, row: Row) -> Iterator[tuple[str, Row]]:
    """Yield each metric of a row with an object that holds its value, verdict and reason."""
    entries = value_at(row, tool.scores)
    if isinstance(entries, dict):
        entries = [
            {"name": name, **entry} for name, entry in entries.items() if isinstance(entry, dict)
        ]
    for entry in objects_in(entries):
        if isinstance(values := entry.get("value"), dict):
            # A scorer of Inspect may return several values by name.
            yield from ((name, {**entry, "value": value}) for name, value in values.items())
        # MLflow lists people's labels as well, and their name may be that of a judge.
        elif value_at(entry, "source.source_type") != "HUMAN":
            yield str(first_value(entry, tool.columns_of("metric"))), entry
    pattern = re.compile(tool.scores)
    for column_match in filter(None, map(pattern.fullmatch, row if pattern.groups else ())):
        yield column_match[1], {"value": row[column_match[0]]}


def _metric(file: str, names: Sequence[str], tool: Tool, entries: Sequence[tuple[str, Row]]) -> str:
    """The first of `names` that is a metric, else the only metric with a score.

    Raises RecordingError if several metrics could be meant.
    """
    for name in names:
        # DeepEval adds the kind of metric to its name, as in "Correctness [GEval]".
        same_name = {
            metric for metric, _ in entries if name_key(metric.partition(" [")[0]) == name_key(name)
        }
        if name in same_name or len(same_name) == 1:
            return name if name in same_name else same_name.pop()
    metrics = {
        metric
        for metric, entry in entries
        if math.isfinite(_number(first_value(entry, tool.columns_of("value")), tool))
    }
    if len(metrics) != 1:
        raise RecordingError(
            f"{file}: {names[-1]!r} is none of its scores: {joined_names(sorted(metrics))}; say "
            "which is meant, as in --scores METRIC=FILE"
        )
    return metrics.pop()


def _number(value: object, tool: Tool) -> float:
    """The number that a value stands for; NaN for a blank, infinity for anything but a score."""
    if is_blank(value):
        return math.nan
    words = {**SCORE_OF_WORD, **tool.words}
    word = str(value).strip().casefold()
    with suppress(ValueError):
        number = words[word] if word in words else float(word)
        return math.inf if abs(number) > LARGEST_SCORE else number
    return math.inf
