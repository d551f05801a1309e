"""Does racing find the best of GPT-3.5's recorded prompts? python benchmarks/race.py [--runs 20].

Five prompts of a real language model, its replies recorded on 1,200 SummEval outputs. Each run
deals the 100 documents by its seed into one half to race on and one to hold out, takes one prompt
for the incumbent and races the other four against it (optimize/search/race.py, summary-level) with
at most half the calls of judging all five on the race's half. Prints a section of
benchmarks/README.md.
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
from judges.prompt import Prompt
from judges.replies.recorded import judgement, read_replies
from optimize.search.bench import Bench, Budget, Scored
from optimize.search.candidates import Candidate, Instruction
from optimize.search.chance import stream
from optimize.search.items import Item, Items
from optimize.search.objective import objective
from optimize.search.race import Track, race, rungs

SHARED = Path(__file__).parents[2] / "shared" / "data"
LABELS = SHARED / "summeval" / "summeval.jsonl"
REPLIES = SHARED / "summeval_judges" / "replies_gpt-3.5-turbo-0301.jsonl"
PROMPTS = ("rts", "mcq", "stareval", "altrts", "altmcq")
DIMENSIONS = ("coherence", "consistency", "fluency", "relevance")
LETTERS = {"A": 1, "B": 2, "C": 3, "D": 4, "E": 5}
NEAR = 0.01
MOST_CALLS = 0.5

Scores = Mapping[str, Mapping[str, float]]  # prompt -> item -> score


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One run: each way of choosing, with rho of its choice on the held-out half."""

    best: float
    raced: float
    everything: float
    whole: float
    same: bool
    share: float


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
        said = judgement(one.replies[-1:], range(1, 6), letters=letters)
        scores[one.prompt][name] = said.score
        items[name] = Item(
            id=name,
            document_id=f"{row['group']} {one.dimension}",
            system=row["system"],
            texts={},
            human=row["ratings"][one.dimension],
        )
    return Items(tuple(items[name] for name in sorted(items))), scores


def bench_of(scores: Scores, incumbent: Candidate) -> Bench:
    """A bench whose judge is the recording: a candidate's instruction names the prompt."""

    def judge(prompt: Prompt, items: Sequence[Item]) -> Iterable[Scored]:
        return [Scored(score=scores[prompt.instruction][item.id]) for item in items]

    seed = replace(Judge.of(find("coherence")).prompt, instruction=incumbent.instruction.text)
    return Bench(seed=seed, judge=judge, calls_per_item=1, budget=Budget(sys.maxsize))


def run(everything: Items, scores: Scores, dimensions: Sequence[str], seed: int) -> Outcome:
    """Deal the documents, race, and look at the held-out half."""
    documents = sorted({name.rpartition(" ")[0] for name in everything.documents})
    stream(seed, "race").shuffle(documents)
    half = len(documents) // 2
    order, held = (
        tuple(f"{name} {dimension}" for name in part for dimension in dimensions)
        for part in (documents[:half], documents[half:])
    )
    learn, test = everything.of_documents(order), everything.of_documents(held)
    candidates = [Candidate(instruction=Instruction(text=name)) for name in PROMPTS]
    incumbent = candidates.pop(seed % len(candidates))
    bench = bench_of(scores, incumbent)
    track = Track(
        items=learn, order=order, rungs=rungs(len(order)), level="summary", seed=incumbent
    )
    whole = len(PROMPTS) * len(learn)
    bench.budget = Budget(int(MOST_CALLS * whole))
    standings = race(bench, track, candidates, lambda: bench.budget.left, lambda *_: None)
    share = bench.budget.spent / whole
    first = standings[0]
    picked = first.candidate if first.gain > 0 else incumbent
    bench.budget = Budget(sys.maxsize)
    both = everything.of_documents({*order, *held})
    told = {
        one: [objective(bench.scores(one, part), part, "summary") for part in (learn, test, both)]
        for one in (incumbent, *candidates)
    }
    chosen = max(told, key=lambda one: told[one][0])
    return Outcome(
        best=max(values[1] for values in told.values()),
        raced=told[picked][1],
        everything=told[chosen][1],
        whole=told[max(told, key=lambda one: told[one][2])][1],
        same=picked == chosen,
        share=share,
    )


def page(found: Mapping[str, Sequence[Outcome]], seconds: float) -> str:
    """The section of the README."""
    number = len(next(iter(found.values())))
    lines = [
        "## Racing recorded prompts\n",
        f"`python benchmarks/race.py`: {seconds:.0f} s.\n",
        (__doc__ or "").partition("\n\n")[2].strip() + "\n",
        f"Runs of {number} whose choice is within {NEAR} rho of the best prompt on the held-out "
        "half, chosen by the race, by judging everything on the race's half, or by judging both "
        "halves (which nobody can: what is left is the noise of 50 held-out documents). Then: "
        f"runs in which the race's choice is within {NEAR} on the held-out half of what judging "
        "everything chooses, or better; mean rho lost to the best; the race's share of the calls "
        "of judging everything on its half, on average and at most.\n",
        "| prompts for | race | judged all | both halves | race vs judged all | same choice "
        "| lost: race | judged all | calls | at most |",
        "|---" * 10 + "|",
    ]
    for name, runs in found.items():
        cells = [
            name,
            *(_near([getattr(one, way) for one in runs], runs, "best") for way in WAYS),
            _near([one.raced for one in runs], runs, "everything"),
            str(sum(one.same for one in runs)),
            *(f"{np.mean([one.best - getattr(one, way) for one in runs]):.3f}" for way in WAYS[:2]),
            f"{np.mean([one.share for one in runs]):.0%}",
            f"{max(one.share for one in runs):.0%}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


WAYS = ("raced", "everything", "whole")


def _near(values: Sequence[float], runs: Sequence[Outcome], what: str) -> str:
    near = sum(value >= getattr(one, what) - NEAR for value, one in zip(values, runs, strict=True))
    return str(near)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=20, help="seeded runs for each row (20)")
    runs = parser.parse_args().runs
    if not REPLIES.exists():
        sys.exit(f"the recordings are not at {SHARED}")
    began = time.perf_counter()
    items, scores = recorded()
    found = {}
    for name, dimensions in {**{one: (one,) for one in DIMENSIONS}, "all four": DIMENSIONS}.items():
        found[name] = [run(items, scores, dimensions, seed) for seed in range(runs)]
    print(page(found, time.perf_counter() - began))


if __name__ == "__main__":
    main()
