"""The answer in plain sentences, and what to do next: the same words on a screen and on a page.

All of it is read from what `--json` prints of a run, a verification or a comparison.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from judges.client import is_embedded
from judges.labels.readers import is_constructed
from optimize.figures.as_text import (
    PLURALS,
    SPLITS,
    cell_text,
    certainty_text,
    cost_text,
    counted,
    number_text,
    short_name,
    table_lines,
    two_value_sentences,
    wrapped,
)
from optimize.statistics.floor import correlation_floor, share_floor
from optimize.statistics.intervals import FEW_DOCUMENTS
from optimize.statistics.two_values import FEW_OUTPUTS

Summary = Mapping[str, Any]
Cell = Mapping[str, Any]
# What a sentence is about, in a word or two, and the sentence.
Said = tuple[str, str]
HeadAndRows = tuple[tuple[str, ...], list[tuple[str, ...]]]

# The share of pairs that tossing a coin orders as people do.
COIN = 0.5
# With fewer documents, rho over all outputs has no interval in too many further draws.
FEW_DOCUMENTS_FOR_FLOOR = 100
# An interval's half that is too wide.
WIDE = 0.10
# From these shares on, failures and what an attack adds of the scale ask for a step.
MANY_FAILED, MOVED = 0.05, 0.10
MOST_STEPS = 3
# What people read for the judges that JSON calls seed and tuned.
WORDS = {"seed": "untuned", "tuned": "tuned"}
# What is said of two values, and what stands in their tables.
TWO_VALUES = ("Fails", "Passes", "Agreement", "Rates")
RATES = ("TPR", "TNR", "kappa")
# What is ranked, by the level of rho.
RANKED = {
    "summary": "each document's outputs",
    "dataset": "all outputs",
    "system": "the systems",
}


def run_lines(summary: Summary, folder: str = "") -> list[str]:
    """A run for a terminal: the answer, what to do next, and both judges' figures."""
    said = [*run_answer(summary), ("Next", run_steps(summary)[0].replace("`", ""))]
    files = f"Its errors: {folder}/report.html" + ", misses.csv" * is_binary(summary)
    if "tuned_file" in summary:
        files += f"; {summary['tuned_file']} did not ship"
    table = table_lines(*run_table(summary))
    return [
        *wrapped(f"{run_title(summary)} on {labels_of(summary)}"),
        "",
        *_paragraphs(said),
        *(["", *table] if _gains(summary)["test"] else []),
        *(wrapped(files) if folder else []),
    ]


def run_title(summary: Summary) -> str:
    """What is judged, and by which model."""
    by = "the embedded model" if is_embedded(summary["lm"]) else summary["lm"]
    return f"{summary['dimension']} judged by {by}"


def run_answer(summary: Summary) -> list[Said]:
    """What ships, how it agrees with people, whether tuning helped, and what it cost."""
    shipped = summary["shipped"]
    cell, order = summary[f"{shipped}_judge"].get("test"), _order(summary, "test", shipped)
    said = [("Shipped", summary["why"].removeprefix("Shipped: "))]
    if cell is None:
        said.append(("Agreement", "Not known: no labels were held out for a test."))
    else:
        if card := _card(summary, "test", shipped):
            said += zip(TWO_VALUES, two_value_sentences(card), strict=True)
        else:
            said.append(("Agreement", agreement(order, cell, summary, held_out=True)))
        said += _failures(summary)
        said += _unseen(summary)
        said += [] if card else as_one_annotator(summary.get("people"))
        said.append(("Gain", gain_sentence(summary)))
    return [*said, ("Cost", _cost(summary))]


def _failures(summary: Summary) -> Iterator[Said]:
    """How many of test's outputs have no score, where any has none."""
    cells = {word: summary[f"{judge}_judge"]["test"] for judge, word in WORDS.items()}
    failed = {word: cell["n_failed"] for word, cell in cells.items() if cell["n_failed"]}
    number = max(cell["n_outputs"] + cell["n_failed"] for cell in cells.values())
    if failed:
        counts = ", ".join(f"{word} judge {n:,}" for word, n in failed.items())
        yield "No score", f"{counts} of {number:,} {unit_of(summary)}."


def rho_meaning(result: Summary) -> str:
    """What rho says, in a sentence; of two values what their rates say."""
    if is_binary(result):
        return "TPR is the share of passes that the judge passes, TNR that of fails that it fails."
    ranked = "pairs by preference" if is_paired(result) else RANKED[result["level"]]
    return f"Rho: 1 is people's ranking of {ranked}, 0 a random one."


def run_table(summary: Summary) -> HeadAndRows:
    """Head and rows: both judges' figures on every split that tuning did not use."""
    if cards := summary.get("two_values"):
        return ("", *RATES), [
            (
                f"{'test' if split == 'test' else 'new systems'}, {word}",
                *map(cell_text, _rates(card)[:2]),
                number_text(card["kappa"]["value"]),
            )
            for split in cards
            for judge, word in WORDS.items()
            if (card := _card(summary, split, judge))
        ]
    head = (f"{summary['level']}-level rho", "untuned judge", "tuned judge", "documents")
    rows = []
    for split, title in SPLITS.items():
        cells = [summary[f"{judge}_judge"].get(split) for judge in WORDS]
        if all(cells):
            rows.append((title, *map(cell_text, cells), f"{cells[0]['n_documents']:,}"))
    return head, rows


def gain_sentence(summary: Summary) -> str:
    """Both judges' figures on test, their difference, and what it tells.

    The figures of dev, on which the judge was chosen, flatter it: they are told nowhere.
    """
    gain = _gains(summary)["test"]
    if not gain or gain["value"] is None:
        return "Whether tuning helped is not known: there is no gain on test to tell it by."
    if gain["value"] == gain["low"] == gain["high"] == 0:
        return "The search found nothing better than the untuned judge, so nothing was gained."
    is_balanced = "balanced_gain" in summary
    name = "balanced accuracy" if is_balanced else f"{summary['level']}-level rho"
    untuned, tuned = (
        number_text((_order(summary, "test", judge) if is_balanced else cells["test"])["value"])
        for judge, cells in ((judge, summary[f"{judge}_judge"]) for judge in WORDS)
    )
    figures = f"On test {name} is {untuned} untuned and {tuned} tuned"
    documents = counted(summary["tuned_judge"]["test"]["n_documents"], "document")
    tells = f"{documents} cannot tell that from luck."
    if gain["low"] is None:
        tells = f"{documents} are too few for an interval, so this may be luck."
    elif round(gain["low"], 3) > 0:
        tells = f"So tuning helped: these {documents} had no part in it."
    elif gain["high"] < 0:
        tells = f"So the tuned judge is worse: these {documents} had no part in tuning."
    return f"{figures}: {cell_text(gain, signed=True)}{_gain_unseen(summary)}. {tells}"


def _gains(summary: Summary) -> Any:
    """The gain on each split, in the figure that the judge was tuned for."""
    return summary.get("balanced_gain") or summary["gain"]


def _gain_unseen(summary: Summary) -> str:
    """The paired difference on systems that tuning did not see, as a clause."""
    unseen = _gains(summary).get("test_unseen_systems")
    if not unseen or unseen["value"] is None:
        return ""
    joined = "and" if unseen["value"] * _gains(summary)["test"]["value"] >= 0 else "but"
    return f", {joined} {cell_text(unseen, signed=True)} on unseen systems"


def agreement(order: Cell | None, cell: Cell, result: Summary, *, held_out: bool = False) -> str:
    """In how many of a hundred pairs it does as people do, with its interval, beside a coin."""
    people = "the constructed labels" if has_constructed_labels(result) else "people"
    if not cell["n_outputs"]:
        return "It gave no score at all."
    if order is None:
        return f"It agrees with {people} at {cell['level']}-level rho {cell_text(cell)}."
    if order["value"] is None:
        return f"None can be counted: {people} tell no two {unit_of(result)} with a score apart."
    documents = counted(order["n_documents"], "document")
    on = f"on {documents} that tuning did not see" if held_out else f"on {documents}"
    of_one = "" if result["level"] == "dataset" else " of one document"
    does = f"orders two outputs{of_one} as {people} do in"
    if is_paired(result):
        does = f"prefers the same side as {people} in"
    lead = f"It {does} {order['value']:.0%} of pairs ({certainty_text(order)}), {on}"
    if order["low"] is None or order["low"] > COIN:
        return f"{lead}. A coin reaches {COIN:.0%}."
    return f"{lead}. A coin {'may do as well' if order['high'] >= COIN else 'does better'}."


def _unseen(summary: Summary) -> Iterator[Said]:
    """The same on systems that the judge was not tuned on; that none were held out."""
    order = _order(summary, "test_unseen_systems", summary["shipped"])
    if order and order["value"] is not None:
        coin = order["low"] is not None and order["low"] <= COIN
        than = "; a coin may do as well" if coin else ""
        share = f"On systems that tuning did not see it does so in {order['value']:.0%} of pairs"
        if is_binary(summary):
            share = f"Balanced accuracy on systems that tuning did not see: {order['value']:.0%}"
        yield "New systems", f"{share} ({certainty_text(order)}){than}."
    elif not is_paired(summary) and summary["data"]["n_systems"] > 1:
        yield "New systems", "Not known: no system was held out from tuning."


def as_one_annotator(people: Summary | None) -> Iterator[Said]:
    """Whether the judge is as good as one annotator, where several labelled the same outputs."""
    one = people.get("one_annotator") if people else None
    if not one:
        return
    gap, verdict = one["gap"], "Perhaps as good as one of these annotators"
    if gap["low"] is None:
        verdict = "Too few documents to say whether it is as good as one of these annotators"
    elif gap["high"] < 0:
        verdict = "Not as good as one of these annotators"
    elif gap["low"] > 0:
        verdict = "Better than one of these annotators"
    yield (
        "One person",
        f"{verdict}: rho with the other annotators {number_text(one['judge']['value'])}, an "
        f"annotator's {number_text(one['annotator']['value'])}.",
    )


def scale_warning(result: Summary) -> Iterator[Said]:
    """That its scores are not people's ratings, where their means differ."""
    scales = result.get("scales")
    if scales and scales["is_shifted"] and not is_binary(result):
        yield (
            "Scores",
            f"Its mean is {scales['judge_mean']:.2f}, the labels' {scales['human_mean']:.2f}: "
            "only the order of its scores is measured.",
        )


def _cost(summary: Summary) -> str:
    """Dollars, calls and time of the run."""
    cached, proposals = summary.get("cached_calls", 0), summary["proposer_calls"]
    calls = counted(summary["lm_calls"], "judge call")
    if proposals:
        calls += f" and {counted(proposals, 'proposal')}"
    if cached:
        calls += f" ({cached:,} more from the reply cache)"
    limit = summary.get("max_cost")
    most = f" of at most ${limit:.2f}" if limit else ""
    cost = f"{cost_text(summary['cost_usd'])}{most}, {calls} in {summary['seconds']:,.0f} s."
    if not (rows := summary.get("cost_per_1000_rows")):
        return cost
    shipped, untuned = (rows[f"{name}_judge"] for name in (summary["shipped"], "seed"))
    beside = ""
    if summary["shipped"] == "tuned":
        beside = f", {shipped / untuned:.1f} times the untuned judge's {cost_text(untuned)}"
    return f"{cost} 1,000 rows will cost {cost_text(shipped)}{beside}."


def search_end(summary: Summary) -> Iterator[Said]:
    """Why the search ended, and what more money is expected to bring."""
    last = summary.get("last_round")
    if not last or "max_cost" not in summary or summary["cost_usd"] is None:
        return
    gain, further = f"{last['gain']:+.3f} on train", f"${2 * last['cost']:.2f}"
    unspent = f" ${max(0, summary['max_cost'] - summary['cost_usd']):.2f} is left unspent."
    if last["is_final"]:
        yield (
            "Search",
            f"It ended because its last rounds gained {gain}, no more than their standard error "
            f"({number_text(last['error'])}). Further ones would cost {further} and are expected "
            f"to gain no more.{unspent}",
        )
    else:
        yield (
            "Search",
            f"The limit ended it. Its last rounds gained {gain}; further ones would cost {further} "
            "and are expected to gain no more than that.",
        )


def run_steps(summary: Summary, shifts: Sequence[tuple[str, float]] = ()) -> list[str]:
    """What to do after a run, the most pressing first; `shifts` as `attack_step` takes them."""
    shipped, name = summary["shipped"], summary["dimension"]
    flag = "--pairwise" if is_paired(summary) else "--dimension"
    if has_constructed_labels(summary):
        return [
            "These labels were made from known faults and say nothing of people. Tune on labels "
            f"of your own: `dspy-judges tune {flag} {name} --data FILE`; 50 over 20 documents are "
            "a start."
        ]
    cell = summary[f"{shipped}_judge"].get("test")
    if cell is None:
        return ["Measure it on labels that it has not met: `dspy-judges verify`."]
    order = _order(summary, "test", shipped)
    card, use = _card(summary, "test", shipped), []
    chance = list(_on_chance(order, card))
    if not chance:
        gate = floor_flags(cell, card)
        held = f"verify FOLDER --data FILE {gate}" if gate else "verify NEW --against FOLDER"
        why = (
            "a judge as good passes nine times of ten" if gate else "labels are too few for a floor"
        )
        use = [
            "Use it with `judges.load(FOLDER)`, and catch a large drop in CI with `dspy-judges "
            f"{held}`: {why}."
        ]
    steps = [
        *_on_failures(cell, summary),
        *chance,
        *_on_gain(summary),
        *_on_unseen(summary),
        *([] if chance else _on_width(order, card)),
        *attack_step(shifts),
        *use,
    ]
    return steps[:MOST_STEPS]


def floor_flags(cell: Cell, card: Cell | None) -> str:
    """A gate that an equally good judge passes on as many new labels, nine times of ten.

    Empty where labels are so few that new ones may give no intervals.
    """
    if card:
        rates = [card[name] for name in ("tpr", "tnr")]
        if any(rate["n"] < 2 * FEW_OUTPUTS or not rate["low"] for rate in rates):
            return ""
        floors = [share_floor(rate["value"], rate["low"], len(rates)) for rate in rates]
        return "--min-tpr {:.2f} --min-tnr {:.2f}".format(*floors)
    least = FEW_DOCUMENTS_FOR_FLOOR if cell["level"] == "dataset" else 2 * FEW_DOCUMENTS
    if cell["low"] is None or cell["n_documents"] < least:
        return ""
    return f"--min-spearman {correlation_floor(cell['value'], cell['low']):.2f}"


def _on_failures(cell: Cell, result: Summary) -> Iterator[str]:
    unit = unit_of(result)
    if not cell["n_outputs"]:
        yield f"Mend the failures: none of the {unit} has a score. The report lists the reasons."
    elif cell["n_failed"] > MANY_FAILED * cell["n_outputs"]:
        yield f"Mend the failures: {cell['n_failed']:,} {unit} have no score. The report says why."


def _on_chance(order: Cell | None, card: Cell | None) -> Iterator[str]:
    if order and order["low"] is not None and order["low"] <= COIN:
        yield (
            "Do not rely on the judge yet: on these labels it may be no better than a coin. Label "
            "more documents."
        )
    elif order and card:
        word, always = card["constant"]["word"], card["constant"]["accuracy"]["value"]
        if always is not None and card["accuracy"]["value"] < always:
            less = f"on test it agrees with people less often than always saying {word} would."
            yield " ".join([f"Do not rely on its verdicts: {less}", *_on_width(order, card)])


def _on_gain(summary: Summary) -> Iterator[str]:
    """Yield what to do where the untuned judge ships, or where test does not confirm the gain."""
    gain = _gains(summary)["test"]
    if summary["shipped"] == "tuned":
        if gain and gain["low"] is not None and gain["low"] <= 0:
            yield "Verify both judges on further labels: test alone does not confirm the gain."
        return
    if (_order(summary, "test", "seed") or {}).get("value") == 1:
        return  # nothing is left to gain
    if summary.get("limit_reached"):
        yield "Raise `--max-cost` or `--max-calls` and repeat the command: the limit was reached."
        return
    stronger = "`--lm MODEL`" if is_embedded(summary["lm"]) else "a stronger `--lm` or proposer"
    yield f"Label more documents and tune again, or try {stronger}: no gain could be shown."


def _on_unseen(summary: Summary) -> Iterator[str]:
    """Yield that the judge is worse on new systems than untuned."""
    lost = _gains(summary).get("test_unseen_systems")
    if summary["shipped"] == "tuned" and lost and lost["value"] is not None and lost["value"] < 0:
        yield (
            "Before you judge new systems, label some of their outputs and verify both judges: "
            "tuning has shown no gain on unseen systems."
        )


def _on_width(order: Cell | None, card: Cell | None) -> Iterator[str]:
    if card and (few := {word: n for word, n in card["n_more"].items() if n}):
        for word, lacking in few.items():
            has = f"test has {card['tnr' if word == 'fail' else 'tpr']['n']:,}"
            yield f"Label more {PLURALS[word]}: {has}, and an interval takes {lacking} more there."
        return
    if not order or order["value"] is None:
        return
    documents = counted(order["n_documents"], "document")
    if order["low"] is None:
        yield f"Label more documents: {documents} are too few for an interval."
    elif order["value"] < 1 and (order["high"] - order["low"]) / 2 > WIDE:
        yield f"Label more documents: with {documents} the figure is that uncertain."


def attack_step(shifts: Sequence[tuple[str, float]]) -> Iterator[str]:
    """Yield that outputs can talk the judge up; (attack, gain as a share of the scale) each."""
    attack, share = max(shifts, key=lambda shift: shift[1], default=("", 0.0))
    if share >= MOVED:
        yield (
            "Do not let the judge gate outputs whose authors gain from its scores: a line in the "
            f"output ({attack}) raises them by {share:.0%} of the scale."
        )


def compare_lines(result: Summary) -> list[str]:
    """A comparison for a terminal: which judge to use, then a row each."""
    steps = [("Next", step.replace("`", "")) for step in compare_steps(result)]
    spent = f"{cost_text(result['cost_usd'])} in {result['seconds']:,.0f} s"
    left_out = [("Left out", f"{row['name']}: {row['why']}") for row in result["left_out"]]
    return [
        *wrapped(f"{result['dimension']} on {labels_of(result)}"),
        "",
        *_paragraphs([*compare_answer(result), *steps, *left_out, ("Cost", f"{spent}.")]),
        "",
        *(line for table in compare_tables(result) for line in table_lines(*table)),
        *wrapped(COMPARED),
        *([f"Report: {result['folder']}/report.html"] if result.get("folder") else []),
    ]


COMPARED = (
    "Differences are over the same documents; their 95% intervals hold for all judges together. "
    "$/1,000: for 1,000 rows at list price; ? is an unknown price, - a recording."
)


def figure_name(result: Summary) -> str:
    """What judges are ranked by."""
    if is_binary(result):
        return "balanced accuracy"
    return "accuracy" if is_paired(result) else "rho"


def compare_tables(result: Summary) -> list[HeadAndRows]:
    """Heads and rows: each judge's figure, its difference from the best, its cost; its rates."""
    judges = result["judges"]
    rows: list[tuple[str, ...]] = [
        (
            row["name"],
            cell_text(ranked_by(row)),
            cell_text(row["difference"], signed=True) if row["difference"] else row["standing"],
            _price(row),
        )
        for row in judges
    ]
    tables: list[HeadAndRows] = [(("judge", figure_name(result), "less the best", "$/1,000"), rows)]
    if is_binary(result):
        rates = [(row["name"], *map(cell_text, _rates(row))) for row in judges]
        tables.append((("judge", *RATES), rates))
    return tables


def _rates(card: Cell) -> list[Cell]:
    return [card[name.lower()] for name in RATES]


def ranked_by(row: Cell) -> Cell:
    """What judges are ranked by: rho, of pairs the accuracy, of two values the balanced one."""
    cell: Cell = row["correlations"][0]
    if "confusion" in row:
        return {**cell, **row["balanced_accuracy"]}
    if "accuracy" not in row:
        return cell
    names = {"value": "accuracy", "low": "accuracy_low", "high": "accuracy_high"}
    return {**cell, **{name: row[key] for name, key in names.items()}}


def _price(row: Cell) -> str:
    cost = row["cost_per_1000_rows"]
    return ("-" if row["plan"] is None else "?") if cost is None else cost_text(cost)


def compare_answer(result: Summary) -> list[Said]:
    """Which judge is best, how sure that is, and which of the others are as good."""
    best, *rest = result["judges"]
    cell, order = ranked_by(best), best["order"]
    said = [("Warning", met) for row in result["judges"] for met in _met(row, unit_of(result))]
    said.append(("Best", f"{best['name']} ({figure_name(result)} {cell_text(cell)})."))
    if is_binary(result):
        said += zip(TWO_VALUES, two_value_sentences(best), strict=True)
    else:
        said.append(("Agreement", agreement(order, cell, result)))
        said += as_one_annotator(best["people"]) if best.get("people") else []
    near = [row["name"] for row in rest if row["standing"] == "as good"]
    open_ = [row["name"] for row in rest if row["standing"] == "unclear"]
    if rest and not near and not open_:
        said.append(("Sure", "Yes: its figure is clearly above that of every other judge."))
    if near:
        said.append(("As good", f"within one standard error of it: {', '.join(near)}."))
    if open_:
        said.append(("Not known", f"whether it is better than {', '.join(open_)}."))
    return said


def _met(row: Cell, unit: str) -> Iterator[str]:
    """Yield on how much of what is compared, and of what is set apart, a judge was tuned."""
    name, n_met, n_given = row["name"], row["n_met"], row["n_given"]
    if row["tuned_on_these_labels"]:
        yield f"{name} was tuned on {n_met:,} of these {unit}, which flatters it."
    elif n_met:
        yield f"{n_met:,} more {unit} that {name} was tuned on are set apart."
    if n_given:
        yield f"{name} was tuned on documents of {n_given:,} of these {unit}, which flatters it."


def compare_steps(result: Summary) -> list[str]:
    """What to do next: which judge to use."""
    if has_constructed_labels(result):
        return ["Compare on labels of your own (`--data FILE`)."]
    rows = result["judges"]
    if any(row["tuned_on_these_labels"] for row in rows):
        return ["Compare again on labels that no judge was tuned on."]
    best, *rest = rows
    if ranked_by(best)["value"] is None:
        return ["Bring labels that differ: none of the judges has a figure on these."]
    equals = [best, *(row for row in rest if row["standing"] == "as good")]
    priced = [row for row in equals if row["cost_per_1000_rows"] is not None]
    cheapest = min(priced, key=lambda row: row["cost_per_1000_rows"], default=best)
    if cheapest is not best:
        return [f"Use {cheapest['name']}: as good as the best, and it costs {_price(cheapest)}."]
    if any(row["standing"] == "unclear" for row in rest):
        return [f"Use {best['name']} for now; more labels would tell whether it is better."]
    return [f"Use {best['name']}."]


def is_paired(result: Summary) -> bool:
    """Whether pairs were judged."""
    return result.get("kind") == "pairwise" or ("accuracy" in result and not is_binary(result))


def is_binary(result: Summary) -> bool:
    """Whether people and judge say pass or fail: of a comparison, every judge."""
    cards = result.get("judges") or [result]
    return "two_values" in result or all("confusion" in card for card in cards)


def unit_of(result: Summary) -> str:
    """What was judged, in the plural."""
    return "pairs" if is_paired(result) else "outputs"


def has_constructed_labels(result: Summary) -> bool:
    """Whether no figure says anything of people."""
    return is_constructed(str(result["data"]["sha256"]))


def _card(summary: Summary, split: str, judge: str) -> Any:
    return summary.get("two_values", {}).get(split, {}).get(f"{judge}_judge")


def _order(summary: Summary, split: str, judge: str) -> Any:
    """The share that is to beat a coin: of pairs ordered alike; of two values balanced accuracy."""
    if card := _card(summary, split, judge):
        return {**card["balanced_accuracy"], "n_documents": card["n_documents"]}
    order: Cell | None = summary.get("order", {}).get(split, {}).get(f"{judge}_judge")
    return order


def labels_of(result: Summary) -> str:
    """Which labels, and how many."""
    data = result["data"]
    systems = f"{counted(data['n_systems'], 'system')}, " if data["n_systems"] else ""
    number = counted(data["n_outputs"], unit_of(result)[:-1])
    name = short_name(data["name"], 40)
    documents = counted(data["n_documents"], "document")
    if data.get("weighted"):
        documents += " (weighted; differences are unweighted)"
    return f"{documents}, {systems}{number} of {name}"


def _paragraphs(said: Sequence[Said]) -> list[str]:
    return [line for title, text in said for line in wrapped(f"{title}: {text}")]
