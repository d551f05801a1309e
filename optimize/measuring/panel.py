"""A panel from its members' scores: learned on train and dev, and measured once on test."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from data.readers import is_constructed
from data.types import LabelError, LabelledPairs
from judges.dimension import Dimension, Subject
from judges.judge import Judge
from judges.judgement import AnyJudgement, Judgement, Verdict
from judges.panel import Member, Panel
from judges.prompt import encodable
from optimize.figures import DIGITS, Cell, cell, json_number, value_cell
from optimize.items import Items, Vector, data_counts, items_of, scores_of
from optimize.measuring.asking import Entry
from optimize.measuring.measure import order_figures
from optimize.measuring.scored import Scored
from optimize.panel.composition import compose
from optimize.panel.learn import PanelFit, joined_scores, learn_pair_panel, learn_panel
from optimize.panel.maps import Line
from optimize.panel.members import MemberScores
from optimize.report.text import counted
from optimize.run.final_table import accuracy_of, gain
from optimize.run.labels import Labelled, Labels, check_level, split_labelled
from optimize.run.pipeline import versions
from optimize.run.settings import SettingsError
from optimize.search.objective import Level, choose_level, correlation
from optimize.statistics.bootstrap import Interval, stream

UNTUNED = "untuned"
MEASURED = ("test", "test_unseen_systems")
# Of the least slope at which joined scores are put on people's scale, in their own spreads.
LEAST_SLOPE = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedPanel:
    """What ships, and the evidence for it; no judge where one of those joined is a recording.

    `judge` is None where a recording has a part in it, which cannot be asked. `rows` hold what
    every judge says of each output.
    """

    judge: Judge | None
    summary: dict[str, Any]
    rows: tuple[Mapping[str, Any], ...]


def split_for_panel(
    labelled: Labelled, dimension: str, seed: int, judges: Sequence[Judge] = ()
) -> tuple[Labels, list[str]]:
    """Labels split into what weights are learned from and what is looked at once, and notes on it.

    As for a search, with train and dev as one, since weights are chosen by folds. Where judges were
    tuned on these very labels, their train has chosen their words and demonstrations: weights are
    learned on what was dev for all of them, and measured on what was test for all. No document is
    used of which a judge shows an output. Raises LabelError where nothing is left, and
    SettingsError where such a split cannot be made again.
    """
    tuning, notes = _tuning_splits(labelled, dimension, judges), list[str]()
    labels = tuning[0] if tuning else split_labelled(labelled, dimension, seed)
    parts = {"train": labels.train, "dev": labels.dev, **labels.measured}
    if tuning:
        parts["train"], parts["dev"] = Items(()), _common([part.dev for part in tuning])
        for name in labels.measured:
            parts[name] = _common([part.measured.get(name, Items(())) for part in tuning])
        notes.append(
            "judges were tuned on these labels: weights are learned on what was their dev alone, "
            f"{counted(len(parts['dev']), 'output')}, and measured on what was their test"
        )
    if in_demos := _documents_shown(labelled, dimension, judges):
        notes.append(
            f"{counted(len(in_demos), 'document')} left out, of which a judge shows an output as a "
            "demonstration"
        )
    for name, items in parts.items():
        unshown = [document for document in items.documents if document not in in_demos]
        parts[name] = items.of_documents(unshown)
    unseen = parts.get("test_unseen_systems", Items(()))
    labels = replace(
        labels,
        train=parts["train"],
        dev=parts["dev"],
        test=parts["test"],
        unseen=unseen if len(unseen) else None,
        split={
            **labels.split,
            **{name: [item.id for item in items.items] for name, items in parts.items()},
        },
    )
    for task, items in (("learn weights from", labels.learned), ("measure on", labels.test)):
        if not len(items):
            raise LabelError(
                f"{labelled.name}: no label is left to {task} that taught no judge and that none "
                "shows: give other labels, or leave a judge out"
            )
    if np.ptp(labels.learned.human) == 0:
        raise LabelError(
            f"{labelled.name}: every rating on {dimension} that is left to learn weights from is "
            f"{labels.learned.human[0]:g}: there is no order to learn"
        )
    return labels, notes


def _tuning_splits(labelled: Labelled, dimension: str, judges: Sequence[Judge]) -> list[Labels]:
    """The splits by which judges were tuned on these very labels, made again."""
    splits: dict[str, Labels] = {}
    for judge in judges:
        provenance: Mapping[str, Any] = judge.provenance or {}
        data, split = provenance.get("data", {}), provenance.get("split", {})
        if data.get("sha256") != labelled.sha256 or provenance.get("shipped") == "seed":
            continue
        if split.get("sha256") not in splits:
            again = split_labelled(labelled, dimension, provenance.get("seed", 0))
            if again.split["sha256"] != split.get("sha256"):
                raise SettingsError(
                    f"{judge.name} was tuned on these labels, by a split that cannot be made "
                    "again, so that nobody knows which it has not met: give others, or leave it out"
                )
            splits[split["sha256"]] = again
    return list(splits.values())


def _common(parts: Sequence[Items]) -> Items:
    """The items that are in every part."""
    ids = set.intersection(*({item.id for item in part.items} for part in parts))
    return Items(tuple(item for item in parts[0].items if item.id in ids))


def _documents_shown(labelled: Labelled, dimension: str, judges: Sequence[Judge]) -> frozenset[str]:
    """The documents of the labels of which a judge demonstrates an output."""
    documents: set[str] = set()
    for judge in judges:
        texts_shown = {tuple(demo.get(name) for name in judge.texts) for demo in judge.prompt.demos}
        if texts_shown:
            documents.update(
                item.document_id
                for item in items_of(labelled, dimension, judge.subject).items
                if tuple(encodable(item.texts[name]) for name in judge.texts) in texts_shown
            )
    return frozenset(documents)


def learn(
    subject: Subject,
    outcomes: Sequence[Entry],
    labels: Labels,
    *,
    level: Level | None,
    seed: int,
    started: str = "",
) -> LearnedPanel:
    """Learn the panel and measure it, and the best single judge, on what neither has seen.

    Raises SettingsError for what cannot be asked of these members.
    """
    judgements = {outcome.name: _by_id(outcome) for outcome in outcomes}
    reasons = [scores_nothing(list(by_id.values())) for by_id in judgements.values()]
    if all(reasons):
        raise SettingsError(f"no member gives any output a score: the first, {reasons[0]}")
    labelled = labels.labelled
    pairs = isinstance(labelled, LabelledPairs)
    check_level(level or "auto", labels.learned, pairs=pairs)
    level = "dataset" if pairs else level or choose_level(labels.learned)
    members = [
        MemberScores(
            name=outcome.name,
            scores=scores_on(judgements[outcome.name], labels.learned),
            cost_per_1000=cost_of(outcome),
        )
        for outcome in outcomes
    ]
    items = labels.learned
    documents, systems = items.document_ids, items.system_ids if items.systems else None
    rng = stream(seed, "panel")
    try:
        if pairs:
            fit = learn_pair_panel(members, items.human, documents, rng=rng)
        else:
            fit = learn_panel(members, items.human, documents, systems, level=level, rng=rng)
    except ValueError as error:
        raise SettingsError(str(error)) from error
    composition = compose(
        fit,
        members,
        items.human,
        documents,
        systems,
        level=level,
        rng=stream(seed, "panel", "composition"),
        pairs=pairs,
    )
    own = (fit.candidates[0] if fit.candidates else fit).members[0]
    if not pairs:
        learned_scores = {member.name: member.scores for member in members}
        fit = on_peoples_scale(fit, joined_scores(fit, learned_scores), items.human)
    scores: dict[str, dict[str, Vector]] = {}
    for split, part in {"learned": items, **labels.measured}.items():
        by_name = {name: scores_on(by_id, part) for name, by_id in judgements.items()}
        # What ships where the best single judge stays speaks on its own scale.
        shipped = by_name[own] if fit.kind == "own" else joined_scores(fit, by_name)
        scores[split] = {**by_name, "": shipped}
    evidence = _Evidence(labels=labels, scores=scores, level=level, seed=seed)
    summary: dict[str, Any] = {
        "command": "optimize.panel",
        "dimension": subject.name,
        "kind": "pairwise" if pairs else "rating",
        "optimizer": "panel",
        "seed": seed,
        "level": level,
        "data": data_counts(labelled, labels.everything),
        "own": own,
        "own_judge": evidence.cells(own),
        "panel": evidence.cells(""),
        "gain": {
            split: gain(scores[split][""], scores[split][own], part, level, seed)
            for split, part in labels.measured.items()
        },
        "order": {
            split: {
                judge: order_cell(scores[split][name], part, level, pairs=pairs)
                for judge, name in (("own_judge", own), ("panel", ""))
            }
            for split, part in labels.measured.items()
        },
        "shipped": fit.kind,
        "why": fit.why,
        "shrinkage": fit.shrinkage,
        "members": [_member_row(outcome, fit, evidence) for outcome in outcomes],
        "candidates": [_candidate_row(candidate) for candidate in fit.candidates],
        "composition": composition.record(),
    }
    if pairs:
        summary["accuracy"] = {
            judge: accuracy_of(scores["test"][name], labels.test)
            for judge, name in (("own_judge", own), ("panel", ""))
        }
    provenance = {
        "data": {
            "name": labelled.name,
            "sha256": labelled.sha256,
            "constructed": is_constructed(labelled.sha256),
        },
        "split": {"by": labels.split["by"], "sha256": labels.split["sha256"]},
        **{name: summary[name] for name in ("optimizer", "seed", "level", "shipped", "why", "own")},
        **{name: summary[name] for name in ("own_judge", "panel", "gain")},
        "versions": versions(),
        "started": started,
    }
    return LearnedPanel(
        judge=_frozen(subject, fit, outcomes, provenance),
        summary=summary,
        rows=tuple(evidence.rows(judgements)),
    )


def _frozen(
    subject: Subject, fit: PanelFit, outcomes: Sequence[Entry], provenance: Mapping[str, Any]
) -> Judge | None:
    """What ships as a judge to save; None where a recording has a part in it."""
    judges = {outcome.name: asking(outcome) for outcome in outcomes}
    members = [
        Member(name=name, weight=weight, judge=judge, slope=line.slope, intercept=line.intercept)
        for name, weight, line in zip(fit.members, fit.weights, fit.lines, strict=True)
        if (judge := judges[name]) is not None
    ]
    if len(members) < len(fit.members):
        return None
    if fit.kind == "own":
        return members[0].judge
    return Panel.join(subject, members, provenance=provenance)


def on_peoples_scale(fit: PanelFit, scores: Vector, ratings: Vector) -> PanelFit:
    """The panel with lines whose mean lies on people's scale, by the least-squares line.

    The line rises by LEAST_SLOPE, in spreads of scores and ratings, at least. The panel stays as it
    is where either are all alike.
    """
    scored = ~np.isnan(scores)
    x, y = scores[scored], ratings[scored]
    if x.size < 2 or np.ptp(x) < 1e-9 or np.ptp(y) == 0:
        return fit
    slope = max(float(np.corrcoef(x, y)[0, 1]), LEAST_SLOPE) * float(y.std() / x.std())
    height = float(y.mean()) - slope * float(x.mean())
    lines = (Line(slope * line.slope, height + slope * line.intercept) for line in fit.lines)
    return replace(fit, lines=tuple(lines))


def untuned_panel(subject: Subject, judges: Mapping[str, Judge]) -> Panel:
    """The plain mean of the judges' scores, each from its own scale onto the panel's."""

    def line_onto(judge: Judge) -> Line:
        own = judge.subject
        if not isinstance(own, Dimension) or not isinstance(subject, Dimension):
            return Line()
        slope = np.ptp(subject.scale) / np.ptp(own.scale)
        return Line(float(slope), float(subject.scale[0] - slope * own.scale[0]))

    members = [
        Member(name=name, weight=1 / len(judges), judge=judge, **line_onto(judge)._asdict())
        for name, judge in judges.items()
    ]
    return Panel.join(
        subject,
        members,
        provenance={"optimizer": "panel", "shipped": UNTUNED, "why": "no labels to learn from"},
    )


def asking(entry: Entry) -> Judge | None:
    """An entry's judge with the model and the endpoint that its user named; None: recorded."""
    if entry.judge is None:
        return None
    judge = entry.judge
    return judge if judge.plan is not None else judge.with_plan(judge.resolved_plan())


def order_cell(scores: Vector, items: Items, level: Level, *, pairs: bool) -> dict[str, Any]:
    """The share of pairs that people order which the scores order alike."""
    judged = tuple(Verdict(margin=s) if pairs else Judgement(score=s) for s in scores.tolist())
    scored = Scored(judge="", dimension="", level=level, items=items, judgements=judged)
    return order_figures(scored)


def scores_on(judgements: Mapping[str, AnyJudgement], items: Items) -> Vector:
    """A score for each item; NaN where the judge failed or has no record."""
    missing = Judgement.failed("no record")
    return scores_of(judgements.get(item.id, missing) for item in items.items)


def scores_nothing(judgements: Sequence[AnyJudgement]) -> str:
    """Why none of them holds a score, by the first; empty where one does."""
    if any(not math.isnan(judgement.score) for judgement in judgements):
        return ""
    return next((j.failure for j in judgements if j.failure), "every score is missing")


def _by_id(outcome: Entry) -> dict[str, AnyJudgement]:
    scored = outcome.scored
    if scored is None:
        raise SettingsError(f"{outcome.name} has no scores: {outcome.reason}; leave it out")
    return {
        item.id: judgement
        for item, judgement in zip(scored.items.items, scored.judgements, strict=True)
    }


def cost_of(outcome: Entry) -> float:
    """US dollars for 1,000 rows: nothing of what is recorded or asked here; NaN: unknown."""
    if outcome.judge is None or outcome.in_process:
        return 0.0
    cost = outcome.usage["cost_per_1000_rows"]
    return math.nan if cost is None else float(cost)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Evidence:
    """Every judge's scores by split and name, the panel's under an empty name."""

    labels: Labels
    scores: Mapping[str, Mapping[str, Vector]]
    level: Level
    seed: int

    def cells(self, name: str) -> dict[str, Cell | None]:
        """Rho on what was held out; the same draws for every judge, and for `verify`."""
        return {
            split: cell(
                correlation(
                    self.scores[split][name],
                    self.labels.measured[split],
                    self.level,
                    stream(self.seed, "verify", self.level),
                )
            )
            if split in self.labels.measured
            else None
            for split in MEASURED
        }

    def n_failed(self, name: str) -> int:
        return sum(int(np.isnan(by_name[name]).sum()) for by_name in self.scores.values())

    def rows(self, judgements: Mapping[str, Mapping[str, AnyJudgement]]) -> list[Mapping[str, Any]]:
        """A line for each labelled output: every member's score, and the panel's."""
        parts = {"learned": self.labels.learned, **self.labels.measured}
        return [
            {
                "id": item.id,
                "split": split,
                "document_id": item.document_id,
                "system": item.system,
                "human": item.human,
                "members": {
                    name: json_number(float(self.scores[split][name][row])) for name in judgements
                },
                "panel": json_number(float(self.scores[split][""][row])),
            }
            for split, items in parts.items()
            for row, item in enumerate(items.items)
        ]


def _member_row(outcome: Entry, fit: PanelFit, evidence: _Evidence) -> dict[str, Any]:
    """A member in summary.json: its weight (0: not in the panel), rho alone, what it took."""
    entry, cost = outcome, cost_of(outcome)
    weights = dict(zip(fit.members, fit.weights, strict=True))
    return {
        "name": entry.name,
        **outcome.described(),
        "weight": round(weights.get(entry.name, 0.0), DIGITS),
        **evidence.cells(entry.name),
        "n_failed": evidence.n_failed(entry.name),
        "cost_per_1000_rows": json_number(cost),
    }


def _candidate_row(candidate: Any) -> dict[str, Any]:
    gain = candidate.gain
    return {
        "kind": candidate.kind,
        "members": list(candidate.members),
        "weights": [round(weight, DIGITS) for weight in candidate.weights],
        "dev": json_number(candidate.dev, DIGITS),
        "gain": None
        if gain is None
        else value_cell(gain.value, Interval(gain.low, gain.high), DIGITS),
        "cost_per_1000_rows": json_number(candidate.cost_per_1000, DIGITS),
        "why": candidate.why,
    }
