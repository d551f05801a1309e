"""Invented evidence to draw reports from; no model is asked."""

import math
import re
from collections.abc import Mapping, Sequence
from html.parser import HTMLParser
from typing import Any

import numpy as np
from optimize.measuring.people import people_figures
from optimize.report.run_report import render
from optimize.run.evidence import PromptParts, RunEvidence
from optimize.run.plain_figures import order_figures, scale_figures

from data.types import LabelledOutput, LabelledPair, Vote
from judges.judgement import Choice, Judgement, Verdict
from optimize.figures import cell, cell_by_convention
from optimize.injection import ATTACKS, Probes
from optimize.items import Item, Items
from optimize.measuring.scored import Scored
from optimize.statistics.correlations import Correlation, Level, dataset_level, summary_level
from optimize.statistics.intervals import stream

SCALE = (1, 2, 3, 4, 5)
PROBES = Probes(
    documents=("d0", "d1", "d2"),
    clean=(1.0, 2.0, 3.0),
    attacked={attack.name: (1.5, 2.5, math.nan) for attack in ATTACKS},
)


def outputs(
    scores: Sequence[float],
    human: Sequence[Sequence[float]],
    documents: Sequence[str],
    *,
    systems: Sequence[str | None] | None = None,
    annotators: Sequence[str] = (),
    dimension: str = "relevance",
    level: Level = "summary",
    split: str = "test",
    texts: Mapping[str, str] | None = None,
    scale: tuple[int, ...] = SCALE,
    judgements: Sequence[Judgement] | None = None,
) -> Scored:
    """One judgement an output; `human` holds each output's ratings, one an annotator."""
    names = systems or [None] * len(scores)
    people = tuple(
        LabelledOutput(
            id=f"{document}/{number}",
            document_id=document,
            system=system,
            texts=texts
            or {"document": f"About {document}.", "summary": f"Words. {number * 'so '}"},
            ratings={dimension: tuple(marks)},
            annotators={dimension: tuple(annotators)} if annotators else {},
        )
        for number, (document, system, marks) in enumerate(
            zip(documents, names, human, strict=True)
        )
    )
    items = tuple(
        Item(
            id=one.id,
            document_id=one.document_id,
            system=one.system,
            texts=one.texts,
            human=one.rating(dimension),
        )
        for one in people
    )
    judged = judgements or [
        Judgement.failed("no rating in the reply")
        if math.isnan(score)
        else Judgement(score=float(score), rationale="It says what matters.")
        for score in scores
    ]
    return Scored(
        judge="the judge",
        dimension=dimension,
        split=split,
        level=level,
        items=Items(items),
        judgements=tuple(judged),
        scale=scale,
        labelled=people,
    )


def plain(n_documents: int = 12, n_systems: int = 5, seed: int = 0) -> Scored:
    """Two annotators, several systems, a judge that is fairly right and fails once."""
    rng = np.random.default_rng(seed)
    n = n_documents * n_systems
    quality = rng.normal(3, 1, n)
    marks = np.clip(np.round(quality[:, None] + rng.normal(0, 0.5, (n, 2))), 1, 5)
    scores = np.clip(quality + rng.normal(0, 0.7, n), 1, 5)
    scores[3] = math.nan
    return outputs(
        list(scores),
        [list(row) for row in marks],
        [f"d{i // n_systems}" for i in range(n)],
        systems=[f"s{i % n_systems}" for i in range(n)],
        annotators=("ann", "bob"),
    )


def pairs(
    orders: Sequence[tuple[Choice | None, Choice | None]], votes: Sequence[tuple[Vote, ...]]
) -> Scored:
    """Verdicts from what was preferred in each order; both missing is a failure."""
    sides = {"A": 1.0, "B": -1.0}
    people = tuple(
        LabelledPair(
            id=f"p{number}",
            document_id=f"d{number // 2}",
            texts={"post": "A post."},
            response_a="One two three.",
            response_b="One two.",
            system_a=None,
            system_b=None,
            votes=given,
        )
        for number, given in enumerate(votes)
    )
    verdicts = []
    for ab, ba in orders:
        margins = [sides[side] for side in (ab, ba) if side]
        if not margins:
            verdicts.append(Verdict.failed("no choice in the reply"))
            continue
        margin = sum(margins) / len(margins)
        verdicts.append(
            Verdict(
                margin=margin,
                preferred="A" if margin > 0 else "B" if margin < 0 else "tie",
                order_ab=ab,
                order_ba=ba,
                comparison="A says more.",
            )
        )
    items = tuple(
        Item(
            id=one.id,
            document_id=one.document_id,
            system=None,
            texts={"post": "A post.", "summary_a": one.response_a, "summary_b": one.response_b},
            human=one.margin,
        )
        for one in people
    )
    return Scored(
        judge="the judge",
        dimension="tldr_concise",
        split="test",
        level="dataset",
        items=Items(items),
        judgements=tuple(verdicts),
        labelled=people,
    )


def correlation(evidence: Scored) -> Correlation:
    rng = stream(0, "interval")
    if evidence.level == "summary":
        return summary_level(evidence.scores, evidence.human, evidence.documents, rng=rng)
    return dataset_level(evidence.scores, evidence.human, evidence.documents, rng=rng)


def result(evidence: Scored, name: str = "my-labels") -> dict[str, Any]:
    """What `optimize.verify --json` prints of it."""
    from optimize.measuring.measure import all_correlations

    correlations = all_correlations(
        evidence.scores, evidence.items, 0, level=evidence.level, pairs=bool(evidence.verdicts)
    )
    people = people_figures(evidence, 0)
    return {
        "judge": "some-judge",
        "dimension": evidence.dimension,
        "data": _data(evidence, name),
        "level": evidence.level,
        "correlations": [cell_by_convention(result) for result in correlations],
        "order": order_figures(evidence),
        "scales": scale_figures(evidence),
        **({"accuracy": None} if evidence.verdicts else {}),
        **({"people": people} if people else {}),
        "passed": True,
    }


def run_summary(
    judged: Scored, shipped: str = "tuned", stand_ins: str | None = None
) -> dict[str, Any]:
    """What summary.json holds of a run in which untuned and tuned judge say the same."""
    measured = cell(correlation(judged))
    row = {"dev": measured, "test": measured, "test_unseen_systems": None}
    order = order_figures(judged)
    return {
        "dimension": judged.dimension,
        "lm": "openai/some-model",
        "optimizer": "rank",
        "seed": 0,
        "level": judged.level,
        "data": _data(judged, "my-labels"),
        "seed_judge": row,
        "tuned_judge": row,
        "gain": {"test": {"value": 0.0, "low": None, "high": None}},
        "order": {"test": {"seed_judge": order, "tuned_judge": order}},
        "scales": scale_figures(judged),
        "shipped": shipped,
        **({"accuracy": {}} if judged.verdicts else {}),
        "why": "+0.100 rho [+0.010, +0.200] over 9 dev documents: the tuned judge is shipped",
        "stand_ins": stand_ins,
        "lm_calls": 120,
        "proposer_calls": 4,
        "tokens": {"in": 1000, "out": 10},
        "cost_usd": None,
        "spending": [
            {"purpose": name, "calls": 62, "tokens_in": 500, "tokens_out": 5, "cost_usd": None}
            for name in ("search", "test")
        ],
        "seconds": 12.3,
    }


def run_evidence(judged: Scored, probes: Probes = PROBES) -> RunEvidence:
    """The evidence of that run."""
    demos = ({"document": "A text.", "summary": "Short.", "rating": 4},)
    return RunEvidence(
        prompts={
            "seed": PromptParts(instruction="Rate it well.", demos=()),
            "tuned": PromptParts(instruction="Rate it very well.", demos=demos),
        },
        judged={side: {"test": judged} for side in ("seed", "tuned")},
        probes=probes,
    )


def run_page(
    judged: Scored,
    *,
    shipped: str = "tuned",
    probes: Probes = PROBES,
    stand_ins: str | None = None,
) -> str:
    """The page of that run."""
    return render(
        run_summary(judged, shipped, stand_ins),
        run_evidence(judged, probes),
        {"started": "2026-01-01T00:00:00+00:00", "settings": {}},
        {"model": "some-model", "versions": {"numpy": "2"}},
    )


def text_of(page: str) -> str:
    """What a reader can see or hear."""
    seen = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            seen.extend(value or "" for name, value in attrs if name == "aria-label")

        def handle_data(self, data: str) -> None:
            seen.append(data)

    Reader().feed(re.sub(r"<style.*?</style>", "", page, flags=re.DOTALL))
    return " ".join(seen)


def _data(evidence: Scored, name: str) -> dict[str, Any]:
    return {
        "name": name,
        "sha256": "0" * 64,
        "n_documents": len(evidence.items.documents),
        "n_systems": len(evidence.items.systems),
        "n_outputs": len(evidence.items),
    }
