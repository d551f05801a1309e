"""The report's sections: what each one needs to know, which its own template lays out."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from data.types import LabelledOutput
from judges.client import is_embedded
from optimize.answer import WORDS, people_of, people_sentences, two_of
from optimize.figures import (
    CHOSEN_ON_DEV,
    CONVENTIONS,
    SPLITS,
    cells_to_show,
    conventions_differ,
    cost_text,
    cost_unit,
    counted,
    finalist_name,
    number_text,
    quotable_line,
    trade,
    with_interval,
)
from optimize.measuring.scored import Scored
from optimize.report import charts
from optimize.report.measures import Measures, PairMeasures
from optimize.report.page import Picture, Section, section
from optimize.run.evidence import disagreements
from optimize.statistics.bootstrap import Interval, stream
from optimize.statistics.levels import PRIMARY
from optimize.statistics.scale import nearest_ratings
from optimize.statistics.systems import MIN_SYSTEMS

COEFFICIENTS = {
    "spearman": "Spearman's rho",
    "kendall": "Kendall's tau-b",
    "pearson": "Pearson's r",
}
# A longer scale is drawn in bands.
MAX_RATINGS_DRAWN, BANDS = 12, 10
# Outputs listed in a section, and characters of a text and of a failure's reason.
MAX_OUTPUTS, MAX_TEXT, MAX_REASON = 20, 1500, 300

EMBEDDED = (
    "The embedded model is a small statistical judge, not a language model: it reads the same "
    "prompt, and is the baseline that a language model has to beat."
)
# A correlation as summary.json and `dspy-judges verify --json` have it.
Cell = Mapping[str, Any]


def judge_sections(
    judged: Scored,
    measures: Measures,
    cells: Sequence[Cell],
    people: Mapping[str, Any] | None,
    *,
    seed: int,
    of: str,
) -> list[Section]:
    """From the comparison with people to all levels; `of` says which judge and which split.

    `cells` are all its correlations, `people` what `people_figures` returns.
    """
    return [
        _disagreements(judged),
        _charts(judged, measures, seed, of),
        _pairs(measures.pairs, judged, of) if measures.pairs is not None else _annotators(people),
        _probes(measures),
        _failures(judged),
        _levels(cells, judged, of),
    ]


def shares_picture(shares: Mapping[str, Cell], result: Mapping[str, Any]) -> Picture | None:
    """How often each judge does as people do, beside two people and a coin; None without a share.

    The last of `shares` are on unseen systems, if any; two people are those of the first.
    """
    defined = {name: share for name, share in shares.items() if share["value"] is not None}
    if not defined:
        return None
    people = next(iter(shares.values())).get("two_people")
    points = {name: cell_point(share) for name, share in defined.items()}
    if people and people["value"] is not None:
        points[two_of(result)] = cell_point(people)
    paired = "accuracy" in result or result.get("kind") == "pairwise"
    drawn = {name: point for name, point in points.items() if point}
    does = "decided" if paired else "ordered"
    label = f"pairs {does} as {people_of(result)} do"
    caption = (
        f"Of the pairs that {people_of(result)} {'decide' if paired else 'order'}, the share that "
        f"is {does} alike, with 95% intervals over documents. A coin reaches 50%."
    )
    return Picture(charts.shares(drawn, label, result["dimension"], two_of(result)), caption)


def results(summary: Mapping[str, Any], pairs: Mapping[str, Mapping[str, PairMeasures]]) -> Section:
    """Untuned and tuned judge on every split that exists; of pairs `pairs[judge][split]` as well.

    Where calls cost money, the finalists with what they cost to use.
    """
    rows = summary.get("finalists", [])
    unit, cost_title = cost_unit(rows)
    return section(
        "Results",
        "results.html",
        summary=summary,
        why=summary["why"],
        splits={name: title for name, title in SPLITS.items() if summary["seed_judge"].get(name)},
        words=WORDS,
        pairs=pairs,
        chosen_on_dev=sentence(CHOSEN_ON_DEV),
        stand_ins=sentence(summary.get("stand_ins")),
        finalists=[_finalist_cells(row, unit) for row in rows],
        cost_title=cost_title,
        trade=sentence(trade(rows)),
    )


def _finalist_cells(row: Mapping[str, Any], unit: str) -> tuple[str, ...]:
    gain, error = (
        "" if row["is_seed"] or row[key] is None else f"{row[key]:{sign}.3f}"
        for key, sign in (("gain", "+"), ("gain_error", ""))
    )
    name = finalist_name(row) + (" *" if row["shipped"] else "")
    return name, number_text(row["dev"]), gain, error, cost_text(row[unit], unit)


def cell_point(cell: Cell | None) -> charts.Point | None:
    """A figure and its interval, as charts take them; None where it is undefined."""
    if cell is None or cell["value"] is None:
        return None
    interval = None if cell["low"] is None else Interval(cell["low"], cell["high"])
    return cell["value"], interval


def _annotators(people: Mapping[str, Any] | None) -> Section:
    """The judge among the annotators: who agrees with whom, and the human ceiling."""
    return section(
        "People among themselves", "people.html", people=people, lines=people_sentences(people)
    )


def _pairs(pairs: PairMeasures, judged: Scored, of: str) -> Section:
    """A pairwise judge: accuracy, both orders, and the pull of position and length."""
    return section(
        "Pairs",
        "pairs.html",
        of=of,
        pairs=pairs,
        rate=pairs.rate,
        n_pairs=len(judged.items),
        a_first=_accuracy_in_order(judged, "order_ab"),
        b_first=_accuracy_in_order(judged, "order_ba"),
    )


def _accuracy_in_order(judged: Scored, order: str) -> dict[str, Any]:
    """Accuracy of the one order, and on how many pairs."""
    correct = [
        getattr(verdict, order) == ("A" if human > 0 else "B")
        for verdict, human in zip(judged.verdicts, judged.human, strict=True)
        if human != 0 and getattr(verdict, order) is not None
    ]
    return {"share": sum(correct) / len(correct) if correct else None, "n": len(correct)}


def quotable_lines(
    name: str, cell: Cell, cells: Sequence[Cell], measures: Measures, n_systems: int
) -> list[str]:
    """Lines that can go into a paper: rho, of pairs the accuracy, and rho as published tables.

    The latter, one of all `cells`, only where undefined documents can make it another than `cell`.
    """
    unit = "pairs" if measures.pairs else "outputs"
    lines = [quotable_line(name, {**cell, "undefined": PRIMARY}, unit=unit, n_systems=n_systems)]
    if measures.pairs:
        return [_accuracy_line(name, measures.pairs), *lines]
    if cell["level"] == "summary" and cell["n_undefined"] and cell["value"] is not None:
        convention = {"coefficient": "spearman", "level": "summary", "undefined": "left_out"}
        published = next(cell for cell in cells if convention.items() <= cell.items())
        lines.append(quotable_line(name, published, unit=unit))
    return lines


def _accuracy_line(name: str, pairs: PairMeasures) -> str:
    accuracy, rate = pairs.accuracy, pairs.rate
    return (
        f"{name} accuracy, both orders together "
        f"{with_interval(accuracy.value, accuracy.interval)} "
        f"n={accuracy.n_decided} decided pairs of {rate.n + rate.n_failed}, "
        f"{accuracy.n_documents} documents "
        f"({accuracy.n_ties} ties by the judge, half right; {rate.n_failed} failed)"
    )


def notes(lm: str) -> list[str]:
    """What a reader should know of the model."""
    return [EMBEDDED] * is_embedded(lm)


def data_facts(data: Mapping[str, Any], unit: str = "outputs") -> list[tuple[str, str]]:
    """The labels' name, size and checksum, as (title, value); `unit` is the plural of a row."""
    systems = f"{counted(data['n_systems'], 'system')}, " if data["n_systems"] else ""
    number = counted(data["n_outputs"], unit.removesuffix("s"))
    size = f"{counted(data['n_documents'], 'document')}, {systems}{number}"
    return [("data", f"{data['name']}: {size}"), ("data sha256", str(data["sha256"]))]


def _charts(judged: Scored, measures: Measures, seed: int, of: str) -> Section:
    """The judge beside people, in charts and as numbers; what cannot be drawn is None."""
    n_scored = int((~np.isnan(judged.scores)).sum())
    values: dict[str, Any] = {"choices": None, "ratings": None, "scatter": None, "systems": None}
    if n_scored and judged.verdicts:
        values["choices"] = _choices_chart(judged)
    elif n_scored and judged.within_scale:
        values |= {"ratings": _ratings_chart(judged), **_systems_chart(judged)}
    elif n_scored:
        jitter = stream(seed, "report", "jitter")
        drawn = charts.scatter(judged.scores, judged.human, judged.dimension, jitter)
        values |= {"scatter": drawn, **_systems_chart(judged)}
    return section(
        "Judge and people",
        "charts.html",
        of=of,
        n_scored=n_scored,
        measures=measures,
        max_points=charts.MAX_POINTS,
        max_systems=charts.MAX_SYSTEMS,
        has_scale=bool(judged.scale),
        **values,
    )


def _ratings_chart(judged: Scored) -> str:
    """Judge against people, rating by rating; a longer scale, such as 0 to 100, in ten bands."""
    scale = list(judged.scale)
    bands = np.array_split(scale, len(scale) if len(scale) <= MAX_RATINGS_DRAWN else BANDS)
    last_of_bands = [band[-1] for band in bands]
    labels = [str(band[0]) if len(band) == 1 else f"{band[0]}–{band[-1]}" for band in bands]
    scored = ~np.isnan(judged.scores)
    judge, human = (
        np.searchsorted(last_of_bands, nearest_ratings(side[scored], scale))
        for side in (judged.scores, judged.human)
    )
    return charts.confusion(judge, human, labels, judged.dimension)


def _choices_chart(judged: Scored) -> str:
    scored = ~np.isnan(judged.scores)
    judge, human = (np.sign(side[scored]).astype(int) + 1 for side in (judged.scores, judged.human))
    return charts.confusion(judge, human, ("B", "tie", "A"), judged.dimension)


def _systems_chart(judged: Scored) -> dict[str, Any]:
    """The chart of each system's mean score and rating, or None with fewer than two systems."""
    systems, scored = np.array(judged.systems), ~np.isnan(judged.scores)
    names = sorted(set(judged.systems) - {""})
    rows = {name: mask for name in names if (mask := (systems == name) & scored).any()}
    if len(rows) < 2:
        return {}
    judge, human = (
        np.array([side[mask].mean() for mask in rows.values()])
        for side in (judged.scores, judged.human)
    )
    chart = charts.systems(list(rows), judge, human, judged.dimension)
    return {"systems": chart, "n_systems": len(rows)}


def _disagreements(judged: Scored) -> Section:
    """The outputs on which the judge's place is farthest from people's, with their texts.

    Only those that people tell from others of their document (over all: from any other).
    """
    comparable = np.full(len(judged.items), bool(judged.verdicts))
    # How many places there are between the first and the last of an output's rivals.
    n_places = np.zeros(len(judged.items), dtype=int)
    for rows in judged.ranked_rows:
        comparable[rows] |= np.unique(judged.human[rows]).size > 1
        n_places[rows] = (~np.isnan(judged.scores[rows])).sum() - 1
    worst = [(index, gap) for index, gap in disagreements(judged) if comparable[index]]
    worst = worst[:MAX_OUTPUTS]
    by_document: dict[str, list[tuple[int, float]]] = {}
    for index, gap in worst:
        by_document.setdefault(judged.items.items[index].document_id, []).append((index, gap))
    return section(
        "Worst disagreements",
        "disagreements.html",
        pairs=bool(judged.verdicts),
        unit="pairs" if judged.verdicts else "outputs",
        level=judged.level,
        n=len(worst),
        often=_most_often(judged, worst),
        groups=[
            _disagreement_group(judged, document, rows, n_places)
            for document, rows in by_document.items()
        ],
    )


def _most_often(judged: Scored, worst: Sequence[tuple[int, float]]) -> str:
    """The system that stands most often among the worst, where one does more than the others."""
    counts = Counter(
        (judged.items.items[index].system or "", "too high" if gap > 0 else "too low")
        for index, gap in worst
    )
    (((system, side), number),) = counts.most_common(1) or [(("", ""), 0)]
    others = max((n for key, n in counts.items() if key != (system, side)), default=0)
    if not system or number < 3 or number == others:
        return ""
    return f"{number} are of {system}, ranked {side}"


def _disagreement_group(
    judged: Scored,
    document: str,
    rows: Sequence[tuple[int, float]],
    n_places: NDArray[np.intp],
) -> dict[str, Any]:
    """A document's worst outputs; the texts that all of them share stand once."""
    texts = [judged.texts(index) for index, _ in rows]
    shared = {
        name: text
        for name, text in texts[0].items()
        if len(texts) > 1 and all(other.get(name) == text for other in texts)
    }
    return {
        "document": document,
        "shared": {name: cut_text(text) for name, text in shared.items()},
        "outputs": [
            {
                "id": judged.items.items[index].id,
                "name": judged.items.items[index].system or judged.items.items[index].id,
                "judge": judged.scores[index],
                "people": judged.human[index],
                "gap": gap,
                "n_places": int(n_places[index]),
                "comment": judged.comment(index),
                "people_comment": judged.items.items[index].comment,
                "labels": _labels(judged, index),
                "texts": {
                    name: cut_text(text)
                    for name, text in judged.texts(index).items()
                    if name not in shared
                },
            }
            for index, gap in rows
        ],
    }


def _labels(judged: Scored, index: int) -> str:
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


def cut_text(text: str) -> str:
    cut = len(text) - MAX_TEXT
    return text if cut <= 0 else f"{text[:MAX_TEXT]} … ({cut:,} more characters)"


def _failures(judged: Scored) -> Section:
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
            (name, reason if len(reason) <= MAX_REASON else f"{reason[:MAX_REASON]} …")
            for name, reason in list(failures.items())[:MAX_OUTPUTS]
        ],
    )


def _probes(measures: Measures) -> Section:
    """The shift of each attack, beside that of the control: a line without a request."""
    return section(
        "Injection probes",
        "probes.html",
        reason=measures.probes_reason or "no attacked output got a score",
        changed="the side's margin" if measures.pairs else "score",
        pairs=measures.pairs is not None,
        shifts=[(attack, shift) for attack, shift in measures.shifts if shift.n_outputs],
    )


def _levels(cells: Sequence[Cell], judged: Scored, of: str) -> Section:
    """Each level and coefficient of one judge, by both conventions where they differ."""
    return section(
        "All coefficients" if judged.verdicts else "All levels",
        "levels.html",
        of=of,
        unit="pairs" if judged.verdicts else "outputs",
        cells=cells_to_show(cells) if any(cell["n_outputs"] for cell in cells) else [],
        conventions=CONVENTIONS if conventions_differ(cells) else {},
        coefficients=COEFFICIENTS,
        levels={cell["level"] for cell in cells},
        n_systems=len(judged.items.systems),
        min_systems=MIN_SYSTEMS,
    )


def sentence(clause: str | None) -> str:
    """With a capital and a full stop; empty where there is none."""
    return f"{clause[0].upper()}{clause[1:]}." if clause else ""
