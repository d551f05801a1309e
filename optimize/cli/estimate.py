"""The outside of optimize.estimate: from labels and scores to a system's mean, and how sure."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import data
from data.types import LabelError
from judges.cli.shell import say
from optimize.annotations import read_scores
from optimize.cli.tool import Result, ends, run, shown
from optimize.run.settings import Parser, SettingsError, mapping
from optimize.statistics.coefficients import Vector
from optimize.statistics.corrected_estimates import (
    Estimate,
    Mask,
    labels_needed,
    mean_difference,
    mean_score,
    mean_win,
    wins,
)

NAME = "python -m optimize.estimate"


@dataclass(frozen=True, slots=True)
class Judged:
    """Outputs with a judge's score, some with a label too, as parallel vectors."""

    label: Vector
    score: Vector
    document: np.ndarray
    system: np.ndarray

    def of(self, some: Mask) -> "Judged":
        return Judged(self.label[some], self.score[some], self.document[some], self.system[some])


def parser() -> argparse.ArgumentParser:
    made = Parser(
        prog=NAME,
        description="What people would say on average, from few labels and many judgements. The "
        "labelled outputs must be a random part of all.",
        allow_abbrev=False,
    )
    add = made.add_argument
    add("--data", metavar="FILE", required=True, help="all outputs, some of them rated")
    add("--scores", metavar="FILE", required=True, help="the judge's scores for all, JSONL")
    add("--dimension", metavar="NAME", required=True)
    add("--system", metavar="A", help="of this system only")
    add("--against", metavar="B", help="the difference to this system, and the win rate")
    add("--width", type=float, metavar="X", help="a width to count labels for (half of today's)")
    add("--confidence", type=float, default=0.95, metavar="C")
    add("--map", metavar="NAME=COLUMN", action="append", default=[], help="a column's own name")
    add("--json", action="store_true", help="print everything as JSON")
    return made


def command(arguments: Sequence[str]) -> int:
    """Exit code: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""
    return run(NAME, parser().parse_args(arguments), work, lines)


def work(flags: argparse.Namespace) -> Result:
    """What --json prints."""
    if flags.against and not flags.system:
        raise SettingsError("--against B needs --system A")
    if flags.against and flags.against == flags.system:
        raise SettingsError(f"--system and --against are both {flags.system!r}")
    if not 0 < flags.confidence < 1:
        raise SettingsError(f"--confidence {flags.confidence}: expected between 0 and 1")
    labelled = data.read_labels(
        flags.data, mapping=mapping(flags.map) or None, dimensions=[flags.dimension], texts=()
    )
    judged = _join(labelled, Path(flags.scores), flags.dimension)
    for name in (flags.system, flags.against):
        if name and name not in judged.system:
            known = ", ".join(sorted(set(judged.system.tolist()) - {""})) or "none"
            raise LabelError(f"{labelled.name}: no scored output by {name!r}; systems are {known}")
    try:
        found = _estimates(judged, flags)
    except ValueError as error:
        raise LabelError(f"{labelled.name}: {error}") from error
    return {
        "data": {"name": labelled.name, "sha256": labelled.sha256},
        "dimension": flags.dimension,
        "system": flags.system,
        "against": flags.against,
        "confidence": flags.confidence,
        "estimates": {name: _told(one, flags.width) for name, one in found.items()},
    }


def _join(labelled: data.LabelledSet, scores: Path, dimension: str) -> Judged:
    said = read_scores(scores, dimension)
    outputs = [one for one in labelled.outputs if one.id in said]
    if not outputs:
        raise LabelError(f"{scores.name}: no id is that of an output in {labelled.name}")
    unjudged, unknown = len(labelled.outputs) - len(outputs), len(said) - len(outputs)
    if unjudged or unknown:
        say(
            f"{unjudged} outputs have no score, and {unknown} scores no output (a row without a "
            "rating would say its document and system): both are left out"
        )
    rated = [one.rating(dimension) if one.ratings.get(dimension) else np.nan for one in outputs]
    return Judged(
        label=np.array(rated, dtype=float),
        score=np.array([said[one.id] for one in outputs]),
        document=np.array([one.document_id for one in outputs]),
        system=np.array([one.system or "" for one in outputs]),
    )


def _estimates(judged: Judged, flags: argparse.Namespace) -> dict[str, Estimate]:
    confidence = flags.confidence
    if not flags.system:
        mean = mean_score(judged.label, judged.score, judged.document, confidence=confidence)
        return {"mean": mean}
    ours = judged.of(judged.system == flags.system)
    mean = mean_score(ours.label, ours.score, ours.document, confidence=confidence)
    if not flags.against:
        return {"mean": mean}
    both = judged.of(np.isin(judged.system, [flags.system, flags.against]))
    difference = mean_difference(
        both.label, both.score, both.system == flags.system, both.document, confidence=confidence
    )
    rate = _win_rate(ours, judged.of(judged.system == flags.against), confidence)
    return {"mean": mean, "difference": difference, **({"win_rate": rate} if rate else {})}


def _win_rate(ours: Judged, theirs: Judged, confidence: float) -> Estimate | None:
    """Per document with one output of each system; None where too few such have labels."""
    documents, mine, other = np.intersect1d(ours.document, theirs.document, return_indices=True)
    labels = wins(ours.label[mine], theirs.label[other])
    scores = wins(ours.score[mine], theirs.score[other])
    if (~np.isnan(labels + scores)).sum() < 2:
        return None
    return mean_win(labels, scores, documents, confidence=confidence)


def _told(found: Estimate, width: float | None) -> dict[str, Any]:
    interval = found.interval
    today = interval.high - interval.low if interval else None
    target = width if width is not None else today / 2 if today else None
    needed = labels_needed(found, target) if target else None
    return {
        "value": found.value,
        **ends(interval),
        "labels_only": {"value": found.labels_only, **ends(found.labels_only_interval)},
        "judge_only": found.judge_only,
        "weight": found.weight,
        "n_labels": found.n_labels,
        "n_judgements": found.n_judgements,
        "n_documents": found.n_documents,
        "n_failed": found.n_failed,
        "target_width": target,
        "more_labels_needed": None if needed is None else max(needed - found.n_labels, 0),
    }


def lines(result: Result) -> list[str]:
    """An estimate a paragraph."""
    estimates: Any = result["estimates"]
    of = str(result["system"] or "all systems")
    against = f" against {result['against']}"
    out = []
    for name, one in estimates.items():
        labels = one["labels_only"]
        more, width = one["more_labels_needed"], one["target_width"]
        out += [
            f"{result['dimension']} {name.replace('_', ' ')} of {of}"
            f"{'' if name == 'mean' else against}: {shown(one['value'], one['low'], one['high'])} "
            f"n={one['n_labels']} labels, {one['n_judgements']} judgements, "
            f"{one['n_documents']} documents ({one['n_failed']} failed)",
            f"  labels alone {shown(*labels.values())}; the judge alone {shown(one['judge_only'])}",
        ]
        if width:
            out.append(
                f"  an interval {width:.3f} wide takes "
                + (f"{more} more labels" if more is not None else "more outputs than there are")
            )
    return out
