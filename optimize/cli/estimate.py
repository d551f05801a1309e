"""The outside of optimize.estimate: from labels and scores to a system's mean, and how sure."""

import argparse
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import data
from data.types import LabelError
from judges.cli.arguments import positive
from judges.cli.shell import print_error
from optimize.cli.tool import Parser, Result, add_label_flags, run
from optimize.figures import figure_text, json_number, value_cell
from optimize.items import read_scores
from optimize.run.settings import SettingsError, mapping, values_of
from optimize.statistics.coefficients import Vector
from optimize.statistics.corrected_estimates import (
    Estimate,
    labels_needed,
    mean_difference,
    mean_score,
    mean_win,
    wins,
)
from optimize.statistics.levels import Mask

NAME = "python -m optimize.estimate"


@dataclass(frozen=True, slots=True)
class JudgedOutputs:
    """Outputs with a judge's score, some with a label too, as parallel vectors."""

    label: Vector
    score: Vector
    document: np.ndarray
    system: np.ndarray

    def select(self, mask: Mask) -> "JudgedOutputs":
        return JudgedOutputs(
            self.label[mask], self.score[mask], self.document[mask], self.system[mask]
        )


def parser() -> argparse.ArgumentParser:
    command_parser = Parser(
        prog=NAME,
        description="What people would say on average, from few labels and many judgements.\nThe "
        "labelled outputs must be a random part of all.",
        allow_abbrev=False,
    )
    add = command_parser.add_argument
    add_label_flags(command_parser, required="all outputs, some of them rated")
    add("--scores", metavar="FILE", required=True, help="the judge's scores for all, JSONL")
    add("--dimension", metavar="NAME", required=True)
    add("--system", metavar="A", help="of this system only")
    add("--against", metavar="B", help="the difference to this system, and the win rate")
    add("--width", type=positive, metavar="X", help="a width to count labels for (half of today's)")
    add("--confidence", type=float, default=0.95, metavar="C")
    add("--json", action="store_true", help="print everything as JSON")
    return command_parser


def command(arguments: Sequence[str]) -> int:
    """Exit code: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""
    return run(NAME, parser().parse_args(arguments), estimate, lines)


def estimate(flags: argparse.Namespace) -> Result:
    """What --json prints."""
    if flags.against and not flags.system:
        raise SettingsError("--against B needs --system A")
    if flags.against and flags.against == flags.system:
        raise SettingsError(f"--system and --against are both {flags.system!r}")
    if not 0 < flags.confidence < 1:
        raise SettingsError(f"--confidence {flags.confidence}: expected between 0 and 1")
    labelled = data.read_labels(
        flags.data,
        map=mapping(flags.map) or None,
        values=values_of(flags.values),
        dimensions=[flags.dimension],
        texts=(),
    )
    judged = _read_judged(labelled, Path(flags.scores), flags.dimension)
    for name in (flags.system, flags.against):
        if name and name not in judged.system:
            known = ", ".join(sorted(set(judged.system.tolist()) - {""})) or "none"
            raise LabelError(f"{labelled.name}: no scored output by {name!r}; systems are {known}")
    try:
        estimates = _estimates(judged, flags)
    except ValueError as error:
        raise LabelError(f"{labelled.name}: {error}") from error
    return {
        "data": {"name": labelled.name, "sha256": labelled.sha256},
        "dimension": flags.dimension,
        "system": flags.system,
        "against": flags.against,
        "confidence": flags.confidence,
        "estimates": {
            name: _estimate_row(estimate, flags.width) for name, estimate in estimates.items()
        },
    }


def _read_judged(labelled: data.LabelledSet, scores: Path, dimension: str) -> JudgedOutputs:
    """The outputs with a score: labels (NaN: unrated), scores and documents, in parallel."""
    scores_by_id = read_scores(scores, dimension)
    outputs = [output for output in labelled.outputs if output.id in scores_by_id]
    if not outputs:
        raise LabelError(f"{scores.name}: no id is that of an output in {labelled.name}")
    unjudged, unknown = len(labelled.outputs) - len(outputs), len(scores_by_id) - len(outputs)
    if unjudged or unknown:
        print_error(
            f"{unjudged} outputs have no score, and {unknown} scores no output (a row without a "
            "rating would say its document and system): both are left out"
        )
    rated = [
        output.rating(dimension) if output.ratings.get(dimension) else np.nan for output in outputs
    ]
    return JudgedOutputs(
        label=np.array(rated, dtype=float),
        score=np.array([scores_by_id[output.id] for output in outputs]),
        document=np.array([output.document_id for output in outputs]),
        system=np.array([output.system or "" for output in outputs]),
    )


def _estimates(judged: JudgedOutputs, flags: argparse.Namespace) -> dict[str, Estimate]:
    """The estimates that the flags ask for; of two systems a difference and a win rate, too."""
    confidence = flags.confidence
    if not flags.system:
        mean = mean_score(judged.label, judged.score, judged.document, confidence=confidence)
        return {"mean": mean}
    of_system = judged.select(judged.system == flags.system)
    mean = mean_score(of_system.label, of_system.score, of_system.document, confidence=confidence)
    if not flags.against:
        return {"mean": mean}
    of_either = judged.select(np.isin(judged.system, [flags.system, flags.against]))
    difference = mean_difference(
        of_either.label,
        of_either.score,
        of_either.system == flags.system,
        of_either.document,
        confidence=confidence,
    )
    rate = _win_rate(of_system, judged.select(judged.system == flags.against), confidence)
    return {"mean": mean, "difference": difference, **({"win_rate": rate} if rate else {})}


def _win_rate(
    of_system: JudgedOutputs, of_other: JudgedOutputs, confidence: float
) -> Estimate | None:
    """How often people would prefer the system's output of a document to the other's, a tie half.

    Every output of a document by the system meets every one by the other; None where fewer than two
    such pairs have labels.
    """
    rows_of_other: dict[str, list[int]] = defaultdict(list)
    for row, document in enumerate(of_other.document):
        rows_of_other[document].append(row)
    pairs = [
        (row, other_row)
        for row, document in enumerate(of_system.document)
        for other_row in rows_of_other[document]
    ]
    rows, other_rows = np.array(pairs, int).reshape(-1, 2).T
    documents = of_system.document[rows]
    labels = wins(of_system.label[rows], of_other.label[other_rows])
    scores = wins(of_system.score[rows], of_other.score[other_rows])
    if (~np.isnan(labels + scores)).sum() < 2:
        return None
    return mean_win(labels, scores, documents, confidence=confidence)


def _estimate_row(estimate: Estimate, width: float | None) -> dict[str, Any]:
    """What --json prints of an estimate; `width` is the interval to count labels for."""
    interval = estimate.interval
    width_now = interval.high - interval.low if interval else None
    target = width if width is not None else width_now / 2 if width_now else None
    needed = labels_needed(estimate, target) if target else None
    return {
        **value_cell(estimate.value, interval),
        "labels_only": value_cell(estimate.labels_only, estimate.labels_only_interval),
        "judge_only": json_number(estimate.judge_only),
        "weight": json_number(estimate.weight),
        "n_labels": estimate.n_labels,
        "n_judgements": estimate.n_judgements,
        "n_documents": estimate.n_documents,
        "n_failed": estimate.n_failed,
        "target_width": target,
        "more_labels_needed": None if needed is None else max(needed - estimate.n_labels, 0),
    }


def lines(result: Result) -> list[str]:
    """An estimate a paragraph."""
    estimates: Any = result["estimates"]
    of = str(result["system"] or "all systems")
    against = f" against {result['against']}"
    text_lines = []
    for name, estimate in estimates.items():
        labels = estimate["labels_only"]
        value = figure_text(estimate["value"], estimate["low"], estimate["high"])
        judge_alone = figure_text(estimate["judge_only"])
        more_labels, width = estimate["more_labels_needed"], estimate["target_width"]
        text_lines += [
            f"{result['dimension']} {name.replace('_', ' ')} of {of}"
            f"{'' if name == 'mean' else against}: {value} "
            f"n={estimate['n_labels']} labels, {estimate['n_judgements']} judgements, "
            f"{estimate['n_documents']} documents ({estimate['n_failed']} failed)",
            f"  labels alone {figure_text(*labels.values())}; the judge alone {judge_alone}",
        ]
        if width:
            text_lines.append(
                f"  an interval {width:.3f} wide takes "
                + (
                    f"{more_labels} more labels"
                    if more_labels is not None
                    else "more outputs than there are"
                )
            )
    return text_lines
