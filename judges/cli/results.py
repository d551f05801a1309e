"""The results of the commands score and winrate: the cells of each row, and the summary."""

import argparse
import json
from array import array
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain, compress
from statistics import fmean, pstdev
from typing import TYPE_CHECKING

from dspy_judges.errors import UsageError
from judges.cli.costs import RunCost
from judges.cli.flags import with_model_flags
from judges.dimension import Comparison
from judges.frozen import TUNED_ON
from judges.judge import Judge
from judges.judgement import AnyJudgement, Judgement, Preference
from judges.loading import load
from judges.panel import AnyJudge
from judges.tables.problems import RowsError
from judges.tables.text import Record
from judges.terminal import print_output

if TYPE_CHECKING:
    from judges.true_rate import TrueRate

# Reasons of failures are cut to this length before they are counted.
MAX_REASON_CHARACTERS = 500
SCORE_DECIMALS = 3  # decimals of a score


class JudgeScores:
    """The scores of one rating judge, and the numbers of its failures by reason.

    `is_as_tested` is true if no flag has changed the judge since it was tested on labels.
    """

    def __init__(self, judge: AnyJudge, *, is_as_tested: bool, args: argparse.Namespace) -> None:
        self.judge, self.is_as_tested = judge, is_as_tested
        self.questions = [field.name for field in judge.questions if args.answers]
        # The names of the judge's new columns; [] if the output is JSON Lines.
        self.columns: list[str] = []
        self.scores = array("d")
        self.failures = Counter[str]()
        self.n_unparsable = 0
        # Only for a pass/fail judge: for each score, a hash of the document, by which scores of the
        # same document are grouped. The document is all texts but the last, the output.
        self.is_verdict = judge.subject.scale == (0, 1)
        self.document_hashes: list[int] = []
        # For each score, whether the judge was tuned on the row.
        self.tuned_rows = array("b")

    def new_columns(self, columns: Collection[str]) -> list[str]:
        outputs = self.judge.prompt.outputs if isinstance(self.judge, Judge) else ()
        suffixes = ["", "_failure", *(f"_{name}" for name in self.questions)]
        suffixes += [f"_{TUNED_ON}"] if self.judge.tuning_digests else []
        suffixes += [f"_{output.name}" for output in outputs if output.name == "rationale"]
        self.columns = _new_column_names(self.judge.name, suffixes, columns)
        return self.columns

    def add(self, judgement: AnyJudgement, texts: Record) -> tuple[Record, Record]:
        """Add a judgement; return its cells for a CSV row, and its entry for a JSON Lines row."""
        assert isinstance(judgement, Judgement)
        self.n_unparsable += judgement.unparsable
        score, is_tuned_row = None, self.judge.was_tuned_on(texts)
        if judgement.failure:
            self.failures[judgement.failure[:MAX_REASON_CHARACTERS]] += 1
        else:
            score = round(judgement.score, SCORE_DECIMALS)
            self.scores.append(judgement.score)
            self.tuned_rows.append(is_tuned_row)
            if self.is_verdict:
                strings = [*map(str, texts.values())]
                self.document_hashes.append(hash(tuple(strings[:-1] or strings)))
                if judgement.score < 0.5 == score:
                    score = judgement.score  # rounding would turn this fail into a pass
        answers = _rounded_answers(judgement, self.questions)
        tuned_cells = [is_tuned_row or None] if self.judge.tuning_digests else []
        values = (score, judgement.failure, *answers, *tuned_cells, judgement.rationale)
        # Not strict: there are fewer columns than values if the judge writes no rationale, and no
        # columns if the output is JSON Lines.
        cells: Record = dict(zip(self.columns, values, strict=False))
        entry = {**judgement.as_json(), "score": score}
        return cells, {**entry, TUNED_ON: True} if is_tuned_row else entry

    def pass_rate(self) -> "TrueRate":
        """Return the pass rate, corrected for the errors that the judge made on its test labels.

        Rows that the judge was tuned on are left out, because it errs less often on them.
        """
        from judges.true_rate import corrected_rate  # not at the top, since it imports NumPy

        tested = self.judge.origin.tested if self.is_as_tested else []
        is_new = [not is_tuned for is_tuned in self.tuned_rows]
        passes = [score >= 0.5 for score in compress(self.scores, is_new)]
        return corrected_rate(passes, [*compress(self.document_hashes, is_new)], tested)

    def remarks(self) -> Iterator[str]:
        """Yield what a score of 1 means if it is no pass, and how many rows were tuned on."""
        words = getattr(self.judge.subject, "words", None)
        if self.is_verdict and words and words != ("pass", "fail"):
            yield f"a score of 1 means {words[0]!r}, and 0 means {words[1]!r}"
        mark = next((name for name in self.columns if name.endswith(TUNED_ON)), TUNED_ON)
        if n_tuned := sum(self.tuned_rows):
            rate_text = " and left out of the rate" if self.is_verdict else ""
            yield (
                f"it was tuned on {n_tuned:,} of these rows, which are marked {mark!r}"
                f"{rate_text}: its scores on them are no test"
            )

    def summary(self) -> dict[str, object]:
        """Return the mean and the standard deviation of the scores, and counts of judgements."""
        return {
            "mean": fmean(self.scores) if self.scores else None,
            "sd": pstdev(self.scores) if self.scores else None,
            "n": len(self.scores),
            "n_failed": self.failures.total(),
            "n_unparsable_replies": self.n_unparsable,
            "failures": dict(self.failures.most_common(20)),
        }


class Scores:
    """The results of the command `score`: the scores of each judge."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.by_judge: dict[str, JudgeScores] = {}
        for source in args.judges:
            original = load(source)
            judge = with_model_flags(original, source, args)
            if judge.kind == "pairwise":
                raise UsageError(f"{judge.name} compares two outputs; use: dspy-judges winrate")
            scores = JudgeScores(judge, is_as_tested=judge == original, args=args)
            if self.by_judge.setdefault(judge.name, scores) is not scores:
                raise UsageError("two judges have the same name; score them in two runs")
        self.judges = [scores.judge for scores in self.by_judge.values()]

    def new_columns(self, columns: Collection[str]) -> list[str]:
        columns_by_judge = (scores.new_columns(columns) for scores in self.by_judge.values())
        return [*chain.from_iterable(columns_by_judge)]

    def new_cells(
        self, row: Record, texts: Mapping[str, Record], judgements: Mapping[str, AnyJudgement]
    ) -> Record:
        """Add the judgements of a row, by the judges' names; return the row's new cells."""
        cells: Record = {}
        entries: Record = {}
        for name, judgement in judgements.items():
            judge_cells, entries[name] = self.by_judge[name].add(judgement, texts[name])
            cells |= judge_cells
        earlier_entries = row.get("judgements")
        if not isinstance(earlier_entries, dict):
            earlier_entries = {}
        return cells or {"judgements": {**earlier_entries, **entries}}

    def report(self, args: argparse.Namespace, n_rows: int, cost: RunCost) -> None:
        """Print the mean score of each judge, and the corrected rate of pass/fail judges."""
        summaries = {name: scores.summary() for name, scores in self.by_judge.items()}
        pass_rates = {
            name: scores.pass_rate() for name, scores in self.by_judge.items() if scores.is_verdict
        }
        if args.json:
            for name, rate in pass_rates.items():
                summaries[name]["pass_rate"] = rate.as_json()
            record = {"out": str(args.out), "rows": n_rows, "judges": summaries}
            print(json.dumps({**record, **cost._asdict()}, indent=1))
        else:
            width = max(map(len, summaries))
            for name, summary in summaries.items():
                mean_and_sd = "mean {mean:.3f}  sd {sd:.3f}" if summary["n"] else "no score"
                line = (mean_and_sd + "  n={n:,} ({n_failed:,} failed)").format_map(summary)
                print_output(f"{name:<{width}}  {line}")
                for reason, _ in self.by_judge[name].failures.most_common(1):
                    print_output(f"{name:<{width}}  the commonest failure: {reason}")
            for name, rate in pass_rates.items():
                print_output(f"{name:<{width}}  {rate}")
            for name, scores in self.by_judge.items():
                for remark in scores.remarks():
                    print_output(f"{name:<{width}}  {remark}")
        if not any(summary["n"] for summary in summaries.values()):
            first_scores, *_ = self.by_judge.values()
            raise RowsError(
                f"no row got a score; the first reason: {next(iter(first_scores.failures))}"
            )


class Preferences:
    """The results of the command `winrate`: the preferences of a pairwise judge."""

    # The stable name of a preference in the output: a JSON key, and a prefix of columns.
    OUTPUT_NAME = "verdict"
    OUTPUT_KEYS = ("preferred", "order_ab", "order_ba", "comparison", "failure")

    def __init__(self, args: argparse.Namespace) -> None:
        judge = with_model_flags(load(args.judge), args.judge, args)
        if not isinstance(judge.subject, Comparison):
            raise UsageError(f"{judge.name} rates one output; use: dspy-judges score")
        self.judges = [judge]
        self.questions = [field.name for field in judge.questions if args.answers]
        self.subject = judge.subject
        self.preferences: list[Preference] = []
        self.n_tuned = 0
        self.document_hashes: list[int] = []
        self.text_lengths: list[tuple[int, int]] = []
        self.columns: list[str] = []

    def new_columns(self, columns: Collection[str]) -> list[str]:
        mark = [TUNED_ON] if self.judges[0].tuning_digests else []
        keys = (*self.OUTPUT_KEYS, *mark, *self.questions)
        self.columns = _new_column_names(self.OUTPUT_NAME, [f"_{key}" for key in keys], columns)
        return self.columns

    def new_cells(
        self, row: Record, texts: Mapping[str, Record], judgements: Mapping[str, AnyJudgement]
    ) -> Record:
        """Add the preference of a row; return the row's new cells."""
        (pair_texts,), (preference,) = texts.values(), judgements.values()
        assert isinstance(preference, Preference)
        length_a, length_b = (len(str(pair_texts[n] or "").strip()) for n in self.subject.fields)
        self.preferences.append(preference)
        self.document_hashes.append(
            hash(tuple(str(pair_texts[name]) for name in self.subject.inputs))
        )
        self.text_lengths.append((length_a, length_b))
        entry = {key: getattr(preference, key) for key in self.OUTPUT_KEYS}
        if self.judges[0].tuning_digests:
            entry[TUNED_ON] = self.judges[0].was_tuned_on(pair_texts) or None
            self.n_tuned += entry[TUNED_ON] is True
        if self.columns:
            answers = _rounded_answers(preference, self.questions)
            return dict(zip(self.columns, (*entry.values(), *answers), strict=True))
        if preference.answers:
            entry["answers"] = preference.answers
        return {self.OUTPUT_NAME: entry}

    def report(self, args: argparse.Namespace, n_rows: int, cost: RunCost) -> None:
        """Print how often output A is preferred, and the judge's biases."""
        from judges.winrate import win_rate

        rate = win_rate(self.preferences, documents=self.document_hashes, lengths=self.text_lengths)
        if args.json:
            record = {**rate.summary(), "out": str(args.out), **cost._asdict()}
            print(json.dumps(record, indent=1))
        else:
            print_output(f"{self.subject.name} {rate}")
            if self.n_tuned:
                print_output(f"  tuned on            {self.n_tuned:,} of these pairs (marked)")
        if rate.n == 0:
            raise RowsError(
                f"no pair got a preference; the first reason: {self.preferences[0].failure}"
            )


def _rounded_answers(judgement: AnyJudgement, questions: Sequence[str]) -> list[float | None]:
    answers = judgement.answers or {}
    return [round(answers[name], SCORE_DECIMALS) if name in answers else None for name in questions]


def _new_column_names(name: str, suffixes: Sequence[str], columns: Collection[str]) -> list[str]:
    """Return names for new columns: NAME + suffix, or NAME_judge + suffix if a name exists."""
    for prefix in (name, f"{name}_judge"):
        new_names = [f"{prefix}{suffix}" for suffix in suffixes]
        if not set(new_names) & set(columns):
            return new_names
    raise RowsError(
        f"columns {name!r} and {name}_judge exist already; write .jsonl, or rename a column"
    )
