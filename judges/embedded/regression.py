"""Predict a choice from facets, with weights that worked examples update (Bayesian regression)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from judges.embedded.facets import NAMES, Vector, emphases, facets_of
from judges.embedded.request import Demo, Roles, Task, read_roles
from judges.embedded.traits import KINDS, traits_of
from judges.prompt import MAX_DEMOS

# Sums are kept to so many decimals, finer than any score that was frozen was held to: the order in
# which a processor adds must not break a tie.
DECIMALS = 13
# An example is one text, or a first less a second.
SIGNS = np.array([1.0, -1.0])

# A latent 0 stands this far up the scale, since most outputs of today's systems are fair.
CENTRE = 0.6
STEEPNESS = 1.1
# The SD of a single rating, in steps of the scale: people differ by about one of five.
MIN_RATING_SD, RATING_SD_PER_STEP, MAX_RATING_SD = 0.45, 0.16, 4.0
# How sure a difference of one latent unit makes a choice between two.
SURENESS = 2.2
# A demo's choice between two says that the better is about this much better.
CHOICE_MARGIN = 0.8

# What lies farther out than so many spreads of the examples is far enough.
FARTHEST = 3.0
# The prior, in spreads of a rating's latent score around the best prediction of it. An emphasis may
# be off by a part of itself and a little besides, and all of them together by a common gain;
# documents differ, so examples that share their source share what people give its every text.
PRIOR_PART, PRIOR_MIN, PRIOR_GAIN, PRIOR_LEVEL, PRIOR_SOURCE = 0.8, 0.07, 1.0, 0.8, 0.6
# An emphasis keeps at least so much of its weight, whatever examples say: on texts unlike any shown
# it is all there is. Choices between two do not show by how much, so of them it may keep less.
MIN_GAIN, MIN_GAIN_OF_CHOICES = 0.7, 0.3
# How far examples may lead: how much texts similar in their traits are rated alike beyond all
# facets, and by how many of their spreads emphases may be off, most alike where texts are similar.
# What is learned is the mean over all these, each weighing as it would have predicted every
# document's ratings from the others', and less the farther it leads.
# Chosen on half of SummEval's documents, half of Topical-Chat's and the starter set, teaching by
# some documents and systems and measuring on others; nothing hangs on the exact figures.
OFFSETS, SHIFTS = (0.0, 0.4, 0.8, 1.2), (0.0, 0.5, 1.1)
CAUTION_OFFSETS, CAUTION_SHIFTS = 3.0, 1.0
# Of what similar texts have in common beyond all facets, so much is taken to be theirs. The rest is
# the hand that wrote them, which new texts need not share: chosen likewise, by systems never shown.
TEXTS_SHARE = 0.4
# What remains is expected to be about so much, as sure as so many examples would make it.
NOISE, NOISE_EXAMPLES = 0.9, 8


@dataclass(frozen=True, slots=True)
class Prediction:
    """Probabilities of the choices, the latent score behind them, and each facet's contribution."""

    probabilities: tuple[float, ...]
    latent: float
    contributions: Vector


@dataclass(frozen=True, slots=True)
class Scorer:
    """One task made ready for any texts; `similarity` is to the texts of the demos, if any."""

    task: Task
    roles: Roles
    posterior: "Posterior"
    similarity: "Similarity | None" = None

    @property
    def weights(self) -> Vector:
        """The weight of each facet, for a text that is like none of the demos."""
        return self.posterior.weights

    def predict(self, texts: Mapping[str, str]) -> Prediction:
        """Judge one text, or two against each other."""
        facets = _facets(self.roles, texts)
        offsets, weights = np.zeros(len(facets)), np.tile(self.weights, (len(facets), 1))
        if self.similarity is not None:
            similarity = self.similarity.to(_traits(self.roles, texts))
            offsets = similarity @ self.posterior.offsets
            weights = weights + similarity @ self.posterior.shifts
        signs = SIGNS[: len(facets)]
        contributions = np.round(signs @ (weights * facets), DECIMALS)
        latent = float(contributions.sum() + signs @ offsets) + self.posterior.level
        latent = round(latent, DECIMALS)
        if not self.task.compares:
            return Prediction(_probabilities(latent, len(self.task.choices)), latent, contributions)
        first = float(1 / (1 + np.exp(-SURENESS * latent)))
        return Prediction((first, 1 - first), latent, contributions)


def make_scorer(task: Task, demos: Sequence[Demo]) -> Scorer:
    """Read roles and emphases off a task that has a choice, and update them by its demos."""
    assert task.choice is not None
    compares, prior = task.compares, emphases(task)
    roles = read_roles(task.inputs, compares=compares)
    choices = [str(choice) for choice in task.choices]
    answers = [(demo, str(demo.get(task.choice.name, "")).strip()) for demo in demos]
    examples = [(demo, choices.index(answer)) for demo, answer in answers if answer in choices]
    if not examples or not roles.candidates:
        return Scorer(task, roles, Posterior(prior, 0.0, np.zeros(0), np.zeros((0, len(prior)))))
    if len(examples) > MAX_DEMOS:
        # Learning takes the cube of their number: some, taken evenly.
        examples = [examples[n * len(examples) // MAX_DEMOS] for n in range(MAX_DEMOS)]
    measured = [(_facets(roles, demo), _traits(roles, demo)) for demo, _ in examples]
    texts_traits = np.concatenate([traits for _, traits in measured])
    similarity = fit_similarity(texts_traits)
    shared = [field.name for field in task.inputs if field.name not in roles.candidates]
    sources = [
        tuple(demo.get(name, "") for name in shared) if shared else index
        for index, (demo, _) in enumerate(examples)
    ]
    posterior = update(
        prior,
        np.array([facets for facets, _ in measured]),
        np.array([_latent(chosen, len(choices), compares=compares) for _, chosen in examples]),
        sources,
        similarity.to(texts_traits),
    )
    return Scorer(task, roles, posterior, similarity)


def _facets(roles: Roles, texts: Mapping[str, str]) -> Vector:
    """The facets of the judged texts, a row for each; where none is judged, one of zeros."""
    rows = [facets_of(roles, texts, name) for name in roles.candidates]
    return np.array(rows or [np.zeros(len(NAMES))])


def _traits(roles: Roles, texts: Mapping[str, str]) -> Vector:
    """The traits of the judged texts, a row for each."""
    return np.array([traits_of(roles, texts, name) for name in roles.candidates])


def _latent(chosen: int, n: int, *, compares: bool) -> float:
    """The latent score that a choice among n shows; the ends of a scale are drawn in a little."""
    if compares:
        return -CHOICE_MARGIN if chosen else CHOICE_MARGIN
    return (_logit((chosen + 0.5) / n) - _logit(CENTRE)) / STEEPNESS


def _probabilities(latent: float, n: int) -> tuple[float, ...]:
    """The probability of each of n ratings, worst first: a normal cut into steps."""
    mean = 1 / (1 + math.exp(-_logit(CENTRE) - STEEPNESS * latent)) * n - 0.5
    sd = max(MIN_RATING_SD, min(MAX_RATING_SD, RATING_SD_PER_STEP * n))
    logs = [-0.5 * ((step - mean) / sd) ** 2 for step in range(n)]
    largest = max(logs)
    weights = [math.exp(max(-60.0, log - largest)) for log in logs]
    total = math.fsum(weights)
    return tuple(weight / total for weight in weights)


def _logit(share: float) -> float:
    return math.log(share / (1 - share))


@dataclass(frozen=True, slots=True)
class Similarity:
    """How similar texts are to those of examples, which are points in a space of traits.

    The space has one part for each kind of trait. In each part similarity falls with distance as a
    normal density does, and the parts count alike: a text like none of the examples is left to what
    was known before. `traits` are those in which the examples differ, with their `mean` and
    `sd`; `starts` and `sizes` are the parts'; `examples` are the points.
    """

    traits: NDArray[np.intp]
    mean: Vector
    sd: Vector
    starts: NDArray[np.intp]
    sizes: Vector
    examples: Vector

    def to(self, traits: Vector) -> Vector:
        """The similarity of n texts, whose traits are (n, all), to each example, in [0, 1]."""
        if not len(self.starts):
            return np.zeros((len(traits), len(self.examples)))
        rows = []
        for point in _points(traits[:, self.traits], self.mean, self.sd):
            squares = (self.examples - point) ** 2
            distances = np.add.reduceat(squares, self.starts, axis=1) / self.sizes
            rows.append(np.exp(-0.5 * distances).mean(axis=1))
        return np.array(rows)


def fit_similarity(traits: Vector) -> Similarity:
    """The space of the examples' traits, (n, all); one in which they agree has no part."""
    mean, sd = traits.mean(axis=0), traits.std(axis=0)
    varied = np.flatnonzero(sd > 1e-9 * (1 + np.abs(mean)))
    kind = np.repeat(np.arange(len(KINDS)), list(KINDS.values()))[varied]
    starts = np.flatnonzero(np.diff(kind, prepend=-1))
    sizes = np.diff(np.append(starts, len(kind))).astype(np.float64)
    mean, sd = mean[varied], sd[varied]
    return Similarity(varied, mean, sd, starts, sizes, _points(traits[:, varied], mean, sd))


def _points(traits: Vector, mean: Vector, sd: Vector) -> Vector:
    return np.clip((traits - mean) / sd, -FARTHEST, FARTHEST)


@dataclass(frozen=True, slots=True)
class Posterior:
    """What examples leave of the emphases: weights of the facets, a level, and what is local.

    `offsets` (texts,) and `shifts` (texts, facets) belong to the examples' texts, in their order: a
    new text's similarity to them, times `offsets`, is added to its score, and times `shifts` to its
    weights.
    """

    weights: Vector
    level: float
    offsets: Vector
    shifts: Vector


def update(
    prior: Vector,
    facets: Vector,
    ratings: Vector,
    sources: Sequence[object],
    similarity: Vector,
) -> Posterior:
    """The most probable weights and level given n examples, and what goes beyond them.

    `facets` is (n, texts of an example, facets), one text each or two that are compared; `ratings`
    (n,) is in latent units; equal `sources` (n,) mark single texts that share a source;
    `similarity`, square, is between the examples' texts.
    """
    n, n_texts, n_facets = facets.shape
    compares = n_texts > 1
    signs = SIGNS[:n_texts]
    differences = signs @ facets
    variances = (PRIOR_PART * np.abs(prior) + PRIOR_MIN) ** 2
    common = differences @ prior
    residuals = ratings - common
    # Between two texts there is no level, and what their source adds to both is lost.
    level_variance = 0.0 if compares else PRIOR_LEVEL**2
    blocks = _examples_by_source(range(n) if compares else sources)
    # The posterior through the examples' covariance, since they are few.
    fixed = np.eye(n) + level_variance + PRIOR_GAIN**2 * np.outer(common, common)
    for block in () if compares else blocks:
        fixed[np.ix_(block, block)] += PRIOR_SOURCE**2
    texts = facets.reshape(-1, n_facets)
    by_shifts = _between_examples((texts * variances) @ texts.T * similarity, signs)
    by_offsets = _between_examples(similarity, signs)
    scales = list(product(OFFSETS, SHIFTS))
    solutions, evidence = [], []
    for offset, shift in scales:
        covariance = fixed + offset**2 * by_offsets + shift**2 * by_shifts
        precision: Vector = np.asarray(np.linalg.inv(covariance), dtype=np.float64)
        solutions.append(precision @ residuals)
        caution = CAUTION_OFFSETS * offset**2 + CAUTION_SHIFTS * shift**2
        evidence.append(_held_out_likelihood(precision, solutions[-1], blocks) - caution)
    shares = np.exp(np.array(evidence) - max(evidence))
    shares /= shares.sum()
    min_gain = MIN_GAIN_OF_CHOICES if compares else MIN_GAIN
    gain = shares @ np.clip(PRIOR_GAIN**2 * (np.array(solutions) @ common), min_gain - 1, 0.0)
    offsets, shifts = np.square(scales).T * shares @ np.array(solutions)
    return Posterior(
        np.asarray((1 + gain) * prior),
        level_variance * float((shares @ np.array(solutions)).sum()),
        TEXTS_SHARE * np.outer(offsets, signs).ravel(),
        np.outer(shifts, signs).reshape(-1, 1) * texts * variances,
    )


def _between_examples(texts: Vector, signs: Vector) -> Vector:
    """The examples' covariance from their texts': of pairs, their differences'."""
    n = len(texts) // len(signs)
    rows = texts.reshape(n, len(signs), n, len(signs))
    return np.asarray(np.einsum("isjt,s,t->ij", rows, signs, signs))


def _examples_by_source(sources: Sequence[object]) -> list[NDArray[np.intp]]:
    """The indices of the examples of each source, an array a source."""
    blocks: dict[object, list[int]] = {}
    for index, source in enumerate(sources):
        blocks.setdefault(source, []).append(index)
    return [np.array(block) for block in blocks.values()]


def _held_out_likelihood(
    precision: Vector, solution: Vector, blocks: Sequence[NDArray[np.intp]]
) -> float:
    """The log-likelihood of each block's ratings given the others', but for a constant.

    Where all examples share a source, each is predicted from the rest.
    """
    n = len(solution)
    if len(blocks) == 1:
        errors = solution / np.diag(precision)
    else:
        errors = np.concatenate(
            [np.linalg.solve(precision[np.ix_(rows, rows)], solution[rows]) for rows in blocks]
        )
    variance = (errors @ errors + NOISE_EXAMPLES * NOISE**2) / (n + NOISE_EXAMPLES)
    return -n / 2 * float(np.log(variance))
