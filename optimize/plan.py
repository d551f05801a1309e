"""The command `plan`: which documents to label next, and how many."""

import argparse
import math
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import data
from data.cells import value_in
from data.columns import ROW
from data.tables.formats import RowWriter, read_table
from data.tables.problems import Problems, joined_names
from data.types import LabelError, LabelledSet
from dspy_judges.startup import run as start
from judges.cli.flags import mapping, split_name
from judges.exports import read_scores
from judges.terminal import print_error
from optimize.bearing import lacking
from optimize.estimate import bounds_of_labels
from optimize.figures import value_cell
from optimize.flags import MAP, VALUES, Parser, Result, SettingsError, run, values_of
from optimize.items import Indices, Item, Items, Matrix, Vector, choose_level
from optimize.report.text import cell_text, counted, share_text, wrapped
from optimize.statistics.corrected import labels_needed, mean_score
from optimize.statistics.correlations import correlation
from optimize.statistics.intervals import FEW_DOCUMENTS, stream
from optimize.statistics.sampling import draw, expected_gain, per_document, sizes_by_disagreement
from optimize.statistics.two_values import FEW_OUTPUTS, two_values

NAME = "dspy-judges plan"
# Fewer labelled documents say too little of what an interval takes; so many come first.
FEWEST, FIRST_ROUND = 20, 30
Cell = dict[str, Any]


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
    add("--labels", metavar="FILE", help="labels so far: id, dimension, annotator, rating")
    about = "the judge's scores for all; repeatable, for disagreement with others"
    add("--scores", metavar="FILE", help=about, **many)
    add("--dimension", metavar="NAME", help="what is labelled, if labels are on several")
    add("--target-width", metavar="W", type=float, default=0.1, help="of the intervals (0.1)")
    about = "random, or disagreement: more often where judges differ, with weights (random)"
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
    bounds = bounds_of_labels(label, judges[0], dimension)
    bounds = (0.0, 1.0) if dimension in labelled.words else bounds
    is_done = np.bincount(document, ~np.isnan(label)) > 0
    left, n_done = np.flatnonzero(~is_done), int(is_done.sum())
    figures, n, sizes = dict[str, Cell](), FIRST_ROUND - n_done, np.ones(names.size)
    if n_done >= FEWEST:
        figures = figures_of(label, judges[0], document, weight, bounds, flags.target_width)
        more = [cell["more_documents"] for cell in figures.values()]
        n = max((m for m in more if m), default=left.size if None in more else 0)
        if flags.by == "disagreement":
            sizes = sizes_of(label, judges, document, weight, bounds)
    n = min(n, left.size)
    order, rng = per_document(judges[0], document)[left], stream(flags.seed, "plan", left.size)
    rows, chance = draw(sizes[left], order, n, rng)
    result: Cell = {
        "data": {"name": labelled.name, "sha256": labelled.sha256},
        "dimension": dimension,
        "n_documents": names.size,
        "n_labelled": n_done,
        "target_width": flags.target_width,
        "figures": figures,
        "expected_gain": expected_gain(sizes[left]) if figures and flags.by != "random" else None,
        "n_next": n,
    }
    if n:
        drawn = dict(zip(names[left[rows]].tolist(), (1 / chance).tolist(), strict=True))
        is_weighed = bool(np.ptp(sizes) or np.ptp(weight))
        result |= _write(flags, labelled, drawn, left.size if is_weighed else None)
        result["next"] = shlex.join(_label_words(flags, result))
    return result


def _read(flags: argparse.Namespace) -> tuple[LabelledSet, str]:
    """All outputs with the labels so far, and the dimension of these."""
    names, dimension = mapping(flags.map) or None, flags.dimension
    if not flags.labels:
        return data.readers.read_items(flags.file, map=names), dimension or ""
    labelled = data.read_labels(
        flags.file,
        dimensions=[dimension] if dimension else None,
        annotations=flags.labels,
        map=names,
        values=values_of(flags.values),
        texts=(),
    )
    if len(labelled.dimensions) > 1 and not dimension:
        known = joined_names(labelled.dimensions)
        raise SettingsError(f"{flags.labels}: has labels on {known}: say which by --dimension")
    return labelled, dimension or labelled.dimensions[0]


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


def figures_of(
    label: Vector,
    score: Vector,
    document: Indices,
    weight: Vector,
    bounds: tuple[float, float],
    target: float,
) -> dict[str, Cell]:
    """The mean and the judge's agreement, and how many more documents give each the target width.

    `more_documents` is None where all that are left do not; without an interval, what gives one in
    nine cases of ten. A judge with one score for all agrees with nobody.
    """
    from scipy.special import nbdtrik

    known = ~np.isnan(label)
    n = np.unique(document[known]).size
    mean = mean_score(label, score, document, weight=weight, bounds=bounds)
    needed = labels_needed(mean, target)
    is_rate = bounds == (0, 1) and np.isin(label[known], (0, 0.5, 1)).all()
    found: dict[str, Any] = {"true rate" if is_rate else "true mean": mean}
    lacks: dict[str, int] = {}
    if np.nanmax(score) > np.nanmin(score):
        rows = known & ~(is_rate & (label == 0.5))  # where annotators are tied
        sides = score[rows], label[rows], document[rows]
        items = Items(
            tuple(
                Item(id="", document_id=str(of), system=None, texts={}, human=human)
                for _, human, of in zip(*sides, strict=True)
            )
        )
        if is_rate and np.nanmin(score) >= 0 and np.nanmax(score) <= 1:
            card = two_values(*sides)
            found |= {"balanced accuracy": card.balanced_accuracy, "TPR": card.tpr, "TNR": card.tnr}
            lacks = lacking(items, ("pass", "fail"), "dataset")
            lacks["balanced accuracy"] = max(lacks.values())
        else:
            level = choose_level(items)
            found[f"{level}-level rho"] = correlation(level, *sides)
            lacks = lacking(items, None, level)
    left, cells = np.unique(document).size - n, dict[str, Cell]()
    for name, figure in found.items():
        width, more = None, math.inf
        if figure.interval:
            width = figure.interval.high - figure.interval.low
            more = n * (width / target) ** 2 - n
            if figure is mean and width > target:
                more = max(needed * n / mean.n_labels - n, 1) if needed else math.inf
        elif lacks.get(name):
            few = FEW_DOCUMENTS if name.endswith("rho") else FEW_OUTPUTS
            share = min(max(few - lacks[name], 0.5) / n, 0.99)
            more = lacks[name] + float(nbdtrik(0.9, lacks[name], share))
        more = None if more > left else max(0, math.ceil(more))
        cells[name] = value_cell(figure.value, figure.interval)
        cells[name] |= {"width": width, "more_documents": more}
    return cells


def sizes_of(
    label: Vector,
    judges: Matrix,
    document: Indices,
    weight: Vector,
    bounds: tuple[float, float],
) -> Vector:
    """What chances of documents are proportional to, by the judges' disagreement on them."""
    if (low := np.nanmin(judges)) < bounds[0] or (high := np.nanmax(judges)) > bounds[1]:
        raise SettingsError(f"--by disagreement: a score is off the labels' scale, {bounds}")
    apart = np.nanvar(judges, axis=0) if len(judges) > 1 else judges[0] * (1 - judges[0])
    if len(judges) == 1 and (bounds != (0, 1) or not np.nanmax(apart)):
        raise SettingsError(
            "--by disagreement takes two judges (--scores twice), or one that gives probabilities"
        )
    worth = mean_score(label, judges[0], document, weight=weight, bounds=bounds).weight
    error = label - worth * np.nan_to_num(judges[0], nan=np.nanmean(judges[0]))
    known = ~np.isnan(error)
    error -= np.average(error[known], weights=weight[known])
    return sizes_by_disagreement(per_document(apart, document), per_document(error, document))


def _write(
    flags: argparse.Namespace, labelled: LabelledSet, drawn: Mapping[str, float], of: int | None
) -> Cell:
    """Where the drawn documents were written, whole and in order, and how many outputs they have."""
    out = flags.out or Path(flags.file).with_suffix(".next.jsonl")
    if out.exists():
        raise LabelError(f"{out} exists already: name another --out")
    table = read_table(flags.file, Problems(flags.file))
    assert table is not None  # it was read before
    id_in = labelled.reading.rows.get("id", (ROW,))[0]
    document_of = {output.id: output.document_id for output in labelled.outputs}
    rows: dict[str, list[Cell]] = {document: [] for document in drawn}
    for row in table.rows:
        name = str(row.number if id_in == ROW else value_in(row, id_in)).strip()
        if (document := document_of.get(name, "")) in drawn:
            chance = {"sampling_weight": drawn[document], "sampling_from": of} if of else {}
            rows[document].append({**({"id": name} if id_in == ROW else {}), **row.cells, **chance})
    written = [row for document in drawn for row in rows[document]]
    with RowWriter(out, columns=list(dict.fromkeys(c for row in written for c in row))) as file:
        for row in written:
            file.write(row)
    return {"out": str(out), "n_rows": len(written)}


def _label_words(flags: argparse.Namespace, result: Result) -> list[str]:
    """The command that labels what was written."""
    name = result["dimension"] or "NAME"
    out = flags.labels or Path(flags.file).with_suffix(f".{name}.jsonl")
    how = [word for column in flags.map for word in ("--map", column)]
    return ["dspy-judges", "label", result["out"], "--dimension", name, *how, "--out", str(out)]


def lines(result: Result) -> list[str]:
    """How many are labelled, a line a figure, what was written, and the command that comes next."""
    target, n, left = (result[k] for k in ("target_width", "n_next", "n_documents"))
    left -= result["n_labelled"]
    texts = [f"{result['n_labelled']:,} of {counted(result['n_documents'], 'document')} labelled"]
    if not result["figures"]:
        texts[0] += f": {FEWEST} are the least to plan by, so a random round comes first"
    for name, cell in result["figures"].items():
        more, width = cell["more_documents"], cell["width"]
        says = "too few for an interval" if width is None else f"width {width:.3f}"
        then = f"{more:,} more" + (" for an interval" if width is None else "")
        then = "reached" if more == 0 else f"not by all {left:,} left" if more is None else then
        texts.append(f"{name:<17}  {cell_text(cell)} {says}: {then}")
    if (gain := result["expected_gain"]) is not None:
        none = "Disagreement tells nothing of the errors here: random is as good."
        some = f"By disagreement the mean's interval is expected {gain:.0%} narrower."
        texts.append(some if gain >= 0.005 else none)
    if not n:
        return wrapped(*texts, "Nothing to label: no target takes more documents.")
    said = f"{result['out']}: {counted(n, 'document')} in random order, "
    return [*wrapped(*texts, f"{said}{counted(result['n_rows'], 'output')}; next:"), result["next"]]


if __name__ == "__main__":
    sys.exit(start("optimize.plan:command"))
