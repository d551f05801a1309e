"""How often 95 % intervals hold the truth: python benchmarks/coverage.py [--simulations 1000].

`--only estimates` prints what `estimate` gives and `plan` promises, `--only floors` how often an
equally good judge passes, on as many new labels, the floors that `verify` offers for it.
`--only systems` prints differences of systems, means of the given outputs, and how many pairs of
SummEval's systems they tell apart (where the folder `shared/data` is beside the project). `--only
looks` prints how often a judge at its floor passes `verify --looks N` in any of N looks, and a
better one.

Every simulation draws documents anew (at system level systems, too): clustered, tied, three
annotators, 5 % failed judgements. The truth is the figure on very many. Printed is the share of
intervals that hold the truth, of those that are not withheld: * is outside 93-97 %, "none" where
more than nine of ten are withheld. Behind a figure without weights is its bias.
"""

import argparse
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from panels import SHARED, labelled
from swaps import draws

from judges.true_rate import corrected_rate, errors_by_document
from optimize.measuring.floors import floor_flags
from optimize.measuring.recorded import read_scores
from optimize.statistics.corrected import (
    Estimate,
    estimate_mean,
    labels_needed,
    system_differences,
)
from optimize.statistics.correlations import Level, contrast_judges, correlation, system_level
from optimize.statistics.floor import deciding_interval
from optimize.statistics.human import one_annotator
from optimize.statistics.intervals import Interval, Matrix, Vector
from optimize.statistics.plain import (
    compare_scales,
    contrast_accuracy,
    order_agreement,
    pair_accuracy,
)
from optimize.statistics.two_values import two_values

Figures = Mapping[str, tuple[float, Interval | None]]
Cuts = tuple[float, ...]
# Where the ratings of a scale begin, of a quality that is about normal.
EVEN, MOSTLY_5 = (-1.3, -0.5, 0.5, 1.3), (-2.2, -1.9, -1.5, -0.8)
HALF, MOST, NEARLY_ALL = (0.0,), (-1.28,), (-1.88,)
FOUR_OF_FIVE, MOST_PASS = (-0.87,), (-1.69,)
# Looks at labels that grow by equal factors; of fewer looks every second one, and so on.
LOOKS = (1, 2, 4, 8)
SIZES: list[int] = np.geomspace(40, 400, 8).round().astype(int).tolist()
# So many outputs without labels have a true rate to be found.
NEW_OUTPUTS = 1000


# Judges a and b, what each annotator gave and their mean, document and system.
Rows = tuple[Vector, Vector, Matrix, Vector, Vector, Vector]


def draw(
    rng: np.random.Generator, cuts: Cuts, documents: int, outputs: int, spread: float = 0.0
) -> Rows:
    """So many outputs of each document, each by another system; `spread` is that of systems."""
    document, system = np.repeat(np.arange(documents), outputs), np.tile(range(outputs), documents)
    n = document.size
    better, favoured = spread * rng.normal(size=(2, outputs))[:, system]
    level, taste = 0.5 * rng.normal(size=(2, documents))[:, document]
    quality = better + level + 0.75 * rng.normal(size=n)

    def rated(noise: float, shift: Vector | float = 0.0) -> Vector:
        return 1.0 + np.searchsorted(cuts, quality + shift + noise * rng.normal(size=n))

    a, b = rated(0.4, taste + favoured / 2), rated(1.0, 0.2)
    ratings = np.stack([rated(0.5) for _ in range(3)], axis=1)
    for judge in (a, b):
        judge[rng.random(n) < 0.05] = np.nan
    return a, b, ratings, ratings.mean(axis=1).round(9), document, system


def over_documents(cuts: Cuts, outputs: int, rng: np.random.Generator, n: int) -> Figures:
    """Every figure of `n` documents that has an interval."""
    a, b, ratings, human, document, _ = draw(rng, cuts, n, outputs)
    found: dict[str, Any] = {}
    levels: tuple[Level, ...] = ("summary", "dataset")
    for level in levels if outputs > 1 else levels[1:]:
        for name, judge in (("a", a), ("b", b)):
            found[f"{level} rho of {name}"] = correlation(level, judge, human, document)
        gap = contrast_judges(a, b, human, document, level=level)
        found[f"{level} rho, a less b"] = gap
        found[f"{level} pairs ordered alike"] = order_agreement(a, human, document, level=level)
        people = one_annotator(a, ratings, document, level=level)
        if people:
            found[f"{level} one annotator"] = people.annotator
            found[f"{level} judge less annotator"] = people.gap
    shift = compare_scales(a, human, document)
    if shift:
        found["mean less people's"] = shift.shift, shift.shift_interval
    return read(found)


def of_pairs(cuts: Cuts, rng: np.random.Generator, n: int) -> Figures:
    """Accuracy on three pairs of each document."""
    a, b, _, human, document, _ = draw(rng, cuts, n, 6)
    a, b, human = (side[::2] - side[1::2] for side in (a, b, human))
    document = document[::2]
    gap = contrast_accuracy(a, b, human, document)
    return read({"accuracy": pair_accuracy(a, human, document), "accuracy, a less b": gap})


def over_systems(documents: int, rng: np.random.Generator, n: int) -> Figures:
    """Figures of `n` systems."""
    a, b, _, human, document, system = draw(rng, EVEN, documents, n, spread=0.4)
    gap = contrast_judges(a, b, human, document, system, level="system")
    return read({"rho of a": system_level(a, human, system, document), "rho, a less b": gap})


def corrected(cuts: Cuts, outputs: int, rng: np.random.Generator, n: int) -> Figures:
    """Means where `n` of 300 documents, or of all where there are more, are labelled."""
    documents = max(n, 300)
    a, _, ratings, _, document, _ = draw(rng, cuts, documents, outputs)
    labelled = np.isin(document, rng.choice(documents, n, replace=False))
    human = np.where(labelled, ratings[:, 0], np.nan)
    mean = estimate_mean(human, a, document, bounds=(1.0, 1.0 + len(cuts)))
    alone = mean.labels_only
    return read({"corrected mean": mean, "labels alone": alone})


def estimated(
    shares: tuple[float, ...], errors: float, rng: np.random.Generator, n: int
) -> Figures:
    """The mean of 2,000 outputs of which `n` are labelled, and as many as `plan` then asks for.

    `shares` are those of labels from 0 on. The judge's errors are one label lower.
    """
    top, outputs = len(shares) - 1, max(n, 2000)
    people = rng.choice(len(shares), outputs, p=shares).astype(float)
    wrong = rng.random(outputs) < errors
    scores = np.where(wrong, np.abs(people - 1), people)

    def labelled(number: int) -> Estimate:
        some = np.where(np.arange(outputs) < number, people, np.nan)
        return estimate_mean(some, scores, bounds=(0, top))

    first = labelled(n)
    planned = labelled(max(n, labels_needed(first, 0.1 * top) or outputs))
    alone = first.labels_only
    return read({"estimate": first, "labels alone": alone, "as planned": planned})


def of_systems(cuts: Cuts, outputs: int, rng: np.random.Generator, n: int) -> Figures:
    """System b less a, and means of the given outputs (less their truth); `n` of 120 labelled.

    Either system gives so many outputs of a document. Those of a are the worse of two.
    """
    documents = max(n, 120)
    _, b, ratings, _, document, _ = draw(rng, cuts, documents, 3 * outputs)
    triples = np.stack([b, ratings[:, 0]]).reshape(2, -1, 3)
    two = np.stack([triples[:, :, 1:].min(axis=2), triples[:, :, 0]], axis=2).reshape(2, -1)
    scores, human, document = *two, np.repeat(document[::3], 2)
    system, weight = np.tile(["a", "b"], document.size // 2), np.ones(document.size)
    some = np.where(np.isin(document, rng.choice(documents, n, replace=False)), human, np.nan)
    how: dict[str, Any] = {"bounds": (1.0, 1.0 + len(cuts))}
    (gap,) = system_differences("ba", some, scores, document, system, weight=weight, **how)
    all_known = system_differences("ba", human, scores, document, system, weight=weight, **how)
    mean, truth = estimate_mean(some, scores, document, **how), human[~np.isnan(scores)].mean()

    def of_given(estimate: Estimate, truth: float) -> tuple[float, Interval | None]:
        ends = estimate.given_interval
        return estimate.value - truth, ends and Interval(ends.low - truth, ends.high - truth)

    return read(
        {
            "b less a, of outputs like these": gap.estimate,
            "b less a, of the given ones": of_given(gap.estimate, all_known[0].estimate.value),
            "mean of the given ones": of_given(mean, truth),
        }
    )


def print_told_apart(draws: int) -> None:
    """Print the shares of pairs of SummEval's systems told apart on 40 of 100 documents."""
    rows = labelled(SHARED / "summeval" / "summeval.jsonl", "relevance")
    document, system = rows["group"].to_numpy(), rows["system"].to_numpy()
    human, weight, names = rows["human"].to_numpy(), np.ones(len(rows)), np.unique(system)
    truth = {name: human[system == name].mean() for name in names}
    for model in ("gpt-4o-mini", "llama-3.1", "mistral-7b-v0.3"):
        path = SHARED / "summeval_scores" / f"scores_{model}.jsonl"
        scores = rows["id"].map(read_scores(path, "relevance")).to_numpy()
        rng, counts = np.random.default_rng(5), []
        for _ in range(draws):
            chosen = rng.choice(np.unique(document), 40, replace=False)
            some = np.where(np.isin(document, chosen), human, np.nan)
            sides, how = (some, scores, document), {"bounds": (1.0, 5.0)}
            means = {n: estimate_mean(*(side[system == n] for side in sides), **how) for n in names}
            for each in system_differences(names, *sides, system, weight=weight, **how):
                figure, gap = each.estimate, truth[each.system] - truth[each.less]
                one, other = (means[name].interval for name in (each.system, each.less))
                given = figure.given_interval
                intervals = figure.interval, figure.labels_only.interval, each.together_interval
                apart = [0 not in interval for interval in (*intervals, given)]
                overlap = max(one.low, other.low) <= min(one.high, other.high)
                counts.append([apart[0], not overlap, *apart[1:], gap in given])
        print(f"  {model:<16}", *(f"{share:.3f}" for share in np.mean(counts, axis=0)), flush=True)


def floors_held(of: Callable[[np.random.Generator, int], Any], simulations: int) -> str:
    """How often floors are offered at 60, 120, 400 labels, and how often they hold again."""
    texts = []
    for n in (60, 120, 400):
        rng, held = np.random.default_rng((3, n)), []
        for _ in range(simulations):
            (flags, _), (_, again) = of(rng, n), of(rng, n)
            least = [float(word) for word in flags.split()[1::2]]
            ends = [each.interval.low if each.interval else -1.0 for each in again]
            if least:
                held.append(all(map(operator.ge, ends, least)))
        share = f"{np.mean(held):.3f}" if len(held) >= simulations / 10 else " none"
        texts.append(f"{share} of {len(held) / simulations:4.0%}")
    return "  ".join(texts)


def ranked(noise: float, cuts: Cuts, outputs: int, rng: np.random.Generator, n: int) -> Any:
    """The rho of a judge on `n` documents; no interval where that may be chance."""
    quality, document = rng.normal(size=n * outputs), np.repeat(np.arange(n), outputs)
    sides = (quality + spread * rng.normal(size=n * outputs) for spread in (noise, 0.5))
    level: Level = "summary" if outputs > 1 else "dataset"
    rho = correlation(level, *(np.searchsorted(cuts, side) for side in sides), document)
    shown = rho if rho.interval and rho.interval.low > 0 else replace(rho, interval=None)
    return floor_flags(shown), [shown]


def passed(
    rates: Sequence[float], outputs: int, alike: float, rng: np.random.Generator, n: int
) -> Any:
    """Both rates of a judge on `n` documents; none where its balanced accuracy may be a coin's."""
    base, tpr, tnr = rates
    labels, right = (draws(rng, (n, outputs), alike).ravel() for _ in range(2))
    people = labels < base
    judge = np.where(people, right < tpr, right >= tnr)
    card = two_values(judge, people, np.arange(n * outputs) // outputs)
    balanced = card.balanced_accuracy.interval
    is_known = balanced is not None and balanced.low > 0.5
    return floor_flags(card) if is_known else "", [card.tpr, card.tnr]


def print_floors(simulations: int) -> None:
    """Print how often equally good judges hold the floors, and how often some are offered."""
    print("floors held again, where offered; 60, 120, 400 documents")
    for name, cuts in {"1 to 5": EVEN, "mostly 5": MOSTLY_5}.items():
        for outputs, noise in product((1, 4), (0.3, 1.0, 2.0)):
            held = floors_held(partial(ranked, noise, cuts, outputs), simulations)
            print(f"  {f'rho, {name}, {outputs} a document, noise {noise}':<40}", held, flush=True)
    half, most = ((0.5, 0.9, 0.8), (0.5, 0.8, 0.7)), ((0.8, 0.9, 0.8), (0.8, 0.95, 0.6))
    for rates in (*half, *most, (0.9, 0.97, 0.8)):
        for outputs, alike in ((1, 0), (4, 0), (4, 0.7), (8, 0.7)):
            held = floors_held(partial(passed, rates, outputs, alike), simulations)
            name = "pass {}, TPR {}, TNR {}".format(*rates)
            name += f", {outputs} {'alike ' if alike else ''}a document"
            print(f"  {name:<46}", held, flush=True)


def rate_of(share: float, outputs: int, alike: float, rng: np.random.Generator, n: int) -> Any:
    """A judge's TPR on the first documents of `n`, by how many these are."""
    right = (draws(rng, (n, outputs), alike) < share).ravel()
    document = np.arange(right.size) // outputs

    def first(documents: int) -> Any:
        some = slice(documents * outputs)
        return two_values(right[some], np.ones(right[some].size), document[some]).tpr

    return first


def rho_of(noise: float, outputs: int, rng: np.random.Generator, n: int) -> Any:
    """A judge's rho on the first documents of `n`, by how many these are."""
    quality, document = rng.normal(size=n * outputs), np.repeat(np.arange(n), outputs)
    sides = [quality + spread * rng.normal(size=n * outputs) for spread in (noise, 0.5)]
    judge, human = (np.searchsorted(EVEN, side) for side in sides)
    level: Level = "summary" if outputs > 1 else "dataset"

    def first(documents: int) -> Any:
        some = slice(documents * outputs)
        return correlation(level, judge[some], human[some], document[some])

    return first


def looks_passed(
    of: Callable[[np.random.Generator, int], Any], least: float, simulations: int
) -> tuple[dict[int, float], dict[int, float]]:
    """How often a floor holds in any of so many looks; the same if each were the only look."""
    rng, passed = np.random.default_rng(4), []
    for _ in range(simulations):
        first = of(rng, SIZES[-1])
        figures = [first(size) for size in SIZES]
        passed.append(
            [
                [
                    any(end is not None and end.low >= least for end in ends)
                    for each in (looks, 1)
                    for ends in [
                        [deciding_interval(f, each) for f in figures[8 // looks - 1 :: 8 // looks]]
                    ]
                ]
                for looks in LOOKS
            ]
        )
    shares = np.mean(passed, axis=0).T.tolist()
    return tuple(dict(zip(LOOKS, row, strict=True)) for row in shares)  # type: ignore[return-value]


def look_lines(simulations: int) -> Iterator[str]:
    """A table of judges at a floor and (in brackets) above it, by the number of looks."""
    worlds: dict[str, tuple[Any, Any, float]] = {
        f"TPR .8, {outputs} {'alike ' if alike else ''}a document": (
            *(partial(rate_of, share, outputs, alike) for share in (0.8, good)),
            0.8,
        )
        for outputs, alike, good in ((1, 0, 0.86), (4, 0, 0.83), (4, 0.7, 0.85))
    }
    for outputs, noise in product((1, 4), (0.5, 1.5)):
        of = partial(rho_of, noise, outputs)
        truth, better = (
            partial(rho_of, each, outputs)(np.random.default_rng(1), 800_000)(800_000).value
            for each in (noise, 0.8 * noise)
        )
        name = f"rho {truth:.2f} ({better:.2f}), {outputs} a document"
        worlds[name] = of, partial(rho_of, 0.8 * noise, outputs), truth
    yield "| floor | 1 look | 2 looks | 4 looks | 8 looks | 4 as one | 8 as one |"
    yield "|---" * 7 + "|"
    for name, (at, above, least) in worlds.items():
        (false, once), (power, _) = (looks_passed(of, least, simulations) for of in (at, above))
        cells = [f"{false[looks]:.3f} ({power[looks]:.2f})" for looks in LOOKS]
        yield f"| {name} | {' | '.join(cells)} | {once[4]:.3f} | {once[8]:.3f} |"


def by_chance(
    cuts: Cuts, outputs: int, documents: int, rng: np.random.Generator, n: int
) -> Figures:
    """Figures where about `n` of the documents are labelled, drawn by the judge's error, 1 to 6."""
    _, b, ratings, _, document, _ = draw(rng, cuts, max(n, documents), outputs)
    human, sizes = ratings[:, 0], np.bincount(document)
    error = np.bincount(document, np.nan_to_num(np.abs(b - human), nan=0.5)) / sizes
    doubt = np.clip(error / error.max() + 0.2 * rng.normal(size=sizes.size), 0, 1)
    chance = np.minimum(n * (1 + 5 * doubt) / (1 + 5 * doubt).sum(), 1)
    if n >= documents:
        chance[:] = 1
    # One draw of n along the chances in a random order; whoever is drawn is drawn once.
    order = rng.permutation(sizes.size)
    ends = np.floor(np.cumsum(chance[order]) + rng.random())
    drawn = order[np.diff(ends, prepend=0) > 0]
    labelled, weight = np.isin(document, drawn), 1 / chance[document]
    some, how = np.where(labelled, human, np.nan), {"bounds": (1.0, 1.0 + len(cuts))}
    mean = estimate_mean(some, b, document, weight=weight, **how)
    found: dict[str, Any] = {
        "corrected mean": mean,
        "labels alone": mean.labels_only,
        "mean, without weights": estimate_mean(some, b, document, **how),
    }
    rows = b[labelled], human[labelled], document[labelled]
    for name, of in (("", {"weight": weight[labelled]}), (", without weights", {})):
        if len(cuts) == 1:
            card = two_values(rows[0] - 1, rows[1] - 1, rows[2], **of)
            names = ("base_rate", "tpr", "tnr", "accuracy", "balanced_accuracy", "kappa")
            found |= {f"{each}{name}": getattr(card, each) for each in names}
            continue
        found[f"dataset rho{name}"] = correlation("dataset", *rows, **of)
        found[f"dataset pairs alike{name}"] = order_agreement(*rows, level="dataset", **of)
        if outputs > 1:
            found[f"summary rho{name}"] = correlation("summary", *rows, **of)
            found[f"summary pairs alike{name}"] = order_agreement(*rows, **of)
    return read(found)


def of_two_values(cuts: Cuts, outputs: int, rng: np.random.Generator, n: int) -> Figures:
    """What a judge of pass and fail is worth on `n` outputs, and the true rate of others."""
    a, _, ratings, _, document, _ = draw(rng, cuts, n // outputs, outputs)
    card = two_values(a - 1, ratings[:, 0] - 1, document)
    names = ("base_rate", "judge_rate", "tpr", "tnr", "accuracy", "balanced_accuracy", "kappa")
    found: dict[str, Any] = {name: getattr(card, name) for name in names}
    new, *_, of_new, _ = draw(rng, cuts, max(n, NEW_OUTPUTS) // outputs, outputs)
    tested = errors_by_document(a - 1, ratings[:, 0] - 1, document.tolist())
    rate = corrected_rate(new - 1, of_new.tolist(), tested)
    interval = None if rate.withheld else Interval(rate.low, rate.high)
    return read({**found, "corrected rate": (rate.value, interval)})


def read(found: Mapping[str, Any]) -> Figures:
    """The value and interval of each."""
    return {n: f if isinstance(f, tuple) else (f.value, f.interval) for n, f in found.items()}


def print_table(
    title: str,
    simulations: int,
    figures: Callable[[np.random.Generator, int], Figures],
    sizes: tuple[int, ...] = (15, 30, 100),
    many: int = 20_000,
) -> None:
    """The coverage of each figure, a column a size; the truth is the figure at size `many`."""
    print(title)
    truth = figures(np.random.default_rng(1), many)
    texts: dict[str, list[str]] = {name: [] for name in truth}
    for size in sizes:
        rng = np.random.default_rng((2, size))
        hits: dict[str, list[bool]] = {name: [] for name in truth}
        gaps: dict[str, list[float]] = {name: [] for name in truth}
        for _ in range(simulations):
            for name, (value, interval) in figures(rng, size).items():
                gaps[name].append(value - truth[name][0])
                if interval is not None:
                    low, high = interval.low - 1e-9, interval.high + 1e-9
                    hits[name].append(low <= truth[name][0] <= high)
        for name, found in hits.items():
            share = float(np.mean(found or [0]))
            text = f"{share:.3f}{' ' if 0.93 <= share <= 0.97 else '*'}"
            text = text if len(found) >= simulations / 10 else " none "
            biased = f"{np.nanmean(gaps[name]):+.3f}" if "without" in name else ""
            texts[name].append(text + biased)
    for name, columns in texts.items():
        print(f"  {name:<31}", *columns, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulations", type=int, default=1000)
    parser.add_argument("--only", choices=("estimates", "floors", "looks", "systems"))
    flags = parser.parse_args()
    simulations = flags.simulations
    if flags.only in (None, "systems"):
        for name, cuts in {"1 to 5": EVEN, "mostly 5": MOSTLY_5, "90 % pass": MOST}.items():
            for outputs in (1, 3):
                title = f"{name}, {outputs} outputs by each system; 30, 60, 100 of 120 labelled"
                of = partial(of_systems, cuts, outputs)
                print_table(title, simulations, of, (30, 60, 100), 100_000)
        if SHARED.is_dir():
            print("told apart: paired, two intervals, labels alone, all together, given; coverage")
            print_told_apart(simulations // 10)
    if flags.only in (None, "looks"):
        for line in look_lines(simulations):
            print(line, flush=True)
    if flags.only in (None, "estimates"):
        scales = {f"{rate:.0%} pass": (1 - rate, rate) for rate in (0.5, 0.8, 0.9, 0.95, 0.97)}
        scales |= {
            "mostly 5": (0.01, 0.01, 0.03, 0.1, 0.85),
            "nearly all 5": (0, 0, 0.01, 0.02, 0.97),
        }
        for name, shares in scales.items():
            for errors in (0.05, 0.1, 0.3):
                title = f"{name}, {errors:.0%} misjudged; 20, 60, 120 labelled"
                of = partial(estimated, shares, errors)
                print_table(title, simulations, of, (20, 60, 120), 200_000)
    if flags.only in (None, "floors"):
        print_floors(simulations)
    if flags.only:
        return
    scales = {"1 to 5": EVEN, "mostly 5": MOSTLY_5, "90 % pass": MOST}
    for name, cuts in scales.items():
        for outputs in (4, 1):
            title = f"{name}, {outputs} outputs a document; 15, 30, 100 documents"
            print_table(title, simulations, partial(over_documents, cuts, outputs))
    print_table("pairs, three a document", simulations, partial(of_pairs, EVEN))
    rates = {"50 % pass": HALF, "80 % pass": FOUR_OF_FIVE, "95 % pass": MOST_PASS}
    for name, cuts in rates.items():
        for outputs in (1, 4):
            title = f"{name}, {outputs} outputs a document; 60, 120, 400 outputs"
            of = partial(of_two_values, cuts, outputs)
            print_table(title, simulations, of, (60, 120, 400), 200_000)
    for name, cuts in {**rates, "1 to 5": EVEN}.items():
        for outputs, documents in ((1, 600), (1, 2000), (3, 600)):
            title = f"{name}, {outputs} outputs a document; 60, 120, 200 drawn of {documents:,}"
            of = partial(by_chance, cuts, outputs, documents)
            many = 20_000 if cuts == EVEN else 200_000  # pairs of ratings take n squared
            print_table(f"{title} by the judge's error", simulations, of, (60, 120, 200), many)
    for n in (15, 100):
        title = f"15, 30, 100 systems on {n} documents"
        print_table(title, simulations, partial(over_systems, n), many=2_000)
    scales = {**scales, "half pass": HALF, "97 % pass": NEARLY_ALL}
    for name, cuts in scales.items():
        for outputs in (1, 3):
            title = f"{name}, {outputs} outputs a document; 16, 30, 100 labelled of 300"
            of = partial(corrected, cuts, outputs)
            print_table(title, simulations, of, (16, 30, 100), 50_000)


if __name__ == "__main__":
    main()
