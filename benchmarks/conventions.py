"""One figure by one name: python benchmarks/conventions.py (recorded replies, no model is asked).

GPT-4-0314's recorded ratings of SummEval (1,200 outputs) under the primary and the published
convention, as each part of the project computes them, and what `verify --min-spearman` says just
below and just above the headline. It ends with 1 where a name has two values.
"""

import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from data import read_labels
from optimize.cli.verify import command
from optimize.figures import cell
from optimize.items import Items, annotation_matrix, items_of
from optimize.measuring.sources import from_replies
from optimize.report.verification_report import main_cell
from optimize.screen import scorecard
from optimize.search.objective import correlation, objective
from optimize.statistics.agreement import summary_level
from optimize.statistics.human import Ceiling, human_ceiling

SHARED = Path(__file__).parents[2] / "shared" / "data"
REPLIES = SHARED / "summeval_judges" / "replies_gpt-4-0314.jsonl"
LABELS = SHARED / "summeval" / "summeval.jsonl"
ANNOTATIONS = SHARED / "summeval" / "expert_annotations.jsonl"
DIMENSIONS = ("coherence", "consistency", "fluency", "relevance")
SCALE = (1, 2, 3, 4, 5)
STEP = 1e-4


def verify(dimension: str, *flags: str) -> tuple[int, dict[str, Any]]:
    """What the command prints as JSON, and its exit code."""
    label_flags = ["--replies", str(REPLIES), "--data", str(LABELS), "--dimension", dimension]
    with (
        contextlib.redirect_stdout(io.StringIO()) as out,
        contextlib.redirect_stderr(io.StringIO()),
    ):
        code = command([*label_flags, *flags, "--json"])
    result: dict[str, Any] = json.loads(out.getvalue())
    return code, result


def on_scorecard(scores: np.ndarray, items: Items) -> str:
    """The figure that a run's scorecard prints of such scores on test."""
    found = cell(correlation(scores, items, "summary", np.random.default_rng(0)))
    row = {"dev": None, "test": found, "test_unseen_systems": None}
    summary = {
        "dimension": "-", "lm": "-", "optimizer": "-", "seed": 0, "level": "summary",
        "data": {"name": "-", "sha256": "", "n_documents": 0, "n_systems": 0, "n_outputs": 0},
        "seed_judge": row, "tuned_judge": row, "gain": {"test": {"value": None}}, "why": "-",
        "shipped": "seed", "cost_usd": 0, "lm_calls": 0, "proposer_calls": 0, "seconds": 0,
    }  # fmt: skip
    line = next(line for line in scorecard(summary, "-").splitlines() if line.startswith("test   "))
    return line.split()[1]


def ceilings(dimension: str, verified: Any) -> tuple[Ceiling, Ceiling]:
    """The human ceiling by both conventions, over the outputs that have a record."""
    labelled = read_labels(LABELS, dimensions=[dimension], annotations=ANNOTATIONS)
    marks, _ = annotation_matrix(labelled, dimension)
    scores = {
        item.id: score for item, score in zip(verified.items.items, verified.scores, strict=True)
    }
    judge = [scores.get(one.id, np.nan) for one in labelled.outputs]
    documents = [one.document_id for one in labelled.outputs]
    primary, published = (
        human_ceiling(judge, marks, documents, rng=np.random.default_rng(0), undefined=undefined)
        for undefined in ("judge_zero", "left_out")
    )
    return primary, published


def figures(dimension: str) -> dict[str, Any]:
    """Every part's figure for one dimension."""
    labelled = read_labels(LABELS, dimensions=[dimension])
    items = items_of(labelled, dimension)
    verified = from_replies(REPLIES, items, dimension, SCALE)
    rows = verified.items
    human, documents = rows.human, [item.document_id for item in rows.items]
    _, result = verify(dimension)
    headline = main_cell(result)
    published = summary_level(verified.scores, human, documents, undefined="left_out")
    below = verify(dimension, "--min-spearman", str(headline["value"] - STEP))[0]
    above = verify(dimension, "--min-spearman", str(headline["value"] + STEP))[0]
    return {
        "search": objective(verified.scores, rows, "summary"),
        "scorecard": on_scorecard(verified.scores, rows),
        "headline": headline,
        "published": published,
        "in_verify": next(
            one
            for one in result["correlations"]
            if (one["level"], one["coefficient"], one["undefined"])
            == ("summary", "spearman", "left_out")
        ),
        "codes": (below, above),
        "ceilings": ceilings(dimension, verified),
    }


def main() -> int:
    known = {dimension: figures(dimension) for dimension in DIMENSIONS}
    lines: list[tuple[str, list[str]]] = []

    def add(name: str, values: list[str]) -> None:
        lines.append((name, values))

    of = list(known.values())
    add("**primary: documents the judge rates alike count 0**", [""] * len(of))
    add("search objective", [f"{one['search']:.3f}" for one in of])
    add("a run's scorecard", [one["scorecard"] for one in of])
    add(
        "`verify`'s headline and first in its JSON",
        [f"{one['headline']['value']:.3f} n={one['headline']['n_documents']}" for one in of],
    )
    add("of these count 0", [f"{one['headline']['n_zero']}" for one in of])
    for sign, place in (("-", 0), ("+", 1)):
        add(
            f"exit code of `--min-spearman` headline {sign} {STEP:g}",
            [str(one["codes"][place]) for one in of],
        )
    add("**published: such documents left out**", [""] * len(of))
    add(
        "`verify`'s second line",
        [f"{one['in_verify']['value']:.3f} n={one['in_verify']['n_documents']}" for one in of],
    )
    add("`summary_level(undefined='left_out')`", [f"{one['published'].value:.3f}" for one in of])
    add("**against the other two experts (the ceiling)**", [""] * len(of))
    for place, convention in enumerate(("primary", "published")):
        both = [one["ceilings"][place] for one in of]
        add(
            f"an expert, {convention}",
            [f"{one.human:.3f} n={one.n_documents}" for one in both],
        )
        add(f"GPT-4, {convention}", [f"{one.judge:.3f}" for one in both])
        add(f"share, {convention}", [_share(one) for one in both])
    print(f"| | {' | '.join(DIMENSIONS)} |\n|{'---|' * (len(DIMENSIONS) + 1)}")
    for name, values in lines:
        print(f"| {name} | {' | '.join(values)} |")
    agree = all(
        f"{one['search']:.3f}" == one["scorecard"] == f"{one['headline']['value']:.3f}"
        and one["codes"] == (0, 1)
        and abs(one["published"].value - one["in_verify"]["value"]) < 1e-6
        for one in of
    )
    print(f"\nThe same number wherever the same name stands: {'yes' if agree else 'NO'}")
    return 0 if agree else 1


def _share(one: Ceiling) -> str:
    around = one.share_interval
    return f"{one.share:.2f} [{around.low:.2f}, {around.high:.2f}]" if around else one.why


if __name__ == "__main__":
    sys.exit(main())
