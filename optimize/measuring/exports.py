"""Scores in other tools' results: what tells a tool's file, and where things stand in its rows.

The forms are those of files that the tools wrote; docs/other_tools.md has the versions.
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
from judges.labels.columns import ROW
from judges.labels.names import OUTPUTS
from judges.labels.types import Item, LabelledSet
from judges.tables.problems import count, excerpt, joined_names
from judges.tables.text import Row, read_json_file
from optimize.inputs.labelled import Labelled
from optimize.measuring.recorded import RecordingError, read_rows
from optimize.measuring.recorded import read_scores as read_own_scores


class Tool(NamedTuple):
    """Another tool's results, as a declaration: how a file is recognised, and where its scores are.

    Attributes:
        name: The tool's name, for messages.
        columns: Patterns (regular expressions) of columns that its rows have. A file whose rows
            have a column for each is the tool's.
        scores: The column that holds a row's scores, a list or an object by metric; or a pattern of
            columns whose group is the metric. Empty where scores are rounded: these are refused.
        rows: Where the rows are in a JSON object, with dots into objects. Empty where the file is
            the list of rows.
        words: What words count as a score, beside yes and no, true and false, pass and fail.
    """

    name: str
    columns: tuple[str, ...]
    scores: str
    rows: str = ""
    words: Mapping[str, float] = {}


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
    # Ragas has its metrics beside the samples' own columns, of which one may be a number, too.
    Tool("Ragas", ("user_input", "response"), "(?!(?:id|user_input|response|reference)$)(.+)"),
]
# Where rows have what they are known by, and scores what they are; dots lead into objects.
IDS = (
    *("id", "name", "example_id", "metadata.id", "vars.id", "inputs.id", "request.id"),
    *("example.inputs.id", "example.id"),
)
INPUTS = ("input", "inputs", "vars", "request", "user_input", "example.inputs")
OUTPUT = ("output", "outputs", "response", "actualOutput", "run.outputs")
METRIC = ("assertion.metric", "assertion.type", "assessment_name", "key", "name")
VALUE, VERDICT = ("score", "value", "feedback.value"), ("success", "pass")
REASON = ("reason", "explanation", "rationale")
FAILURE = ("error", "feedback.error.error_message", "metadata.graderError")
WORDS = {"yes": 1.0, "true": 1.0, "pass": 1.0, "no": 0.0, "false": 0.0, "fail": 0.0}
# Rows as `dspy-judges score` writes them may hold a tool's columns beside.
_OWN = re.compile("judgements|dimension|.+_failure")


class Score(float):
    """A score (NaN: none), and the reason given for it."""

    reason = ""


def read_scores(
    path: Path, dimension: str, labelled: Labelled, warn: Callable[[str], None], metric: str = ""
) -> dict[str, float]:
    """Scores by id: another tool's, or plain ones (see `recorded`); raises RecordingError."""
    exported = read_export(path, dimension, labelled, warn, metric)
    return read_own_scores(path, dimension) if exported is None else exported


def read_export(
    path: Path, dimension: str, labelled: Labelled, warn: Callable[[str], None], metric: str = ""
) -> dict[str, float] | None:
    """A tool's scores by labelled id, the others by place; None for a file that is no tool's.

    They are on its metric of the name `metric`, else of the dimension's, else on its only one. A
    row is found by an id of the labels, or by exactly the same input and output; where labels say
    pass or fail, a tool's verdict goes before its score. Scores of a repeated evaluation are
    averaged. Raises RecordingError.
    """
    export = _recognise(path)
    if export is None:
        return None
    tool, rows = export
    file = f"{path.name} ({tool.name})"
    ids = _labelled_ids(rows, labelled)
    if not any(ids):
        raise RecordingError(
            f"{file}: no row has a labelled row's id, or its texts; see docs/other_tools.md"
        )
    entries = [[*_entries(tool, row)] for row in rows]
    metric = _metric(file, (metric, dimension), tool, [*chain.from_iterable(entries)])
    is_verdict = isinstance(labelled, LabelledSet) and dimension in labelled.words
    items = {item.id: item for item in labelled.items}
    scores: dict[str, list[Score]] = defaultdict(list)
    n_others = 0
    for number, (row, row_id, own) in enumerate(zip(rows, ids, entries, strict=True), 1):
        place = f"{path.name}, row {number}"
        of_metric = [entry for name, entry in own if name == metric] or [{}]
        try:
            if len(of_metric) > 1:
                raise ValueError("has two scores; name them apart")
            score = _score(tool, row, of_metric[0], is_verdict=is_verdict)
        except ValueError as error:
            raise RecordingError(f"{place}: {metric!r} {error}") from None
        if row_id and not math.isnan(score) and _has_other_output(row, items[row_id]):
            n_others += 1
        else:
            scores[row_id or place].append(score)
    by_id = {row_id: row for row, row_id in zip(rows, ids, strict=True) if row_id}
    n_by_id = sum(row_id in _ids(row, labelled) for row_id, row in by_id.items())
    counts = f"{len(by_id):,} of {len(labelled.items):,} labelled rows, {n_by_id:,} by id"
    warn(f"note: {file}: {metric!r}; matched {counts} and {len(by_id) - n_by_id:,} by their texts")
    if n_others:
        warn(f"warning: {file}: {count(n_others, 'row')} of another output than people's left out")
    most = max(map(len, scores.values()), default=0)
    if most > 1:
        warn(f"note: {file}: up to {most} scores of one output (epochs, repeats) are averaged")
    return {name: _mean(repeated) for name, repeated in scores.items()}


def _mean(repeated: Sequence[Score]) -> Score:
    """The mean of the scores that there are, with the reason of the first."""
    scores = [score for score in repeated if not math.isnan(score)] or repeated
    mean = Score(math.fsum(scores) / len(scores))
    mean.reason = scores[0].reason
    return mean


def _score(tool: Tool, row: Row, entry: Row, *, is_verdict: bool) -> Score:
    """The score of a row, with the reason given for it; ValueError for a value that is no score."""
    value, error = first_value(entry, VALUE), first_value(row, ("error.message", "error"))
    # A failed assertion of promptfoo is an error, too, of a row with an output.
    failure = first_value(entry, FAILURE) or (None if _texts(row, OUTPUT) else error)
    if is_verdict and value is not None:
        value = first_value(entry, VERDICT + VALUE)
    score = Score(math.nan if failure else _number(value, tool))
    if math.isinf(score):
        raise ValueError(f"is {excerpt(value)}; a number is wanted")
    comments = (failure, first_value(entry, REASON), error)
    score.reason = next((text for text in comments if isinstance(text, str)), "")
    return score


def _has_other_output(row: Row, item: Item) -> bool:
    """Whether a row is about another output than the one that was labelled."""
    texts, output = {*_inside([*item.texts.values()])}, _texts(row, OUTPUT)
    return bool(texts and output and output.isdisjoint(texts))


def _recognise(path: Path) -> tuple[Tool, list[Row]] | None:
    """The tool that wrote a file, and its rows; None where it is no tool's."""
    if path.suffix == ".eval":
        raise RecordingError(f"{path.name} is binary: `inspect log dump {path.name} > log.json`")
    content: object = None
    # What is no JSON is refused as any table is.
    with suppress(OSError, ValueError):
        content = read_json_file(path) if path.suffix.lower() == ".json" else None
    if not isinstance(content, dict):
        content = [row for _, row in read_rows(path)]
    for tool in TOOLS:
        rows = objects_in(value_at(content, tool.rows) if isinstance(content, dict) else content)
        columns = {*chain.from_iterable(rows)}
        fits = all(any(map(re.compile(each).fullmatch, columns)) for each in tool.columns)
        if fits and not any(map(_OWN.fullmatch, columns)):
            if not tool.scores:
                way = "`promptfoo eval -o results.json`"
                raise RecordingError(f"{path.name} rounds scores; export by {way}")
            return tool, rows
    return None


def _labelled_ids(rows: Sequence[Row], labelled: Labelled) -> list[str | None]:
    """The labelled row that each row is; None for none, and where it may be several."""
    ids_of_key: dict[object, set[str]] = defaultdict(set)
    for item in labelled.items:
        for key in _keys(item):
            ids_of_key[key].add(item.id)
    texts = {text.strip() for item in labelled.items for text in item.texts.values()}
    names: list[str | None] = []
    for row in rows:
        shared = (_texts(row, places) & texts for places in (INPUTS, OUTPUT))
        keys = (*_ids(row, labelled), *product(*shared))
        # Of labels with the same context and output, the one with the same question, too.
        alike = Counter(name for key in keys for name in ids_of_key.get(key, ()))
        likeliest = [name for name, n in alike.items() if n == max(alike.values())]
        names.append(likeliest[0] if len(likeliest) == 1 else None)
    return names


def _keys(item: Item) -> Iterator[object]:
    """Yield what a labelled row is known by: its id, and each input with each output."""
    yield item.id
    texts = {name: text.strip() for name, text in item.texts.items()}
    outputs = [name for name in texts if name_key(name) in OUTPUTS] or [*texts]
    yield from ((texts[i], texts[o]) for i, o in product(texts, outputs) if i != o)


def _ids(row: Row, labelled: Labelled) -> set[str]:
    # The number of a labelled row is no id that another file would have.
    places = () if labelled.reading.rows.get("id") == (ROW,) else IDS
    return {str(value_at(row, place)).strip() for place in places}


def _texts(row: Row, places: Sequence[str]) -> set[str]:
    """All texts in some columns, and in those that they lead (`inputs.question`)."""
    leaves = [value for c, value in row.items() if c.partition(".")[0] in places]
    return {*_inside([*leaves, *(value_at(row, place) for place in places)])}


def _inside(value: object) -> Iterator[str]:
    if isinstance(value, str) and value.strip():
        yield value.strip()
    elif isinstance(value, dict | list):
        parts = value.values() if isinstance(value, dict) else value
        yield from chain.from_iterable(map(_inside, parts))


def _entries(tool: Tool, row: Row) -> Iterator[tuple[str, Row]]:
    """Yield each metric of a row with its entry: its value, verdict and reason."""
    entries = value_at(row, tool.scores)
    if isinstance(entries, dict):
        entries = [
            {"name": name, **each} for name, each in entries.items() if isinstance(each, dict)
        ]
    for entry in objects_in(entries):
        if isinstance(values := entry.get("value"), dict):
            # Inspect's scorers may give several values, each under a name.
            yield from ((name, {**entry, "value": value}) for name, value in values.items())
        # MLflow lists people's labels, too, which may have a judge's name.
        elif value_at(entry, "source.source_type") != "HUMAN":
            yield str(first_value(entry, METRIC)), entry
    pattern = re.compile(tool.scores)
    for match in filter(None, map(pattern.fullmatch, row if pattern.groups else ())):
        yield match[1], {"value": row[match[0]]}


def _metric(file: str, names: Sequence[str], tool: Tool, entries: Sequence[tuple[str, Row]]) -> str:
    """The first of `names` that is a metric, else the only metric with a score."""
    for name in names:
        # DeepEval calls one "Correctness [GEval]".
        alike = {m for m, _ in entries if name_key(m.partition(" [")[0]) == name_key(name)}
        if name in alike or len(alike) == 1:
            return name if name in alike else alike.pop()
    metrics = {m for m, entry in entries if math.isfinite(_number(first_value(entry, VALUE), tool))}
    if len(metrics) != 1:
        raise RecordingError(
            f"{file}: {names[-1]!r} is none of its scores: {joined_names(sorted(metrics))}; say "
            "which is meant, as in --scores METRIC=FILE"
        )
    return metrics.pop()


def _number(value: object, tool: Tool) -> float:
    """The number that a value stands for; NaN where there is none, infinity for no score."""
    if is_blank(value):
        return math.nan
    words = {**WORDS, **tool.words}
    word = str(value).strip().casefold()
    with suppress(ValueError):
        number = words[word] if word in words else float(word)
        return math.inf if abs(number) > LARGEST_SCORE else number
    return math.inf
