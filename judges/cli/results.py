"""The results of the commands score and winrate: the cells of each row, and the summary."""

import argparse
import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from statistics import fmean, pstdev
from typing import TYPE_CHECKING

from dspy_judges.errors import UsageError
from judges.cli.flags import with_model_flags
from judges.frozen import TUNED_ON_KEY
from judges.judge import Judge
from judges.judgement import AnyJudgement, Judgement, Preference
from judges.loading import load
from judges.panel import AnyJudge
from judges.tables.problems import RowsError
from judges.tables.text import Record
from judges.terminal import print_output, wrap_lines

if TYPE_CHECKING:
    from judges.true_rate import TrueRate
    from judges.winrate import WinRate

SCORE_DECIMALS = 3
PREFERENCE_KEYS = ("preferred", "margin", "order_ab", "order_ba", "comparison", "failure")


class _JudgeResults:
    """The results of one judge, and the columns that they add to a CSV or Parquet table.

    Each of `judgement_keys` gets a column whose name begins with `prefix`.
    """

    def __init__(
        self, judge: AnyJudge, prefix: str, judgement_keys: Sequence[str], flags: argparse.Namespace
    ) -> None:
        self.judge, self.prefix = judge, prefix
        self.n_judged = self.n_tuned_on = 0
        self.n_by_reason = Counter[str]()  # the number of failures for each reason
        answer_keys = [field.name for field in judge.questions if flags.answers]
        tuned_on_keys = [TUNED_ON_KEY] if judge.tuning_digests else []
        self.judgement_keys = [*judgement_keys, *answer_keys, *tuned_on_keys]
        # Maps each new column to a key of a judgement; {} if the output is JSON Lines.
        self.key_by_column: dict[str, str] = {}

    def name_columns(self, table_columns: Collection[str]) -> list[str]:
        """Name the new columns PREFIX_KEY, or PREFIX_judge_KEY if the table has such columns."""
        for prefix in (self.prefix, f"{self.prefix}_judge"):
            self.key_by_column = {
                prefix if key == "score" else f"{prefix}_{key}": key for key in self.judgement_keys
            }
            # A reader would confuse two columns whose names differ only in case.
            if {*map(str.lower, table_columns)}.isdisjoint(map(str.lower, self.key_by_column)):
                return [*self.key_by_column]
        problem = f"columns {self.prefix!r} and {self.prefix}_judge exist already"
        raise RowsError(f"{problem}; write .jsonl, or rename one")

    def _count_judgement(self, judgement: AnyJudgement, texts: Record) -> Record:
        """Count a judgement; return the mark `tuned_on` if the judge was tuned on the row."""
        if judgement.failure is None:
            self.n_judged += 1
        else:
            self.n_by_reason[judgement.failure] += 1
        is_tuned_row = self.judge.was_tuned_on(texts)
        self.n_tuned_on += is_tuned_row
        return {TUNED_ON_KEY: True} if is_tuned_row else {}

    def _flat_cells(self, cell_values: Record, judgement: AnyJudgement) -> Record:
        value_by_key, answers = dict(cell_values), judgement.answers or {}
        for field in self.judge.questions if answers else ():
            value_by_key[field.name] = round(answers[field.name], SCORE_DECIMALS)
        return {column: value_by_key.get(key) for column, key in self.key_by_column.items()}


class JudgeScores(_JudgeResults):
    """The scores of one rating judge.

    `is_as_tested` is true if no flag has changed the judge since it was tested on labels.
    """

    def __init__(self, judge: AnyJudge, flags: argparse.Namespace, *, is_as_tested: bool) -> None:
        verdict_keys = ["verdict"] if judge.subject.words else []
        super().__init__(judge, judge.name, ["score", *verdict_keys, "failure"], flags)
        output_fields = judge.prompt.output_fields if isinstance(judge, Judge) else ()
        self.judgement_keys += [field.name for field in output_fields if field.name == "rationale"]
        self.is_as_tested, self.is_verdict = is_as_tested, judge.subject.scale == (0, 1)
        self.n_unparsable_replies = 0
        self.scores: list[float] = []
        # For each row that the judge was not tuned on: does it pass, and a hash of its document.
        self.new_verdicts: list[bool] = []
        self.new_documents: list[int] = []

    def new_cells(self, row: Record, texts: Record, judgement: AnyJudgement) -> Record:
        """Add the judgement of a row to the scores, and return the row's new cells."""
        assert isinstance(judgement, Judgement)
        tuned_on_mark = self._count_judgement(judgement, texts)
        self.n_unparsable_replies += judgement.unparsable
        cell_values = {**judgement.as_json(), **tuned_on_mark}
        if judgement.failure is None:
            self.scores.append(judgement.score)
            cell_values["score"] = round(judgement.score, SCORE_DECIMALS)
            if self.is_verdict and judgement.score < 0.5 == cell_values["score"]:
                cell_values["score"] = judgement.score  # rounding would turn this fail into a pass
            if verdict_words := self.judge.subject.words:
                cell_values["verdict"] = verdict_words[judgement.score < 0.5]
            if not tuned_on_mark:
                # The last text is the output, and the other texts are the document.
                text_strings = tuple(map(str, texts.values()))
                self.new_documents.append(hash(text_strings[:-1] or text_strings))
                self.new_verdicts.append(judgement.score >= 0.5)
        if self.key_by_column:
            return self._flat_cells(cell_values, judgement)
        judgements_cell = row.get("judgements")
        earlier_judgements = judgements_cell if isinstance(judgements_cell, dict) else {}
        return {"judgements": {**earlier_judgements, self.judge.name: cell_values}}

    def true_rate(self) -> "TrueRate":
        """Return the judge's pass rate, corrected for the errors that it made on its test labels.

        Rows that the judge was tuned on are left out, because the judge errs less often on them.
        """
        from judges.true_rate import corrected_rate  # not at the top, since it imports NumPy

        error_table = self.judge.provenance_record.error_table if self.is_as_tested else []
        return corrected_rate(self.new_verdicts, self.new_documents, error_table)

    def print_summary(self, name_width: int) -> None:
        title = f"{self.judge.name:<{name_width}}  "
        print_output(*wrap_lines(*self.summary_lines(), title=title))

    def summary_lines(self) -> Iterator[str]:
        n, n_failed = len(self.scores), self.n_by_reason.total()
        mean_and_sd = f"mean {fmean(self.scores):.3f}  sd {pstdev(self.scores):.3f}" if n else ""
        yield f"{mean_and_sd or 'no score'}  n={n:,} ({n_failed:,} failed)"
        for reason, _ in self.n_by_reason.most_common(1):
            yield f"the commonest failure: {reason}"
        if self.is_verdict:
            yield str(self.true_rate())
        verdict_words = self.judge.subject.words
        if verdict_words and verdict_words != ("pass", "fail"):
            yield f"a score of 1 means {verdict_words[0]!r}, and 0 means {verdict_words[1]!r}"
        if self.n_tuned_on:
            rate_remark = ", and left out of the pass rate" if self.is_verdict else ""
            rows_text = f"{self.n_tuned_on:,} of these rows (marked {TUNED_ON_KEY!r}{rate_remark})"
            yield f"the judge was tuned on {rows_text}: their scores do not test the judge"

    def summary_json(self) -> dict[str, object]:
        """Return the mean and the standard deviation of the scores, and counts of judgements."""
        summary: dict[str, object] = {
            "mean": fmean(self.scores) if self.scores else None,
            "sd": pstdev(self.scores) if self.scores else None,
            "n": self.n_judged,
            "n_failed": self.n_by_reason.total(),
            "n_unparsable_replies": self.n_unparsable_replies,
            "failures": dict(self.n_by_reason.most_common(20)),
        }
        return summary | ({"pass_rate": self.true_rate().as_json()} if self.is_verdict else {})


class JudgePreferences(_JudgeResults):
    def __init__(self, judge: AnyJudge, flags: argparse.Namespace) -> None:
        # Programs that read the output know the preference by the name "verdict".
        super().__init__(judge, "verdict", PREFERENCE_KEYS, flags)
        self.preferences: list[Preference] = []
        self.document_hashes: list[int] = []
        self.output_lengths: list[tuple[int, int]] = []

    def new_cells(self, row: Record, texts: Record, judgement: AnyJudgement) -> Record:
        """Add the preference for a row's pair to the results, and return the row's new cells."""
        assert isinstance(judgement, Preference)
        *document_texts, text_a, text_b = texts.values()
        self.preferences.append(judgement)
        self.document_hashes.append(hash(tuple(map(str, document_texts))))
        output_a, output_b = (str(text or "").strip() for text in (text_a, text_b))
        self.output_lengths.append((len(output_a), len(output_b)))
        cell_values: Record = {key: getattr(judgement, key) for key in PREFERENCE_KEYS}
        cell_values["margin"] = judgement.margin if judgement.preferred else None  # and not NaN
        cell_values |= self._count_judgement(judgement, texts)
        if self.key_by_column:
            return self._flat_cells(cell_values, judgement)
        answers = {"answers": judgement.answers} if judgement.answers else {}
        return {self.prefix: {**cell_values, **answers}}

    def win_rate(self) -> "WinRate":
        from judges.winrate import win_rate  # not at the top, since it imports NumPy

        documents, lengths = self.document_hashes, self.output_lengths
        return win_rate(self.preferences, documents=documents, lengths=lengths)

    def summary_json(self) -> dict[str, object]:
        return {**self.win_rate().summary()}

    def print_summary(self, name_width: int) -> None:
        print_output(f"{self.judge.name} {self.win_rate()}")
        if self.n_tuned_on:
            print_output(f"  tuned on            {self.n_tuned_on:,} of these pairs (marked)")


JudgeResults = JudgeScores | JudgePreferences
ResultsByJudge = Mapping[str, JudgeResults]


def load_judges(flags: argparse.Namespace) -> ResultsByJudge:
    """Load the judges named in a command; return an empty result for each judge, by its name."""
    results_by_judge: dict[str, JudgeResults] = {}
    for judge_path in flags.judges:
        loaded_judge = load(judge_path)
        judge = with_model_flags(loaded_judge, judge_path, flags)
        is_pairwise = judge.subject.is_pairwise
        if is_pairwise and not flags.is_pairwise:
            raise UsageError(f"{judge.name} compares two outputs; use: dspy-judges winrate")
        if not is_pairwise and flags.is_pairwise:
            raise UsageError(f"{judge.name} rates one output; use: dspy-judges score")
        if judge.name in results_by_judge:
            raise UsageError("two judges have the same name; score them in two runs")
        if flags.is_pairwise:
            results_by_judge[judge.name] = JudgePreferences(judge, flags)
        else:
            is_as_tested = judge == loaded_judge
            results_by_judge[judge.name] = JudgeScores(judge, flags, is_as_tested=is_as_tested)
    return results_by_judge


def print_report(
    results_by_judge: ResultsByJudge, flags: argparse.Namespace, n_rows: int, cost_json: Record
) -> None:
    """Print the summary of each judge; raise RowsError if no row got a score or a preference."""
    (first_results, *_), name_width = results_by_judge.values(), max(map(len, results_by_judge))
    if flags.json:
        summaries = {name: results.summary_json() for name, results in results_by_judge.items()}
        report_json = {"out": str(flags.out), "rows": n_rows, "judges": summaries}
        if flags.is_pairwise:
            report_json = {**first_results.summary_json(), "out": str(flags.out)}
        print(json.dumps({**report_json, **cost_json}, indent=1))
    else:
        for results in results_by_judge.values():
            results.print_summary(name_width)
    if not any(results.n_judged for results in results_by_judge.values()):
        problem = "no pair got a preference" if flags.is_pairwise else "no row got a score"
        raise RowsError(f"{problem}; the first reason: {next(iter(first_results.n_by_reason))}")
