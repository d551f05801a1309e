"""The results of the commands score and winrate: the cells of each row, and the summary."""

import argparse
import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from statistics import fmean, pstdev
from typing import TYPE_CHECKING

from dspy_judges.errors import UsageError
from judges.cli.costs import RunCost
from judges.cli.flags import with_model_flags
from judges.dimension import Comparison
from judges.frozen import TUNED_ON_KEY
from judges.judge import Judge
from judges.judgement import AnyJudgement, Judgement, Preference
from judges.loading import load
from judges.panel import AnyJudge
from judges.tables.problems import RowsError
from judges.tables.text import Record
from judges.terminal import print_output

if TYPE_CHECKING:
    from judges.true_rate import TrueRate

MAX_REASON_CHARACTERS = 500  # a longer reason of a failure is cut before reasons are counted
SCORE_DECIMALS = 3
TextsByJudge = dict[str, Record]
JudgementByJudge = dict[str, AnyJudgement]
ANSWER_PREFIX = "answers."  # stands before a question's name in the keys of a judgement


class JudgeScores:
    """The scores of one rating judge, and the numbers of its failures by reason.

    `is_as_tested` is true if no flag has changed the judge since it was tested on labels.
    """

    def __init__(self, judge: AnyJudge, *, is_as_tested: bool, flags: argparse.Namespace) -> None:
        self.judge, self.is_as_tested, self.flags = judge, is_as_tested, flags
        self.is_verdict = judge.subject.scale == (0, 1)
        # The judgement's key that each new column holds; {} if the output is JSON Lines.
        self.key_by_column: dict[str, str] = {}
        self.n_by_reason = Counter[str]()
        self.n_unparsable_replies = self.n_tuned_on = 0
        self.scores: list[float] = []
        # Whether each row that the judge was not tuned on passes, and a hash of its document.
        self.new_verdicts: list[bool] = []
        self.new_documents: list[int] = []

    def name_columns(self, table_columns: Collection[str]) -> list[str]:
        """Return the names of the columns to add to a CSV or Parquet table."""
        keys = ["score", "failure", *_question_keys(self.judge, self.flags)]
        keys += [TUNED_ON_KEY] if self.judge.tuning_digests else []
        output_fields = self.judge.prompt.output_fields if isinstance(self.judge, Judge) else ()
        keys += ["rationale" for field in output_fields if field.name == "rationale"]
        self.key_by_column = _name_columns(self.judge.name, keys, table_columns)
        return [*self.key_by_column]

    def add_judgement(self, judgement: AnyJudgement, texts: Record) -> Record:
        """Add a judgement; return it as the JSON object of a JSON Lines row."""
        assert isinstance(judgement, Judgement)
        self.n_unparsable_replies += judgement.unparsable
        is_tuned_row = self.judge.was_tuned_on(texts)
        mark = {TUNED_ON_KEY: True} if is_tuned_row else {}
        if judgement.failure:
            self.n_by_reason[judgement.failure[:MAX_REASON_CHARACTERS]] += 1
            return {**judgement.as_json(), "score": None, **mark}
        score = round(judgement.score, SCORE_DECIMALS)
        if self.is_verdict and judgement.score < 0.5 == score:
            score = judgement.score  # rounding would turn this fail into a pass
        self.scores.append(judgement.score)
        self.n_tuned_on += is_tuned_row
        if not is_tuned_row:
            # The last text is the output, and the other texts are the document.
            strings = tuple(map(str, texts.values()))
            self.new_documents.append(hash(strings[:-1] or strings))
            self.new_verdicts.append(judgement.score >= 0.5)
        return {**judgement.as_json(), "score": score, **mark}

    def true_rate(self) -> "TrueRate":
        """Return the judge's pass rate, corrected for the errors that it made on its test labels.

        Rows that the judge was tuned on are left out, because the judge errs less often on them.
        """
        from judges.true_rate import corrected_rate  # not at the top, since it imports NumPy

        error_table = self.judge.typed_provenance.error_table if self.is_as_tested else []
        return corrected_rate(self.new_verdicts, self.new_documents, error_table)

    def summary_lines(self) -> Iterator[str]:
        """Yield lines on the mean score, the commonest failure and the pass rate, with remarks."""
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
            mark = next((name for name in self.key_by_column if name.endswith(TUNED_ON_KEY)), None)
            rate_phrase = " and left out of the rate" if self.is_verdict else ""
            yield (
                f"the judge was tuned on {self.n_tuned_on:,} of these rows, which are marked "
                f"{(mark or TUNED_ON_KEY)!r}{rate_phrase}: their scores do not test the judge"
            )

    def summary_json(self) -> dict[str, object]:
        """Return the mean and the standard deviation of the scores, and counts of judgements."""
        summary: dict[str, object] = {
            "mean": fmean(self.scores) if self.scores else None,
            "sd": pstdev(self.scores) if self.scores else None,
            "n": len(self.scores),
            "n_failed": self.n_by_reason.total(),
            "n_unparsable_replies": self.n_unparsable_replies,
            "failures": dict(self.n_by_reason.most_common(20)),
        }
        return summary | ({"pass_rate": self.true_rate().as_json()} if self.is_verdict else {})


class Scores:
    """The results of the command `score`: the scores of each judge."""

    def __init__(self, flags: argparse.Namespace) -> None:
        self.scores_by_judge: dict[str, JudgeScores] = {}
        for judge_path in flags.judges:
            loaded_judge = load(judge_path)
            judge = with_model_flags(loaded_judge, judge_path, flags)
            if judge.kind == "pairwise":
                raise UsageError(f"{judge.name} compares two outputs; use: dspy-judges winrate")
            if judge.name in self.scores_by_judge:
                raise UsageError("two judges have the same name; score them in two runs")
            scores = JudgeScores(judge, is_as_tested=judge == loaded_judge, flags=flags)
            self.scores_by_judge[judge.name] = scores
        self.judges = [scores.judge for scores in self.scores_by_judge.values()]

    def name_columns(self, table_columns: Collection[str]) -> list[str]:
        all_scores = self.scores_by_judge.values()
        return [name for scores in all_scores for name in scores.name_columns(table_columns)]

    def add_row(self, row: Record, texts: TextsByJudge, judgements: JudgementByJudge) -> Record:
        """Add a row's judgements, by judge name, to the summary; return the row's new cells."""
        cells: Record = {}
        json_by_judge: Record = {}
        for name, judgement in judgements.items():
            scores = self.scores_by_judge[name]
            json_by_judge[name] = judgement_json = scores.add_judgement(judgement, texts[name])
            cells |= _flat_cells(scores.key_by_column, judgement_json, judgement)
        if cells:
            return cells
        earlier_judgements = row.get("judgements")
        if isinstance(earlier_judgements, dict):
            json_by_judge = {**earlier_judgements, **json_by_judge}
        return {"judgements": json_by_judge}

    def print_report(self, flags: argparse.Namespace, n_rows: int, cost: RunCost) -> None:
        """Print the scores of each judge; raise RowsError if no row got a score."""
        all_scores = self.scores_by_judge.values()
        if flags.json:
            summaries = {scores.judge.name: scores.summary_json() for scores in all_scores}
            report_json = {"out": str(flags.out), "rows": n_rows, "judges": summaries}
            print(json.dumps({**report_json, **cost._asdict()}, indent=1))
        else:
            name_width = max(map(len, self.scores_by_judge))
            for scores in all_scores:
                for line in scores.summary_lines():
                    print_output(f"{scores.judge.name:<{name_width}}  {line}")
        if not any(scores.scores for scores in all_scores):
            reason = next(iter(next(iter(all_scores)).n_by_reason))
            raise RowsError(f"no row got a score; the first reason: {reason}")


class Preferences:
    """The results of the command `winrate`: the preferences of a pairwise judge."""

    # The stable name of a preference in the output: a JSON key, and a prefix of columns.
    PREFERENCE_NAME = "verdict"
    PREFERENCE_KEYS = ("preferred", "order_ab", "order_ba", "comparison", "failure")

    def __init__(self, flags: argparse.Namespace) -> None:
        judge = with_model_flags(load(flags.judge), flags.judge, flags)
        if not isinstance(judge.subject, Comparison):
            raise UsageError(f"{judge.name} rates one output; use: dspy-judges score")
        self.judges, self.subject, self.flags = [judge], judge.subject, flags
        self.preferences: list[Preference] = []
        self.n_tuned_on = 0
        self.document_hashes: list[int] = []
        self.output_lengths: list[tuple[int, int]] = []
        self.key_by_column: dict[str, str] = {}

    def name_columns(self, table_columns: Collection[str]) -> list[str]:
        """Return the names of the columns to add to a CSV or Parquet table."""
        (judge,) = self.judges
        keys = [*self.PREFERENCE_KEYS, *([TUNED_ON_KEY] if judge.tuning_digests else [])]
        keys += _question_keys(judge, self.flags)
        self.key_by_column = _name_columns(self.PREFERENCE_NAME, keys, table_columns)
        return [*self.key_by_column]

    def add_row(self, row: Record, texts: TextsByJudge, judgements: JudgementByJudge) -> Record:
        """Add a row's preference to the summary; return the row's new cells."""
        (pair_texts,), (preference,), (judge,) = texts.values(), judgements.values(), self.judges
        assert isinstance(preference, Preference)
        outputs = [str(pair_texts[name] or "").strip() for name in self.subject.fields]
        document = tuple(str(pair_texts[name]) for name in self.subject.inputs)
        self.preferences.append(preference)
        self.document_hashes.append(hash(document))
        self.output_lengths.append((len(outputs[0]), len(outputs[1])))
        preference_json = {key: getattr(preference, key) for key in self.PREFERENCE_KEYS}
        if judge.tuning_digests:
            preference_json[TUNED_ON_KEY] = judge.was_tuned_on(pair_texts) or None
            self.n_tuned_on += preference_json[TUNED_ON_KEY] is True
        if self.key_by_column:
            return _flat_cells(self.key_by_column, preference_json, preference)
        if preference.answers:
            preference_json["answers"] = preference.answers
        return {self.PREFERENCE_NAME: preference_json}

    def print_report(self, flags: argparse.Namespace, n_rows: int, cost: RunCost) -> None:
        """Print how often output A is preferred, and the judge's biases."""
        from judges.winrate import win_rate

        documents, lengths = self.document_hashes, self.output_lengths
        rate = win_rate(self.preferences, documents=documents, lengths=lengths)
        if flags.json:
            report_json = {**rate.summary(), "out": str(flags.out), **cost._asdict()}
            print(json.dumps(report_json, indent=1))
        else:
            print_output(f"{self.subject.name} {rate}")
            if self.n_tuned_on:
                print_output(f"  tuned on            {self.n_tuned_on:,} of these pairs (marked)")
        if rate.n == 0:
            reason = self.preferences[0].failure
            raise RowsError(f"no pair got a preference; the first reason: {reason}")


def _question_keys(judge: AnyJudge, flags: argparse.Namespace) -> list[str]:
    return [ANSWER_PREFIX + field.name for field in judge.questions if flags.answers]


def _name_columns(name: str, keys: Sequence[str], table_columns: Collection[str]) -> dict[str, str]:
    """Return the key of each new column: NAME or NAME_KEY, or NAME_judge if a column exists."""
    for prefix in (name, f"{name}_judge"):
        key_by_column = {
            prefix if key == "score" else f"{prefix}_{key.removeprefix(ANSWER_PREFIX)}": key
            for key in keys
        }
        if key_by_column.keys().isdisjoint(table_columns):
            return key_by_column
    raise RowsError(f"columns {name!r} and {name}_judge exist already; write .jsonl, or rename one")


def _flat_cells(
    key_by_column: Mapping[str, str], judgement_json: Record, judgement: AnyJudgement
) -> Record:
    """Return a judgement as the cells of a flat row, with the answers to the judge's questions."""
    value_by_key = dict(judgement_json)
    for name, answer in (judgement.answers or {}).items():
        value_by_key[ANSWER_PREFIX + name] = round(answer, SCORE_DECIMALS)
    return {column: value_by_key.get(key) for column, key in key_by_column.items()}
