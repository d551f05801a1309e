"""Invented evidence to draw reports from; no model is asked."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np

from judges.catalog import find_subject
from judges.dimension import Dimension
from judges.judgement import Judgement, Preference, PreferredOutput
from judges.labels.types import LabelledOutput, LabelledPair, LabelledPairs, LabelledSet, Vote
from optimize.figures.by_judge import ByJudge
from optimize.items import DataCounts, make_items
from optimize.measuring.injection import ATTACKS, ProbeResult, measure_shift
from optimize.measuring.scorecard import PeopleFigures, Scorecard
from optimize.measuring.scored import ScoredItems
from optimize.measuring.tuning_result import RunSpending, SplitResult, TuningResult
from optimize.report.page import write_run
from optimize.statistics.correlations import Correlation, Level
from optimize.statistics.human import OneAnnotatorComparison
from optimize.statistics.intervals import Interval, IntervalEstimate
from optimize.statistics.plain_agreement import PairwiseAccuracy

SCALE = (1, 2, 3, 4, 5)
RELEVANCE = find_subject("relevance")
assert isinstance(RELEVANCE, Dimension)
PROMPT = replace(RELEVANCE.prompt(), instruction="Rate it well.")
CLEAN = (1.0, 2.0, 3.0)
PROBES = ProbeResult(shifts=dict.fromkeys(ATTACKS, measure_shift(CLEAN, (1.5, 2.5, math.nan))))


def outputs(
    scores: Sequence[float],
    human: Sequence[Sequence[float]],
    documents: Sequence[str],
    *,
    systems: Sequence[str | None] | None = None,
    annotators: Sequence[str] = (),
    level: Level = "summary",
    texts: Mapping[str, str] | None = None,
    comments: Sequence[str] = (),
    scale: tuple[int, ...] = SCALE,
    judgements: Sequence[Judgement] | None = None,
) -> ScoredItems:
    """One judgement an output; `human` holds each output's ratings, one an annotator."""
    rows = zip(documents, systems or [None] * len(scores), human, strict=True)
    people = tuple(
        LabelledOutput(
            id=f"{document}/{n}",
            document_id=document,
            system=system,
            texts=texts or {"document": f"About {document}.", "summary": f"Words. {n * 'so '}"},
            ratings={"relevance": tuple(marks)},
            annotators={"relevance": tuple(annotators)} if annotators else {},
            comments={"relevance": tuple(comments)} if comments else {},
        )
        for n, (document, system, marks) in enumerate(rows)
    )
    if judgements is None:
        given = Judgement(score=0, rationale="It says what matters.")
        failed = Judgement.failed("no rating in the reply")
        judgements = [failed if math.isnan(s) else replace(given, score=float(s)) for s in scores]
    labels = LabelledSet(name="mine", sha256="0" * 64, outputs=people)
    about = {"judge_name": "the judge", "dimension": "relevance", "level": level}
    items = make_items(labels, "relevance")
    return ScoredItems(
        items=items, judgements=tuple(judgements), labels=labels, scale=scale, **about
    )


def plain(n_documents: int = 12, n_systems: int = 5) -> ScoredItems:
    """Two annotators, several systems, a judge that is fairly right and fails once."""
    rng, n = np.random.default_rng(0), n_documents * n_systems
    quality = rng.normal(3, 1, n)
    marks = np.clip(np.round(quality[:, None] + rng.normal(0, 0.5, (n, 2))), 1, 5)
    scores = np.clip(quality + rng.normal(0, 0.7, n), 1, 5)
    scores[3] = math.nan
    documents = [f"d{i // n_systems}" for i in range(n)]
    systems, both = [f"s{i % n_systems}" for i in range(n)], ("ann", "bob")
    return outputs(scores.tolist(), marks.tolist(), documents, systems=systems, annotators=both)


def pairs(
    orders: Sequence[tuple[PreferredOutput | None, PreferredOutput | None]],
    votes: Sequence[tuple[Vote, ...]],
) -> ScoredItems:
    """Verdicts from what was preferred in each order; both missing is a failure."""
    about: Any = {"texts": {"post": "A post."}, "system_a": None, "system_b": None}
    sides = {"response_a": "One two three.", "response_b": "One two."}
    people = tuple(
        LabelledPair(id=f"p{n}", document_id=f"d{n // 2}", votes=side, **sides, **about)
        for n, side in enumerate(votes)
    )
    margins, failed = {"A": 1.0, "B": -1.0}, Preference.failed("no choice in the reply")
    preferences = [
        Preference.from_orders(margins[ab], margins[ba], "A says more.") if ab and ba else failed
        for ab, ba in orders
    ]
    labels = LabelledPairs(name="mine", sha256="0" * 64, pairs=people)
    items = make_items(labels, "tldr_concise", find_subject("tldr_concise"))
    about = {"judge_name": "the judge", "dimension": "tldr_concise", "level": "dataset"}
    return ScoredItems(items=items, judgements=tuple(preferences), labels=labels, **about)


def interval_around(value: float, half_width: float | None) -> Interval | None:
    return None if half_width is None else Interval(value - half_width, value + half_width)


def rho(value: float = 0.4, half_width: float | None = 0.2, **others: Any) -> Correlation:
    """A correlation at summary level."""
    counts = {"n_outputs": 60, "n_documents": 20, "n_undefined": 0, "n_failed": 0, **others}
    interval = interval_around(value, half_width)
    return Correlation(
        value=value, interval=interval, coefficient="spearman", level="summary", **counts
    )


def order(value: float = 0.64, half_width: float | None = 0.06) -> PairwiseAccuracy:
    """A share of pairs that are ordered alike."""
    interval = interval_around(value, half_width)
    return PairwiseAccuracy(value=value, interval=interval, n_pairs=200, n_ties=0, n_documents=20)


def gain(value: float, low: float | None = None, high: float | None = None) -> IntervalEstimate:
    """A difference between two judges, with an interval if both ends are given."""
    return IntervalEstimate(value, None if low is None or high is None else Interval(low, high))


def one_annotator(gap: IntervalEstimate) -> PeopleFigures:
    """A judge with rho .420 with the others, beside annotators with .470."""
    one = OneAnnotatorComparison(
        annotator=gain(0.47), judge=gain(0.42), gap=gap, n_outputs=40, n_documents=20
    )
    numbers = dict.fromkeys(("alpha", "reliability", "max_rho"), 0.5)
    return PeopleFigures(names=(), one_annotator=one, agreement=(), **numbers)


def card(
    own_rho: Correlation | None = None, own_order: PairwiseAccuracy | None = None, **others: Any
) -> Scorecard:
    """A judge's figures: by default rho is .40 (.20 to .60); 64 % of pairs are ordered alike."""
    return Scorecard(
        correlations=(own_rho or rho(),),
        pairwise_accuracy=own_order or order(),
        **{"scale_comparison": None, **others},
    )


def on_split(
    difference: IntervalEstimate | None = None,
    *,
    untuned: Scorecard | None = None,
    tuned: Scorecard | None = None,
    balanced: IntervalEstimate | None = None,
) -> SplitResult:
    """Both judges on a split, where the tuned one orders 64 % of pairs alike and the other 60 %."""
    return SplitResult(
        untuned=untuned or card(None, order(0.6)),
        tuned=tuned or card(),
        gain=difference or gain(0.1, 0.02, 0.18),
        balanced_gain=balanced,
    )


DATA = DataCounts(name="mine", sha256="0" * 64, n_documents=80, n_systems=0, n_outputs=240)


def run_result(**changes: Any) -> TuningResult:
    """A run whose tuned judge ships; it looked at no unseen system."""
    settings = {"dimension": "relevance", "lm": "openai/some-model", "optimizer": "rank", "seed": 0}
    settings |= {"level": "summary", "objective": "spearman", "risk": 0.1, "ship": "better"}
    settings |= {"lm_calls": 1200, "proposer_calls": 1, "cached_calls": 0, "seconds": 12.3}
    settings |= {"data_counts": DATA, "n_passes": 200, "test": on_split(), "shipped": "tuned"}
    settings["why"] = "Shipped: the tuned judge. It beats the untuned judge."
    settings["spending"] = RunSpending(tokens={}, cost_usd=0.0375, spending=())
    settings["cost_per_1000_rows"] = ByJudge(untuned=0.2, tuned=0.5)
    return TuningResult(**settings | changes)


def run_page(
    evidence: ScoredItems, folder: Path, probes: ProbeResult = PROBES, **changes: Any
) -> str:
    """The page of that run, on which both judges say the same."""
    demo = {"document": "A text.", "rating": 4}
    tuned = replace(PROMPT, instruction="Rate it very well.", demos=(demo,))
    prompts = ByJudge(untuned=PROMPT, tuned=tuned)
    write_run(page := folder / "report.html", run_result(**changes), evidence, prompts, probes)
    return page.read_text(encoding="utf-8")


def text_of(page: str) -> str:
    """What a reader can see or hear."""
    page = re.sub(r"<(style|script).*?</\1>", "", page, flags=re.DOTALL)
    labels = re.findall(r'aria-label="(.*?)"', page, re.DOTALL)
    texts = unescape(" ".join([*labels, *re.split(r"<[^>]*>", page)]))
    return " ".join(texts.split())
