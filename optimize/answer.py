"""The answer in plain sentences, and what to do about it, in one form for page and screen.

Everything here is read from what `--json` prints of a run or of a verification.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from data.readers import is_constructed
from judges.client import is_embedded
from optimize.figures import counted, figure_text, many_failed, number_text
from optimize.statistics.bootstrap import POWER, Interval, documents_for_difference

# The smallest gain in rho that is worth planning for.
PLANNED = 0.05
# The share of pairs that tossing a coin orders as people do.
COIN = 0.5
WIDE = 0.10
# From this share of outputs on, fewer failures are an answer of their own.
FEWER_FAILED = 0.05

TUNED_ON_THEM = (
    "It was tuned on these very labels, so every figure here flatters it. Verify it on labels that "
    "it has not met."
)
CONSTRUCTED = (
    "These labels are constructed, computed from known faults; no person gave them. They show that "
    "the judge finds those faults. They do not show agreement with people."
)
# Annotators, or pairs of them, whose figures are printed one by one.
MOST_LISTED = 3
# What people read for the judges that JSON calls seed and tuned.
WORDS = {"seed": "untuned", "tuned": "tuned"}

Cell = Mapping[str, Any]
Summary = Mapping[str, Any]


def run_answer(summary: Summary, *, paired: bool) -> list[str]:
    """How a run's judge agrees with people, how sure that is, and whether tuning helped."""
    shipped = summary["shipped"]
    cell, order = summary[f"{shipped}_judge"].get("test"), _order(summary, "test", shipped)
    if cell is None:
        return [
            f"The {WORDS[shipped]} judge is ready. No labels were held out for a test, so its "
            "agreement with people on new texts is not known."
        ]
    unit = "pairs" if paired else "outputs"
    failed = many_failed(cell["n_failed"], cell["n_outputs"] + cell["n_failed"], unit)
    return [
        *([failed] if failed else []),
        agreement(f"The {WORDS[shipped]} judge", order, cell, summary, paired=paired),
        *two_people(order, summary),
        *_unseen(summary, paired=paired),
        *([] if _says_nothing(cell) else [gain_sentence(summary, unit)]),
    ]


def verification_answer(result: Summary) -> list[str]:
    """How a judge agrees with people, how sure that is, and whether that is what was asked for."""
    paired, cell = "accuracy" in result, result["correlations"][0]
    unit, order = "pairs" if paired else "outputs", result.get("order")
    failed = many_failed(cell["n_failed"], result["data"]["n_outputs"], unit)
    reasons = "; ".join(result.get("short", ()))
    return [
        *([failed] if failed and not _says_nothing(cell) else []),
        agreement("The judge", order, cell, result, paired=paired),
        *two_people(order, result),
        *([f"It falls short of what was asked for: {reasons}."] if reasons else []),
    ]


def panel_answer(summary: Summary) -> list[str]:
    """How what ships of a panel agrees with people; nothing where no labels were held out."""
    cell = summary["panel"].get("test")
    if cell is None:
        return []
    who = "The best single judge" if summary["shipped"] == "own" else "The panel"
    order = _order(summary, "test", "panel")
    return [agreement(who, order, cell, summary, paired=summary["kind"] == "pairwise")]


def order_sentence(result: Summary) -> str:
    """In how many of a hundred pairs the judge does as people do, beside two people and a coin."""
    order, cell = result.get("order"), result["correlations"][0]
    if _says_nothing(cell):
        return "The judge gave no score at all."
    if order is None or order["value"] is None:
        return "No agreement can be counted: people order no two outputs that have a score."
    people = people_of(result)
    if "accuracy" in result:
        does = f"It prefers the same side as {people} in {order['value']:.0%} of the pairs"
    else:
        of_one = "" if result["level"] == "dataset" else " of one document"
        does = f"It orders two outputs{of_one} as {people} do in {order['value']:.0%} of pairs"
    two = order.get("two_people")
    beside = f"{two_of(result)} {two['value']:.0%}, " if two and two["value"] is not None else ""
    return f"{does} ({beside}a coin {COIN:.0%})"


def people_sentences(people: Summary | None) -> list[str]:
    """The judge among the annotators, a line each; nothing where these are not known."""
    if not people:
        return []
    agreement = people["agreement"]
    lines = [
        f"{who}: equal labels {_several(rows, 'equal', '.0%')}; rho {_several(rows, 'rho', '.3f')}"
        for who, rows in (
            ("Judge and each annotator", agreement["judge"]),
            ("Annotators, two by two", agreement["annotators"]),
        )
    ]
    judge, ceiling, share = (
        people[name] for name in ("judge_under_ceiling", "ceiling", "share_of_ceiling")
    )
    if people["why_no_share"]:
        lines.append(f"No share of the human ceiling: {people['why_no_share']}")
    else:
        lines.append(
            f"Share of the human ceiling: {figure_text(*share.values())} "
            f"({number_text(judge['value'])} of {number_text(ceiling['value'])})"
        )
    if people["annotators"]:
        verdict = "passed" if people["passed"] else "not passed"
        lines.append(f"Alternative-annotator test (epsilon 0.2): {verdict}")
    return lines


def _several(rows: Sequence[Summary], key: str, form: str) -> str:
    """The figures of up to three rows; of more the lowest and the highest."""
    values = [row[key] for row in rows if row[key] is not None]
    if not values:
        return "undefined"
    if len(values) > MOST_LISTED:
        return f"{min(values):{form}} to {max(values):{form}}"
    return ", ".join(f"{value:{form}}" for value in values)


def short_warnings(result: Summary) -> list[str]:
    """What makes the figures no measure of agreement with people, in a line each."""
    lines = []
    if has_constructed_labels(result):
        lines.append("The labels are constructed from known faults: no person gave them")
    if result.get("tuned_on_these_labels"):
        lines.append("It was tuned on these very labels, so every figure here flatters it")
    return lines


def short_scale_warning(result: Summary) -> str:
    """`scale_warning` in a line; empty where the judge's mean is near the labels'."""
    scales = result.get("scales")
    if not scales or not scales["is_shifted"]:
        return ""
    return (
        f"Its mean is {scales['judge_mean']:.2f}, the labels' {scales['human_mean']:.2f}: only "
        "the order of its scores is measured"
    )


def verification_step(result: Summary) -> str:
    """What to do after a verification, in a line."""
    cell, paired = result["correlations"][0], "accuracy" in result
    low = result["accuracy_low"] if paired else cell["low"]
    high = result["accuracy_high"] if paired else cell["high"]
    if _says_nothing(cell):
        return "mend the failures; --report FILE.html lists the reasons"
    if result.get("tuned_on_these_labels"):
        return "measure it on labels that it was not tuned on (--data FILE)"
    if has_constructed_labels(result):
        return "measure it on labels of your own (--data FILE)"
    if low is None:
        return "label more documents; these are too few for an interval"
    if low <= (COIN if paired else 0):
        return "do not rely on it yet; on these labels it may be chance"
    if (high - low) / 2 > WIDE:
        return f"label more documents; the interval is ±{(high - low) / 2:.2f} wide"
    return "--report FILE.html shows its worst errors; --min-spearman X gates a CI"


def _says_nothing(cell: Cell) -> bool:
    return not cell["n_outputs"]


def _order(summary: Summary, split: str, judge: str) -> Cell | None:
    name = judge if judge == "panel" else f"{judge}_judge"
    order: Cell | None = summary.get("order", {}).get(split, {}).get(name)
    return order


def agreement(who: str, order: Cell | None, cell: Cell, result: Summary, *, paired: bool) -> str:
    """In how many of a hundred pairs it does as people do, with its interval, beside a coin."""
    if _says_nothing(cell):
        return f"{who} gave no score at all, so there is nothing to report."
    people = people_of(result)
    if order is None:
        figure = figure_text(cell["value"], cell["low"], cell["high"])
        return f"{who} agrees with {people} at {cell['level']}-level rho {figure}."
    if order["value"] is None and paired:
        return "There is no accuracy to report: people decided none of the pairs that have a score."
    if order["value"] is None:
        return (
            f"There is no agreement to report: {people} order no two of the outputs that could be "
            "compared."
        )
    if paired:
        does = f"{who} prefers the same side as {people} in"
        of_what = "of the pairs that they decided"
    else:
        of_one = "" if result["level"] == "dataset" else " of one document"
        does, of_what = f"{who} orders two outputs{of_one} as {people} do in", "of pairs"
    lead = f"{does} {order['value']:.0%} {of_what} ({_certainty(order)})"
    if order["low"] is None or order["low"] > COIN:
        return f"{lead}; a coin toss would in {COIN:.0%}."
    if order["high"] >= COIN:
        return f"{lead}, which cannot be told from tossing a coin ({COIN:.0%})."
    return f"{lead}, which is less than tossing a coin would ({COIN:.0%})."


def people_of(result: Summary) -> str:
    """Who gave the labels: constructed ones are nobody's."""
    return "the constructed labels" if has_constructed_labels(result) else "people"


def has_constructed_labels(result: Summary) -> bool:
    """Whether no figure says anything of people."""
    return is_constructed(str(result["data"]["sha256"]))


def warnings(result: Summary) -> list[str]:
    """What would mislead a reader who does not know it."""
    constructed = CONSTRUCTED if has_constructed_labels(result) else ""
    tuned = TUNED_ON_THEM if result.get("tuned_on_these_labels") else ""
    return [text for text in (constructed, tuned, scale_warning(result)) if text]


def two_of(result: Summary) -> str:
    """Two of those who gave the labels."""
    return "two people" if people_of(result) == "people" else "two constructed labels"


def _certainty(order: Cell) -> str:
    documents = counted(order["n_documents"], "document")
    if order["low"] is None:
        return f"{documents}: too few to say how sure that is"
    return f"95% interval {_ends(order)}; {documents}"


def _ends(cell: Cell) -> str:
    return f"{cell['low']:.0%} to {cell['high']:.0%}"


def two_people(order: Cell | None, result: Summary) -> Iterator[str]:
    """What two people reach, where there are several, and the judge on the very same terms."""
    if not order or not order.get("two_people"):
        return
    people, judge = order["two_people"], order["against_one"]
    if people["value"] is None or judge["value"] is None:
        return
    of_people, of_judge = (
        f"{side['value']:.0%}" + ("" if side["low"] is None else f" ({_ends(side)})")
        for side in (people, judge)
    )
    two = two_of(result)
    yield (
        f"{two[0].upper()}{two[1:]} agree in {of_people}; the judge and one of them alone agree in "
        f"{of_judge}."
    )


def _unseen(summary: Summary, *, paired: bool) -> Iterator[str]:
    """The same on systems that the judge was not tuned on; that none were held out."""
    order = _order(summary, "test_unseen_systems", summary["shipped"])
    if order and order["value"] is not None:
        yield f"On unseen systems it does so in {order['value']:.0%} ({_certainty(order)})."
    elif not paired and summary["data"]["n_systems"] > 1:
        yield "No systems were held out, so how it does on new ones is not known."


def gain_sentence(summary: Summary, unit: str = "outputs") -> str:
    """Whether tuning helped on test; where that is not settled, what would settle it."""
    shipped, gain = summary["shipped"], summary["gain"]["test"]
    ships = f"the {WORDS[shipped]} judge ships"
    if not gain or gain.get("value") is None:
        return f"Whether tuning helped is not known: its gain on test is undefined; {ships}."
    value, low, high = gain["value"], gain["low"], gain["high"]
    if low is None:
        return (
            f"Whether tuning helped is not known: with so few documents its gain on test "
            f"({value:+.3f} rho) has no interval; {ships}."
        )
    if value == low == high == 0:
        return f"The search found nothing better than the untuned judge, so {ships}."
    figure = f"{_shares(summary)}{value:+.3f} rho on test [{low:.3f}, {high:.3f}]"
    if low > 0:
        if shipped == "tuned":
            return f"Tuning helped: {figure}; {ships}.{_fewer_failures(summary, unit)}"
        return f"On test the tuned judge does better ({figure}), but dev could not tell; {ships}."
    if high < 0:
        but = ", yet on dev it did better" if shipped == "tuned" else ""
        return f"Tuning made it worse: {figure}{but}; {ships}."
    if high < PLANNED:
        return f"If tuning helped, then by less than {PLANNED:g}: {figure}; {ships}."
    cell = summary[f"{shipped}_judge"]["test"]
    return (
        f"Whether tuning helped is not settled: {figure}; {what_settles(gain, cell)}. "
        f"{ships[0].upper()}{ships[1:]}.{_fewer_failures(summary, unit)}"
    )


def _shares(summary: Summary) -> str:
    """From the untuned to the tuned judge's share of pairs on test, where both are known."""
    seed, tuned = (_order(summary, "test", judge) for judge in ("seed", "tuned"))
    if not seed or not tuned or seed["value"] is None or tuned["value"] is None:
        return ""
    return f"from {seed['value']:.0%} to {tuned['value']:.0%} of pairs, "


def what_settles(gain: Cell, cell: Cell) -> str:
    """How many further test documents would show the gain, as a clause.

    Planned for the gain as large as it looks, but at least 0.05: from the standard error of the
    paired bootstrap, for an interval that leaves out 0 with a probability of 0.8.
    """
    n_documents = cell.get("n_documents", 0) + cell.get("n_undefined", 0)
    if cell.get("level") == "system":
        return "more systems would settle it sooner than more documents, how many is not known"
    if n_documents < 2 or gain["low"] is None:
        return "how many documents would settle it is not known from so few"
    effect = max(gain["value"], PLANNED)
    needed = documents_for_difference(Interval(gain["low"], gain["high"]), n_documents, effect)
    further = needed - n_documents
    if further <= 0:
        return (
            f"so many documents show a true gain of {effect:g} in {POWER:.0%} of the cases, so the "
            "gain, if there is one, is probably smaller"
        )
    truth = "is as large as it looks" if gain["value"] >= PLANNED else f"is {PLANNED:g}"
    return (
        f"about {further:,} more test documents would settle it (with a power of {POWER:.0%}, if "
        f"the true gain {truth})"
    )


def _fewer_failures(summary: Summary, unit: str) -> str:
    """That the tuned judge fails on clearly fewer outputs, which a judge may ship for."""
    seed, tuned = (summary[f"{judge}_judge"]["test"] for judge in ("seed", "tuned"))
    if summary["shipped"] != "tuned" or seed is None or tuned is None:
        return ""
    n = tuned["n_outputs"] + tuned["n_failed"]
    if seed["n_failed"] - tuned["n_failed"] < FEWER_FAILED * n:
        return ""
    return (
        f" It fails on {tuned['n_failed']:,} of {n:,} {unit} of test, the untuned judge on "
        f"{seed['n_failed']:,}."
    )


def scale_warning(result: Summary) -> str:
    """A warning where the judge's mean or spread is not people's; else nothing."""
    scales = result.get("scales")
    if not scales or not (scales["is_shifted"] or scales["is_spread_differently"]):
        return ""
    people = people_of(result)
    possessive = "people's" if people == "people" else "the labels'"
    parts = []
    if scales["is_shifted"]:
        parts.append(
            f"its mean is {scales['judge_mean']:.2f}, {possessive} {scales['human_mean']:.2f}"
        )
    if scales["is_spread_differently"]:
        parts.append(
            f"its standard deviation is {scales['judge_sd']:.2f}, {possessive} "
            f"{scales['human_sd']:.2f}"
        )
    return (
        f"Do not read its scores as {possessive} ratings: on the same outputs "
        f"{', and '.join(parts)}. Every figure here is about their order."
    )


def next_steps(summary: Summary, *, paired: bool) -> list[str]:
    """What to do after a run, from its figures alone; the most pressing first."""
    if has_constructed_labels(summary):
        return [label_your_own(summary["dimension"], paired=paired, shipped=summary["shipped"])]
    cell = summary[f"{summary['shipped']}_judge"].get("test")
    if cell is None:
        return ["Measure it on labels that it has not met: `dspy-judges verify`."]
    order = _order(summary, "test", summary["shipped"])
    main = order if paired and order else cell
    failed = [] if not _says_nothing(cell) else [MEND]
    steps = [
        *failed,
        *([] if failed else on_agreement(main, paired=paired)),
        *on_the_run(summary),
        *([] if summary["shipped"] == "seed" else on_the_interval(main, paired=paired)),
    ]
    return steps[:2] or [how_to_use(run=True, paired=paired)]


MEND = (
    "Mend the failures first: the judge gave no score at all, so nothing here can be measured; "
    "the report lists the reasons."
)


def label_your_own(name: str, *, paired: bool, shipped: str | None) -> str:
    """The one thing to do with figures on constructed labels; `shipped` by a run, if it was one."""
    flag = "--pairwise" if paired else "--dimension"
    start = (
        f"Fifty {'decided pairs' if paired else 'rated outputs'} over twenty documents are a start"
    )
    if shipped is None:
        return (
            "Measure it on labels of your own: these were constructed, so no figure here says how "
            f"far the judge agrees with people. {start}."
        )
    judge = (
        "the tuned judge may agree with people less than the untuned one, so do not use it yet"
        if shipped == "tuned"
        else "nothing here says how far this judge agrees with people"
    )
    return (
        f"Tune on labels of your own: `dspy-judges tune {flag} {name} --data FILE`. This run's "
        f"were constructed from known faults: {judge}. {start}; `dspy-judges check FILE` reads "
        "them first."
    )


def on_agreement(main: Cell, *, paired: bool) -> Iterator[str]:
    """Yield what agreement that may be none asks for; `main` is of pairs the accuracy."""
    if paired and main["value"] is None:
        yield "People decided none of these pairs: label pairs on which they prefer a side."
    elif main["value"] is None:
        yield (
            "There is no rho: within documents, or over all, one side says the same of every "
            "output. Label outputs that people tell apart."
        )
    elif main["low"] is None:
        return
    elif paired and main["low"] <= COIN <= main["high"]:
        yield (
            "The interval of accuracy holds one half: on these labels the judge cannot be told "
            "from a coin, so do not rely on it yet."
        )
    elif not paired and main["low"] <= 0:
        yield (
            "The interval reaches 0: on these labels the judge cannot be told from one that ranks "
            "at random, so do not rely on it yet."
        )


def on_the_run(summary: Summary) -> Iterator[str]:
    """Yield what an untuned judge that ships, an unconfirmed gain and unseen systems ask for."""
    shipped, seed, gain = summary["shipped"], summary["seed_judge"], summary["gain"]["test"] or {}
    judge = summary[f"{shipped}_judge"]
    has_interval = gain.get("value") is not None and gain.get("low") is not None
    if shipped == "seed" and has_interval:
        yield _when_the_seed_ships(gain, summary["lm"])
    elif shipped == "seed":
        yield "No gain could be shown with so few labels: label more documents and tune again."
    elif has_interval and gain["low"] <= 0:
        yield (
            "Test alone does not confirm the gain that dev shows: verify both judges on further "
            "labels before you rely on it."
        )
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
            f"On systems it never saw the tuned judge agrees less than the untuned one (rho "
            f"{unseen:.2f} against {seed_unseen:.2f}, "
            f"n={judge['test_unseen_systems']['n_documents']:,} "
            "documents): to judge new systems, label some outputs of theirs and verify both first."
        )
    elif test - unseen >= WIDE:
        yield (
            f"On systems it never saw the judge agrees less (rho {unseen:.2f} against "
            f"{test:.2f}): quote the lower figure for a new system, and label some of its outputs."
        )


def _when_the_seed_ships(gain: Cell, lm: str) -> str:
    stronger = "a stronger `--lm` or `--proposer-lm`"
    if is_embedded(lm):
        stronger = "a language model by `--lm`"
    if gain["low"] == gain["high"] == 0:
        return (
            "The search found nothing better than the untuned judge: give it more calls "
            f"(`--max-calls`), more documents, or {stronger}."
        )
    if gain["low"] > 0:
        return (
            "Tune again with more documents, so that dev can tell the gain, and verify on new ones."
        )
    if gain["high"] < PLANNED:
        return (
            f"Tuning changes little here: by test the gain is below {PLANNED:g}. Try {stronger} "
            "rather than more labels or calls."
        )
    return (
        "No candidate was clearly better than the untuned judge: try more labels or "
        f"{stronger}, rather than more calls."
    )


def on_the_interval(main: Cell, *, paired: bool) -> Iterator[str]:
    """Yield that the interval is too wide, and what narrows it."""
    if main["value"] is None:
        return
    of = " of accuracy" if paired else " of rho"
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
    yield f"{width}: label more documents."


def how_to_use(*, run: bool, paired: bool) -> str:
    """How to load the judge and hold it to its figure."""
    rho = "rho of margins" if paired else "rho"
    if not run:
        return (
            f"To hold this judge to its {rho}, put `dspy-judges verify` with "
            "`--min-spearman` into CI."
        )
    return (
        f"To use it, load this folder with `judges.load`; to hold it to its {rho} on labels of "
        "your own, put `dspy-judges verify` with `--min-spearman` into CI."
    )
