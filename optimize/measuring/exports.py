"""Read scores from the results of other tools: recognise the tool's file, and find the scores.

The formats were taken from files that the tools wrote; docs/other_tools.md lists their versions.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, product
from pathlib import Path
from typing import NamedTuple

from dspy_judges.column_names import name_key
from judges.judgement import AnyJudgement
from judges.labels.cells import first_value, objects_in, value_at
from judges.labels.columns import ROW_NUMBER_COLUMN
from judges.labels.conversations import cells_with_texts
from judges.labels.names import OUTPUT_NAMES
from judges.labels.types import LabelledItem, LabelledPairs, Vote
from judges.labels.values import NUMBER_BY_YES_NO_WORD, WordValues
from judges.tables.problems import count_text, excerpt, joined_names
from judges.tables.text import Record, read_json_file
from judges.terminal import print_error, print_note
from optimize.inputs.labelled import AnyLabels
from optimize.measuring.recorded import (
    JudgementsById,
    Recording,
    RecordingError,
    judgement_of_score,
    read_own_scores,
    read_recorded_rows,
    score_of_cell,
)

# The columns in which tools put a row's id and texts, and a score's metric, value and reason. A dot
# leads into a nested object. The first of these columns that a row has is read.
COLUMNS_BY_CONTENT: dict[str, tuple[str, ...]] = {
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


class ToolScore(NamedTuple):
    """A tool's score for an output, NaN if its evaluation failed, and its reason for the score."""

    value: float
    reason: str | None


class Tool(NamedTuple):
    """A declaration of another tool's results: how a file is recognised, where its scores are.

    A file is the tool's if each regular expression in `columns` matches a column of its rows.
    `scores` is the column that holds a row's scores, as a list of objects, or as an object with a
    number or an object for each metric; or a regular expression for score columns, with a group for
    the metric's name. `scores` is empty for a format that rounds scores; files in this format are
    refused. `rows` is the path to the rows in a JSON object, with dots between the keys; empty if
    the file is the list of rows itself. `words` are words that count as a score, beside yes and no,
    true and false, pass and fail. `places` has columns of this tool by their content, which are
    tried before `COLUMNS_BY_CONTENT`.
    """

    name: str
    columns: tuple[str, ...]
    scores: str
    rows: str = ""
    words: Mapping[str, float] = {}
    places: Mapping[str, tuple[str, ...]] = {}

    @property
    def score_of_word(self) -> dict[str, float]:
        return {**SCORE_OF_WORD, **self.words}

    def columns_of(self, content: str) -> tuple[str, ...]:
        """Return the columns that may hold this content, the tool's own columns first."""
        return (*self.places.get(content, ()), *COLUMNS_BY_CONTENT[content])

    def value_of(self, row: Record, *contents: str) -> object:
        """Return the first of these contents that the row has; None if the row has none of them."""
        return first_value(row, [*chain.from_iterable(map(self.columns_of, contents))])

    def texts_of(self, row: Record, content: str) -> set[str]:
        """Return all texts in this content's columns, and below them (`inputs.question`)."""
        columns = self.columns_of(content)
        values = [value for column, value in row.items() if column.partition(".")[0] in columns]
        return {*_texts_inside([*values, *(value_at(row, column) for column in columns)])}


# The last tool that matches a file is used, so that a tool that a user appends (docs/extend.md) has
# precedence.
TOOLS = [
    # In Ragas' files every other column is a metric. Columns with the sample's texts and id are
    # excluded, since an id may be a number like a score.
    Tool("Ragas", ("user_input", "response"), "(?!(?:id|user_input|response|reference)$)(.+)"),
    Tool("LangSmith", ("run", "evaluation_results"), "evaluation_results.results"),
    Tool("LangSmith", ("example_id", r"feedback\..+"), r"feedback\.(.+)"),
    Tool("MLflow", ("inputs", r".+/v\d/score"), r"(.+)/v\d/score"),
    Tool("MLflow", ("trace_id", "assessments"), "assessments"),
    Tool("DeepEval", ("actualOutput", "metricsData"), "metricsData", "testCases"),
    Tool("promptfoo", ("Status", "Grader Reason"), ""),
    Tool("promptfoo", ("vars", "success"), "gradingResult.componentResults", "results.results"),
    Tool(
        "Inspect",
        ("epoch", "scores"),
        "scores",
        "samples",
        words={"c": 1.0, "p": 0.5, "i": 0.0, "n": 0.0},
    ),
]
# Fewer words than for labels: a column with "correct" may hold people's labels beside the scores.
SCORE_OF_WORD = {
    word: NUMBER_BY_YES_NO_WORD[word] for word in ("yes", "true", "pass", "no", "false", "fail")
}
# A file with such a column was written by `dspy-judges score`, even if a tool's columns are there.
_OWN_COLUMN = re.compile("judgements|dimension|.+_failure")


def read_any_scores(
    path: Path,
    dimension: str,
    labelled: AnyLabels,
    metric: str = "",
    values: WordValues | None = None,
) -> Recording:
    """Read scores from another tool's results, or from our own format (`recorded`).

    In our own format a score may be a word in `values`, or one of people's words for pass and fail.
    Raises RecordingError for a file in another format, and for scores of other rows.
    """
    if (judgements := read_export(path, dimension, labelled, metric)) is not None:
        return Recording(judgements)
    words: dict[str, float | Vote | None] = {}
    if verdict_words := labelled.words.get(dimension):
        words = {**SCORE_OF_WORD, verdict_words[0]: 1.0, verdict_words[1]: 0.0}
    words |= values or {}
    pairwise = isinstance(labelled, LabelledPairs)
    recording = read_own_scores(path, dimension, words, pairwise=pairwise)
    ids = {item.id for item in labelled.items}
    if _has_row_numbers(labelled) and not ids.isdisjoint(recording.judgements):
        _check_row_numbers(path, labelled)
    return recording


def _has_row_numbers(labelled: AnyLabels) -> bool:
    """Return whether the labels' ids are row numbers, which mean nothing in another file."""
    return labelled.reading.rows.get("id") == (ROW_NUMBER_COLUMN,)


def _check_row_numbers(path: Path, labelled: AnyLabels) -> None:
    """Raise RecordingError if scores, joined to labels by row numbers, may be of other rows.

    If the file of scores has texts, they must equal the texts of the labels' rows. Without texts,
    both files must have the same number of rows.
    """
    texts_by_id = {item.id: item.texts for item in labelled.items}
    rows, has_texts = [*read_recorded_rows(path)], False
    for location, row in rows:
        cells = cells_with_texts(row)
        for name, text in texts_by_id.get(str(row.get("id")).strip(), {}).items():
            column = labelled.reading.texts.get(name, name)
            if not isinstance(other_text := cells.get(column), str):
                continue
            has_texts = True
            if other_text.split() != text.split():
                raise RecordingError(
                    f"{location}: {column!r} is not the text of row {row['id']} of the labels, "
                    "which have no ids; score the labelled file itself, or give both files the "
                    "same ids (--map id=COLUMN)"
                )
    if has_texts:
        return
    if len(rows) != len(labelled.items):
        raise RecordingError(
            f"{path.name}: {len(rows):,} rows, but {len(labelled.items):,} labels without ids or "
            "texts to join them by; give both files the same ids (--map id=COLUMN)"
        )
    print_note(
        f"note: {path.name}: joined to the labels by row numbers, since the labels have no ids"
    )


def read_export(
    path: Path, dimension: str, labelled: AnyLabels, metric: str = ""
) -> JudgementsById | None:
    """Read another tool's scores by labelled id; None for a file that no known tool wrote.

    A row belongs to the labelled row with the same id, or with exactly the same input and output. A
    row that belongs to no labelled row gets its place in the file as its id. The scores are on the
    metric named `metric`, else on the metric with the dimension's name, else on the only metric.
    Scores of repeated evaluations are averaged. Raises RecordingError if no row matches a labelled
    row, or for a value that is not a score.
    """
    if (export := _recognise_tool(path)) is None:
        return None
    tool, rows = export
    file = f"{path.name} ({tool.name})"
    ids = _match_rows(tool, rows, labelled)
    if not any(ids):
        raise RecordingError(
            f"{file}: no row has a labelled row's id, or its texts; see docs/other_tools.md"
        )
    entries_by_row = [[*_metric_entries(tool, row)] for row in rows]
    metric = _choose_metric(file, (metric, dimension), tool, [*chain.from_iterable(entries_by_row)])
    items, has_verdicts = {item.id: item for item in labelled.items}, dimension in labelled.words
    repeats: dict[str, list[ToolScore]] = defaultdict(list)
    n_other_outputs = 0
    for number, (row, row_id, entries) in enumerate(zip(rows, ids, entries_by_row, strict=True), 1):
        row_location = f"{path.name}, row {number}"
        metric_entries = [entry for name, entry in entries if name == metric]
        try:
            score = _read_score(tool, row, metric_entries, has_verdicts=has_verdicts)
        except ValueError as error:
            raise RecordingError(f"{row_location}: {metric!r} {error}") from None
        if row_id and not math.isnan(score.value) and _has_other_output(tool, row, items[row_id]):
            n_other_outputs += 1
        else:
            repeats[row_id or row_location].append(score)
    n_matched = len({*ids} - {None})
    print_note(f"note: {file}: {metric!r}; matched {n_matched:,} of {len(items):,} labelled rows")
    if n_other_outputs:
        n_text = count_text(n_other_outputs, "row")
        print_error(f"warning: {file}: {n_text} left out, whose output is not the labelled one")
    if (n_repeats := max(map(len, repeats.values()), default=0)) > 1:
        print_note(
            f"note: {file}: up to {n_repeats} scores of one output (epochs, repeats) are averaged"
        )
    pairwise = isinstance(labelled, LabelledPairs)
    return {
        item_id: _mean_judgement(scores, pairwise=pairwise) for item_id, scores in repeats.items()
    }


def _mean_judgement(repeats: Sequence[ToolScore], *, pairwise: bool) -> AnyJudgement:
    """Return the mean of the scores that are not NaN, with the first score's reason."""
    scores = [score for score in repeats if not math.isnan(score.value)] or repeats
    mean = math.fsum(score.value for score in scores) / len(scores)
    return judgement_of_score(mean, scores[0].reason, pairwise=pairwise)


def _read_score(
    tool: Tool, row: Record, metric_entries: Sequence[Record], *, has_verdicts: bool
) -> ToolScore:
    """Return a row's score on a metric; NaN if the evaluation failed.

    If people say pass or fail, the tool's verdict is preferred. Raises ValueError if the value is
    not a score.
    """
    if len(metric_entries) > 1:
        raise ValueError("has two scores; give them different names")
    entry = metric_entries[0] if metric_entries else {}
    value = tool.value_of(entry, "value")
    if has_verdicts and value is not None:
        value = tool.value_of(entry, "verdict", "value")
    failure, error = tool.value_of(entry, "failure"), first_value(row, ("error.message", "error"))
    # promptfoo also reports a failed assertion as an error, but such a row has an output.
    if not failure and not tool.texts_of(row, "output"):
        failure = error
    reasons = (failure, tool.value_of(entry, "reason"), error)
    reason = next((reason for reason in reasons if isinstance(reason, str)), None)
    score = math.nan if failure else score_of_cell(value, tool.score_of_word)
    if score is None:
        raise ValueError(f"is {excerpt(value)}; a number is wanted")
    return ToolScore(score, reason)


def _has_other_output(tool: Tool, row: Record, item: LabelledItem) -> bool:
    """Return whether a row is about another output than the labelled one."""
    texts = {*_texts_inside([*item.texts.values()])}
    output = tool.texts_of(row, "output")
    return bool(texts and output and output.isdisjoint(texts))


def _recognise_tool(path: Path) -> tuple[Tool, list[Record]] | None:
    """Return the tool that wrote a file, and the file's rows; None for an unknown format."""
    content: object = None
    # A file that is not valid JSON is read as a table below, which reports what is wrong.
    with suppress(OSError, ValueError):
        content = read_json_file(path) if path.suffix.lower() == ".json" else None
    if not isinstance(content, dict):
        content = [row for _, row in read_recorded_rows(path)]
    for tool in reversed(TOOLS):
        rows = objects_in(value_at(content, tool.rows) if isinstance(content, dict) else content)
        columns = {*chain.from_iterable(rows)}
        matches = all(any(map(re.compile(pattern).fullmatch, columns)) for pattern in tool.columns)
        if matches and not any(map(_OWN_COLUMN.fullmatch, columns)):
            if not tool.scores:
                export_command = "`promptfoo eval -o results.json`"
                raise RecordingError(f"{path.name} rounds scores; export by {export_command}")
            return tool, rows
    return None


def _match_rows(tool: Tool, rows: Sequence[Record], labelled: AnyLabels) -> list[str | None]:
    """Return for each row the id of the labelled row that matches; None unless just one does."""
    ids_of_key: dict[object, set[str]] = defaultdict(set)
    for item in labelled.items:
        for key in _matching_keys(item):
            ids_of_key[key].add(item.id)
    texts = {text.strip() for item in labelled.items for text in item.texts.values()}
    id_columns = () if _has_row_numbers(labelled) else tool.columns_of("id")
    labelled_ids: list[str | None] = []
    for row in rows:
        ids = {str(value_at(row, column)).strip() for column in id_columns}
        shared_texts = (tool.texts_of(row, content) & texts for content in ("input", "output"))
        # If several labelled rows have the same context and output, the question decides.
        n_shared = Counter(
            item_id
            for key in (*ids, *product(*shared_texts))
            for item_id in ids_of_key.get(key, ())
        )
        best_ids = [row_id for row_id, n in n_shared.items() if n == max(n_shared.values())]
        labelled_ids.append(best_ids[0] if len(best_ids) == 1 else None)
    return labelled_ids


def _matching_keys(item: LabelledItem) -> Iterator[object]:
    """Yield what identifies a labelled row: its id, and each pair of an input and an output."""
    yield item.id
    texts = {name: text.strip() for name, text in item.texts.items()}
    outputs = [name for name in texts if name_key(name) in OUTPUT_NAMES] or [*texts]
    for input_name, output_name in product(texts, outputs):
        if input_name != output_name:
            yield texts[input_name], texts[output_name]


def _texts_inside(value: object) -> Iterator[str]:
    if isinstance(value, str) and value.strip():
        yield value.strip()
    elif isinstance(value, dict | list):
        parts = value.values() if isinstance(value, dict) else value
        yield from chain.from_iterable(map(_texts_inside, parts))


def _metric_entries(tool: Tool, row: Record) -> Iterator[tuple[str, Record]]:
    """Yield each metric of a row with an object that holds its value, verdict and reason."""
    scores = value_at(row, tool.scores)
    if isinstance(scores, dict):
        entries = [
            (name, entry if isinstance(entry, dict) else {"value": entry})
            for name, entry in scores.items()
        ]
    else:
        entries = [(str(tool.value_of(entry, "metric")), entry) for entry in objects_in(scores)]
    for metric, entry in entries:
        if isinstance(values := entry.get("value"), dict):
            # A scorer of Inspect may return several values by name.
            yield from ((name, {**entry, "value": value}) for name, value in values.items())
        # MLflow lists people's labels as well, which may have the same name as a judge's scores.
        elif value_at(entry, "source.source_type") != "HUMAN":
            yield metric, entry
    pattern = re.compile(tool.scores)
    for column_match in filter(None, map(pattern.fullmatch, row if pattern.groups else ())):
        yield column_match[1], {"value": row[column_match[0]]}


def _choose_metric(
    file: str, names: Sequence[str], tool: Tool, entries: Sequence[tuple[str, Record]]
) -> str:
    """Return the first of `names` that is a metric, else the only metric with a score."""
    for name in names:
        # DeepEval adds the kind of metric to its name, as in "Correctness [GEval]".
        same_name = {
            metric for metric, _ in entries if name_key(metric.partition(" [")[0]) == name_key(name)
        }
        if name in same_name or len(same_name) == 1:
            return name if name in same_name else same_name.pop()
    scores = (
        (metric, score_of_cell(tool.value_of(entry, "value"), tool.score_of_word))
        for metric, entry in entries
    )
    metrics = {metric for metric, score in scores if score is not None and not math.isnan(score)}
    if not metrics:
        raise RecordingError(
            f"{file}: no column holds a score; the file is read as {tool.name}'s "
            f"(docs/other_tools.md) because of the columns {', '.join(tool.columns)}"
        )
    if len(metrics) > 1:
        raise RecordingError(
            f"{file}: no score is called {names[-1]!r}; its scores: "
            f"{joined_names(sorted(metrics))}; say which is meant, as in --scores METRIC=FILE"
        )
    return metrics.pop()
