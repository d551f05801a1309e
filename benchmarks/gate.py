"""What the gate ships: python benchmarks/gate.py [--simulations 2000] [--only TABLE].

Either half of the documents has a tuned judge of its own, as after a search on the other half. The
tables have equal judges, of which at most the risk may ship; judges that gain .05 or .10 rho, with
what `power` promises and what an oracle ships, whose critical value of the gain is the quantile of
simulated equal judges; and an untuned judge that is asked eight questions, whose worth labels
teach. Nothing is asked of a model. README.md explains each table.
"""

import argparse
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product
from typing import Any

import numpy as np
from numpy.random import Generator
from scipy.special import ndtri

from judges.catalog import find_subject
from judges.judgement import Judgement, Preference
from judges.prompt import A_OR_B, FieldValue
from judges.questions import Question
from optimize.items import Item, Items
from optimize.search.budget import SearchBudget
from optimize.search.evaluator import Evaluator, ItemJudgement
from optimize.search.gate import ShipDecision, decide, decide_by_gain
from optimize.search.optimizer import Exploration
from optimize.search.power import power
from optimize.search.problem import DEFAULT_RISK, Goal, SearchOptions, SearchProblem
from optimize.search.questions import QuestionsNotTestedError, ask_questions
from optimize.statistics.contrasts import contrast_judges
from optimize.statistics.correlations import Level, correlation

DOCUMENTS = (12, 30, 60, 240)
LABELLED = (12, 24, 40, 60, 120)
TIES = (0.3, 0.65, 0.9)
# Of labelled documents so many are train and dev.
DECIDING_SHARE = 0.75
# Outputs of the population in which judges are compared; at system level samples of documents.
SIZE, SAMPLES = 240_000, 400
NOISE = 1.3
LEVELS: tuple[tuple[Level, int], ...] = (
    ("summary", 4),
    ("summary", 16),
    ("dataset", 1),
    ("dataset", 4),
    ("dataset", 16),
    ("system", 16),
)
GAIN_LEVELS: tuple[tuple[Level, int], ...] = (
    ("summary", 4),
    ("summary", 8),
    ("dataset", 1),
    ("dataset", 4),
)
PASS_FAIL = ("pass", "fail")
# Labels by their kind: the goal, the outputs of a document, the answers of a judge, its scores by
# how good an output seems to it, and how many documents.
LABELS: dict[str, tuple[Goal, int, tuple[FieldValue, ...], Any, tuple[int, ...]]] = {
    "ratings": ("summary", 8, (1, 2, 3, 4, 5), lambda seen: 1 + rated(seen, 0.2), (12, 40, 120)),
    "pairs": ("dataset", 1, A_OR_B, np.sign, (120,)),
    "pass or fail": ("balanced", 1, PASS_FAIL, lambda seen: 1.0 * (seen > 0), (40, 120, 400)),
    "graded": ("balanced", 1, PASS_FAIL, lambda seen: rated(seen, 0.2) / 4, (40, 120, 400)),
}
ANSWERS = ("noise", "copies", "true")
N_QUESTIONS, N_TRUE = 8, 3
# The correlation of a true question before it is cut to two answers, which leaves about .3.
TRUE = 0.37
# The share of their highest rating (0: continuous scores), untuned and tuned, and documents lost.
JUDGES = {
    "fine": (0.0, 0.0, 0.0),
    "fine, lost": (0.0, 0.0, 0.08),
    "untuned coarse": (0.85, 0.2, 0.0),
    "tuned coarse": (0.2, 0.85, 0.0),
    "both coarse, lost": (0.85, 0.85, 0.08),
}


def rated(latent: np.ndarray, highest: float) -> np.ndarray:
    """Five ratings of standard normal numbers: a share is the highest, the others are alike."""
    if not highest:
        return latent
    return np.searchsorted(ndtri(np.linspace(0, 1 - highest, 5)[1:]), latent).astype(float)


@dataclass(frozen=True)
class World:
    """People's ratings and two judges' scores of (documents, outputs)."""

    level: Level
    outputs: int
    ties: float = 0.3
    judges: str = "fine"

    def people(self, rng: Generator, documents: int) -> tuple[np.ndarray, np.ndarray]:
        """How good the outputs are, with variance 1, and people's ratings."""
        shape, of_systems = (documents, self.outputs), 0.1 * (self.level == "system")
        truth = 0.3**0.5 * rng.normal(size=(documents, 1))
        truth = truth + of_systems**0.5 * rng.normal(size=self.outputs)
        truth = truth + (0.7 - of_systems) ** 0.5 * rng.normal(size=shape)
        return truth, rated((truth + 0.5 * rng.normal(size=shape)) / 1.25**0.5, self.ties)

    def scores(self, rng: Generator, truth: np.ndarray, tuned: int, noise: float) -> np.ndarray:
        """Scores of the tuned judge (1) or the untuned one (0)."""
        *highest, lost = JUDGES[self.judges]
        documents = (len(truth), 1)
        error = 0.8**0.5 * rng.normal(size=truth.shape) + 0.2**0.5 * rng.normal(size=documents)
        latent = (truth + noise * error) / (1 + noise**2) ** 0.5
        gone = rng.random(documents) < lost * tuned
        return rated(np.where(gone, rng.normal(size=truth.shape), latent), highest[tuned])

    @cache  # noqa: B019 - few worlds, for one run
    def noise(self, gain: float = 0.0, documents: int = 0) -> tuple[float, float]:
        """The noise of both judges at which the tuned one's rho is higher by so much.

        Both err alike in the population, so that its size matters less.
        """
        at_system = self.level == "system"
        size, samples = (documents // 2, SAMPLES) if at_system else (SIZE // self.outputs, 1)
        places = divmod(np.arange(size * self.outputs), self.outputs)
        people = np.random.default_rng(0)
        population = [self.people(people, size) for _ in range(samples)]

        def value(tuned: int, noise: float) -> float:
            rng = np.random.default_rng(1)
            rhos = []
            for truth, human in population:
                scores = self.scores(rng, truth, tuned, noise)
                rhos.append(correlation(self.level, scores.ravel(), human.ravel(), *places).value)
            # A sample in which all systems tie has no rho.
            return float(np.nanmean(rhos))

        # The finer judge can be as bad as the other, not the other way round.
        free = int(JUDGES[self.judges][0] >= JUDGES[self.judges][1])
        target = value(1 - free, NOISE) + (gain if free else -gain)
        low, high = 0.02, 8.0
        for _ in range(12):
            middle = (low + high) / 2
            low, high = (middle, high) if value(free, middle) > target else (low, middle)
        return (NOISE, (low + high) / 2) if free else ((low + high) / 2, NOISE)

    def choices(self, documents: int, simulations: int, gain: float = 0.0) -> list[ShipDecision]:
        """The gate's decisions on so many documents."""
        rng = np.random.default_rng([documents, self.outputs])
        noise, half = self.noise(gain, documents if self.level == "system" else 0), documents // 2
        decisions = []
        for _ in range(simulations):
            truth, people = self.people(rng, documents)
            drawn = [people, *(self.scores(rng, truth, each, noise[each]) for each in (0, 1))]
            contrasts = []
            for rows in (slice(0, half), slice(half, documents)):
                human, untuned, tuned = (side[rows].ravel() for side in drawn)
                places = divmod(np.arange(human.size), self.outputs)
                gap = contrast_judges(tuned, untuned, human, *places, level=self.level)
                contrasts.append([gap])
            decisions.append(decide_by_gain({"finalists": contrasts}, self.level, rng))
        return decisions


def shipped(choices: list[ShipDecision]) -> float:
    return float(np.mean([choice.ships for choice in choices]))


def values(choices: list[ShipDecision]) -> np.ndarray:
    return np.array([choice.gain.value for choice in choices])


def row_of_equal_judges(simulations: int, row: tuple[tuple[Level, int], str]) -> str:
    (level, outputs), judges = row
    worlds = [World(level, outputs, ties, judges) for ties in TIES]
    cells = [
        " ".join(f"{shipped(world.choices(n, simulations)):.3f}" for world in worlds)
        for n in DOCUMENTS
    ]
    return f"| {level} | {outputs} | {judges} | {' | '.join(cells)} |"


def row_of_gains(simulations: int, row: tuple[float, tuple[Level, int]]) -> str:
    gain, (level, outputs) = row
    world, cells = World(level, outputs), []
    for labelled in LABELLED:
        n = round(DECIDING_SHARE * labelled)
        equal, better = (world.choices(n, simulations, each) for each in (0, gain))
        oracle = np.mean(values(better) > np.nanquantile(values(equal), 1 - DEFAULT_RISK))
        promised = power(n, outputs - (level == "summary"), gain, DEFAULT_RISK)
        cells.append(f"{shipped(better):.2f} ({promised:.2f}, {oracle:.2f})")
    return f"| {gain:.2f} | {level} | {outputs} | {' | '.join(cells)} |"


def answered(rng: Generator, kind: str, own: np.ndarray, human: np.ndarray) -> np.ndarray:
    """Answers 0 and 1 of shape (orders, outputs, questions) beside the judge's own ratings."""
    latent = rng.normal(size=(*own.shape, N_QUESTIONS))
    standard = (own - own.mean()) / own.std()
    if kind == "copies":
        latent += standard[..., None]
    if kind == "true":
        rating, rest = standard.mean(axis=0), human - human.mean()
        rest -= (rest @ rating) / (rating @ rating) * rating
        share = TRUE / len(own) ** 0.5
        of_labels = share * (rest / rest.std())[:, None]
        latent[..., :N_TRUE] = of_labels + (1 - share**2) ** 0.5 * latent[..., :N_TRUE]
    return (latent > 0).astype(float)


def judged(rating: str, ab: dict[str, float], ba: dict[str, float] | None = None) -> ItemJudgement:
    """A judgement with these answers, or a preference with those of both orders."""
    if ba is None:
        return ItemJudgement(Judgement(score=ab[rating], answers=ab))
    preference = Preference.from_orders(ab[rating], -ba[rating])
    return ItemJudgement(replace(preference, answers_ab=ab, answers_ba=ba))


def with_questions(rng: Generator, labels: str, kind: str, documents: int) -> ShipDecision:
    """The gate's decision on a judge whose questions have answers of this kind."""
    goal, outputs, choices, scored, _ = LABELS[labels]
    pairs = choices == A_OR_B
    truth, human = (side.ravel() for side in World("dataset", outputs).people(rng, documents))
    if goal != "summary":
        human = np.where(human > 2, 1.0, -1.0 if pairs else 0.0)
    errors = NOISE * rng.normal(size=(1 + pairs, truth.size))
    own = scored((truth + errors) / (1 + NOISE**2) ** 0.5)
    answers = answered(rng, kind, own, human)
    if pairs:
        # In the second order the other output is the first.
        first = np.array([1, -1])[:, None]
        own, answers = first * own, first[..., None] * (2 * answers - 1)
    words: tuple[FieldValue, ...] = A_OR_B if pairs else ("yes", "no")
    names = [f"q{number}" for number in range(N_QUESTIONS)]
    questions = tuple(Question(name=each, text="is it so", answers=words).field for each in names)
    prompt = find_subject("relevance").prompt()
    rating = replace(prompt.answer_field, choices=choices)
    orders = [
        [dict(zip([*names, rating.name], row, strict=True)) for row in order]
        for order in np.concatenate([answers, own[..., None]], axis=2).tolist()
    ]
    judgements = [judged(rating.name, *sides) for sides in zip(*orders, strict=True)]
    rows = [
        Item(id=f"{n}", document_id=f"{n // outputs}", system=None, texts={}, human=value)
        for n, value in enumerate(human.tolist())
    ]
    half = documents // 2 * outputs
    problem = SearchProblem(
        evaluator=Evaluator(
            untuned_prompt=replace(prompt, fields=(*prompt.fields[:-1], rating)),
            judge_items=lambda prompt, items: [judgements[int(item.id)] for item in items],
            budget=SearchBudget(np.inf),
        ),
        questions=questions,
        train=Items(tuple(rows[:half])),
        dev=Items(tuple(rows[half:])),
        goal=goal,
        options=SearchOptions(seed=int(rng.integers(2**31)), risk=DEFAULT_RISK),
    )
    halves = (problem, replace(problem, train=problem.dev, dev=problem.train))
    nothing = Exploration(finalists=(), candidate_ids=())
    try:
        test = ask_questions(halves, [nothing, nothing])
    except QuestionsNotTestedError as error:
        return ShipDecision(ships=False, reason=str(error))
    return decide(problem, [], 1, question_test=test)[1]


def row_of_questions(simulations: int, row: tuple[str, int]) -> str:
    labels, documents = row
    cells = []
    for kind in ANSWERS:
        rng = np.random.default_rng([documents, ANSWERS.index(kind)])
        choices = [with_questions(rng, labels, kind, documents) for _ in range(simulations)]
        share, gain = shipped(choices), np.nan_to_num(values(choices)).mean()
        error = (share * (1 - share) / simulations) ** 0.5
        cells.append(f"{share:.3f} ± {error:.3f} ({gain:+.3f})")
    return f"| {labels} | {LABELS[labels][1]} | {documents} | {' | '.join(cells)} |"


# Of each table the columns, what writes a row, and its rows.
TABLES: tuple[tuple[list[str], Callable[..., str], list[Any]], ...] = (
    (
        ["equal judges, level", "outputs", "judges", *(f"{n} documents" for n in DOCUMENTS)],
        row_of_equal_judges,
        [*product(LEVELS, [*JUDGES][1:])],
    ),
    (
        ["gain", "level", "outputs", *(f"{n} labelled" for n in LABELLED)],
        row_of_gains,
        [*product((0.05, 0.1), GAIN_LEVELS)],
    ),
    (
        ["questions: labels", "outputs", "documents", *ANSWERS],
        row_of_questions,
        [(labels, n) for labels, (*_, sizes) in LABELS.items() for n in sizes],
    ),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulations", type=int, default=2000)
    parser.add_argument("--only", type=int, choices=range(1, 1 + len(TABLES)), help="one table")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    flags = parser.parse_args()
    with ProcessPoolExecutor(flags.processes) as pool:
        tables = TABLES[flags.only - 1 : flags.only] if flags.only else TABLES
        for number, (columns, write_row, rows) in enumerate(tables):
            heads = f"| {' | '.join(columns)} |\n" + "|---" * len(columns) + "|"
            print("\n" * (number > 0) + heads)
            for line in pool.map(partial(write_row, flags.simulations), rows):
                print(line, flush=True)


if __name__ == "__main__":
    main()
