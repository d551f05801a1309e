"""Read scores from the results of other tools: recognise the tool's file, and find the scores.

The formats were taken from files that the tools wrote; docs/other_tools.md lists their versions.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, product
from pathlib import Path

from judges.judgement import AnyJudgement
from judges.labels.cells import first_value, objects_in, value_at
from judges.labels.columns import ROW_NUMBER_COLUMN
from judges.labels.conversations import cells_with_texts
from judges.labels.names import OUTPUT_NAMES, name_key
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

# The columns in which tools put a row's id and texts, and a score's metric, value and reason. The
# first of these columns that a row has is read. With a dot, the column is a key in a nested object.
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


@dataclass(frozen=True)
class Tool:
    """A declaration of another tool's results: how a file is recognised, where its scores are.

    Attributes:
        name: The tool's name, for messages.
        columns: Regular expressions. A file is the tool's if each matches a column of its rows.
        scores: The column that holds a row's scores: a list with an object for each metric, or an
            object with a number or an object for each metric. A dot leads into a nested object.
        rows: The path to the rows in a JSON object; empty if the file is the list of rows itself.
        words: Words that count as a score, beside yes and no, true and false, pass and fail.
        places: The tool's columns by their content, tried before those of `COLUMNS_BY_CONTENT`.
        score_columns: A regular expression for columns that hold one score each, with a group for
            the metric's name. Empty if there are none.
        refusal: Why such a file cannot be read, and what to do instead; empty if it can.
    """

    name: str
    columns: tuple[str, ...]
    scores: str = ""
    rows: str = ""
    words: Mapping[str, float] = field(default_factory=dict)
    places: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    score_columns: str = ""
    refusal: str = ""

    def __post_init__(self) -> None:
        for content, columns in {"columns": self.columns, **self.places}.items():
            if content not in ("columns", *COLUMNS_BY_CONTENT):
                contents = ", ".join(COLUMNS_BY_CONTENT)
                raise RecordingError(f"Tool {self.name}: places has {content!r}, not of {contents}")
            if isinstance(columns, str):
                raise RecordingError(f"Tool {self.name}: {content}: write a tuple, ({columns!r},)")

    @property
    def score_by_word(self) -> dict[str, float]:
        return {**SCORE_BY_WORD, **self.words}

    def matches(self, columns: Collection[str]) -> bool:
        """Return whether a file with these columns is the tool's."""
        return all(any(re.fullmatch(pattern, name) for name in columns) for pattern in self.columns)

    def columns_of(self, content: str) -> tuple[str, ...]:
        """Return the columns that may hold this content, the tool's own columns first."""
        return (*self.places.get(content, ()), *COLUMNS_BY_CONTENT[content])

    def value_of(self, row: Record, *contents: str) -> object:
        """Return the first of these contents that the row has; None if the row has none of them."""
        return first_value(row, [*chain.from_iterable(map(self.columns_of, contents))])

    def texts_of(self, row: Record, content: str) -> set[str]:
        """Return all texts in the columns that may hold this content, also in nested objects."""
        columns = self.columns_of(content)
        values = [value for column, value in row.items() if column.partition(".")[0] in columns]
        return {*_texts_inside([*values, *(value_at(row, column) for column in columns)])}


# In Ragas' files every other column is a metric. Columns with the sample's texts and id are
# excluded, since an id may be a number like a score.
_RAGAS_METRICS = "(?!(?:id|user_input|response|reference)$)(.+)"
_PROMPTFOO_ADVICE = "rounds scores; export by `promptfoo eval -o results.json`"
# The last tool that matches a file is used, so that a tool that a user appends has precedence.
TOOLS = [
    Tool("Ragas", ("user_input", "response"), score_columns=_RAGAS_METRICS),
    Tool("LangSmith", ("run", "evaluation_results"), "evaluation_results.results"),
    Tool("LangSmith", ("example_id", r"feedback\..+"), score_columns=r"feedback\.(.+)"),
    Tool("MLflow", ("inputs", r".+/v\d/score"), score_columns=r"(.+)/v\d/score"),
    Tool("MLflow", ("trace_id", "assessments"), "assessments"),
    Tool("DeepEval", ("actualOutput", "metricsData"), "metricsData", "testCases"),
    Tool("promptfoo", ("Status", "Grader Reason"), refusal=_PROMPTFOO_ADVICE),
    Tool("promptfoo", ("vars", "success"), "gradingResult.componentResults", "results.results"),
    Tool("Inspect", ("epoch", "scores"), "scores", "samples", {"c": 1, "p": 0.5, "i": 0, "n": 0}),
]
# The words that count as scores. "correct" is none of them, although it counts as a label: a column
# with that word beside the scores may hold people's labels.
SCORE_BY_WORD = {
    word: NUMBER_BY_YES_NO_WORD[word] for word in ("yes", "true", "pass", "no", "false", "fail")
}
# A file with such a column was written by `dspy-judges score`, even if a tool's columns are there.
_OWN_COLUMN = re.compile("judgements|dimension|.+_failure")


def read_any_scores(
    path: Path,
    dimension: str,
    labelled_items: AnyLabels,
    metric: str = "",
    value_by_word: WordValues | None = None,
) -> Recording:
    """Read scores from another tool's results, or in our own format (`recorded.py`).

    In our own format, a score may be a word of `value_by_word`, or a word that people use for pass
    or fail.
    """
    judgement_by_id = read_export(path, dimension, labelled_items, metric)
    if judgement_by_id is not None:
        return Recording(judgement_by_id)
    score_by_word: dict[str, float | Vote | None] = {}
    if verdict_words := labelled_items.words.get(dimension):
        score_by_word = {**SCORE_BY_WORD, verdict_words[0]: 1.0, verdict_words[1]: 0.0}
    score_by_word |= value_by_word or {}
    is_pairwise = isinstance(labelled_items, LabelledPairs)
    recording = read_own_scores(path, dimension, score_by_word, is_pairwise=is_pairwise)
    is_joined = any(item.id in recording.judgement_by_id for item in labelled_items.items)
    if is_joined and _ids_are_row_numbers(labelled_items):
        _check_row_numbers(path, labelled_items)
    return recording


def _ids_are_row_numbers(labelled_items: AnyLabels) -> bool:
    """Return whether the labels' ids are row numbers, which mean nothing in another file."""
    return labelled_items.reading.rows.get("id") == (ROW_NUMBER_COLUMN,)


def _check_row_numbers(path: Path, labelled_items: AnyLabels) -> None:
    """Raise RecordingError if the file's texts, or its number of rows, differ from the labels'."""
    texts_by_id = {item.id: item.texts for item in labelled_items.items}
    rows, has_texts = [*read_recorded_rows(path)], False
    for location, row in rows:
        cells, texts = cells_with_texts(row), texts_by_id.get(str(row.get("id")).strip(), {})
        for name, text in texts.items():
            column = labelled_items.reading.texts.get(name, name)
            other_text = cells.get(column)
            has_texts |= isinstance(other_text, str)
            if isinstance(other_text, str) and other_text.split() != text.split():
                raise RecordingError(
                    f"{location}: {column!r} is not the text of row {row['id']} of the labels, "
                    "which have no ids; score the labelled file itself, or give both files the "
                    "same ids (--map id=COLUMN)"
                )
    if not has_texts and len(rows) != len(texts_by_id):
        raise RecordingError(
            f"{path.name}: {len(rows):,} rows, but {len(texts_by_id):,} labels without ids or "
            "texts to join them by; give both files the same ids (--map id=COLUMN)"
        )
    if not has_texts:
        print_note(f"note: {path.name}: joined to the labels, which have no ids, by row numbers")


def read_export(
    path: Path, dimension: str, labelled_items: AnyLabels, metric: str = ""
) -> JudgementsById | None:
    """Read another tool's scores by labelled id; None for a file that no known tool wrote.

    A row belongs to the labelled row with the same id, or with exactly the same input and output.
    If there is no such row, the id is the row's place in the file. The scores are on the metric
    named `metric`, else on the metric with the dimension's name, else on the only metric. Scores of
    repeated evaluations are averaged.
    """
    if (export := _recognise_tool(path)) is None:
        return None
    tool, rows = export
    file_text = f"{path.name} ({tool.name})"
    matching_ids = _match_rows(tool, rows, labelled_items)
    if not any(matching_ids):
        message = "no row has a labelled row's id, or its texts; see docs/other_tools.md"
        raise RecordingError(f"{file_text}: {message}")
    entries_by_row = [[*_metric_entries(tool, row)] for row in rows]
    all_entries = [*chain.from_iterable(entries_by_row)]
    metric = _choose_metric(file_text, (metric, dimension), tool, all_entries)
    item_by_id = {item.id: item for item in labelled_items.items}
    is_pairwise = isinstance(labelled_items, LabelledPairs)
    has_verdicts = dimension in labelled_items.words
    judgements_by_id: dict[str, list[AnyJudgement]] = defaultdict(list)
    n_other_outputs = 0
    rows_with_ids = zip(rows, matching_ids, entries_by_row, strict=True)
    for number, (row, item_id, row_entries) in enumerate(rows_with_ids, start=1):
        row_location = f"{path.name}, row {number}"
        metric_entries = [entry for name, entry in row_entries if name == metric]
        cell_text = f"{row_location}: {metric!r}"
        score, reason = _read_score(tool, row, metric_entries, has_verdicts, cell_text)
        judgement = judgement_of_score(score, is_pairwise, reason)
        if item_id and not judgement.failure and _has_other_output(tool, row, item_by_id[item_id]):
            n_other_outputs += 1
        else:
            judgements_by_id[item_id or row_location].append(judgement)
    match_text = f"matched {len({*matching_ids} - {None}):,} of {len(item_by_id):,} labelled rows"
    print_note(f"note: {file_text}: {metric!r}; {match_text}")
    if n_other_outputs:
        left_out_text = f"{count_text(n_other_outputs, 'row')} left out"
        print_error(f"warning: {file_text}: {left_out_text}, whose output is not the labelled one")
    if (n_repeats := max(map(len, judgements_by_id.values()), default=0)) > 1:
        repeats_text = f"up to {n_repeats} scores of one output (epochs, repeats)"
        print_note(f"note: {file_text}: {repeats_text} are averaged")
    return {
        item_id: _mean_judgement(judgements, is_pairwise)
        for item_id, judgements in judgements_by_id.items()
    }


def _mean_judgement(judgements: Sequence[AnyJudgement], is_pairwise: bool) -> AnyJudgement:
    """Return the mean of the judgements that did not fail, with the first one's reason."""
    judgements = [judgement for judgement in judgements if not judgement.failure] or judgements
    mean = math.fsum(judgement.score for judgement in judgements) / len(judgements)
    reason = judgements[0].failure or judgements[0].rationale
    return judgement_of_score(mean, is_pairwise, reason)


def _has_other_output(tool: Tool, row: Record, item: LabelledItem) -> bool:
    """Return whether the tool scored another output than the one that people labelled."""
    labelled_texts = {*_texts_inside([*item.texts.values()])}
    output_texts = tool.texts_of(row, "output")
    return bool(labelled_texts and output_texts and output_texts.isdisjoint(labelled_texts))


def _read_score(
    tool: Tool, row: Record, metric_entries: Sequence[Record], has_verdicts: bool, cell_text: str
) -> tuple[float, str | None]:
    """Return a row's score and its reason; if people say pass or fail, a verdict is the score."""
    if len(metric_entries) > 1:
        raise RecordingError(f"{cell_text} has two scores; give them different names")
    entry = metric_entries[0] if metric_entries else {}
    value = tool.value_of(entry, "value")
    if has_verdicts and value is not None:
        value = tool.value_of(entry, "verdict", "value")
    failure = tool.value_of(entry, "failure")
    row_error = first_value(row, ("error.message", "error"))
    # promptfoo also reports a failed assertion as an error, but such a row has an output.
    if not failure and not tool.texts_of(row, "output"):
        failure = row_error
    reasons = (failure, tool.value_of(entry, "reason"), row_error)
    score = math.nan if failure else score_of_cell(value, tool.score_by_word)
    if score is None:
        raise RecordingError(f"{cell_text} is {excerpt(value)}; a number is wanted")
    return score, next((text for text in reasons if isinstance(text, str)), None)


def _recognise_tool(path: Path) -> tuple[Tool, list[Record]] | None:
    """Return the tool that wrote a file, and the file's rows; None for an unknown format."""
    results: object = None
    # A file that is not valid JSON is read as a table below, which reports what is wrong.
    with suppress(OSError, ValueError):
        results = read_json_file(path) if path.suffix.lower() == ".json" else None
    table = [] if isinstance(results, dict) else [row for _, row in read_recorded_rows(path)]
    for tool in reversed(TOOLS):
        rows = objects_in(value_at(results, tool.rows)) if isinstance(results, dict) else table
        columns = {*chain.from_iterable(rows)}
        if tool.matches(columns) and not any(map(_OWN_COLUMN.fullmatch, columns)):
            if tool.refusal:
                raise RecordingError(f"{path.name} {tool.refusal}")
            return tool, rows
    return None


def _match_rows(tool: Tool, rows: Sequence[Record], labelled_items: AnyLabels) -> list[str | None]:
    """Return for each row the id of the labelled row that matches; None unless just one does."""
    ids_by_key: dict[object, set[str]] = defaultdict(set)
    for item in labelled_items.items:
        for key in (item.id, *_text_pairs(item)):
            ids_by_key[key].add(item.id)
    all_texts = {text.strip() for item in labelled_items.items for text in item.texts.values()}
    id_columns = () if _ids_are_row_numbers(labelled_items) else tool.columns_of("id")
    matching_ids: list[str | None] = []
    for row in rows:
        row_ids = {str(value_at(row, column)).strip() for column in id_columns}
        inputs, outputs = (tool.texts_of(row, name) & all_texts for name in ("input", "output"))
        # Several labelled rows may have the same context and output, and differ in the question.
        n_matches = Counter[str]()
        for key in (*row_ids, *product(inputs, outputs)):
            n_matches.update(ids_by_key.get(key, ()))
        most_matches = max(n_matches.values(), default=0)
        best_ids = [item_id for item_id, n in n_matches.items() if n == most_matches]
        matching_ids.append(best_ids[0] if len(best_ids) == 1 else None)
    return matching_ids


def _text_pairs(item: LabelledItem) -> Iterator[tuple[str, str]]:
    """Yield each pair of an input and an output of a labelled row."""
    texts = {name: text.strip() for name, text in item.texts.items()}
    output_names = [name for name in texts if name_key(name) in OUTPUT_NAMES] or [*texts]
    for input_name, output_name in product(texts, output_names):
        if input_name != output_name:
            yield texts[input_name], texts[output_name]


def _texts_inside(value: object) -> Iterator[str]:
    """Yield all texts in a value, which may be a text or nested lists and objects."""
    if isinstance(value, str) and value.strip():
        yield value.strip()
    elif isinstance(value, dict):
        yield from _texts_inside([*value.values()])
    elif isinstance(value, list):
        yield from chain.from_iterable(map(_texts_inside, value))


def _metric_entries(tool: Tool, row: Record) -> Iterator[tuple[str, Record]]:
    """Yield each metric of a row with an object that holds its value, verdict and reason."""
    scores = value_at(row, tool.scores)
    if isinstance(scores, dict):
        named_entries = [
            (name, entry if isinstance(entry, dict) else {"value": entry})
            for name, entry in scores.items()
        ]
    else:
        entries = objects_in(scores)
        named_entries = [(str(tool.value_of(entry, "metric")), entry) for entry in entries]
    for metric, entry in named_entries:
        if isinstance(values := entry.get("value"), dict):
            # A scorer of Inspect may return several values by name.
            yield from ((name, {**entry, "value": value}) for name, value in values.items())
        # MLflow lists people's labels as well, which may have the same name as a judge's scores.
        elif value_at(entry, "source.source_type") != "HUMAN":
            yield metric, entry
    for column in row if tool.score_columns else ():
        if column_match := re.fullmatch(tool.score_columns, column):
            yield column_match[1], {"value": row[column]}


def _find_metric(name: str, metrics: Collection[str]) -> str:
    """Return the metric with this name, else the only one with the same letters; "" for none."""
    # DeepEval adds the kind of metric to its name, as in "Correctness [GEval]".
    key = name_key(name)
    alike_metrics = [metric for metric in metrics if name_key(metric.partition(" [")[0]) == key]
    if name in metrics:
        return name
    return alike_metrics[0] if len(alike_metrics) == 1 else ""


def _choose_metric(
    file_text: str, names: Sequence[str], tool: Tool, metric_entries: Sequence[tuple[str, Record]]
) -> str:
    """Return the first of `names` that is a metric, else the only metric with a score."""
    metrics = {metric for metric, _ in metric_entries}
    # If no row has a value or an error, no metric is chosen: the declaration is wrong.
    values = [tool.value_of(entry, "value", "failure") for _, entry in metric_entries]
    for name in names if any(value is not None for value in values) else ():
        if metric := _find_metric(name, metrics):
            return metric
    scored_metrics = set[str]()
    for metric, entry in metric_entries:
        score = score_of_cell(tool.value_of(entry, "value"), tool.score_by_word)
        if score is not None and not math.isnan(score):
            scored_metrics.add(metric)
    if not scored_metrics:
        place_text = f"no column {tool.scores or tool.score_columns}"
        if tool.scores and metric_entries:
            place_text += f" with {' or '.join(tool.columns_of('value'))}"
        raise RecordingError(
            f"{file_text}: {place_text} holds a score; the file is read as {tool.name}'s "
            f"(docs/other_tools.md) because of the columns {', '.join(tool.columns)}"
        )
    if len(scored_metrics) > 1:
        metrics_text = joined_names(sorted(scored_metrics))
        raise RecordingError(
            f"{file_text}: no score is called {names[-1]!r}; its scores: {metrics_text}; say which "
            "is meant, as in --scores METRIC=FILE"
        )
    return scored_metrics.pop()
