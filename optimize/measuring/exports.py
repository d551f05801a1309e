"""Read the scores in the results of other tools, which `TOOLS` declares, and match their rows.

The formats are those of files that the tools wrote; docs/other_tools.md lists the tools' versions.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain, product
from pathlib import Path

from judges.judgement import Judgement
from judges.labels.cells import first_value, objects_in, value_at
from judges.labels.names import OUTPUT_NAMES, name_key
from judges.labels.types import AnyLabels, LabelledOutput, LabelledPairs, LabelledSet
from judges.tables.problems import count_text, excerpt, joined_names
from judges.tables.text import Record, read_json_file
from optimize.measuring.recorded import (
    SCORE_BY_WORD,
    Recording,
    RecordingError,
    ids_are_numbers,
    recorded_rows,
    score_of_cell,
)

# The columns in which tools put a row's id and texts, and a score's metric, value and reason. The
# first of these columns that a row has is read. In "a.b", b is a key of the object in column a.
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
        columns: Regular expressions. The tool wrote a file if each one matches one of its columns.
        scores: The column that holds a row's scores: a list with an object for each metric, or an
            object with a number or an object for each metric. In "a.b", b is a key in a's object.
        rows: The path to the rows in a JSON object; empty if the file is the list of rows itself.
        words: The scores of further words, beside yes, no, true, false, pass and fail.
        places: The tool's columns by their content, tried before those of `COLUMNS_BY_CONTENT`.
        score_columns: A regular expression for columns that hold one score each, with a group for
            the metric's name; empty for a tool without such columns.
        refusal: Why the tool's files cannot be read, and what to do; empty if they can be read.
    """

    name: str
    columns: tuple[str, ...]
    scores: str = ""
    rows: str = ""
    words: Mapping[str, float] = field(default_factory=dict)
    places: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    score_columns: str = ""
    refusal: str = ""

    @property
    def score_by_word(self) -> dict[str, float]:
        return {**SCORE_BY_WORD, **self.words}

    def matches(self, columns: Collection[str]) -> bool:
        """Return whether the tool wrote a file with these columns."""
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
        return {*texts_inside([*values, *(value_at(row, column) for column in columns)])}


def texts_inside(value: object) -> Iterator[str]:
    """Yield all texts in a value, which may be a text or nested lists and objects."""
    if isinstance(value, str) and value.strip():
        yield value.strip()
    elif isinstance(value, dict | list):
        inner_values = value.values() if isinstance(value, dict) else value
        yield from chain.from_iterable(map(texts_inside, inner_values))


# Each column of a Ragas file is read as a metric, apart from the columns of the sample's texts and
# id: an id may be a number like a score.
_RAGAS_METRICS = "(?!(?:id|user_input|response|reference)$)(.+)"
_PROMPTFOO_ADVICE = "rounds scores; export by `promptfoo eval -o results.json`"
# The last tool that matches a file is used, so a tool that a user appends is tried first.
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

# A file with one of these columns was written by `dspy-judges score`, not by another tool.
_OWN_COLUMN = re.compile("judgements|dimension|.+_failure")
# The name of a metric with the object that holds its value, verdict and reason.
Metric = tuple[str, Record]


def read_tool_results(
    path: Path, dimension: str, labels: AnyLabels, metric: str = ""
) -> Recording | None:
    """Read another tool's scores; returns None for a file that no known tool wrote.

    A row belongs to the labelled row with the same id, or with exactly the same input and output.
    A row that belongs to none has its place in the file as its id. The scores are on the metric
    named `metric`, else on the metric with the dimension's name, else on the only metric. Scores of
    repeated evaluations are averaged.
    """
    if (tool_and_rows := _recognise_tool(path)) is None:
        return None
    tool, rows = tool_and_rows
    file_text = f"{path.name} ({tool.name})"
    if isinstance(labels, LabelledPairs):
        raise RecordingError(
            f"{file_text}: its scores rate single outputs, and the labels are on pairs: give rows "
            '{"id", "score"} with a margin, or A, B or tie, as score'
        )
    labelled_outputs = _match_rows(tool, rows, labels)
    labelled_ids = {output.id for output in labelled_outputs if output}
    if not labelled_ids:
        advice_text = "no row has a labelled row's id, or its texts; see docs/other_tools.md"
        raise RecordingError(f"{file_text}: {advice_text}")
    metrics = [*chain.from_iterable(_metrics_in(tool, row) for row in rows)]
    metric = _choose_metric(file_text, (metric, dimension), tool, metrics)
    matched_rows, has_verdicts = zip(rows, labelled_outputs, strict=True), dimension in labels.words
    judgements_by_id = _read_judgements(path, tool, metric, matched_rows, has_verdicts)
    match_text = f"matched {len(labelled_ids):,} of {len(labels.outputs):,} labelled rows"
    notes, warnings = [f"{file_text}: {metric!r}; {match_text}"], list[str]()
    if (n_repeats := max(map(len, judgements_by_id.values()), default=0)) > 1:
        repeats_text = f"up to {n_repeats} scores of one output (epochs, repeats)"
        notes.append(f"{file_text}: {repeats_text} are averaged")
    if n_other_outputs := len(rows) - sum(map(len, judgements_by_id.values())):
        left_out_text = f"{count_text(n_other_outputs, 'row')} left out"
        warnings.append(f"{file_text}: {left_out_text}: people labelled another output")
    judgement_by_id = {row_id: _mean_judgement(group) for row_id, group in judgements_by_id.items()}
    return Recording(judgement_by_id, notes=tuple(notes), warnings=tuple(warnings))


def _recognise_tool(path: Path) -> tuple[Tool, list[Record]] | None:
    """Return the tool that wrote a file, and the file's rows; None for an unknown format."""
    results: object = None
    # A file that is not valid JSON is read as a table below, which reports what is wrong.
    with suppress(OSError, ValueError):
        results = read_json_file(path) if path.suffix.lower() == ".json" else None
    table_rows = [] if isinstance(results, dict) else [row for _, row in recorded_rows(path)]
    for tool in reversed(TOOLS):
        rows = objects_in(value_at(results, tool.rows)) if isinstance(results, dict) else table_rows
        columns = {*chain.from_iterable(rows)}
        if tool.matches(columns) and not any(map(_OWN_COLUMN.fullmatch, columns)):
            if tool.refusal:
                raise RecordingError(f"{path.name} {tool.refusal}")
            return tool, rows
    return None


def _match_rows(
    tool: Tool, rows: Sequence[Record], labels: LabelledSet
) -> list[LabelledOutput | None]:
    """Return for each row the output that matches best; None if none or several match best."""
    output_by_id = {output.id: output for output in labels.outputs}
    ids_by_key: dict[object, set[str]] = defaultdict(set)
    for output in labels.outputs:
        for key in (output.id, *_text_pairs(output)):
            ids_by_key[key].add(output.id)
    all_texts = {text.strip() for output in labels.outputs for text in output.texts.values()}
    id_columns = () if ids_are_numbers(labels) else tool.columns_of("id")
    matching_outputs: list[LabelledOutput | None] = []
    for row in rows:
        row_ids = {str(value_at(row, column)).strip() for column in id_columns}
        inputs, outputs = (tool.texts_of(row, name) & all_texts for name in ("input", "output"))
        # Several labelled rows may have the same context and output; the question tells them apart.
        ids = (ids_by_key.get(key, ()) for key in (*row_ids, *product(inputs, outputs)))
        ranking = Counter(chain.from_iterable(ids)).most_common(2)
        is_tied = len(ranking) == 2 and ranking[0][1] == ranking[1][1]
        matching_outputs.append(output_by_id[ranking[0][0]] if ranking and not is_tied else None)
    return matching_outputs


def _read_judgements(
    path: Path,
    tool: Tool,
    metric: str,
    matched_rows: Iterable[tuple[Record, LabelledOutput | None]],
    has_verdicts: bool,
) -> dict[str, list[Judgement]]:
    """Return the judgements by id, without rows with another output than people labelled."""
    judgements_by_id: dict[str, list[Judgement]] = defaultdict(list)
    for row_number, (row, labelled_output) in enumerate(matched_rows, start=1):
        location = f"{path.name}, row {row_number}"
        scores = [entry for name, entry in _metrics_in(tool, row) if name == metric]
        judgement = _read_judgement(tool, row, scores, has_verdicts, f"{location}: {metric!r}")
        if labelled_output is None:
            judgements_by_id[location].append(judgement)
        elif judgement.failure or not _has_other_output(tool, row, labelled_output):
            judgements_by_id[labelled_output.id].append(judgement)
    return judgements_by_id


def _text_pairs(labelled_output: LabelledOutput) -> Iterator[tuple[str, str]]:
    texts = {name: text.strip() for name, text in labelled_output.texts.items()}
    output_names = [name for name in texts if name_key(name) in OUTPUT_NAMES] or [*texts]
    for input_name, output_name in product(texts, output_names):
        if input_name != output_name:
            yield texts[input_name], texts[output_name]


def _has_other_output(tool: Tool, row: Record, labelled_output: LabelledOutput) -> bool:
    labelled_texts = {*texts_inside({**labelled_output.texts})}
    output_texts = tool.texts_of(row, "output")
    return bool(labelled_texts and output_texts and output_texts.isdisjoint(labelled_texts))


def _metrics_in(tool: Tool, row: Record) -> Iterator[Metric]:
    """Yield the name of each metric of a row, with the object that holds its score."""
    scores = value_at(row, tool.scores)
    if isinstance(scores, dict):
        metrics = [
            (name, entry if isinstance(entry, dict) else {"value": entry})
            for name, entry in scores.items()
        ]
    else:
        entries = objects_in(scores)
        metrics = [(str(tool.value_of(entry, "metric")), entry) for entry in entries]
    for name, entry in metrics:
        if isinstance(values := entry.get("value"), dict):
            # A scorer of Inspect may return several values by name.
            yield from ((name, {**entry, "value": value}) for name, value in values.items())
        # MLflow lists people's labels as well, which may have the same name as a judge's scores.
        elif value_at(entry, "source.source_type") != "HUMAN":
            yield name, entry
    for column in row if tool.score_columns else ():
        if column_match := re.fullmatch(tool.score_columns, column):
            yield column_match[1], {"value": row[column]}


def _choose_metric(
    file_text: str, names: Sequence[str], tool: Tool, metrics: Sequence[Metric]
) -> str:
    """Return the first of `names` that is a metric, else the only metric with a score."""
    # If no metric has a value or an error, the tool's columns for them are declared wrongly.
    if any(tool.value_of(entry, "value", "failure") is not None for _, entry in metrics):
        all_names = {name for name, _ in metrics}
        for name in names:
            if metric := _find_metric(name, all_names):
                return metric
    scored_names = set[str]()
    for name, entry in metrics:
        score = score_of_cell(tool.value_of(entry, "value"), tool.score_by_word)
        if score is not None and not math.isnan(score):
            scored_names.add(name)
    if len(scored_names) == 1:
        return scored_names.pop()
    if scored_names:
        raise RecordingError(
            f"{file_text}: no score is called {names[-1]!r}; its scores: "
            f"{joined_names(sorted(scored_names))}; say which is meant, as in --scores METRIC=FILE"
        )
    place_text = f"no column {tool.scores or tool.score_columns}"
    if tool.scores and metrics:
        place_text += f" with {' or '.join(tool.columns_of('value'))}"
    raise RecordingError(
        f"{file_text}: {place_text} holds a score; the file is read as {tool.name}'s "
        f"(docs/other_tools.md) because of the columns {', '.join(tool.columns)}"
    )


def _find_metric(name: str, metrics: Collection[str]) -> str:
    """Return the metric of this name, or the only one whose name differs in case or spacing."""
    if name in metrics:
        return name
    # DeepEval adds the kind of metric to its name, as in "Correctness [GEval]".
    key = name_key(name)
    alike_metrics = [metric for metric in metrics if name_key(metric.partition(" [")[0]) == key]
    return alike_metrics[0] if len(alike_metrics) == 1 else ""


def _read_judgement(
    tool: Tool, row: Record, scores: Sequence[Record], has_verdicts: bool, location: str
) -> Judgement:
    """Return a row's score and reason; if labels are verdicts, the tool's verdict is the score."""
    if len(scores) > 1:
        raise RecordingError(f"{location} has two scores; give them different names")
    entry = scores[0] if scores else {}
    value = tool.value_of(entry, "value")
    if has_verdicts and value is not None:
        value = tool.value_of(entry, "verdict", "value")
    failure = tool.value_of(entry, "failure")
    row_error = first_value(row, ("error.message", "error"))
    # promptfoo also reports a failed assertion as an error, but such a row has an output.
    if not failure and not tool.texts_of(row, "output"):
        failure = row_error
    score = math.nan if failure else score_of_cell(value, tool.score_by_word)
    if score is None:
        raise RecordingError(f"{location} is {excerpt(value)}; a number is wanted")
    reasons = (failure, tool.value_of(entry, "reason"), row_error)
    reason = next((text for text in reasons if isinstance(text, str)), None)
    if math.isnan(score):
        return Judgement.failed(reason or "no score")
    return Judgement(score=score, rationale=reason)


def _mean_judgement(judgements: Sequence[Judgement]) -> Judgement:
    """Return the mean of the judgements that did not fail, with the first one's reason."""
    valid_judgements = [one for one in judgements if not one.failure] or judgements
    mean = math.fsum(one.score for one in valid_judgements) / len(valid_judgements)
    return replace(valid_judgements[0], score=mean)
