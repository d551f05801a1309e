"""A tuning run in words: what ships, how it agrees with people, whether tuning helped, its cost."""

import math
from collections.abc import Iterator

from judges.protocol import is_embedded
from optimize.figures.as_text import (
    SPLITS,
    certainty_text,
    cost_text,
    counted,
    figure_text,
    number_text,
    share_text,
    table_lines,
    wrapped,
)
from optimize.measuring.tuning_result import TuningResult
from optimize.report.next_steps import run_steps
from optimize.report.sentences import (
    COIN,
    RATES,
    Table,
    Titled,
    agreement,
    as_one_annotator,
    figure_meaning,
    labels_text,
    paragraphs,
)


def run_lines(result: TuningResult, folder: str = "") -> list[str]:
    """A run for a terminal: the answer, what to do next, and both judges' figures."""
    step = run_steps(result, folder=folder or "FOLDER")[0].replace("`", "")
    sentences, table = [*run_answer(result), ("Next", step)], run_table(result)
    files = f"Its errors: {folder}/report.html" + ", misses.csv" * result.is_binary
    if result.tuned_file:
        files += f"; {result.tuned_file} did not ship"
    return [
        *wrapped(f"{run_title(result)} on {labels_text(result.data, result.unit)}"),
        "",
        *paragraphs(sentences),
        *(["", *table_lines(table.head, table.rows)] if result.test else []),
        *(wrapped(files) if folder else []),
    ]


def run_title(result: TuningResult) -> str:
    """What is judged, and by which model."""
    by = "the embedded model" if is_embedded(result.lm) else result.lm
    return f"{result.dimension} judged by {by}"


def run_answer(result: TuningResult) -> list[Titled]:
    """What ships, how it agrees with people, whether tuning helped, and what it cost."""
    answer = [("Shipped", result.why.removeprefix("Shipped: "))]
    if not (result.test and result.card):
        answer.append(("Agreement", "Not known: no labels were held out for a test."))
        return [*answer, ("Cost", _cost(result))]
    answer += agreement(result.card, result.data, held_out=True)
    rhos = {word: card.rho for word, card in result.test.cards.items()}
    failed = [f"{word} judge {rho.n_failed:,}" for word, rho in rhos.items() if rho.n_failed]
    if failed:
        number = max(rho.n_outputs + rho.n_failed for rho in rhos.values())
        answer.append(("No score", f"{', '.join(failed)} of {number:,} {result.card.unit}."))
    answer += [*_unseen(result), *as_one_annotator(result.card)]
    if result.answers and result.shipped == "tuned":
        *questions, own = result.answers
        shares = ", ".join(f"{each.name} ({each.share:.0%})" for each in questions)
        answer.append(("Asks", f"{shares}, beside its own {own.name} ({own.share:.0%})."))
    return [*answer, ("Gain", gain_sentence(result)), ("Cost", _cost(result))]


def run_table(result: TuningResult) -> Table:
    """Both judges' figures on every split that tuning did not use."""
    meaning = figure_meaning(result.card, result.level)
    caption = f"Both judges on labels that tuning did not use. {meaning}"
    rows: list[tuple[str, ...]] = []
    if result.is_binary:
        for name, split in result.splits.items():
            title = "test" if name == "test" else "new systems"
            for word, card in split.cards.items():
                if card.two_values:
                    *rates, kappa = card.two_values.rates
                    texts = *map(figure_text, rates), number_text(kappa.value)
                    rows.append((f"{title}, {word}", *texts))
        return Table(("", *RATES), rows, caption)
    for name, split in result.splits.items():
        rhos = [card.rho for card in split.cards.values()]
        rows.append((SPLITS[name], *map(figure_text, rhos), f"{rhos[0].n_documents:,}"))
    head = (f"{result.level}-level rho", "untuned judge", "tuned judge", "documents")
    return Table(head, rows, caption)


def gain_sentence(result: TuningResult) -> str:
    """Both judges' figures on test, their difference, and what it tells.

    The figures of dev, on which the judge was chosen, flatter it: they are told nowhere.
    """
    test = result.test
    if not test or math.isnan(test.objective_gain.value):
        return "Whether tuning helped is not known: there is no gain on test to tell it by."
    gain, interval = test.objective_gain, test.objective_gain.interval
    if gain.value == 0 and interval and interval.low == interval.high == 0:
        return "The search found nothing better than the untuned judge, so nothing was gained."
    name, figures = f"{result.level}-level rho", [card.rho.value for card in test.cards.values()]
    if test.balanced_gain:
        name, figures = "balanced accuracy", [c.beside_coin.value for c in test.cards.values()]
    untuned, tuned = map(number_text, figures)
    documents = counted(test.tuned.rho.n_documents, "document")
    tells = f"{documents} cannot tell that from luck."
    if interval is None:
        tells = f"{documents} are too few for an interval, so this may be luck."
    elif round(interval.low, 3) > 0:
        tells = f"So tuning helped: these {documents} had no part in it."
    elif interval.high < 0:
        tells = f"So the tuned judge is worse: these {documents} had no part in tuning."
    clause, price = "", ""
    unseen = result.unseen.objective_gain if result.unseen else None
    if unseen and not math.isnan(unseen.value):
        joined = "and" if unseen.value * gain.value >= 0 else "but"
        clause = f", {joined} {figure_text(unseen, signed=True)} on unseen systems"
    if costs := result.cost_per_1000_rows:
        price = (
            f", for {cost_text(costs['tuned_judge'])} per 1,000 rows, "
            f"{cost_text(costs['seed_judge'])} untuned"
        )
    return (
        f"On test {name} is {untuned} untuned and {tuned} tuned: {figure_text(gain, signed=True)}"
        f"{clause}{price}. {tells}"
    )


def _unseen(result: TuningResult) -> Iterator[Titled]:
    """Yield the same on systems that the judge was not tuned on; that none were held out."""
    share = result.unseen and result.unseen.card(result.shipped).beside_coin
    if share and not math.isnan(share.value):
        percent = share_text(share.value)
        text = f"On systems that tuning did not see it does so in {percent} of pairs"
        if result.is_binary:
            text = f"Balanced accuracy on systems that tuning did not see: {percent}"
        is_chance = share.interval is not None and share.interval.low <= COIN
        than = "; a coin may do as well" if is_chance else ""
        yield "New systems", f"{text} ({certainty_text(share)}){than}."
    elif not result.is_pairs and result.data.n_systems > 1:
        yield "New systems", "Not known: no system was held out from tuning."


def _cost(result: TuningResult) -> str:
    """Dollars, calls and time of the run."""
    calls = counted(result.lm_calls, "judge call")
    if result.proposer_calls:
        calls += f" and {counted(result.proposer_calls, 'proposal')}"
    if result.cached_calls:
        calls += f" ({result.cached_calls:,} more from the reply cache)"
    most = f" of at most ${result.max_cost:.2f}" if result.max_cost else ""
    cost = f"{cost_text(result.cost_usd)}{most}, {calls} in {result.seconds:,.0f} s."
    if not (costs := result.cost_per_1000_rows):
        return cost
    return f"{cost} 1,000 rows will cost {cost_text(costs[f'{result.shipped}_judge'])}."


def search_end(result: TuningResult) -> Iterator[Titled]:
    """Yield why the search ended, and what more money is expected to bring."""
    last, spent = result.last_round, result.cost_usd
    if not last or result.max_cost is None or spent is None:
        return
    gain, further = f"{last.gain:+.3f} on train", f"would cost ${2 * last.cost:.2f}"
    text = (
        f"The limit ended it. Its last rounds gained {gain}; further ones {further} and are "
        "expected to gain no more than that."
    )
    if last.is_final:
        text = (
            f"It ended because its last rounds gained {gain}, no more than their standard error "
            f"({number_text(last.error)}). Further ones {further} and are expected to gain no "
            f"more. ${max(0, result.max_cost - spent):.2f} is left unspent."
        )
    yield "Search", text
