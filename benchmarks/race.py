"""Does racing find the best of GPT-3.5's recorded prompts? python benchmarks/race.py [--runs 20].

Five prompts of a real language model, its replies recorded on 1,200 SummEval outputs. Each run
deals the 100 documents by its seed into one half to race on and one to hold out, takes one prompt
for the incumbent and races the other four against it (optimize/search/race.py) with a share of the
calls that judging all five on the race's half takes. Prints a section of benchmarks/README.md.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from judges.catalog import find
from judges.judge import Judge
from judges.parsing.recorded import judgement, read_replies
from judges.prompt import Prompt
from optimize.items import Item, Items
from optimize.search.candidates import Candidate
from optimize.search.evaluator import Evaluator, ItemScore, SearchBudget
from optimize.search.objective import Level, objective
from optimize.search.race import Race
from optimize.statistics.bootstrap import stream

SHARED = Path(__file__).parents[2] / "shared" / "data"
LABELS = SHARED / "summeval" / "summeval.jsonl"
REPLIES = SHARED / "summeval_judges" / "replies_gpt-3.5-turbo-0301.jsonl"
PROMPTS = ("rts", "mcq", "stareval", "altrts", "altmcq")
DIMENSIONS = ("coherence", "consistency", "fluency", "relevance")
ROWS: Mapping[Level, Mapping[str, Sequence[str]]] = {
    # At summary level, one prompt may be chosen for all dimensions: rho is within documents.
    "summary": {**{one: (one,) for one in DIMENSIONS}, "all four": DIMENSIONS},
    "dataset": {one: (one,) for one in DIMENSIONS},
}
LETTERS = {"A": 1, "B": 2, "C": 3, "D": 4, "E": 5}
NEAR = 0.01
# Of the calls that all five prompts on the race's half take; the first is the one that matters.
SHARES = (0.5, 0.7, 0.85)

Scores = Mapping[str, Mapping[str, float]]  # prompt -> item -> score


@dataclass(frozen=True, slots=True, kw_only=True)
class Raced:
    """What one race chose: its rho on the held-out half, and its share of the calls."""

    rho: float
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One run: each prompt's rho on the held-out half, and what each way of choosing reaches.

    `everything` judged all five prompts on the race's half, `whole` on the held-out half as well.
    """

    held: Mapping[str, float]
    everything: float
    whole: float
    races: tuple[Raced, ...]

    @property
    def best(self) -> float:
        """The best prompt's rho on the held-out half."""
        return max(self.held.values())


def recorded() -> tuple[Items, Scores]:
    """The outputs of every dimension, each dimension of a document a document of its own."""
    labels = {row["id"]: row for row in map(json.loads, LABELS.open(encoding="utf-8"))}
    scores: dict[str, dict[str, float]] = {name: {} for name in PROMPTS}
    items: dict[str, Item] = {}
    for one in read_replies(REPLIES):
        assert one.prompt is not None
        assert one.dimension is not None
        letters = LETTERS if "mcq" in one.prompt else None
        row, name = labels[one.id], f"{one.id} {one.dimension}"
        # A few outputs were judged twice; as where the replies come from, the last counts.
        verdict = judgement(one.replies[-1:], range(1, 6), letters=letters)
        scores[one.prompt][name] = verdict.score
        items[name] = Item(
            id=name,
            document_id=f"{row['group']} {one.dimension}",
            system=row["system"],
            texts={},
            human=row["ratings"][one.dimension],
        )
    return Items(tuple(items[name] for name in sorted(items))), scores


def bench_of(scores: Scores, incumbent: Candidate, calls: int = sys.maxsize) -> Evaluator:
    """A bench whose judge is the recording: a candidate's instruction names the prompt."""

    def judge(prompt: Prompt, items: Sequence[Item]) -> Iterable[ItemScore]:
        return [ItemScore(score=scores[prompt.instruction][item.id]) for item in items]

    seed = replace(Judge.of(find("coherence")).prompt, instruction=incumbent.instruction)
    return Evaluator(seed=seed, judge=judge, calls_per_item=1, budget=SearchBudget(calls))


def run(
    everything: Items,
    scores: Scores,
    dimensions: Sequence[str],
    seed: int,
    *,
    level: Level = "summary",
    shares: Sequence[float] = SHARES,
) -> Outcome:
    """Deal the documents, race, and look at the held-out half."""
    documents = sorted({name.rpartition(" ")[0] for name in everything.documents})
    stream(seed, "race").shuffle(documents)
    half = len(documents) // 2
    order, held = (
        tuple(f"{name} {dimension}" for name in part for dimension in dimensions)
        for part in (documents[:half], documents[half:])
    )
    learn, test = everything.of_documents(order), everything.of_documents(held)
    candidates = [Candidate(instruction=name) for name in scores]
    incumbent = candidates.pop(seed % len(candidates))
    everyone = (incumbent, *candidates)
    judged = bench_of(scores, incumbent)
    both = everything.of_documents({*order, *held})
    rhos = {
        one: [objective(judged.scores(one, part), part, level) for part in (learn, test, both)]
        for one in everyone
    }
    chosen, whole = (max(rhos, key=lambda one: rhos[one][place]) for place in (0, 2))
    races = []
    for share in shares:
        evaluator = bench_of(scores, incumbent, int(share * len(everyone) * len(learn)))
        race = Race(evaluator=evaluator, items=learn, order=order, level=level, seed=incumbent)
        race_results = race.run(candidates, evaluator.budget.left)
        first = race_results[0]
        winner = first.candidate if first.gain > 0 else incumbent
        spent = evaluator.budget.spent / (len(everyone) * len(learn))
        races.append(Raced(rho=rhos[winner][1], share=spent))
    return Outcome(
        held={one.instruction: values[1] for one, values in rhos.items()},
        everything=rhos[chosen][1],
        whole=rhos[whole][1],
        races=tuple(races),
    )


def page(outcomes: Mapping[str, Sequence[Outcome]], seconds: float) -> str:
    """The section of the README."""
    number = len(next(iter(outcomes.values())))
    shares = [f"{share:.0%}" for share in SHARES]
    heads = [
        "prompts for",
        *(f"near the best: race, {share}" for share in shares[:2]),
        "judged all",
        "both halves",
        "one prompt",
        *(f"near judging everything: race, {share}" for share in shares),
        f"lost: race, {shares[0]}",
        "judged all",
        "calls at most",
    ]
    lines = [
        "## Racing recorded prompts\n",
        f"`python benchmarks/race.py`: {seconds:.0f} s.\n",
        (__doc__ or "").partition("\n\n")[2].strip() + "\n",
        f"*Near the best*: in how many of {number} runs the choice is within {NEAR} rho of the "
        "best of the five on the held-out half, where the choice was made by the race with that "
        "share of the calls, by judging everything on the race's half, by judging both halves, "
        "held-out documents included, or by taking that one prompt in all runs which is near the "
        "best in most of them. Nobody can do the last two: what they miss is noise of the held-out "
        "half, on which the five lie too near each other. *Near judging everything*: runs in which "
        f"the race's choice is within {NEAR} on the held-out half of what judging everything on "
        "the race's half chooses, or "
        "better. *Lost*: mean rho of the best on the held-out half less the choice's. Calls are a "
        "share of judging all five prompts on the race's half; of judging them on all 100 "
        "documents, held-out half included, they are half as large a share.\n",
        f"| {' | '.join(heads)} |",
        "|---" * len(heads) + "|",
    ]
    for name, runs in outcomes.items():
        best, everything = [one.best for one in runs], [one.everything for one in runs]
        raced = [[one.races[place].rho for one in runs] for place in range(len(SHARES))]
        cells = [
            name,
            *(_near(values, best) for values in raced[:2]),
            _near(everything, best),
            _near([one.whole for one in runs], best),
            max(
                (_near([one.held[prompt] for one in runs], best) for prompt in runs[0].held),
                key=int,
            ),
            *(_near(values, everything) for values in raced),
            f"{np.mean(best) - np.mean(raced[0]):.3f}",
            f"{np.mean(best) - np.mean(everything):.3f}",
            ", ".join(
                f"{max(one.races[place].share for one in runs):.0%}" for place in range(len(SHARES))
            ),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _near(values: Sequence[float], targets: Sequence[float]) -> str:
    return str(sum(value >= target - NEAR for value, target in zip(values, targets, strict=True)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=20, help="seeded runs for each row (20)")
    runs = parser.parse_args().runs
    if not REPLIES.exists():
        sys.exit(f"the recordings are not at {SHARED}")
    began = time.perf_counter()
    items, scores = recorded()
    outcomes = {
        f"{name}, {level}-level": [
            run(items, scores, dimensions, seed, level=level) for seed in range(runs)
        ]
        for level, rows in ROWS.items()
        for name, dimensions in rows.items()
    }
    print(page(outcomes, time.perf_counter() - began))


if __name__ == "__main__":
    main()
