"""What the reports of runs and verifications share: the sections on one judge and one split."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from data.readers import is_constructed
from data.types import LabelledOutput
from judges.protocol import is_embedded
from optimize.figures import counted, interval_of, shown, with_interval
from optimize.injection import Attack, ScoreShift
from optimize.measuring.correlations import correlations
from optimize.measuring.sources import ScoredItems
from optimize.report import charts
from optimize.report.agreement_sections import levels_section, pairs_section, people_section
from optimize.report.measures import Measures
from optimize.report.page import Section, section
from optimize.run.judged_split import JudgedSplit, disagreements
from optimize.statistics.bootstrap import stream
from optimize.statistics.coefficients import Vector
from optimize.statistics.difference import Difference
from optimize.statistics.levels import PRIMARY, document_values, read_rows
from optimize.statistics.scale import ScaleUse, on_scale

SIDES = ("B", "tie", "A")
# A longer scale is drawn in bands.
MOST_RATINGS_DRAWN, BANDS = 12, 10
# Outputs shown in a section, and characters of a text and of a failure's reason.
MOST_OUTPUTS, MOST_TEXT, MOST_REASON = 20, 1500, 300
# Scores so many and so different are as good as continuous.
MANY_LEVELS = 50

EMBEDDED = (
    "The embedded model is a small statistical judge, not a language model: it reads the same "
    "prompt, and is the baseline that a language model has to beat."
)
CONSTRUCTED = (
    "The starter set's labels are computed from known faults; no person gave them. Agreement "
    "with them says that the judge finds these faults, not that it agrees with people."
)


def judge_sections(
    judged: JudgedSplit,
    measures: Measures,
    *,
    seed: int,
    of: str,
    cells: Sequence[Mapping[str, Any]] | None = None,
) -> list[Section]:
    """From the comparison with people to all levels; `of` says which judge and which split.

    `cells` are all its correlations, where they are known already.
    """
    if cells is None:
        verified = ScoredItems(
            items=judged.items, scores=judged.scores, judgements=judged.judgements
        )
        cells = correlations(verified, seed, judged.level)
    return [
        pairs_section(measures.pairs, judged, of)
        if measures.pairs is not None
        else people_section(measures.people, judged.dimension),
        _charts(judged, seed, of),
        _disagreements(judged),
        _failures(judged),
        *([] if measures.pairs else [_audits(measures)]),
        _probes(measures, judged.dimension),
        levels_section(cells, measures, judged, of),
    ]


def notes(lm: str, data: Mapping[str, Any]) -> list[str]:
    """What a reader has to know before any figure."""
    constructed = is_constructed(str(data["sha256"]))
    return [CONSTRUCTED] * constructed + [EMBEDDED] * is_embedded(lm)


def data_facts(data: Mapping[str, Any], unit: str = "outputs") -> list[tuple[str, str]]:
    """Which labels; what was labelled are `unit`."""
    systems = f"{counted(data['n_systems'], 'system')}, " if data["n_systems"] else ""
    number = counted(data["n_outputs"], unit.removesuffix("s"))
    size = f"{counted(data['n_documents'], 'document')}, {systems}{number}"
    return [("data", f"{data['name']}: {size}"), ("data sha256", str(data["sha256"]))]


def shortened(text: str) -> str:
    cut = len(text) - MOST_TEXT
    return text if cut <= 0 else f"{text[:MOST_TEXT]} … ({cut:,} more characters)"


def _charts(judged: JudgedSplit, seed: int, of: str) -> Section:
    """The judge beside people in charts; what cannot be drawn is None."""
    n_scored = int((~np.isnan(judged.scores)).sum())
    values: dict[str, Any] = {"of": of, "n_scored": n_scored, "choices": None}
    if n_scored and judged.verdicts:
        values["choices"] = _choices_chart(judged)
    elif n_scored:
        jitter = stream(seed, "report", "jitter")
        values |= {
            "most_points": charts.MOST_POINTS,
            "most_systems": charts.MOST_SYSTEMS,
            "scatter": charts.scatter(judged.scores, judged.human, judged.dimension, jitter),
            "has_scale": bool(judged.scale),
            "ratings": _ratings_chart(judged) if judged.on_scale else None,
            **_documents_chart(judged),
            **_systems_chart(judged, seed),
        }
    return section("Judge and people", "charts.html", **values)


def _ratings_chart(judged: JudgedSplit) -> str:
    """Judge against people, rating by rating; a longer scale, such as 0 to 100, in ten bands."""
    scored = ~np.isnan(judged.scores)
    scale = list(judged.scale)
    bands = np.array_split(scale, len(scale) if len(scale) <= MOST_RATINGS_DRAWN else BANDS)
    band_of = {int(rating): place for place, band in enumerate(bands) for rating in band}
    counts = np.zeros((len(bands), len(bands)), dtype=int)
    for judge, human in zip(
        on_scale(judged.scores[scored], scale), on_scale(judged.human[scored], scale), strict=True
    ):
        counts[band_of[int(judge)], band_of[int(human)]] += 1
    labels = [str(band[0]) if len(band) == 1 else f"{band[0]}–{band[-1]}" for band in bands]
    return charts.confusion(counts, labels, judged.dimension)


def _choices_chart(judged: JudgedSplit) -> str:
    scored = ~np.isnan(judged.scores)
    counts = np.zeros((3, 3), dtype=int)
    for judge, human in zip(judged.scores[scored], judged.human[scored], strict=True):
        counts[int(np.sign(judge)) + 1, int(np.sign(human)) + 1] += 1
    return charts.confusion(counts, SIDES, judged.dimension)


def _documents_chart(judged: JudgedSplit) -> dict[str, Any]:
    rows = read_rows(judged.scores, judged.human, judged.documents)
    values = document_values(rows, "spearman", PRIMARY)
    known = values[~np.isnan(values)]
    if known.size < 2:
        return {"documents": None}
    chart = charts.per_document(known, float(known.mean()), judged.dimension)
    return {"documents": chart, "n_left_out": values.size - known.size}


def _systems_chart(judged: JudgedSplit, seed: int) -> dict[str, Any]:
    names = sorted({name for name in judged.systems if name})
    if len(names) < 2:
        return {"systems": None, "n_named": len(names)}
    systems, rng = np.array(judged.systems), stream(seed, "report", "systems")
    rows = {
        name: rows for name in names if (rows := (systems == name) & ~np.isnan(judged.scores)).any()
    }
    if len(rows) < 2:
        return {"systems": None, "n_named": len(names)}
    chart = charts.systems(
        list(rows),
        np.array([judged.scores[own].mean() for own in rows.values()]),
        np.array([_mean_interval(judged.scores[own], rng) for own in rows.values()]),
        np.array([judged.human[own].mean() for own in rows.values()]),
        judged.dimension,
    )
    return {"systems": chart, "n_systems": len(rows)}


def _mean_interval(scores: Vector, rng: np.random.Generator) -> Vector:
    means = scores[rng.integers(0, scores.size, (1000, scores.size))].mean(axis=1)
    ends: Vector = np.quantile(means, (0.025, 0.975))
    return ends


def _disagreements(judged: JudgedSplit) -> Section:
    """The outputs on which the judge's place is farthest from people's, with their texts."""
    comparable = _comparable(judged)
    worst = [(index, gap) for index, gap in disagreements(judged) if comparable[index]]
    places = _places(judged)
    return section(
        "Worst disagreements",
        "disagreements.html",
        pairs=bool(judged.verdicts),
        level=judged.level,
        disagreements=[
            {
                "id": judged.items.items[index].id,
                "place": _place(judged, index, gap, int(places[index])),
                "comment": judged.comment(index),
                "labels": _labels(judged, index),
                "texts": {name: shortened(text) for name, text in judged.texts(index).items()},
            }
            for index, gap in worst[:MOST_OUTPUTS]
        ],
    )


def _comparable(judged: JudgedSplit) -> NDArray[np.bool_]:
    """Whether people tell an output from others of its document (over all: from any other)."""
    if judged.verdicts:
        return np.ones(judged.human.size, dtype=bool)
    groups = judged.documents if judged.level == "summary" else [""] * judged.human.size
    codes = np.unique(groups, return_inverse=True)[1]
    most, least = np.full((2, codes.max(initial=0) + 1), [[-np.inf], [np.inf]])
    np.maximum.at(most, codes, judged.human)
    np.minimum.at(least, codes, judged.human)
    differ: NDArray[np.bool_] = (most > least)[codes]
    return differ


def _places(judged: JudgedSplit) -> NDArray[np.intp]:
    """How many places there are between the first and the last, for every output."""
    scored = ~np.isnan(judged.scores)
    if judged.level != "summary":
        return np.full(scored.size, scored.sum() - 1)
    codes = np.unique(judged.documents, return_inverse=True)[1]
    places: NDArray[np.intp] = np.bincount(codes, scored).astype(np.intp)[codes] - 1
    return places


def _place(judged: JudgedSplit, index: int, gap: float, places: int) -> str:
    numbers = f"judge {judged.scores[index]:.2f}, people {judged.human[index]:.2f}"
    if judged.verdicts:
        return numbers
    side = "too high" if gap > 0 else "too low"
    return f"{side} by {round(abs(gap) * places, 1):g} of {places:,} places: {numbers}"


def _labels(judged: JudgedSplit, index: int) -> str:
    """What each person said of it, where there are several."""
    if len(judged.labelled) != len(judged.items):
        return ""
    labelled = judged.labelled[index]
    if not isinstance(labelled, LabelledOutput):
        return f"People's votes: {', '.join(labelled.votes)}"
    ratings = labelled.ratings.get(judged.dimension, ())
    names = labelled.annotators.get(judged.dimension, ())
    if len(ratings) < 2:
        return ""
    if len(names) != len(ratings):
        names = ("",) * len(ratings)
    each = (f"{name} {rating:g}".strip() for name, rating in zip(names, ratings, strict=True))
    return f"People's ratings: {', '.join(each)}"


def _failures(judged: JudgedSplit) -> Section:
    """Every failed judgement, up to twenty; the count is always whole."""
    failures = judged.failures
    return section(
        "Failed judgements",
        "failures.html",
        unit="pair" if judged.verdicts else "output",
        missing="preference" if judged.verdicts else "score",
        n_failed=len(failures),
        n_items=len(judged.items),
        rows=[
            (name, why if len(why) <= MOST_REASON else f"{why[:MOST_REASON]} …")
            for name, why in list(failures.items())[:MOST_OUTPUTS]
        ],
    )


def _audits(measures: Measures) -> Section:
    """What else moves the judge's scores, and how it uses its scale."""
    features = {"length in characters": measures.length, **measures.kinds}
    preferences = {name: known for name, known in features.items() if known is not None}
    use = {"judge": measures.use, "people": measures.people_use}
    errors, consistency = measures.errors, measures.consistency
    dimensions = measures.dimensions
    return section(
        "Audits",
        "audits.html",
        preferences=[
            _preference_row(name, preference)
            for name, preference in preferences.items()
            if preference.value == preference.value
        ],
        counts=next(iter(preferences.values()), None),
        use=[(who, *_use_row(scale_use)) for who, scale_use in use.items() if scale_use]
        if measures.use and measures.use.n_outputs
        else [],
        n_used=measures.use.n_outputs if measures.use else 0,
        errors=errors if errors and errors.n_outputs else None,
        consistency=consistency
        if consistency and consistency.reliability == consistency.reliability
        else None,
        dimensions=dimensions,
        dimension_rows=[
            (name, shown(rho), shown(dimensions.among_people[name]))
            for name, rho in dimensions.with_judge.items()
        ]
        if dimensions
        else [],
    )


def _preference_row(name: str, preference: Difference) -> tuple[str, ...]:
    interval, verdict = preference.interval, "no clear preference"
    if interval is not None and interval.low > 0:
        verdict = "favours it"
    elif interval is not None and interval.high < 0:
        verdict = "disfavours it"
    return (
        name,
        shown(preference.a),
        shown(preference.b),
        f"{preference.value:+.3f}",
        interval_of(interval.low, interval.high) if interval else "no interval",
        verdict,
    )


def _use_row(use: ScaleUse) -> tuple[str, ...]:
    tied = f"{use.tied:.0%}" if use.tied == use.tied else "no pairs"
    levels = f"{use.levels_used:.1f}" if use.levels_used <= MANY_LEVELS else f"over {MANY_LEVELS}"
    return f"{use.at_top:.0%}", f"{use.at_bottom:.0%}", tied, levels


def _probes(measures: Measures, name: str) -> Section:
    """The shift of each attack, beside that of a line that asks for nothing."""
    shifts = [(attack, shift) for attack, shift in measures.shifts if shift.n_outputs]
    changed = "the side's margin" if measures.pairs else "score"
    chart = None
    if shifts:
        control = next((attack.title for attack, _ in shifts if attack.control), "")
        points = {attack.title: (shift.mean, shift.interval) for attack, shift in shifts}
        chart = charts.shifts(points, control, f"change of {changed}", name)
    return section(
        "Injection probes",
        "probes.html",
        why=measures.probes_why or "no attacked output got a score",
        changed=changed,
        pairs=measures.pairs is not None,
        n=shifts[0][1].n_outputs if shifts else 0,
        chart=chart,
        rows=[_shift_row(attack, shift) for attack, shift in shifts],
    )


def _shift_row(attack: Attack, shift: ScoreShift) -> tuple[str, ...]:
    return (
        attack.title,
        with_interval(shift.mean, shift.interval, signed=True),
        f"{shift.raised:.0%}",
        f"{shift.n_outputs}",
        f"{shift.n_failed}",
        attack.text,
    )
