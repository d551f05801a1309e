"""The command `plan`: which documents to label next, and how many."""

import argparse
import json
import math
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import data
from data.readers import read_items
from data.tables.atomic_write import write_atomically
from data.tables.problems import joined_names
from data.types import LabelError, LabelledSet
from dspy_judges.startup import run as start
from judges.cli.flags import mapping, split_name
from judges.exports import read_scores
from judges.terminal import print_error
from optimize.bearing import lacking
from optimize.estimate import rating_bounds
from optimize.figures import value_cell
from optimize.flags import MAP, VALUES, Parser, Result, SettingsError, run, values_of
from optimize.items import Indices, Item, Items, Matrix, Vector, choose_level
from optimize.labels import PASS_FAIL, find_subject
from optimize.report.text import TOO_FEW, cell_text, counted, wrapped
from optimize.statistics.corrected import labels_needed, mean_score
from optimize.statistics.correlations import correlation
from optimize.statistics.intervals import FEW_DOCUMENTS, stream
from optimize.statistics.sampling import draw, per_document, sizes_by_disagreement
from optimize.statistics.two_values import FEW_OUTPUTS, two_values

NAME = "dspy-judges plan"
# Fewer labelled documents say too little of what an interval takes; so many come first.
FEWEST, FIRST_ROUND = 20, 30
Cell = dict[str, Any]


class Labels(NamedTuple):
    """All outputs: label (NaN: none), the judge's score, document, weight, the labels' scale."""

    label: Vector
    score: Vector
    document: Indices
    weight: Vector
    bounds: tuple[float, float]


def parser() -> argparse.ArgumentParser:
    command_parser = Parser(
        prog=NAME,
        description="Which documents to label next, and how many, so that the true rate or mean\n"
        "and the judge's agreement with people have intervals of a width. They are\n"
        "written in random order: labels of the first so many will do.",
    )
    add = command_parser.add_argument
    many: dict[str, Any] = {"action": "append", "default": []}
    add("file", metavar="FILE", help="all outputs")
    add("--labels", metavar="FILE", help="labels so far, by the same ids")
    about = "the judge's scores for all; repeatable, for disagreement with others"
    add("--scores", metavar="FILE", help=about, **many)
    add("--dimension", metavar="NAME", help="what is labelled, if labels are on several")
    add("--target-width", metavar="W", type=float, default=0.1, help="of the intervals (0.1)")
    about = "random, or disagreement: more often where judges differ, with weights that keep "
    about += "figures right; on most real sets it made no interval narrower (random)"
    add("--by", choices=("random", "disagreement"), default="random", metavar="WAY", help=about)
    add("--out", metavar="FILE", type=Path, help="the documents to label (FILE.next.jsonl)")
    add("--map", metavar="NAME=COLUMN", help=MAP, **many)
    add("--values", metavar="WORD=N,...", help=VALUES, **many)
    add("--seed", type=int, default=0, metavar="N", help="of the draw (0)")
    add("--json", action="store_true", help="print everything as JSON")
    return command_parser


def command(arguments: Sequence[str]) -> int:
    """Exit code: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""
    return run(NAME, parser().parse_args(arguments), plan, lines)


def plan(flags: argparse.Namespace) -> Result:
    """What --json prints; writes the documents to label, if any."""
    if not 0 < flags.target_width < math.inf:
        raise SettingsError(f"--target-width {flags.target_width:g}: a number above 0 is wanted")
    labelled, dimension = _read(flags)
    outputs, judges = labelled.outputs, _scores(flags.scores, labelled, dimension)
    given = [labelled.label(o, dimension) if o.ratings.get(dimension) else None for o in outputs]
    label, weight = np.array(given, float), np.array([output.weight for output in outputs])
    names, document = np.unique([o.document_id for o in outputs], return_inverse=True)
    bounds = rating_bounds(label, judges[0], dimension)
    bounds = (0.0, 1.0) if dimension in labelled.words else bounds
    labels = Labels(label, judges[0], document, weight, bounds)
    is_done = np.bincount(document, ~np.isnan(label)) > 0
    left, n_done = np.flatnonzero(~is_done), int(is_done.sum())
    result: Cell = {
        "data": {"name": labelled.name, "sha256": labelled.sha256},
        "dimension": dimension,
        "n_documents": names.size,
        "n_labelled": n_done,
        "target_width": flags.target_width,
        "figures": {},
    }
    n_ready = np.unique(document[~np.isnan(label + judges[0])]).size
    n, sizes = FIRST_ROUND - n_ready, np.ones(names.size)
    if n_ready >= FEWEST:
        result["figures"] = figures_of(labels, flags.target_width)
        more = [cell["more_documents"] for cell in result["figures"].values()]
        n = max((m for m in more if m), default=left.size if None in more else 0)
        if flags.by == "disagreement":
            sizes = sizes_of(labels, judges)
    order, rng = per_document(judges[0], document)[left], stream(flags.seed, "plan", left.size)
    rows, chance = draw(sizes[left], order, min(n, left.size), rng)
    drawn = dict(zip(names[left[rows]].tolist(), (1 / chance).tolist(), strict=True))
    is_weighed = bool(np.ptp(sizes) or np.ptp(weight))
    written = _write(flags, labelled, drawn, left.size if is_weighed else 0) if drawn else {}
    way = "by disagreement" if np.ptp(sizes) else "at random"
    return result | {"n_next": len(drawn), "drawn": way, **written}


def _read(flags: argparse.Namespace) -> tuple[LabelledSet, str]:
    """All outputs with the labels so far, and the dimension of these."""
    names, wanted = mapping(flags.map) or None, flags.dimension
    items: Any = read_items(flags.file, map=names)  # of outputs, not pairs
    if not flags.labels:
        return items, wanted or ""
    how: Any = {"dimensions": wanted and [wanted], "values": values_of(flags.values)}
    done = data.read_labels(flags.labels, texts=(), **how)
    if len(done.dimensions) > 1:
        known = joined_names(done.dimensions)
        raise SettingsError(f"{flags.labels}: holds labels on {known}: name one by --dimension")
    given = {output.id: output for output in done.outputs if output.ratings}
    outputs = [
        replace(output, ratings=given[output.id].ratings, weight=given[output.id].weight)
        if output.id in given
        else output
        for output in items.outputs
    ]
    if unknown := given.keys() - {output.id for output in outputs}:
        raise LabelError(f"{flags.labels}: {min(unknown)!r} is labelled, and {flags.file} lacks it")
    about: Any = {"words": done.words, "reading": done.reading}
    return replace(items, outputs=tuple(outputs), **about), done.dimensions[0]


def _scores(files: Sequence[str], labelled: LabelledSet, dimension: str) -> Matrix:
    """A row a judge, NaN where it gave no score; without any, one of the same score for all."""
    rows = [] if files else [[0.0] * len(labelled.outputs)]
    for metric, file in map(split_name, files):
        if not dimension:
            raise SettingsError("--scores needs --dimension NAME where no labels name it")
        scores = read_scores(Path(file), dimension, labelled, print_error, metric)
        rows.append([scores.get(output.id, math.nan) for output in labelled.outputs])
        if np.isnan(rows[-1]).all():
            raise LabelError(f"{file}: no output of {labelled.name} has a score")
    return np.array(rows, float)


def figures_of(labels: Labels, target: float) -> dict[str, Cell]:
    """The mean and the judge's agreement, and how many more documents give each the target width.

    `more_documents` is None where all that are left do not; without an interval, about what gives
    one. A judge with one score for all has no agreement.
    """
    label, score, document, weight, bounds = labels
    known = ~np.isnan(label)
    n, n_all = (np.unique(document[rows]).size for rows in (known, slice(None)))
    is_rate = bounds == (0, 1) and np.isin(label[known], (0, 0.5, 1)).all()
    mean = mean_score(label, score, document, weight=weight, bounds=bounds)
    found: dict[str, Any] = {"true rate" if is_rate else "true mean": mean}
    lacks, least = dict[str, int](), FEW_DOCUMENTS
    if np.nanmax(score) > np.nanmin(score):
        known &= ~(is_rate & (label == 0.5))  # where annotators are tied
        sides = score[known], label[known], document[known]
        own = (
            Item(id="", document_id=str(of), system=None, texts={}, human=human)
            for _, human, of in zip(*sides, strict=True)
        )
        items = Items(tuple(own))
        level, words = choose_level(items), None
        if is_rate and np.nanmin(score) >= 0 and np.nanmax(score) <= 1:
            card, words, least = two_values(*sides, weight=weight[known]), PASS_FAIL, FEW_OUTPUTS
            found |= {"balanced accuracy": card.balanced_accuracy, "TPR": card.tpr, "TNR": card.tnr}
        else:
            found[f"{level}-level rho"] = correlation(level, *sides, weight=weight[known])
        lacks = lacking(items, words, level)
    cells = dict[str, Cell]()
    for name, figure in found.items():
        width, more = None, math.inf
        if figure.interval:
            width = figure.interval.high - figure.interval.low
            more = max(0, n * (width / target) ** 2 - n)
            if figure is mean and more:
                needed = labels_needed(mean, target) or math.inf
                more = max(1, needed * n / mean.n_labels - n)
        elif lack := lacks.get(name, max(lacks.values(), default=0)):
            more = lack * n / max(1, least - lack)
        cells[name] = value_cell(figure.value, figure.interval) | {
            "width": width,
            "more_documents": None if more > n_all - n else math.ceil(more),
        }
    return cells


def sizes_of(labels: Labels, judges: Matrix) -> Vector:
    """What documents' chances are to be proportional to, by the judges' disagreement on them."""
    label, score, document, weight, bounds = labels
    apart = judges.var(axis=0) if len(judges) > 1 else score * (1 - score)
    if len(judges) == 1 and (bounds != (0, 1) or not np.nanmax(apart) > 0):
        raise SettingsError("--by disagreement takes probabilities, or two judges (--scores twice)")
    worth = mean_score(label, score, document, weight=weight, bounds=bounds).weight
    error = label - worth * score
    known = ~np.isnan(error)
    error -= np.average(error[known], weights=weight[known])
    return sizes_by_disagreement(per_document(apart, document), per_document(error, document))


def _write(
    flags: argparse.Namespace, labelled: LabelledSet, drawn: dict[str, float], n_from: int
) -> Cell:
    """Write whole documents in the order drawn; where, how many outputs, and what labels them."""
    file, name = Path(flags.file), flags.dimension or "".join(labelled.dimensions) or "NAME"
    out = flags.out or file.with_suffix(".next.jsonl")
    of_document: dict[str, list[Cell]] = {document: [] for document in drawn}
    for output in labelled.outputs:
        if (chance := drawn.get(output.document_id)) is not None:
            draw = {"sampling_weight": chance, "sampling_from": n_from} if n_from else {}
            of_document[output.document_id].append(output.row | draw)
    written = [row for rows in of_document.values() for row in rows]
    content = "".join(f"{json.dumps(row)}\n" for row in written).encode()
    write_atomically(out, content, overwrite=not flags.out)
    words = ["dspy-judges", "label", str(out), "--dimension", name]
    if name in {*labelled.dimensions} - labelled.words.keys() and not find_subject(name):
        words += ["--scale", "LOW-HIGH"]  # which the labels alone do not tell
    # Only a file of the page's own form can grow by the page.
    grows = flags.labels and "rating" in labelled.reading.ratings
    words += ["--out", flags.labels if grows else str(file.with_suffix(f".{name}.jsonl"))]
    return {"out": str(out), "n_outputs": len(written), "next": shlex.join(words)}


def lines(result: Result) -> list[str]:
    """How many are labelled, a line a figure, what was written, and the command that comes next."""
    left = result["n_documents"] - result["n_labelled"]
    texts = [f"{result['n_labelled']:,} of {counted(result['n_documents'], 'document')} labelled"]
    if result["figures"]:
        texts[0] += f"; how many more give a width of {result['target_width']:g}:"
    else:
        fewest = f"{FEWEST} with scores" if result["n_labelled"] >= FEWEST else FEWEST
        texts[0] += f"; a plan takes {fewest}, so a random round comes first."
    for name, cell in result["figures"].items():
        width, more = cell["width"], cell["more_documents"]
        now = TOO_FEW if width is None else f"width {width:.3f}"
        all_left = f"not by all {left:,} left" if left else "not reached"
        then = all_left if more is None else f"about {more:,} more"
        then = "reached" if more == 0 else f"{then} for one" if more and width is None else then
        texts.append(f"{name:<17}  {cell_text(cell)}, {now}: {then}")
    if not result["n_next"]:
        return wrapped(
            *texts, "Nothing is left to label." if not left else "Nothing more to label."
        )
    counts = f"{counted(result['n_next'], 'document')}, {counted(result['n_outputs'], 'output')}"
    written = f"{result['out']}: {counts}, drawn {result['drawn']}; next:"
    return [*wrapped(*texts, written), result["next"]]


if __name__ == "__main__":
    sys.exit(start("optimize.plan:command"))
