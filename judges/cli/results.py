"""The results of the commands score and winrate: the cells of each row, and the summary."""

import argparse
import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain, compress
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

# Reasons of failures are cut to this length before they are counted.
MAX_REASON_CHARACTERS = 500
SCORE_DECIMALS = 3  # decimals of a score
# Before the name of a question in the keys of a judgement.
ANSWER_PREFIX = "answers."


class JudgeScores:
    """The scores of one rating judge, and the numbers of its failures by reason.

    `is_as_tested` is true if no flag has changed the judge since it was tested on labels.
    """

    def __init__(self, judge: AnyJudge, *, is_as_tested: bool, args: argparse.Namespace) -> None:
        self.judge, self.is_as_tested, self.args = judge, is_as_tested, args
        # The key in a judgement of each new column; {} if the output is JSON Lines.
        self.columns: dict[str, str] = {}
        self.failures = Counter[str]()
        self.n_unparsable = 0
        self.is_verdict = judge.subject.scale == (0, 1)
        # For each score: whether the judge was tuned on the row, and a hash of the document, by
        # which scores are grouped. The document is all texts but the last, the output.
        self.scores: list[float] = []
        self.tuned_rows: list[bool] = []
        self.document_hashes: list[int] = []

    def new_columns(self, columns: Collection[str]) -> list[str]:
        keys = ["score", "failure", *_question_keys(self.judge, self.args)]
        keys += [TUNED_ON_KEY] if self.judge.tuning_digests else []
        outputs = self.judge.prompt.output_fields if isinstance(self.judge, Judge) else ()
        keys += ["rationale" for output in outputs if output.name == "rationale"]
        self.columns = _new_columns(self.judge.name, keys, columns)
        return [*self.columns]

    def add(self, judgement: AnyJudgement, texts: Record) -> Record:
        """Add a judgement; return its entry for a JSON Lines row."""
        assert isinstance(judgement, Judgement)
        self.n_unparsable += judgement.unparsable
        score, is_tuned_row = None, self.judge.was_tuned_on(texts)
        if judgement.failure:
            self.failures[judgement.failure[:MAX_REASON_CHARACTERS]] += 1
        else:
            score = round(judgement.score, SCORE_DECIMALS)
            if self.is_verdict and judgement.score < 0.5 == score:
                score = judgement.score  # rounding would turn this fail into a pass
            strings = [*map(str, texts.values())]
            self.scores.append(judgement.score)
            self.tuned_rows.append(is_tuned_row)
            self.document_hashes.append(hash(tuple(strings[:-1] or strings)))
        entry = {**judgement.as_json(), "score": score}
        return {**entry, TUNED_ON_KEY: True} if is_tuned_row else entry

    def pass_rate(self) -> "TrueRate":
        """Return the pass rate, corrected for the errors that the judge made on its test labels.

        Rows that the judge was tuned on are left out, because it errs less often on them.
        """
        from judges.true_rate import corrected_rate  # not at the top, since it imports NumPy

        tested = self.judge.typed_provenance.error_table if self.is_as_tested else []
        is_new = [not is_tuned for is_tuned in self.tuned_rows]
        passes = [score >= 0.5 for score in compress(self.scores, is_new)]
        return corrected_rate(passes, [*compress(self.document_hashes, is_new)], tested)

    def lines(self) -> Iterator[str]:
        """Yield lines on the mean score, the commonest failure and the pass rate, with remarks."""
        n, n_failed = len(self.scores), self.failures.total()
        mean_and_sd = f"mean {fmean(self.scores):.3f}  sd {pstdev(self.scores):.3f}" if n else ""
        yield f"{mean_and_sd or 'no score'}  n={n:,} ({n_failed:,} failed)"
        for reason, _ in self.failures.most_common(1):
            yield f"the commonest failure: {reason}"
        if self.is_verdict:
            yield str(self.pass_rate())
        words = getattr(self.judge.subject, "words", None)
        if self.is_verdict and words and words != ("pass", "fail"):
            yield f"a score of 1 means {words[0]!r}, and 0 means {words[1]!r}"
        mark = next((name for name in self.columns if name.endswith(TUNED_ON_KEY)), TUNED_ON_KEY)
        if n_tuned := sum(self.tuned_rows):
            rate_text = " and left out of the rate" if self.is_verdict else ""
            yield (
                f"the judge was tuned on {n_tuned:,} of these rows, which are marked {mark!r}"
                f"{rate_text}: their scores do not test the judge"
            )

    def summary(self) -> dict[str, object]:
        """Return the mean and the standard deviation of the scores, and counts of judgements."""
        summary: dict[str, object] = {
            "mean": fmean(self.scores) if self.scores else None,
            "sd": pstdev(self.scores) if self.scores else None,
            "n": len(self.scores),
            "n_failed": self.failures.total(),
            "n_unparsable_replies": self.n_unparsable,
            "failures": dict(self.failures.most_common(20)),
        }
        return summary | ({"pass_rate": self.pass_rate().as_json()} if self.is_verdict else {})


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
        """Add a row's judgements, by judge name, to the summary; return the row's new cells."""
        cells: Record = {}
        entries: Record = {}
        for name, judgement in judgements.items():
            scores = self.by_judge[name]
            entries[name] = entry = scores.add(judgement, texts[name])
            cells |= _flat_cells(scores.columns, entry, judgement)
        earlier_entries = row.get("judgements")
        if not isinstance(earlier_entries, dict):
            earlier_entries = {}
        return cells or {"judgements": {**earlier_entries, **entries}}

    def report(self, args: argparse.Namespace, n_rows: int, cost: RunCost) -> None:
        """Print the scores of each judge."""
        if args.json:
            summaries = {name: scores.summary() for name, scores in self.by_judge.items()}
            record = {"out": str(args.out), "rows": n_rows, "judges": summaries}
            print(json.dumps({**record, **cost._asdict()}, indent=1))
        else:
            width = max(map(len, self.by_judge))
            for name, scores in self.by_judge.items():
                for line in scores.lines():
                    print_output(f"{name:<{width}}  {line}")
        if not any(scores.scores for scores in self.by_judge.values()):
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
        self.judges, self.subject, self.args = [judge], judge.subject, args
        self.preferences: list[Preference] = []
        self.n_tuned = 0
        self.document_hashes: list[int] = []
        self.text_lengths: list[tuple[int, int]] = []
        self.columns: dict[str, str] = {}

    def new_columns(self, columns: Collection[str]) -> list[str]:
        (judge,) = self.judges
        keys = [*self.OUTPUT_KEYS, *([TUNED_ON_KEY] if judge.tuning_digests else [])]
        keys += _question_keys(judge, self.args)
        self.columns = _new_columns(self.OUTPUT_NAME, keys, columns)
        return [*self.columns]

    def new_cells(
        self, row: Record, texts: Mapping[str, Record], judgements: Mapping[str, AnyJudgement]
    ) -> Record:
        """Add a row's preference to the summary; return the row's new cells."""
        (pair_texts,), (preference,), (judge,) = texts.values(), judgements.values(), self.judges
        assert isinstance(preference, Preference)
        length_a, length_b = (len(str(pair_texts[n] or "").strip()) for n in self.subject.fields)
        document = tuple(str(pair_texts[name]) for name in self.subject.inputs)
        self.preferences.append(preference)
        self.document_hashes.append(hash(document))
        self.text_lengths.append((length_a, length_b))
        entry = {key: getattr(preference, key) for key in self.OUTPUT_KEYS}
        if judge.tuning_digests:
            entry[TUNED_ON_KEY] = judge.was_tuned_on(pair_texts) or None
            self.n_tuned += entry[TUNED_ON_KEY] is True
        if self.columns:
            return _flat_cells(self.columns, entry, preference)
        if preference.answers:
            entry["answers"] = preference.answers
        return {self.OUTPUT_NAME: entry}

    def report(self, args: argparse.Namespace, n_rows: int, cost: RunCost) -> None:
        """Print how often output A is preferred, and the judge's biases."""
        from judges.winrate import win_rate

        rate = win_rate(self.preferences, documents=self.document_hashes, lengths=self.text_lengths)
        if args.json:
            record = {**rate.as_json(), "out": str(args.out), **cost._asdict()}
            print(json.dumps(record, indent=1))
        else:
            print_output(f"{self.subject.name} {rate}")
            if self.n_tuned:
                print_output(f"  tuned on            {self.n_tuned:,} of these pairs (marked)")
        if rate.n == 0:
            raise RowsError(
                f"no pair got a preference; the first reason: {self.preferences[0].failure}"
            )


def _question_keys(judge: AnyJudge, args: argparse.Namespace) -> list[str]:
    return [ANSWER_PREFIX + field.name for field in judge.questions if args.answers]


def _new_columns(name: str, keys: Sequence[str], columns: Collection[str]) -> dict[str, str]:
    """Return the key of each new column: NAME or NAME_KEY, or NAME_judge if a column exists."""
    for prefix in (name, f"{name}_judge"):
        new_columns = {
            prefix if key == "score" else f"{prefix}_{key.removeprefix(ANSWER_PREFIX)}": key
            for key in keys
        }
        if not new_columns.keys() & set(columns):
            return new_columns
    raise RowsError(
        f"columns {name!r} and {name}_judge exist already; write .jsonl, or rename a column"
    )


def _flat_cells(columns: Mapping[str, str], entry: Record, judgement: AnyJudgement) -> Record:
    """Return the cells of a flat row, from an entry of JSON Lines and a judgement's answers."""
    values = dict(entry)
    for name, answer in (judgement.answers or {}).items():
        values[ANSWER_PREFIX + name] = round(answer, SCORE_DECIMALS)
    return {column: values.get(key) for column, key in columns.items()}
