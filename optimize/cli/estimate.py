"""The command `estimate`: what people would say on average, from labels and scores."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import data
from data.types import LabelError
from judges.cli.flags import mapping
from judges.terminal import print_error
from optimize.cli.tool import Parser, Result, add_label_flags, run
from optimize.figures import json_number, value_cell
from optimize.items import read_scores
from optimize.report.text import figure_text
from optimize.run.labels import READING_NEEDS_A_FILE, shipped_labels
from optimize.run.settings import SettingsError, values_of
from optimize.statistics.coefficients import Vector
from optimize.statistics.corrected_estimates import Estimate, labels_needed, mean_score
from optimize.statistics.levels import Mask

NAME = "dspy-judges estimate"


@dataclass(frozen=True, slots=True)
class JudgedOutputs:
    """Outputs with a judge's score, some with a label too, as parallel vectors."""

    label: Vector
    score: Vector
    document: np.ndarray
    system: np.ndarray

    def mean(self, mask: Mask) -> Estimate:
        """The mean rating that people would give these outputs; ValueError for too few labels."""
        return mean_score(self.label[mask], self.score[mask], self.document[mask])


def parser() -> argparse.ArgumentParser:
    command_parser = Parser(
        prog=NAME,
        description="What people would say on average of each system and of all, from few labels\n"
        "and many judgements. The labelled outputs must be a random part of all.",
        allow_abbrev=False,
    )
    add = command_parser.add_argument
    add_label_flags(command_parser, required="all outputs, some of them rated")
    add("--scores", metavar="FILE", required=True, help="the judge's scores for all, JSONL")
    add("--dimension", metavar="NAME", required=True, help="what was rated")
    add("--json", action="store_true", help="print everything as JSON")
    return command_parser


def command(arguments: Sequence[str]) -> int:
    """Exit code: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""
    return run(NAME, parser().parse_args(arguments), estimate, lines)


def estimate(flags: argparse.Namespace) -> Result:
    """What --json prints; a system with labels on fewer than two documents has null."""
    labelled = _read_labels(flags)
    judged = _read_judged(labelled, Path(flags.scores), flags.dimension)
    try:
        overall = judged.mean(np.full(judged.score.size, True))
    except ValueError as error:
        raise LabelError(f"{labelled.name}: {error}") from error
    systems: dict[str, Any] = {}
    for name in sorted(set(judged.system.tolist()) - {""}):
        try:
            systems[name] = _estimate_row(judged.mean(judged.system == name))
        except ValueError:
            systems[name] = None
    return {
        "data": {"name": labelled.name, "sha256": labelled.sha256},
        "dimension": flags.dimension,
        "estimates": {"mean": _estimate_row(overall)},
        "systems": systems,
    }


def _read_labels(flags: argparse.Namespace) -> data.LabelledSet:
    """All outputs, with the labels of those that have one."""
    names, values = mapping(flags.map) or None, values_of(flags.values)
    shipped = shipped_labels(flags.data)
    if shipped is None:
        return data.read_labels(
            flags.data, map=names, values=values, dimensions=[flags.dimension], texts=()
        )
    if names or values:
        raise SettingsError(READING_NEEDS_A_FILE)
    if not isinstance(shipped, data.LabelledSet):
        raise LabelError(f"{shipped.name}: holds pairs, and estimate takes rated outputs")
    return shipped


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


def _estimate_row(estimate: Estimate) -> dict[str, Any]:
    """What --json prints of an estimate; `target_width` is half of today's interval."""
    interval = estimate.interval
    target = (interval.high - interval.low) / 2 if interval else None
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
    """All systems in three lines, then a line a system."""
    estimates: Any = result["estimates"]
    systems: Any = result["systems"]
    overall = estimates["mean"]
    more_labels, width = overall["more_labels_needed"], overall["target_width"]
    value = figure_text(overall["value"], overall["low"], overall["high"])
    text_lines = [
        f"{result['dimension']} mean of all outputs: {value} n={overall['n_labels']} labels, "
        f"{overall['n_judgements']} judgements, {overall['n_documents']} documents "
        f"({overall['n_failed']} failed)",
        f"  labels alone {figure_text(*overall['labels_only'].values())}; the judge alone "
        f"{figure_text(overall['judge_only'])}",
    ]
    if width:
        needs = (
            "more outputs than there are" if more_labels is None else f"{more_labels} more labels"
        )
        text_lines.append(f"  an interval {width:.3f} wide takes {needs}")
    for name, row in systems.items():
        figure = "too few labels (two documents or more are needed)"
        if row is not None:
            figure = (
                f"{figure_text(row['value'], row['low'], row['high'])} n={row['n_labels']} labels"
            )
        text_lines.append(f"{name}: {figure}")
    return text_lines
