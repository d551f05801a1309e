"""A tuning run in sentences: whether to use the judge, whether tuning helped, and the cost."""

import json
import math
from collections.abc import Iterator
from dataclasses import replace

from judges.protocol import is_embedded
from judges.tables.problems import count_text
from optimize.figures.as_text import SPLIT_TITLES, command_text, cost_text, figure_text, number_text
from optimize.measuring.tuning_result import SplitResult, TuningResult
from optimize.report import card
from optimize.report.answer import MAX_RUN_LINES, Fact, ReportAnswer, ReportTable
from optimize.statistics.intervals import MIN_PERFECT

# The first step is to fix the failures if a larger share of outputs than this has no score.
MIN_FAILED_SHARE = 0.05
MAX_STEPS = 3
LARGER_LIMIT_STEP = (
    "The limit ended the search. The rest of the limit is reserved, or too small for another "
    "step. Tune again with a larger `--max-cost` or `--max-calls` and another `--out`: the reply "
    "cache answers what this search has asked already."
)


def tuning_lines(result: TuningResult, folder: str = "") -> list[str]:
    """Return a run's lines for a terminal: the answer, the next step, and both judges' figures."""
    files_text = f"Its errors: {folder}/report.html"
    if result.has_verdicts:
        files_text += ", misses.csv"
    if result.tuned_file:
        files_text += f"; {result.tuned_file} did not ship"
    answer = tuning_answer(result, folder or "FOLDER")
    return answer.lines(MAX_RUN_LINES, footer=files_text if folder else "")


def tuning_answer(result: TuningResult, folder: str = "FOLDER") -> ReportAnswer:
    """Return the answer on a tuning run, which saved its judge in `folder`."""
    test, scorecard, counts = result.test, result.scorecard, result.data_counts
    model = "the embedded model" if is_embedded(result.lm) else result.lm
    shipped_fact = ("Shipped", result.why.removeprefix("Shipped: "))
    cost_fact = ("Cost", _cost_text(result))
    labels_fact = ("Labels", card.labels_text(counts, result.unit))
    answer = ReportAnswer(
        title=f"{result.dimension} judged by {model}",
        headline="Do not use it yet: no labels were held out to see if it agrees with people.",
        reasons=[shipped_fact, cost_fact],
        facts=[labels_fact],
        next_steps=tuning_steps(result, folder),
    )
    if not (test and scorecard):
        return answer
    gain_fact = ("Gain", gain_sentence(result, test))
    return replace(
        answer,
        headline=card.recommendation(scorecard, card.obstacle_to_use(scorecard, counts)),
        reasons=[shipped_fact, gain_fact, *card.rate_facts(scorecard), cost_fact],
        tiles=card.main_tiles(scorecard),
        measured_on=card.measured_sentence(scorecard, counts, " that tuning did not see"),
        facts=[*_tuning_facts(result), *card.scale_facts(scorecard), labels_fact],
        tables=[_split_table(result)],
    )


def _tuning_facts(result: TuningResult) -> Iterator[Fact]:
    if result.answers and result.shipped == "tuned":
        *question_texts, own_text = [f"{one.name} ({one.share:.0%})" for one in result.answers]
        yield "Asks", f"{', '.join(question_texts)}, in addition to its own {own_text}."
    if not result.unseen and not result.is_pairwise and result.data_counts.n_systems > 1:
        yield "New systems", "Not known: no system was held out from tuning."


def _split_table(result: TuningResult) -> ReportTable:
    caption, rows = "Both judges on labels that tuning did not use.", list[tuple[str, ...]]()
    if not result.has_verdicts:
        for split_name, split in result.splits.items():
            rho_texts = figure_text(split.untuned.rho), figure_text(split.tuned.rho)
            n_documents = f"{split.untuned.rho.n_documents:,}"
            rows.append((SPLIT_TITLES[split_name], *rho_texts, n_documents))
        rho_name = f"{result.level}-level rho"
        return ReportTable((rho_name, "untuned judge", "tuned judge", "documents"), rows, caption)
    for split_name, split in result.splits.items():
        title = "test" if split_name == "test" else "new systems"
        for judge_name, scorecard in (("untuned", split.untuned), ("tuned", split.tuned)):
            if scorecard.verdict_figures:
                *rates, kappa = scorecard.verdict_figures.rates
                cells = *map(figure_text, rates), number_text(kappa.value)
                rows.append((f"{title}, {judge_name}", *cells))
    return ReportTable(("", *card.RATE_COLUMNS), rows, caption)


def gain_sentence(result: TuningResult, test: SplitResult) -> str:
    """Return what tuning gained: both judges' figures on test, and what the difference means."""
    # Figures on dev are not reported, because they flatter the judge that was chosen by them.
    gain, untuned, tuned = test.objective_gain, test.untuned, test.tuned
    if math.isnan(gain.value):
        return "It is not known whether tuning helped: the gain on test is undefined."
    if result.shipped != "tuned" and result.tuned_file is None:
        return "The search found nothing better than the untuned judge, so nothing was gained."
    figure_name, figure_values = f"{result.level}-level rho", [untuned.rho.value, tuned.rho.value]
    if test.balanced_gain:
        figure_name = "balanced accuracy"
        figure_values = [untuned.share_right.value, tuned.share_right.value]
    untuned_text, tuned_text = map(number_text, figure_values)
    meaning = _gain_meaning(test, count_text(tuned.rho.n_documents, "document"))
    is_contradicted = gain.value < 0 if result.shipped == "tuned" else test.is_gain_confirmed
    if is_contradicted:
        n_tested = tuned.rho.n_documents + tuned.rho.n_undefined
        n_others = result.data_counts.n_documents - n_tested
        meaning += f" Which judge ships was decided on the other {n_others:,} documents."
    gain_text = figure_text(gain, signed=True)
    if result.unseen and not math.isnan(result.unseen.objective_gain.value):
        unseen_gain = figure_text(result.unseen.objective_gain, signed=True)
        gain_text += f"; on unseen systems {unseen_gain}"
    figures_text = f"{untuned_text} untuned and {tuned_text} tuned"
    return f"On test {figure_name} is {figures_text}: {gain_text}. {meaning}"


def _gain_meaning(test: SplitResult, documents_text: str) -> str:
    """Return what the gain on test means; `documents_text` reads like "20 documents"."""
    interval = test.objective_gain.interval
    if interval is None and test.objective_gain.value == 0:
        return f"On these {documents_text} the two judges do equally well."
    if interval is None:
        return f"{documents_text} are too few, or too alike, for an interval: this may be luck."
    if test.is_gain_confirmed:
        return f"So tuning helped: these {documents_text} had no part in it."
    if interval.high < 0:
        return f"So the tuned judge is worse: these {documents_text} had no part in tuning."
    return f"{documents_text} are too few to tell this from luck."


def _cost_text(result: TuningResult) -> str:
    calls_text = count_text(result.lm_calls, "judge call")
    if result.proposer_calls:
        calls_text += f" and {count_text(result.proposer_calls, 'proposal')}"
    if result.cached_calls:
        note = "; the limit of the search counts them, too" if result.limit_reached else ""
        calls_text += f" ({result.cached_calls:,} more from the reply cache{note})"
    limit_text = f" of at most ${result.max_cost:.2f}" if result.max_cost else ""
    spent_text = f"{cost_text(result.spending.cost_usd)}{limit_text}"
    text = f"{spent_text}, {calls_text} in {result.seconds:,.0f} s."
    if not (costs := result.cost_per_1000_rows):
        return f"{text} 1,000 rows are free, too." if result.spending.cost_usd == 0 else text
    shipped_cost, untuned_cost = costs.for_judge(result.shipped), costs.untuned
    text += f" 1,000 rows will cost {cost_text(shipped_cost)}"
    if result.shipped == "tuned" and untuned_cost:
        text += f", untuned {cost_text(untuned_cost)} ({shipped_cost / untuned_cost:.1f} times)"
    return f"{text}."


def tuning_steps(result: TuningResult, folder: str = "FOLDER") -> list[str]:
    """Return at most three next steps after a tuning run, which saved its judge in `folder`."""
    if result.data_counts.is_constructed:
        subject_flag = "pairwise" if result.is_pairwise else "dimension"
        command = command_text("tune", **{subject_flag: result.dimension, "data": "FILE"})
        return [
            "These labels were constructed, not given by people. Tune on labels of your own: "
            f"`{command}`; 50 labels on 20 documents are enough to start."
        ]
    if not (result.test and (scorecard := result.scorecard)):
        return [
            "Measure it on labels that it has not seen: `dspy-judges verify`, or `dspy.Evaluate` "
            "for a program of your own."
        ]
    obstacle = card.obstacle_to_use(scorecard, result.data_counts)
    n_failed, steps = scorecard.rho.n_failed, list[str]()
    if n_failed > MIN_FAILED_SHARE * scorecard.rho.n_outputs:
        failures_text = f"{n_failed:,} {scorecard.unit}s"
        steps.append(f"Fix the failures: {failures_text} have no score. The report says why.")
    is_untuned_perfect = result.test.untuned.share_right.value >= MIN_PERFECT
    if result.limit_reached and not is_untuned_perfect and (obstacle or result.shipped != "tuned"):
        steps.append(LARGER_LIMIT_STEP)
    labels_step = card.labels_advice(scorecard, result.n_passes, result.data_counts.n_outputs)
    gain_steps = _steps_if_gain_unproven(result, result.test)
    if obstacle and not obstacle.is_failure:
        # Without an interval, labels come first: only they tell if the next run gains anything.
        steps += [obstacle.remedy or labels_step or card.LABEL_MORE, *gain_steps]
    else:
        steps += [*gain_steps, labels_step]
    if not obstacle:
        command = command_text("verify", folder, data="FILE")
        floors_text = card.floors_advice(scorecard, command)
        steps.append(f"Load it with `judges.load({json.dumps(folder)})`. {floors_text}")
    return [*filter(None, steps)][:MAX_STEPS]


def _steps_if_gain_unproven(result: TuningResult, test: SplitResult) -> Iterator[str]:
    if result.shipped == "tuned":
        if test.objective_gain.interval and not test.is_gain_confirmed:
            yield "Verify the judge on further labels: test alone does not confirm the gain."
        if result.unseen and result.unseen.objective_gain.value < 0:
            yield (
                "Before you judge new systems, label some of their outputs and verify the judge: "
                "tuning has shown no gain on unseen systems."
            )
    elif test.untuned.share_right.value < MIN_PERFECT and not result.limit_reached:
        model_advice = "`--lm MODEL`" if is_embedded(result.lm) else "a stronger `--lm` or proposer"
        yield f"Label more documents and tune again, or try {model_advice}: no gain could be shown."
