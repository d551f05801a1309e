"""What joining judges wins: python benchmarks/panels.py [--deals 12] [--quick].

Recorded judges of SummEval, Topical-Chat and LLMBar and the embedded model are joined as a frozen
panel joins them: by maps and weights learned from labelled documents alone, applied to single rows.
Every deal draws the documents that have labels, and the systems are cut into parts (--parts), each
of which is new in one deal: so all are new equally often, and no figure hangs on which were drawn.
Rho is Spearman's, summary-level, on documents without labels; a document on which a judge says one
thing of all counts 0. Differences are paired by document, with intervals over documents. How
weights are learned and what ships was chosen on half of SummEval's documents: means are printed for
the other half alone, too. Prints a section of benchmarks/README.md.
"""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import judges
from judges.define import read_subject
from judges.dimension import Dimension
from judges.judge import Judge
from judges.parsing.recorded import judgement, read_pair_replies, read_replies, verdict
from optimize.items import read_scores
from optimize.panel.learn import (
    MemberScores,
    PanelFit,
    learn_pair_panel,
    learn_panel,
    panel_scores,
    plain_mean,
    plain_pair_mean,
)
from optimize.statistics.bootstrap import bootstrap, stream
from optimize.statistics.levels import PRIMARY, document_values, read_rows

SHARED = Path(__file__).parents[2] / "shared" / "data"
HERE = Path(__file__).parent
SUMMEVAL = ("coherence", "consistency", "fluency", "relevance")
TALK = ("naturalness", "coherence", "engagingness", "groundedness")
PROMPTS = ("rts", "mcq", "stareval", "altrts", "altmcq")
LETTERS = {"A": 1, "B": 2, "C": 3, "D": 4, "E": 5}
GPT35 = tuple(f"gpt-3.5 {prompt}" for prompt in PROMPTS)
MODELS = ("gpt-4o-mini", "llama-3.1", "mistral-7b-v0.3")
# The first of each is the own judge.
PANELS: Mapping[str, tuple[str, ...]] = {
    "gpt-4o-mini + embedded": ("gpt-4o-mini", "embedded"),
    "five GPT-3.5 prompts + embedded": (*GPT35, "embedded"),
    "GPT-4, gpt-4o-mini, GPT-3.5 + embedded": ("gpt-4", "gpt-4o-mini", GPT35[0], "embedded"),
    "all nine recorded + embedded": ("gpt-4", *GPT35, *MODELS, "embedded"),
}
TALK_MEMBERS = ("gpt-3.5 free_text", "gpt-3.5 auto_cot_score_only", "embedded")
SETTINGS = ("new documents", "new documents and systems")
# Draws the half of SummEval's documents on which the method was chosen.
DEVELOPMENT_SEED = 12345
LLMBAR_PROMPTS = ("CoT", "Vanilla", "Vanilla_NoRules")

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Judged:
    """Outputs with ratings on one dimension, and each judge's scores of them."""

    human: Vector
    document: NDArray[np.str_]
    system: NDArray[np.str_]
    scores: Mapping[str, Vector]

    def members(self, names: Sequence[str], rows: NDArray[np.bool_]) -> list[MemberScores]:
        return [MemberScores(name=name, scores=self.scores[name][rows]) for name in names]


@dataclass
class Outcome:
    """By document, what each way reaches, over the deals; and what shipped."""

    values: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    shipped: Counter[str] = field(default_factory=Counter)

    def add(self, way: str, scores: Vector, judged: Judged, rows: NDArray[np.bool_]) -> None:
        # A panel's failures are missing; a document that keeps two outputs is ranked by these.
        known = read_rows(scores, judged.human[rows], judged.document[rows])
        names = np.unique(judged.document[rows][~np.isnan(scores)])
        by_document = document_values(known, "spearman", PRIMARY)
        for name, value in zip(names.tolist(), by_document.tolist(), strict=True):
            self.values.setdefault(way, {}).setdefault(name, []).append(value)

    def on(self, documents: Collection[str]) -> "Outcome":
        """What is reached on these documents alone."""
        values = {
            way: {name: values for name, values in by_document.items() if name in documents}
            for way, by_document in self.values.items()
        }
        return replace(self, values=values)

    def by_document(self, way: str) -> dict[str, float]:
        means = {name: np.mean(values) for name, values in self.values[way].items()}
        return {name: float(value) for name, value in means.items() if not np.isnan(value)}

    def rho(self, way: str) -> float:
        return float(np.mean(list(self.by_document(way).values())))

    def difference(self, way: str, base: str = "own") -> tuple[float, float, float]:
        """The mean over documents with its 95 % interval."""
        values, base_values = self.by_document(way), self.by_document(base)
        gaps = np.array(
            [
                values[name] - base_values[name]
                for name in sorted(values.keys() & base_values.keys())
            ]
        )
        interval = bootstrap(
            lambda weights: weights @ gaps / weights.sum(axis=1),
            float(gaps.mean()),
            gaps.size,
            stream(0, "panels", way, base),
            bound=2.0,
        )
        assert interval is not None
        return float(gaps.mean()), interval.low, interval.high


def summeval(shared: Path = SHARED) -> dict[str, Judged]:
    """The four dimensions with nine recorded judges and the embedded one."""
    rows = read_lines(shared / "summeval" / "summeval.jsonl")
    ids = [row["id"] for row in rows]
    folder = shared / "summeval_judges"
    known = {}
    for dimension in SUMMEVAL:
        scores = {}
        for prompt in PROMPTS:
            letters = LETTERS if "mcq" in prompt else None
            path = folder / "replies_gpt-3.5-turbo-0301.jsonl"
            scores[f"gpt-3.5 {prompt}"] = {
                # A few outputs were judged twice; as where the replies come from, the last counts.
                one.id: judgement(one.replies[-1:], range(1, 6), letters=letters).score
                for one in read_replies(path, dimension=dimension, prompt=prompt)
            }
        scores["gpt-4"] = {
            one.id: judgement(one.replies, range(1, 6), names=(dimension,)).score
            for one in read_replies(folder / "replies_gpt-4-0314.jsonl", dimension=dimension)
        }
        for model in MODELS:
            path = shared / "summeval_scores" / f"scores_{model}.jsonl"
            scores[model] = dict(read_scores(path, dimension))
        texts = [{"document": row["document"], "summary": row["summary"]} for row in rows]
        embedded = judges.load(dimension).judge_all(texts)
        scores["embedded"] = {name: one.score for name, one in zip(ids, embedded, strict=True)}
        known[dimension] = _judged(rows, dimension, scores)
    return known


def topical_chat(shared: Path = SHARED) -> dict[str, Judged]:
    """Four dimensions with two recorded prompts (20 replies averaged) and the embedded model."""
    rows = read_lines(shared / "topical_chat" / "topical_chat.jsonl")
    ids = [row["id"] for row in rows]
    known = {}
    for dimension in TALK:
        subject = read_subject(f"{HERE / 'topical_chat.yaml'}:{dimension}")
        assert isinstance(subject, Dimension)
        scores = {}
        for prompt in ("free_text", "auto_cot_score_only"):
            path = shared / "topical_chat_judges" / f"replies_gpt-3.5-turbo_{prompt}.jsonl"
            scores[f"gpt-3.5 {prompt}"] = {
                one.id: judgement(one.replies, subject.scale, names=(dimension,)).score
                for one in read_replies(path, dimension=dimension)
            }
        texts = [{name: row[name] for name in subject.inputs} for row in rows]
        embedded = Judge.of(subject).judge_all(texts)
        scores["embedded"] = {name: one.score for name, one in zip(ids, embedded, strict=True)}
        known[dimension] = _judged(rows, dimension, scores)
    return known


def _judged(rows: Sequence[Mapping], dimension: str, scores: Mapping[str, Mapping]) -> Judged:
    return Judged(
        human=np.array([row["ratings"][dimension] for row in rows], float),
        document=np.array([row["group"] for row in rows]),
        system=np.array([row["system"] for row in rows]),
        scores={
            name: np.array([by_id.get(row["id"], np.nan) for row in rows], float)
            for name, by_id in scores.items()
        },
    )


def read_lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.open(encoding="utf-8")]


def run(
    judged: Judged, names: Sequence[str], n_labelled: int, deals: int, parts: int
) -> dict[str, Outcome]:
    """Own judge, plain mean and what ships, on new documents, and on these by new systems."""
    # Outputs that a judge has no record of are none of this panel's.
    recorded = ~np.all([np.isnan(judged.scores[name]) for name in names], axis=0)
    for name in names:
        missing = np.isnan(judged.scores[name])
        if missing[recorded].mean() > 0.2:
            recorded &= ~missing
    outcomes = {setting: Outcome() for setting in SETTINGS}
    documents, systems = np.unique(judged.document[recorded]), np.unique(judged.system[recorded])
    for deal in range(deals):
        rng = stream(deal, "panels", n_labelled)
        labelled = np.isin(judged.document, rng.permutation(documents)[:n_labelled])
        order = stream(deal // parts, "systems").permutation(systems)
        new = np.isin(judged.system, order[deal % parts :: parts])
        splits = zip(
            SETTINGS,
            (recorded & labelled, recorded & labelled & ~new),
            (recorded & ~labelled, recorded & ~labelled & new),
            strict=True,
        )
        for setting, train, test in splits:
            outcome, members = outcomes[setting], judged.members(names, train)
            fit = learn_panel(
                members,
                judged.human[train],
                judged.document[train],
                judged.system[train],
                own=names[0],
                level="summary",
                rng=rng,
            )
            outcome.shipped[fit.kind] += 1
            fresh = judged.members(names, test)
            outcome.add("own", fresh[0].scores, judged, test)
            outcome.add("mean", mean_of_all(members, judged.document[train], fresh), judged, test)
            outcome.add("shipped", panel_scores(fit, fresh), judged, test)
    return outcomes


def mean_of_all(
    members: Sequence[MemberScores], document: NDArray[np.str_], fresh: Sequence[MemberScores]
) -> Vector:
    """The plain mean of the members, but of one that says one thing of all (a few documents)."""
    varied = [
        one for one in members if any(np.ptp(one.scores[document == d]) > 0 for d in set(document))
    ]
    return panel_scores(plain_mean(varied, document), fresh)


# A panel's outcomes: dimension -> setting -> outcome.
Outcomes = Mapping[str, Mapping[str, Outcome]]


def mean_row(name: str, by_size: Mapping[int, Outcomes]) -> str:
    cells = []
    some = next(iter(by_size.values()))
    for way in ("own", "mean"):
        cells.append(_both(some, way))
    cells += [_both(outcomes, "shipped") for outcomes in by_size.values()]
    return f"| {name} | {' | '.join(cells)} |"


def _both(outcomes: Outcomes, way: str) -> str:
    return " / ".join(f"{mean_rho(outcomes, way, setting):.3f}" for setting in SETTINGS)


def mean_rho(outcomes: Outcomes, way: str, setting: str) -> float:
    return float(np.mean([one[setting].rho(way) for one in outcomes.values()]))


def dimension_row(name: str, dimension: str, by_size: Mapping[int, Outcomes]) -> str:
    """The shipped panel less the own judge, with its interval and what shipped how often."""
    cells = []
    for outcomes in by_size.values():
        for setting in SETTINGS:
            one = outcomes[dimension][setting]
            value, low, high = one.difference("shipped")
            kinds = ", ".join(f"{kind} {n}" for kind, n in one.shipped.most_common())
            cells.append(f"{one.rho('own'):.3f} {value:+.3f} [{low:+.3f}, {high:+.3f}] {kinds}")
    return f"| {name} | {dimension} | {' | '.join(cells)} |"


def worst(panels: Mapping[str, Mapping[int, Outcomes]], size: int) -> tuple[float, list[str]]:
    """The lowest mean difference of a dimension and setting, and those wholly below 0."""
    lowest, below = np.inf, []
    for name, by_size in panels.items():
        for dimension, by_setting in by_size[size].items():
            for setting, one in by_setting.items():
                value, _, high = one.difference("shipped")
                lowest = min(lowest, value)
                if high < 0:
                    below.append(f"{name}, {dimension}, {setting} {value:+.3f}")
    return lowest, below


def report_means(title: str, panels: Mapping[str, Mapping[int, Outcomes]]) -> None:
    sizes = list(next(iter(panels.values())))
    head = [f"learned, {size} labelled documents" for size in sizes]
    print(f"### {title}\n")
    print(f"| panel | own judge | plain mean, no labels | {' | '.join(head)} |")
    print(f"|---|---|---|{'---|' * len(sizes)}")
    for name, by_size in panels.items():
        print(mean_row(name, by_size))
    print()


def report_other_half(
    panels: Mapping[str, Mapping[int, Outcomes]], documents: Collection[str]
) -> None:
    """The means on the documents that no choice of method was made on."""
    other_half = {
        name: {
            size: {
                dimension: {setting: one.on(documents) for setting, one in by_setting.items()}
                for dimension, by_setting in outcomes.items()
            }
            for size, outcomes in by_size.items()
        }
        for name, by_size in panels.items()
    }
    title = f"SummEval, measured on the {len(documents)} documents of the other half"
    report_means(title, other_half)


def report(title: str, panels: Mapping[str, Mapping[int, Outcomes]]) -> None:
    sizes = list(next(iter(panels.values())))
    report_means(title, panels)
    heads = [f"{size} labelled, {setting}" for size in sizes for setting in SETTINGS]
    print(f"| panel | dimension | {' | '.join(heads)} |\n|---|---|{'---|' * len(heads)}")
    for name, by_size in panels.items():
        for dimension in by_size[sizes[0]]:
            print(dimension_row(name, dimension, by_size))
    print()
    for size in sizes:
        value, below = worst(panels, size)
        wholly = "; ".join(below) or "none"
        print(
            f"{size} labelled documents: worst mean of a dimension and setting {value:+.3f}; "
            f"intervals wholly below the own judge: {wholly}.\n"
        )


def pair_margins(shared: Path) -> tuple[Vector, NDArray[np.str_], dict[str, Vector]]:
    """LLMBar's pairs that GPT-4 judged with three prompts: label, subset and margins."""
    rows = {row["id"]: row for row in read_lines(shared / "llmbar" / "llmbar.jsonl")}
    path = shared / "llmbar" / "replies_GPT-4.jsonl"
    margins: dict[str, dict[str, float]] = {}
    for prompt in LLMBAR_PROMPTS:
        margins[prompt] = {
            one.id: verdict(one).margin for one in read_pair_replies(path, prompt=prompt)
        }
    ids = [name for name in rows if all(name in by_id for by_id in margins.values())]
    human = np.array([1.0 if rows[name]["preferred"] == "A" else -1.0 for name in ids])
    subset = np.array([rows[name]["subset"].removeprefix("LLMBar_") for name in ids])
    scores = {
        f"GPT-4 {prompt}": np.array([by_id[name] for name in ids], float)
        for prompt, by_id in margins.items()
    }
    return human, subset, scores


def llmbar(shared: Path, deals: int) -> None:
    """Accuracy by subset (ties count half) on the half of the pairs that has no labels."""
    human, subset, scores = pair_margins(shared)
    names = list(scores)
    overall = {name: accuracy(margin, human) for name, margin in scores.items()}
    best = max(overall, key=lambda name: overall[name])
    pair = np.arange(human.size)
    sums: dict[str, list[Vector]] = {way: [] for way in (*names, "mean", "shipped")}
    shipped: Counter[str] = Counter()
    for deal in range(deals):
        rng = stream(deal, "panels of pairs")
        train = rng.permutation(human.size) < human.size // 2
        members = [MemberScores(name=name, scores=scores[name][train]) for name in names]
        fresh = [MemberScores(name=name, scores=scores[name][~train]) for name in names]
        fit = learn_pair_panel(members, human[train], pair[train], own=best, rng=rng)
        shipped[fit.kind] += 1
        ways = {one.name: one.scores for one in fresh}
        ways |= {
            "mean": panel_scores(plain_pair_mean(members), fresh),
            "shipped": panel_scores(fit, fresh),
        }
        for way, margin in ways.items():
            values = np.full(human.size, np.nan)
            values[~train] = right(margin, human[~train])
            sums[way].append(values)
    means = {way: mean_of_known(np.array(values)) for way, values in sums.items()}
    print(f"### LLMBar: three prompts of GPT-4, own judge {best}\n")
    print(f"| subset | pairs | {' | '.join(means)} | shipped less own |")
    print(f"|---|---:|{'---:|' * len(means)}---|")
    for name in [*sorted(set(subset.tolist())), "all"]:
        rows = (subset == name) | (name == "all")
        gaps = means["shipped"][rows] - means[best][rows]
        gaps = gaps[~np.isnan(gaps)]
        interval = bootstrap(
            lambda weights, gaps=gaps: weights @ gaps / weights.sum(axis=1),
            float(gaps.mean()),
            gaps.size,
            stream(0, "llmbar", name),
        )
        ends = f"[{interval.low:+.3f}, {interval.high:+.3f}]" if interval else ""
        cells = " | ".join(f"{np.nanmean(one[rows]):.3f}" for one in means.values())
        print(f"| {name} | {rows.sum()} | {cells} | {gaps.mean():+.3f} {ends} |")
    kinds = ", ".join(f"{kind} {n}" for kind, n in shipped.most_common())
    print(f"\nShipped in {deals} deals: {kinds}.\n")


def mean_of_known(values: Vector) -> Vector:
    """Of each column; NaN where nothing is known."""
    known = ~np.isnan(values)
    sums = np.where(known, values, 0).sum(axis=0)
    return np.where(known.any(axis=0), sums / np.maximum(known.sum(axis=0), 1), np.nan)


def right(margin: Vector, human: Vector) -> Vector:
    """1 where the margin has the label's sign, half a point for a tie, NaN for a failure."""
    agrees: Vector = np.where(np.isnan(margin), np.nan, (np.sign(margin) * human + 1) / 2)
    return agrees


def accuracy(margin: Vector, human: Vector) -> float:
    return float(np.nanmean(right(margin, human)))


def shuffled(judged: Mapping[str, Judged], runs: int) -> None:
    """What ships where labels are dealt at random over the outputs."""
    kinds: Counter[str] = Counter()
    for place in range(runs):
        rng = stream(place, "shuffled")
        names = list(PANELS.values())[place % len(PANELS)]
        one = judged[SUMMEVAL[place // len(PANELS) % len(SUMMEVAL)]]
        documents = rng.permutation(np.unique(one.document))[: (12, 80)[place // 16 % 2]]
        rows = np.isin(one.document, documents) & ~np.isnan(one.scores[names[0]])
        fit: PanelFit = learn_panel(
            one.members(names, rows),
            rng.permutation(one.human[rows]),
            one.document[rows],
            one.system[rows],
            own=names[0],
            level="summary",
            rng=rng,
        )
        kinds[fit.kind] += 1
    print("### Labels dealt at random\n")
    kind_counts = ", ".join(f"{kind} {n}" for kind, n in kinds.most_common())
    print(f"{runs} panels (half with 12, half with 80 labelled documents): {kind_counts}.\n")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks/panels.py", description=__doc__)
    parser.add_argument("--deals", type=int, default=12, help="draws of documents and systems")
    parser.add_argument("--parts", type=int, default=2, help="of the systems, one new in a deal")
    parser.add_argument("--shared", type=Path, default=SHARED, help="labels and recordings")
    parser.add_argument("--quick", action="store_true", help="two deals, 16 shuffles")
    options = parser.parse_args(arguments)
    deals = 2 if options.quick else options.deals
    parts, start = options.parts, time.perf_counter()
    print(f"`python benchmarks/panels.py --deals {deals} --parts {parts}`\n")
    summaries = summeval(options.shared)
    panels = {
        name: {
            size: {dim: run(summaries[dim], members, size, deals, parts) for dim in SUMMEVAL}
            for size in (80, 12)
        }
        for name, members in PANELS.items()
    }
    report("SummEval: mean over four dimensions, new documents / new documents and systems", panels)
    documents = np.unique(summaries[SUMMEVAL[0]].document)
    shuffled_documents = np.random.default_rng(DEVELOPMENT_SEED).permutation(documents)
    report_other_half(panels, shuffled_documents[documents.size // 2 :].tolist())
    halo = {
        f"{model}'s four dimensions": {
            80: {
                dim: run(_with_halo(summaries, model, dim), _halo_names(dim), 80, deals, parts)
                for dim in SUMMEVAL
            }
        }
        for model in ("gpt-4", "gpt-4o-mini")
    }
    report("SummEval: one judge's four dimensions as members for each", halo)
    talk = topical_chat(options.shared)
    report(
        "Topical-Chat",
        {
            "two GPT-3.5 prompts + embedded": {
                size: {dim: run(talk[dim], TALK_MEMBERS, size, deals, parts) for dim in TALK}
                for size in (48, 12)
            }
        },
    )
    llmbar(options.shared, deals)
    shuffled(summaries, 16 if options.quick else 160)
    print(f"{time.perf_counter() - start:.0f} seconds.")
    return 0


def _halo_names(dimension: str) -> list[str]:
    return [dimension, *(other for other in SUMMEVAL if other != dimension)]


def _with_halo(judged: Mapping[str, Judged], model: str, dimension: str) -> Judged:
    """The dimension's labels with the model's scores on all four dimensions as members."""
    one = judged[dimension]
    scores = {other: judged[other].scores[model] for other in SUMMEVAL}
    return Judged(one.human, one.document, one.system, scores)


if __name__ == "__main__":
    sys.exit(main())
