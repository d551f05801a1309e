"""python -m judges compare: a pairwise judge over a table of pairs, and the win rate."""

import argparse
import json
import math
from collections.abc import Mapping

from data.tables.formats import Row
from data.tables.problems import RowsError
from data.tables.write import flat
from judges.cli import batch_run
from judges.cli.arguments import (
    JUDGE,
    add_model_flags,
    add_plan_flags,
    add_run_flags,
    add_table_flags,
    to_ask,
)
from judges.cli.table_run import estimate_record, estimate_table, prepare, texts_of, write
from judges.dimension import Comparison
from judges.errors import UsageError
from judges.judge import Judge
from judges.judgement import AnyJudgement, Verdict
from judges.loading import load
from judges.winrate import WinRate, text_length, win_rate

ABOUT = """\
Compare the two outputs of every pair, and print how often A wins.

Each pair is asked in both orders; a choice that follows the position is a
tie. --order random asks once, in an order drawn from --seed and recorded.
The pair's texts are columns named as the judge names them (show NAME), or
response_a, response_b and one of prompt, document, post, query."""

EXAMPLES = """\
examples:
  python -m judges compare tldr_concise --data pairs.jsonl --out verdicts.jsonl
  python -m judges compare kinder.yaml --data pairs.csv --out out.csv \\
      --lm openai/gpt-4.1-mini --order random --seed 7"""

KEYS = ("preferred", "order_ab", "order_ba", "comparison", "failure")


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "compare",
        usage="python -m judges compare JUDGE --data FILE --out FILE [options]",
        help="compare the two outputs of every pair",
        description=ABOUT,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("judge", metavar="JUDGE", help="a pairwise judge: " + JUDGE)
    add_table_flags(parser, what="the pairs to judge")
    parser.add_argument(
        "--prefix",
        default="",
        metavar="TEXT",
        help="put before the names of new columns, as in judge_ (nothing)",
    )
    parser.add_argument(
        "--order",
        choices=("both", "random"),
        default="both",
        help="ask every pair in both orders, or in one drawn at random (both)",
    )
    add_model_flags(parser)
    add_plan_flags(parser)
    add_run_flags(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    if args.batch_api == "status":
        return batch_run.status(args)
    judge = to_ask(load(args.judge), args)
    subject = judge.subject
    if not isinstance(subject, Comparison):
        raise UsageError(f"{args.judge} rates one output; use: python -m judges score")
    columns = [f"{args.prefix}verdict_{key}" for key in KEYS]
    prepared = prepare([judge], args, columns)
    if args.dry_run:
        shown = estimate_record(prepared.estimates)
        print(json.dumps(shown, indent=1) if args.json else estimate_table(prepared.estimates))
        return 0
    if args.batch_api == "submit":
        return batch_run.submit(prepared)
    models = batch_run.collect(prepared) if args.batch_api else None
    verdicts: list[Verdict] = []
    documents: list[int] = []
    lengths: list[tuple[int, int]] = []
    plain = flat(args.out)

    def fill(row: Row, said: Mapping[str, AnyJudgement]) -> Row:
        verdict = said[judge.name]
        assert isinstance(verdict, Verdict)
        texts = texts_of(row, prepared.survey.texts[judge.name])
        verdicts.append(verdict)
        documents.append(hash(tuple(str(texts[name]) for name in subject.inputs)))
        first, second = (text_length(str(texts[name] or "")) for name in subject.fields)
        lengths.append((first, second))
        entry = {key: getattr(verdict, key) for key in KEYS}
        if plain:
            return {**row, **dict(zip(columns, entry.values(), strict=True))}
        return {**row, "verdict": entry}

    taken = write(prepared, columns, fill, models)
    rate = win_rate(verdicts, documents=documents, lengths=lengths)
    _tell(judge, rate, args, taken)
    if rate.n == 0:
        raise RowsError(f"no pair got a verdict; the first reason: {verdicts[0].failure}")
    return 0


def _tell(
    judge: Judge, rate: WinRate, args: argparse.Namespace, taken: Mapping[str, object]
) -> None:
    if args.json:
        print(json.dumps({**rate.summary(), "out": str(args.out), **taken}, indent=1))
        return
    print(
        f"{judge.name} win rate of A {_shown(rate.win_rate_a)} "
        f"[{_shown(rate.low)}, {_shown(rate.high)}] "
        f"n={rate.n:,} pairs ({rate.n_ties:,} ties, {rate.n_failed:,} failed)"
    )
    if args.order == "both":
        print(f"  choices that flip with the order   {_shown(rate.flip_rate)}")
    print(
        f"  preference for the first place     {_shown(rate.position_bias, '+')} "
        f"[{_shown(rate.position_bias_low, '+')}, {_shown(rate.position_bias_high, '+')}]\n"
        f"  preference for the longer output   {_shown(rate.length_bias, '+')} (in characters)\n"
        f"  win rate of A at equal length      {_shown(rate.length_controlled_win_rate_a)}"
    )


def _shown(value: float, sign: str = "") -> str:
    return "undefined" if math.isnan(value) else f"{value:{sign}.3f}"
