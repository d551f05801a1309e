"""The planned spending of a tuning run, as lines for a terminal and as JSON for a dry run."""

from dspy_judges.errors import option_name
from judges.catalog import candidate_questions
from judges.client import Spending
from judges.protocol import is_decision_model
from judges.terminal import dollars_text, wrap_lines
from optimize.figures.as_json import JsonObject, to_json
from optimize.search.power import power_text
from optimize.tuning.budget import CALL_SECONDS, PROPOSAL_SECONDS, RunBudget
from optimize.tuning.preparation import PreparedRun

# A row of the table of expected spending: a purpose and four figures.
TABLE_ROW = "{:<12}{:>14}{:>14}{:>14}{:>14}"


def budget_lines(budget: RunBudget) -> list[str]:
    """Return a table of expected spending, and notes on the run."""
    table_lines = [TABLE_ROW.format("", "calls", "tokens in", "tokens out", "dollars")]
    for spending in filter(None, (*budget.expected_by_purpose, budget.expected_total)):
        counts = spending.calls, spending.tokens_in, spending.tokens_out
        dollars = "free" if spending.cost_usd == 0 else _cost_text(spending)
        table_row = TABLE_ROW.format(spending.purpose, *map(_two_digit_text, counts), dollars)
        table_lines.append(table_row)
    sentences = []
    if budget.expected_total is None:
        amount = budget.pricing.unit.amount_format.format(budget.search_budget.limit)
        optimizer = budget.run.settings.optimizer
        sentences = [f"How many calls {optimizer} makes is not known in advance; at most {amount}."]
    elif not budget.pricing.is_free:
        sentences.append(
            f"It takes about {budget.expected_minutes:.1f} minutes if {budget.calls_in_flight} "
            f"calls are in flight, a call takes {CALL_SECONDS:g} s, and a proposal "
            f"{PROPOSAL_SECONDS} s."
        )
    return [
        *table_lines,
        f"at most: {_limit_text(budget) or 'no limit is given (--max-cost, --max-calls)'}",
        *wrap_lines(*sentences, *tuning_notes(budget), _chance_sentence(budget.run)),
        "One token is assumed per four characters. Nothing has been sent or spent.",
    ]


def planned_line(budget: RunBudget) -> str:
    """Return the calls and dollars that a run is expected to take, on one line."""
    plan_text = f"planned: the calls of {budget.run.settings.optimizer}, not known in advance"
    if total := budget.expected_total:
        plan_text = f"planned: about {_two_digit_text(total.calls)} calls, {_cost_text(total)}"
    return f"{plan_text}, at most {limits}" if (limits := _limit_text(budget)) else plan_text


def tuning_notes(budget: RunBudget) -> list[str]:
    """Return a note on what can be tuned, if no model was named that writes instructions."""
    run, settings = budget.run, budget.run.settings
    if not is_decision_model(settings.lm) or settings.proposer_lm:
        return []
    can_be_tuned = {
        "questions": bool(candidate_questions(run.subject, 1)),
        "demonstrations": budget.search_options.max_demos > 0,
        "the threshold": run.goal == "balanced",
    }
    tunable_text = " and ".join(name for name, is_tunable in can_be_tuned.items() if is_tunable)
    return [
        f"{settings.lm} writes no instruction: {tunable_text or 'nothing'} can be tuned. "
        f"Name a chat model with {option_name('proposer_lm')} for instructions and questions."
    ]


def _limit_text(budget: RunBudget) -> str:
    """Return the limits, with a note if a run is expected to reach them; "" without limits."""
    expected = budget.expected_total
    max_cost, max_calls = budget.limit_in_dollars, budget.run.settings.max_calls
    limits = [dollars_text(max_cost)] if max_cost else []
    limits += [f"{max_calls:,} calls"] if max_calls else []
    exceeds_max_cost = expected and max_cost and (expected.cost_usd or 0) > max_cost
    exceeds_max_calls = expected and max_calls and expected.calls > max_calls
    note = "; the search stops at the limit" if exceeds_max_cost or exceeds_max_calls else ""
    return " and ".join(limits) + note


def budget_json(budget: RunBudget) -> JsonObject:
    """Return the JSON object that `--dry-run --json` prints."""
    expected, run = to_json(budget.expected_total) or {}, budget.run
    splits = {"train": run.train, "dev": run.dev, "test": run.held_out.test}
    return {
        "documents": {name: len(items.documents) for name, items in splits.items()},
        "chance": _chance_sentence(budget.run),
        "calls": {"expected": expected.get("calls"), "at_most": budget.run.settings.max_calls},
        "minutes": round(budget.expected_minutes, 1) if expected else None,
        "tokens": {"in": expected.get("tokens_in"), "out": expected.get("tokens_out")},
        "cost_usd": {"expected": expected.get("cost_usd"), "at_most": budget.limit_in_dollars},
        "spending": to_json(budget.expected_by_purpose),
    }


def _chance_sentence(run: PreparedRun) -> str:
    goal, risk = run.goal, run.settings.risk
    return power_text(run.all_items, run.train_and_dev, search_goal=goal, risk=risk)[0]


def _two_digit_text(number: float) -> str:
    """Return the number rounded to two significant digits, because a plan is not more precise."""
    digits = max(0, len(str(round(number))) - 2)
    return f"{round(number, -digits):,.0f}"


def _cost_text(spending: Spending) -> str:
    return "price unknown" if spending.cost_usd is None else dollars_text(spending.cost_usd)
