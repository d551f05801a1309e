"""The outside of optimize.alternative: may these judges replace an annotator?"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import data
from data.types import LabelError
from judges.cli.arguments import seed
from optimize.cli.tool import ANNOTATIONS, Parser, Result, add_label_flags, run
from optimize.figures import CONVENTIONS, figure_text, json_number, value_cell
from optimize.items import annotation_matrix, read_scores
from optimize.run.settings import SettingsError, mapping, values_of
from optimize.statistics.human import EPSILON, alternative_test, human_ceiling
from optimize.statistics.levels import PRIMARY

NAME = "python -m optimize.alternative"


def parser() -> argparse.ArgumentParser:
    command_parser = Parser(
        prog=NAME,
        description="The alternative-annotator test (arXiv:2501.10970) and the share of the\n"
        "human ceiling, for any judges' recorded scores.",
        allow_abbrev=False,
    )
    add = command_parser.add_argument
    add_label_flags(command_parser, required="human labels, by two annotators or more")
    add("--annotations", metavar="FILE", help=ANNOTATIONS)
    add("--scores", metavar="FILE", nargs="+", required=True, help="judges' scores, JSONL")
    add("--dimension", metavar="NAME", action="append", help="repeatable; without it, all")
    add(
        "--epsilon",
        type=float,
        default=EPSILON,
        metavar="X",
        help="what a judge may fall short by, being cheaper: .2 for experts (the default), .15 "
        "for trained people, .1 for crowds",
    )
    add("--independent", action="store_true", help="take outputs for one document as unrelated")
    add("--seed", type=seed, default=0, metavar="N")
    add("--json", action="store_true", help="print everything as JSON")
    return command_parser


def command(arguments: Sequence[str]) -> int:
    """Run the alternative annotator test and print it; returns 0, or the exit code of a failure."""
    return run(NAME, parser().parse_args(arguments), alternative, lines)


def alternative(flags: argparse.Namespace) -> Result:
    """What --json prints."""
    if not 0 <= flags.epsilon < 1:
        raise SettingsError(f"--epsilon {flags.epsilon}: expected 0 <= X < 1")
    labelled = data.read_labels(
        flags.data,
        map=mapping(flags.map) or None,
        values=values_of(flags.values),
        dimensions=flags.dimension or None,
        texts=(),
        annotations=flags.annotations,
    )
    names = [Path(scores).stem for scores in flags.scores]
    if len(set(names)) < len(names):
        names = flags.scores
    tests = [
        {"judge": name, **_test(flags, labelled, Path(scores), dimension)}
        for name, scores in zip(names, flags.scores, strict=True)
        for dimension in flags.dimension or labelled.dimensions
    ]
    return {
        "data": {"name": labelled.name, "sha256": labelled.sha256},
        "epsilon": flags.epsilon,
        "tests": tests,
    }


def _test(
    flags: argparse.Namespace, labelled: data.LabelledSet, scores: Path, dimension: str
) -> Mapping[str, Any]:
    """The test and the human ceiling of one judge on one dimension, as --json prints them."""
    ratings, names = annotation_matrix(labelled, dimension)
    scores_by_id = read_scores(scores, dimension)
    judge = np.array([scores_by_id.get(output.id, np.nan) for output in labelled.outputs])
    if np.isnan(judge).all():
        fault = "no score's id is that of an output in"
        if scores_by_id.keys() & {output.id for output in labelled.outputs}:
            fault = "holds no score of any output in"
        raise LabelError(f"{scores.name}: {fault} {labelled.name}")
    document = np.array([output.document_id for output in labelled.outputs])
    test = alternative_test(
        judge, ratings, None if flags.independent else document, epsilon=flags.epsilon
    )
    ceiling = human_ceiling(judge, ratings, document, rng=np.random.default_rng(flags.seed))
    return {
        "dimension": dimension,
        "winning_rate": json_number(test.winning_rate),
        "advantage_probability": json_number(test.advantage_probability),
        "passed": test.passed,
        "annotators": [
            {
                "annotator": names[advantage.annotator],
                "judge": advantage.judge,
                "human": advantage.human,
                "p_value": advantage.p_value,
                "won": advantage.won,
                "n_outputs": advantage.n_outputs,
            }
            for advantage in test.annotators
        ],
        "n_annotators_left_out": test.n_annotators_left_out,
        "n_failed": test.n_failed,
        "ceiling": value_cell(ceiling.human, ceiling.human_interval),
        "judge_under_ceiling": value_cell(ceiling.judge, ceiling.judge_interval),
        "share_of_ceiling": value_cell(ceiling.share, ceiling.share_interval),
        "n_documents": ceiling.n_documents,
        "n_documents_with_rho": ceiling.n_defined,
        "why_no_share": ceiling.why or None,
    }


def lines(result: Result) -> list[str]:
    """One line a judge and dimension."""
    tests: Any = result["tests"]
    width = max(len(test["judge"]) for test in tests) + 2
    text_lines = [f"alternative-annotator test, epsilon {result['epsilon']}; summary-level rho"]
    text_lines[0] += f", {CONVENTIONS[PRIMARY]}"
    for test in tests:
        verdict = "may replace an annotator" if test["passed"] else "may not"
        share = test["share_of_ceiling"]
        text_lines.append(
            f"{test['judge']:<{width}}{test['dimension']:<14}"
            f"winning rate {figure_text(test['winning_rate'])}  "
            f"advantage {figure_text(test['advantage_probability'])}  {verdict:<26}"
            f"rho {figure_text(test['judge_under_ceiling']['value'])} of "
            f"{figure_text(test['ceiling']['value'])} n={test['n_documents']} documents, "
            + (
                f"no share: {reason}"
                if (reason := test["why_no_share"])
                else f"share {figure_text(*share.values())}"
            )
        )
    return text_lines
