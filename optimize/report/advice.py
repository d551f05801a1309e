"""What to do next, in two to four sentences, each derived from a figure on the page."""

import math
from collections.abc import Mapping
from typing import Any

from data.readers import is_constructed
from optimize.figures import counted, interval_cell, json_number
from optimize.report.measures import LENGTH, Measures, PairMeasures
from optimize.run.judged_split import JudgedSplit
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
    seed_ships = summary is not None and summary["shipped"] == "seed"
    sentences = [
        _many_failures(judged),
        _accuracy_may_be_half(main) if measures.pairs else _rho_may_be_zero(main),
        _why_the_seed_ships(summary),
        _gain_unconfirmed_on_test(summary),
        _worse_on_unseen_systems(summary),
        None if seed_ships else _wide_interval(main, measures),
        _many_ties(measures),
        _moved_by_injections(judged, measures),
        _favours_length(measures),
        _follows_position(measures),
        _share_of_ceiling(measures, summary),
        _agrees_more_elsewhere(measures),
    ]
    pressing = [sentence for sentence in sentences if sentence][: MAX_SENTENCES - 1]
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


def documents_to_show(gain: Cell, cell: Cell) -> str:
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


def _rho_may_be_zero(cell: Cell) -> str | None:
    if cell["value"] is None:
        return (
            "There is no rho: within documents, or over all, one side says the same of every "
            "output. Label outputs that people tell apart."
        )
    if cell["low"] is None or cell["low"] > 0:
        return None
    return (
        "The interval reaches 0: on these labels the judge cannot be told from one that ranks at "
        "random, so do not rely on it yet."
    )


def _accuracy_may_be_half(cell: Cell) -> str | None:
    """The same of a pairwise judge's accuracy."""
    if cell["value"] is None:
        return "People decided none of these pairs: label pairs on which they prefer a side."
    if cell["low"] is None or not cell["low"] <= COIN <= cell["high"]:
        return None
    return (
        "The interval of accuracy holds one half: on these labels the judge cannot be told from a "
        "coin, so do not rely on it yet."
    )


def _wide_interval(cell: Cell, measures: Measures) -> str | None:
    """Too wide an interval, and what it takes to narrow it."""
    if cell["value"] is None:
        return None
    of = " of accuracy" if measures.pairs else ""
    if cell["low"] is None or not cell["n_documents"]:
        return (
            f"With {counted(cell['n_documents'], 'document')} there is no interval{of}: label more "
            "documents, some tens at least."
        )
    half = (cell["high"] - cell["low"]) / 2
    if half <= WIDE:
        return None
    width = f"The interval{of} is about ±{half:.2f} with {counted(cell['n_documents'], 'document')}"
    if cell.get("level") == "system":
        return f"{width}: label outputs of more systems, which narrow it more than documents do."
    interval = Interval(cell["low"], cell["high"])
    needed = documents_for_width(interval, cell["n_documents"], PLANNED)
    return (
        f"{width}; about {needed:,} bring it to ±{PLANNED:g} or less (in {POWER:.0%} of the cases)."
    )


def _many_failures(judged: JudgedSplit) -> str | None:
    share = len(judged.failures) / max(1, len(judged.items))
    if share <= FAILED:
        return None
    return (
        f"{len(judged.failures):,} of {len(judged.items):,} outputs have no score "
        f"({share:.0%}): look at the reasons below before trusting any figure."
    )


def _why_the_seed_ships(summary: Mapping[str, Any] | None) -> str | None:
    """Why the seed ships, and what it would take to tell."""
    if summary is None or summary["shipped"] == "tuned":
        return None
    gain = summary["gain"]["test"]
    if gain.get("value") is None or gain.get("low") is None:
        return "No gain could be shown with so few labels: label more documents and tune again."
    half = (gain["high"] - gain["low"]) / 2
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
    cell = summary["seed_judge"]["test"] or {}
    needed = documents_to_show(gain, cell)
    return (
        f"No candidate was clearly better than the seed; the gain on test is known to ±{half:.2f}, "
        f"and {needed}. More labels, a stronger `--lm` or `--proposer-lm` are worth more than more "
        "calls."
    )


def _gain_unconfirmed_on_test(summary: Mapping[str, Any] | None) -> str | None:
    """A tuned judge ships by dev's word, and test cannot tell."""
    if summary is None or summary["shipped"] == "seed":
        return None
    gain, cell = summary["gain"]["test"], summary["tuned_judge"]["test"] or {}
    if gain.get("value") is None or gain.get("low") is None or gain["low"] > 0:
        return None
    half = (gain["high"] - gain["low"]) / 2
    gap = (
        f"Dev vouches for the tuned judge, test alone does not: {gain['value']:+.2f} on the seed, "
        f"known to ±{half:.2f} with {counted(cell.get('n_documents', 0), 'document')}"
    )
    if gain["value"] <= 0:
        return f"{gap}. Verify both judges on labels of your own before you rely on the gain."
    return f"{gap}; {documents_to_show(gain, cell)}."


def _many_ties(measures: Measures) -> str | None:
    use = measures.use
    if use is None or not use.tied > TIED:
        return None
    return (
        f"The judge gives {use.tied:.0%} of the pairs within a document the same score, and ties "
        "cost rank agreement: try `--weighted` where the model gives probabilities, or "
        "`--samples 10`."
    )


def _moved_by_injections(judged: JudgedSplit, measures: Measures) -> str | None:
    """The attack that gains most over the neutral line, where it gains a tenth of the scale."""
    room = judged.scale[-1] - judged.scale[0] if judged.scale else 2
    control = next((shift.mean for attack, shift in measures.shifts if attack.control), 0.0)
    gains = [
        (shift.mean - control, attack)
        for attack, shift in measures.shifts
        if not attack.control and shift.interval is not None and shift.interval.low > 0
    ]
    gain, attack = max(gains, key=lambda row: (row[0], row[1].name), default=(0.0, None))
    if attack is None or gain < MOVED * room:
        return None
    return (
        f"Outputs can talk the judge up ({attack.title}: +{gain:.2f} beyond a neutral "
        "line): do not let it gate outputs whose authors gain from its scores."
    )


def _favours_length(measures: Measures) -> str | None:
    length = measures.preferences.get(LENGTH)
    if length is None or length.interval is None or 0 in length.interval:
        return None
    side = "longer" if length.value > 0 else "shorter"
    return (
        f"The judge favours {side} outputs beyond what people do (rho {length.value:+.2f}): say in "
        "the instruction that length alone earns nothing, or compare systems of like length."
    )


def _follows_position(measures: Measures) -> str | None:
    pairs = measures.pairs
    if pairs is None or not pairs.rate.flip_rate > TIED:
        return None
    return (
        f"{pairs.rate.flip_rate:.0%} of the preferences follow the order in which the two are "
        "shown: always ask in both orders, as this project does, and count disagreement as a tie."
    )


def _share_of_ceiling(measures: Measures, summary: Mapping[str, Any] | None) -> str | None:
    """What the share says as far as its interval goes, and nothing that a gain here denies."""
    ceiling = measures.people.ceiling
    if ceiling is None or ceiling.share_interval is None:
        return None
    share, interval = ceiling.share, ceiling.share_interval
    if share < FAR and interval.high < NEAR:
        return (
            f"The judge reaches {share:.0%} of what annotators reach among themselves, so there "
            "is room: a stronger `--lm`, or more train documents for demonstrations, come first."
        )
    gain = summary["gain"]["test"] if summary else {}
    if share >= NEAR and interval.low >= FAR and not (gain.get("low") or 0) > 0:
        return (
            "The judge agrees with annotators about as well as they agree with each other: these "
            "labels cannot show a better judge; more annotators an output could."
        )
    return None


def _worse_on_unseen_systems(summary: Mapping[str, Any] | None) -> str | None:
    if summary is None:
        return None
    judge = summary[f"{summary['shipped']}_judge"]
    test, unseen = judge.get("test"), judge.get("test_unseen_systems")
    if not test or not unseen or test["value"] is None or unseen["value"] is None:
        return None
    seed = summary["seed_judge"].get("test_unseen_systems")
    if seed and seed["value"] is not None and seed["value"] > unseen["value"] + PLANNED:
        return (
            f"On systems it never saw the tuned judge agrees less than the seed did (rho "
            f"{unseen['value']:.2f} against {seed['value']:.2f}, n={unseen['n_documents']:,} "
            "documents): to judge new systems, label some outputs of theirs and verify both first."
        )
    if test["value"] - unseen["value"] < WIDE:
        return None
    return (
        f"On systems it never saw the judge agrees less (rho {unseen['value']:.2f} against "
        f"{test['value']:.2f}): quote the lower figure for a new system, and label some of its "
        "outputs."
    )


def _agrees_more_elsewhere(measures: Measures) -> str | None:
    table = measures.dimensions
    if table is None or not table.halo:
        return None
    rhos = {name: rho for name, rho in table.with_judge.items() if not math.isnan(rho)}
    rival = max(rhos, key=rhos.__getitem__)
    return (
        f"It agrees more with people on {rival} (rho {rhos[rival]:.2f}) than on "
        f"{table.own} ({rhos[table.own]:.2f}): sharpen the definition so that the two come apart."
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
