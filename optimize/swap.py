"""The certificate of a swap: may this judge or model take the place of that one?

`verify NEW --against OLD` measures both on labels that taught neither, and holds the interval of
the difference against a margin. Of judges that are worse by the margin at most 5 of 100 pass
(benchmarks/swaps.py).
"""

import argparse
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dspy_judges.errors import JudgesError
from judges.cli.flags import split_name
from optimize.compare import compare_judges, contrast_of, on_common_rows, unmet_by_all
from optimize.figures import as_text as text
from optimize.figures.as_json import DIGITS, json_number, value_cell
from optimize.inputs.flags import MOST_FAILED, SettingsError
from optimize.measuring.asking import Entry, Task, ask_entries
from optimize.measuring.misses import said_of
from optimize.measuring.request import asking_options, check_names, read_judges, read_task
from optimize.measuring.scored import Scored
from optimize.report import answer
from optimize.statistics.balanced import FEWEST_FOR_INTERVAL, THRESHOLD, verdicts
from optimize.statistics.correlations import Mask, document_terms, midranks, read_rows
from optimize.statistics.floor import MOST_FURTHER
from optimize.statistics.intervals import Contrast, Interval, Vector, cautious_interval

MARGIN = 0.03
# So many changed rows stand in JSON, and on a screen of so many lines.
MOST_CHANGED, MOST_SHOWN, MOST_LINES = 100, 3, 12
OF_ONE_JUDGE = ("min_spearman", "min_tpr", "min_tnr", "report", "all")


def swap(flags: argparse.Namespace) -> dict[str, Any]:
    """The result that --json prints."""
    margin = MARGIN if flags.margin is None else flags.margin
    if not 0 < margin < 1:
        raise SettingsError(f"--margin {margin:g}: it is between 0 and 1")
    given = [getattr(flags, name) for name in OF_ONE_JUDGE]
    if any(value is not None and value is not False for value in given):  # 0 is a floor
        raise SettingsError(
            "--min-..., --report and --all are of one judge: leave them out beside --against "
            "(dspy-judges compare draws a page of both)"
        )
    recordings = [split_name(each) for each in (*flags.scores, *flags.replies)]
    is_recorded = flags.against in [name or Path(file).stem for name, file in recordings]
    specs = [*flags.judges, *([] if is_recorded else [flags.against])]
    if len(specs) + len(recordings) != 2:
        raise SettingsError(
            "name one new judge (JUDGE, --scores FILE or --replies FILE), and the old one by "
            "--against JUDGE, or recorded by --scores OLD=FILE --against OLD"
        )
    task, entries = read_task(flags, read_judges(flags, map(split_name, specs), flags.lm or ""))
    if task.items().is_weighted:
        raise SettingsError(
            f"{task.labelled.name}: its documents were drawn with unequal chances, and a swap is "
            "decided on labels drawn at random: leave out the rows with a sampling_weight, or "
            "verify each judge by itself, which weighs them"
        )
    check_names(entries)
    entries = ask_entries(entries, task, seed=flags.seed, **asking_options(flags))
    names = [entry.name for entry in entries]
    old = names.index(flags.against) if is_recorded else len(specs) - 1
    return certificate(entries[1 - old], entries[old], task, margin)


def certificate(new: Entry, old: Entry, task: Task, margin: float) -> dict[str, Any]:
    """The verdict, the difference that it rests on, and what changes with the swap.

    Raises JudgesError where a judge has no score for more than a tenth of the labels.
    """
    both: dict[str, Scored] = {}
    for entry in (new, old):
        name, scored = entry.name, entry.scored
        if scored is None:
            raise JudgesError(f"{name}: {entry.reason}")
        failed, n = len(scored.failures) + scored.n_unjudged, len(scored.items) + scored.n_unjudged
        if failed > MOST_FAILED * n:
            raise JudgesError(
                f"no verdict: {name} has no score for {failed:,} of {n:,} labels; at most "
                f"{MOST_FAILED:.0%} may fail or be missing"
            )
        both[name] = scored
    result = compare_judges([new, old], task)
    cards = sorted(result["judges"], key=lambda card: card["name"] != new.name)
    a, b = unmet_by_all(on_common_rows(both)).values()
    judged = np.flatnonzero(~np.isnan(a.scores + b.scores)).tolist()
    a, b = a.of_rows(judged), b.of_rows(judged)
    contrast, interval, least = difference_of(a, b)
    value, terms, needed = contrast.value, contrast.terms, None
    outcome, changed = outcome_of(interval, margin), changed_rows(a, b)
    if a.met or b.met:
        outcome = "undecided"  # and no number of labels like these would help
    elif interval and outcome == "undecided":
        needed = documents_to_decide(terms, least, margin)
    result |= {
        "swap": outcome,
        "margin": margin,
        "difference": {**value_cell(value, interval, DIGITS), "n_documents": terms.size},
        "documents_to_decide": needed,
        "n_changed": len(changed),
        "moved": Counter(row["moved"] for row in changed),
        "people_side_with": Counter(row["people_side_with"] for row in changed),
        "changed": changed[:MOST_CHANGED],
        "judges": cards,
    }
    said = [verdict_sentence(result)]
    result["short"] = said if outcome == "worse" else []
    return {**result, "undecided": said if outcome == "undecided" else []}


def difference_of(new: Scored, old: Scored) -> tuple[Contrast, Interval | None, float]:
    """The new judge's figure less the old one's, its 90 % interval, and the `least` of that."""
    binary = new.is_binary and old.is_binary
    contrast = contrast_of(new, old, binary=binary)
    n, least = contrast.terms.size, 0.0  # what a document may add
    if binary:
        labels, counts = np.unique(new.human, return_counts=True)
        if counts.min() < FEWEST_FOR_INTERVAL:
            return contrast, None, least
        least = n / 2 * _share_of_document(new.documents, new.human == labels[counts.argmin()])
    elif contrast.interval is None and np.unique(contrast.terms).size > 1:
        return contrast, None, least
    elif new.is_pairs:
        least = n * _share_of_document(new.documents, new.human != 0)
    elif new.level != "system" and n:
        least = _loss_of_document(old)
    return contrast, cautious_interval(contrast.terms, least), least


def _share_of_document(documents: Sequence[str], chosen: Mask) -> float:
    """Of the chosen outputs the share on one's document, on average over the outputs."""
    counts = np.unique(np.asarray(documents)[chosen], return_counts=True)[1]
    shares = counts / counts.sum()  # whole documents, as a judge may err on all outputs of one
    return float(shares @ shares)


def _loss_of_document(old: Scored) -> float:
    """What a judge like the old one loses where it comes to rank a document's outputs at random.

    It loses what the document adds to its rho, here the 90 % quantile over documents. Within a
    document one of the k! orders of k outputs is the right one, and the loss does not show.
    """
    rows = read_rows(old.scores, old.human, old.documents)
    outputs = rows.judge.size / rows.n_documents if old.level == "summary" else math.inf
    shown = max(0.5, 1 - math.exp(-math.lgamma(outputs + 1)))
    return float(np.nanquantile(document_terms(rows, old.level), 0.9)) / shown


def documents_to_decide(terms: Vector, least: float, margin: float) -> int | None:
    """How many documents in all decide, if further ones repeat these; None for too many."""
    for times in range(2, MOST_FURTHER // terms.size + 1):
        interval = cautious_interval(np.tile(terms, times), least)
        if outcome_of(interval, margin) != "undecided":
            return times * int(terms.size)
    return None


def outcome_of(interval: Interval | None, margin: float) -> str:
    """Better, not worse (by the margin), worse (by more), or undecided."""
    if interval is None or interval.low <= -margin <= interval.high:
        return "undecided"
    if interval.high < -margin:
        return "worse"
    return "better" if interval.low > 0 else "not worse"


def changed_rows(new: Scored, old: Scored) -> list[dict[str, Any]]:
    """The rows on which the judges differ in verdict, side, or else in rank among the others.

    Those that moved most come first; of these, those on which people side with the old judge.
    """
    binary, scores = new.is_binary and old.is_binary, (new.scores, old.scores, new.human)
    places = np.stack([verdicts(side) if binary else np.sign(side) for side in scores])
    for rows in [] if binary or new.is_pairs else new.ranked_rows:
        places[:, rows] = midranks(np.stack([side[rows] for side in scores])) / rows.size
    now, before, people = places
    nearer = np.abs(before - people) - np.abs(now - people)
    order = np.lexsort((nearer, -np.abs(now - before)))
    return [
        {
            "id": new.items.items[row].id,
            "moved": "up" if now[row] > before[row] else "down",
            "people_side_with": ("neither", "new", "old")[int(np.sign(nearer[row]))],
            "new": json_number(new.scores[row]),
            "old": json_number(old.scores[row]),
            "human": json_number(new.human[row]),
            **said_of(new, row),
        }
        for row in order[now[order] != before[order]].tolist()
    ]


def verdict_sentence(result: Mapping[str, Any]) -> str:
    """What these labels certify."""
    new, old = (text.short_name(card["name"]) for card in result["judges"])
    by = "" if result["swap"] == "better" else f" by more than {result['margin']:g}"
    if result["swap"] == "undecided":
        if (result["difference"]["high"] or 0) < 0:
            return f"{new} is worse than {old}; these labels cannot tell whether{by}."
        return f"These labels cannot tell whether {new} is worse than {old}{by}."
    claim = f"On these labels {new} is {result['swap']} than {old}{by}."
    if result["swap"] == "not worse" and result["difference"]["high"] < 0:
        claim = f"On these labels {new} is worse than {old}, but by less than {result['margin']:g}."
    wrong = {"better": "no better", "worse": f"worse by {result['margin']:g} or less"}
    otherwise = wrong.get(result["swap"], f"worse by {result['margin']:g}")
    return f"{claim} Of judges that are {otherwise}, at most 5% would get this verdict."


def swap_lines(result: Mapping[str, Any]) -> list[str]:
    """A certificate in at most twelve lines, the verdict first."""
    difference, figure, cards = result["difference"], answer.figure_name(result), result["judges"]
    figure = f"{result['level']}-level rho" if figure == "rho" else figure
    named = [(text.short_name(card["name"]), card) for card in cards]
    figures = ", ".join(f"{n} {text.cell_text(answer.ranked_by(card))}" for n, card in named)
    failed = [(n, number) for n, card in named if (number := card["correlations"][0]["n_failed"])]
    left_out = ", ".join(f"{number:,} of {name}" for name, number in failed)
    prices = "; ".join(f"{n} {_price(card)}" for n, card in named)
    unit = "system" if result["level"] == "system" else "document"
    lines = text.wrapped(
        verdict_sentence(result),
        f"{figure} of {result['dimension']} on {answer.labels_of(result)}: {figures}.",
        f"Difference {text.number_text(difference['value'], signed=True)}, "
        f"n={text.counted(difference['n_documents'], unit)}; 90% interval: "
        f"{text.interval_text(difference['low'], difference['high'], signed=True)}."
        + (f" Failed and left out: {left_out}." if failed else ""),
        _changes(result, *(name for name, _ in named)),
    )
    last = text.wrapped(f"1,000 rows: {prices}.", f"Next: {_next_step(result, unit)}")
    room = max(0, min(MOST_SHOWN, MOST_LINES - len(lines) - len(last)))
    for row in result["changed"][:room]:
        old, new, people = (_word(result, row[who]) for who in ("old", "new", "human"))
        lines.append(text.miss_line({**row, "miss": f"{old} → {new} (people {people})"}))
    return [*lines, *last]


def _changes(result: Mapping[str, Any], new: str, old: str) -> str:
    """How many rows change, and with whom people side there."""
    n, unit = result["n_changed"], answer.unit_of(result)
    if not n:
        return f"None of the {unit} changes."
    moved, sides, which = result["moved"], result["people_side_with"], ""
    if answer.is_binary(result):
        which = f" ({moved['up']:,} fail → pass, {moved['down']:,} pass → fail)"
    return (
        f"{text.counted(n, unit[:-1])} change{'s' * (n == 1)}{which}; people side with {new} "
        f"on {sides['new']:,}, with {old} on {sides['old']:,}."
    )


def _word(result: Mapping[str, Any], value: float) -> str:
    if answer.is_binary(result):
        return "pass" if value >= THRESHOLD else "fail"
    if answer.is_paired(result):
        return "A" if value > 0 else "B" if value < 0 else "tie"
    return f"{value:.3g}"


def _price(card: Mapping[str, Any]) -> str:
    """What 1,000 rows take, where the judge was asked; replies that were kept tell no time."""
    if card["source"] == "recorded":
        return "recorded"
    seconds = card["seconds_per_1000_rows"]
    took = "time unknown" if seconds is None else f"{seconds:,.3g} s"
    return f"{text.cost_text(card['cost_per_1000_rows'])}, {took}"


def _next_step(result: Mapping[str, Any], unit: str) -> str:
    """What to do after a certificate, in a line."""
    if answer.has_constructed_labels(result):
        return "measure both on labels of your own (--data FILE); nobody gave these"
    if any(card["tuned_on_these_labels"] for card in result["judges"]):
        return "bring labels that neither was tuned on (--data FILE); here too few are left"
    if result["swap"] == "worse":
        return "keep the old judge, or tune the new one on other labels (dspy-judges tune)"
    if result["swap"] != "undecided" and result["difference"]["high"] < 0:
        return "the new judge is worse by less than the margin: use it if its price is worth that"
    if result["swap"] != "undecided":
        return "use the new judge; the same command holds it in CI"
    if needed := result["documents_to_decide"]:
        number = text.counted(needed, unit)
        advice = f"label more; about {number} in all would decide, if the difference stays"
        return f"keep the old judge, or {advice}" if result["difference"]["high"] < 0 else advice
    few = "; these are too few, or too alike, for an interval"
    return f"label more {unit}s{few if result['difference']['low'] is None else ''}"
