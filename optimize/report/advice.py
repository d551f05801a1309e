"""What to do next, in two to four sentences, each derived from a figure on the page."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from data.readers import is_constructed
from optimize.figures import counted, interval_cell, json_number
from optimize.report.measures import LENGTH, Measures, PairMeasures
from optimize.run.evidence import JudgedSplit
from optimize.statistics.bootstrap import (
    POWER,
    Interval,
    documents_for_difference,
    documents_for_width,
)

MAX_SENTENCES = 4
# The smallest difference in rho that is worth planning for.
PLANNED = 0.05
WIDE = 0.10
FAILED, TIED = 0.02, 0.25
# Shares of the human ceiling.
FAR, NEAR = 0.75, 0.95
# Shares of the scale that an attack may move a score beyond what a neutral line does.
MOVED = 0.10
# The accuracy that tossing a coin for every pair would reach.
COIN = 0.5

Cell = Mapping[str, Any]


def advice(
    judged: JudgedSplit,
    measures: Measures,
    cell: Cell,
    summary: Mapping[str, Any] | None = None,
    *,
    data: Mapping[str, Any] | None = None,
) -> list[str]:
    """The most pressing first; `cell` is this judge's rho here, `summary` a run's.

    `data` says which labels, where there is no run to say it. On constructed ones no figure speaks
    of people, so there is one thing to do.
    """
    labels = (summary or {}).get("data") or data or {}
    if is_constructed(str(labels.get("sha256"))):
        return [_label_your_own(judged, summary)]
    if all(math.isnan(score) for score in judged.scores):
        return [
            "Mend the failures first: the judge gave no score at all, so nothing here can be "
            "measured; the reasons are listed below."
        ]
    main = cell if measures.pairs is None else _accuracy_cell(measures.pairs)
    sentences = [
        *_on_agreement(judged, main, measures),
        *_on_the_run(summary),
        *([] if summary and summary["shipped"] == "seed" else _on_the_interval(main, measures)),
        *_on_scores(judged, measures),
        *_on_people(measures, summary),
    ]
    pressing = sentences[: MAX_SENTENCES - 1]
    if len(pressing) == MAX_SENTENCES - 1 or cell["value"] is None:
        return pressing
    return [*pressing, _how_to_use(summary, measures)]


def _accuracy_cell(pairs: PairMeasures) -> Cell:
    """Accuracy in the form of a correlation's cell."""
    accuracy = pairs.accuracy
    return {
        "value": json_number(accuracy.value),
        **interval_cell(accuracy.interval),
        "n_documents": accuracy.n_documents,
    }


def _label_your_own(judged: JudgedSplit, summary: Mapping[str, Any] | None) -> str:
    name = judged.dimension
    flag = "--pairwise" if judged.verdicts else "--dimension"
    if summary is None:
        return (
            "Measure it on labels of your own: these were constructed, so no figure here says how "
            "far the judge agrees with people. Fifty rated outputs over twenty documents are a "
            "start."
        )
    judge = (
        "the tuned judge may agree with people less than the seed, so do not use it yet"
        if summary["shipped"] == "tuned"
        else "nothing here says how far this judge agrees with people"
    )
    return (
        f"Tune on labels of your own: `python -m optimize {flag} {name} --data FILE`. This run's "
        f"were constructed from known faults: {judge}. Fifty rated outputs over twenty documents "
        "are a start; `python -m data check FILE` reads them first."
    )


def _on_agreement(judged: JudgedSplit, main: Cell, measures: Measures) -> Iterator[str]:
    """Failures, and agreement that may be none; `main` is of pairs the accuracy."""
    n_failed, n = len(judged.failures), len(judged.items)
    if n_failed / max(1, n) > FAILED:
        yield (
            f"{n_failed:,} of {n:,} outputs have no score "
            f"({n_failed / n:.0%}): look at the reasons below before trusting any figure."
        )
    if measures.pairs and main["value"] is None:
        yield "People decided none of these pairs: label pairs on which they prefer a side."
    elif main["value"] is None:
        yield (
            "There is no rho: within documents, or over all, one side says the same of every "
            "output. Label outputs that people tell apart."
        )
    elif main["low"] is None:
        return
    elif measures.pairs and main["low"] <= COIN <= main["high"]:
        yield (
            "The interval of accuracy holds one half: on these labels the judge cannot be told "
            "from a coin, so do not rely on it yet."
        )
    elif not measures.pairs and main["low"] <= 0:
        yield (
            "The interval reaches 0: on these labels the judge cannot be told from one that ranks "
            "at random, so do not rely on it yet."
        )


def _on_the_run(summary: Mapping[str, Any] | None) -> Iterator[str]:
    """Why the seed ships and what it takes to tell a gain; a gain that test cannot confirm."""
    if summary is None:
        return
    shipped, seed, gain = summary["shipped"], summary["seed_judge"], summary["gain"]["test"]
    judge = summary[f"{shipped}_judge"]
    cell = judge["test"] or {}
    has_interval = gain.get("value") is not None and gain.get("low") is not None
    half = (gain["high"] - gain["low"]) / 2 if has_interval else 0.0
    if shipped == "seed":
        yield (
            _why_the_seed_ships(gain, cell, half)
            if has_interval
            else ("No gain could be shown with so few labels: label more documents and tune again.")
        )
    elif has_interval and gain["low"] <= 0:
        gap = (
            f"Dev vouches for the tuned judge, test alone does not: {gain['value']:+.2f} on the "
            f"seed, known to ±{half:.2f} with {counted(cell.get('n_documents', 0), 'document')}"
        )
        if gain["value"] <= 0:
            yield f"{gap}. Verify both judges on labels of your own before you rely on the gain."
        else:
            yield f"{gap}; {_documents_to_show(gain, cell)}."
    test, unseen, seed_unseen = (
        row["value"] if row else None
        for row in (
            judge.get("test"), judge.get("test_unseen_systems"), seed.get("test_unseen_systems"),
        )
    )  # fmt: skip
    if test is None or unseen is None:
        return
    if seed_unseen is not None and seed_unseen > unseen + PLANNED:
        yield (
            f"On systems it never saw the tuned judge agrees less than the seed did (rho "
            f"{unseen:.2f} against {seed_unseen:.2f}, "
            f"n={judge['test_unseen_systems']['n_documents']:,} "
            "documents): to judge new systems, label some outputs of theirs and verify both first."
        )
    elif test - unseen >= WIDE:
        yield (
            f"On systems it never saw the judge agrees less (rho {unseen:.2f} against "
            f"{test:.2f}): quote the lower figure for a new system, and label some of its outputs."
        )


def _why_the_seed_ships(gain: Cell, cell: Cell, half: float) -> str:
    if half == 0:
        return (
            "Nothing that the search found did better than the seed, so both judges are one: give "
            "it more calls (`--max-calls`), more documents, or a stronger `--proposer-lm`."
        )
    if gain["low"] > 0:
        return (
            f"The gate could not tell a gain on dev, yet on test there is one "
            f"({gain['value']:+.2f} [{gain['low']:.2f}, {gain['high']:.2f}]): tune again with more "
            "documents, so that dev can tell it, and verify on new ones."
        )
    if gain["high"] < PLANNED:
        return (
            f"Tuning changes little here: by test the gain is below {PLANNED:g}. A stronger "
            "`--lm` or `--proposer-lm` is worth more than more labels or calls."
        )
    return (
        f"No candidate was clearly better than the seed; the gain on test is known to ±{half:.2f}, "
        f"and {_documents_to_show(gain, cell)}. More labels, a stronger `--lm` or `--proposer-lm` "
        "are worth more than more calls."
    )


def _documents_to_show(gain: Cell, cell: Cell) -> str:
    """What showing the planned difference takes, as a clause; at system level it is systems."""
    n_documents = cell.get("n_documents", 0)
    if cell.get("level") == "system":
        return f"a gain of {PLANNED:g} is told sooner by more systems than by more documents"
    if n_documents < 2:
        return f"showing a gain of {PLANNED:g} takes more documents, some tens at least"
    interval = Interval(gain["low"], gain["high"])
    number = documents_for_difference(interval, n_documents, PLANNED)
    return (
        f"showing a true gain of {PLANNED:g} takes about {number:,} test documents "
        f"(power {POWER:g})"
    )


def _on_the_interval(main: Cell, measures: Measures) -> Iterator[str]:
    """Too wide an interval, and what it takes to narrow it."""
    if main["value"] is None:
        return
    of = " of accuracy" if measures.pairs else ""
    documents = counted(main["n_documents"], "document")
    if main["low"] is None or not main["n_documents"]:
        yield (
            f"With {documents} there is no interval{of}: label more documents, some tens at least."
        )
        return
    half = (main["high"] - main["low"]) / 2
    if half <= WIDE:
        return
    width = f"The interval{of} is about ±{half:.2f} with {documents}"
    if main.get("level") == "system":
        yield f"{width}: label outputs of more systems, which narrow it more than documents do."
        return
    interval = Interval(main["low"], main["high"])
    needed = documents_for_width(interval, main["n_documents"], PLANNED)
    yield (
        f"{width}; about {needed:,} bring it to ±{PLANNED:g} or less (in {POWER:.0%} of the cases)."
    )


def _on_scores(judged: JudgedSplit, measures: Measures) -> Iterator[str]:
    """What else moves the judge: ties, attacks, length, position."""
    use, length, pairs = measures.use, measures.preferences.get(LENGTH), measures.pairs
    if use and use.tied > TIED:
        yield (
            f"The judge gives {use.tied:.0%} of the pairs within a document the same score, and "
            "ties cost rank agreement: try `--weighted` where the model gives probabilities, or "
            "`--samples 10`."
        )
    scale_width = judged.scale[-1] - judged.scale[0] if judged.scale else 2
    control = next((shift.mean for attack, shift in measures.shifts if attack.control), 0.0)
    gains = [
        (shift.mean - control, attack.name, attack.title)
        for attack, shift in measures.shifts
        if not attack.control and shift.interval is not None and shift.interval.low > 0
    ]
    if gains and max(gains)[0] >= MOVED * scale_width:
        gain, _, attack_title = max(gains)
        yield (
            f"Outputs can talk the judge up ({attack_title}: +{gain:.2f} beyond a neutral "
            "line): do not let it gate outputs whose authors gain from its scores."
        )
    if length and length.interval and 0 not in length.interval:
        side = "longer" if length.value > 0 else "shorter"
        yield (
            f"The judge favours {side} outputs beyond what people do (rho {length.value:+.2f}): "
            "say in the instruction that length alone earns nothing, or compare systems of like "
            "length."
        )
    if pairs and pairs.rate.flip_rate > TIED:
        yield (
            f"{pairs.rate.flip_rate:.0%} of the preferences follow the order in which the two are "
            "shown: always ask in both orders, as this project does, and count disagreement as a "
            "tie."
        )


def _on_people(measures: Measures, summary: Mapping[str, Any] | None) -> Iterator[str]:
    """What the share of the ceiling says as far as its interval goes; another dimension's halo."""
    ceiling, dimensions = measures.annotator_agreement.ceiling, measures.dimensions
    gain = summary["gain"]["test"] if summary else {}
    if ceiling and ceiling.share_interval:
        share, interval = ceiling.share, ceiling.share_interval
        if share < FAR and interval.high < NEAR:
            yield (
                f"The judge reaches {share:.0%} of what annotators reach among themselves, so "
                "there is room: a stronger `--lm`, or more train documents for demonstrations, "
                "come first."
            )
        # Nothing that a gain on this very page denies.
        elif share >= NEAR and interval.low >= FAR and not (gain.get("low") or 0) > 0:
            yield (
                "The judge agrees with annotators about as well as they agree with each other: "
                "these labels cannot show a better judge; more annotators an output could."
            )
    if dimensions and dimensions.halo:
        rhos = {name: rho for name, rho in dimensions.with_judge.items() if not math.isnan(rho)}
        rival = max(rhos, key=rhos.__getitem__)
        own = dimensions.own
        yield (
            f"It agrees more with people on {rival} (rho {rhos[rival]:.2f}) than on {own} "
            f"({rhos[own]:.2f}): sharpen the definition so that the two come apart."
        )


def _how_to_use(summary: Mapping[str, Any] | None, measures: Measures) -> str:
    rho = "rho of margins" if measures.pairs else "rho"
    if summary is None:
        return (
            f"To hold this judge to its {rho}, put `python -m optimize.verify` with "
            "`--min-spearman` into CI."
        )
    return (
        f"To use it, load this folder with `judges.load`; to hold it to its {rho} on labels of "
        "your own, put `python -m optimize.verify` with `--min-spearman` into CI."
    )
