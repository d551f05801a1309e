"""Flags: parsed strictly, declared once for all commands, and what they make of a judge."""

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from data.tables.formats import READ_ONLY_ENDINGS, WRITTEN_ENDINGS
from judges.errors import UsageError
from judges.inference.progress import visible
from judges.judge import Judge
from judges.models.redaction import Redactor
from judges.scoring import SamplingPlan


class Parser(argparse.ArgumentParser):
    """Ends with 2 and one line; a flag's name is written out."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("allow_abbrev", False)
        super().__init__(*args, **kwargs)

    def error(self, message: str) -> NoReturn:
        line = visible(Redactor().redact(" ".join(message.split())))
        self.exit(2, f"{self.prog}: {line} (--help lists the flags)\n")


T = TypeVar("T", int, float)


def whole_number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number") from None


def number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number") from None


def _bounded(
    parse: Callable[[str], T], allowed: Callable[[T], bool], bounds: str
) -> Callable[[str], T]:
    """For argparse's `type`: a number within bounds."""

    def parse_within(text: str) -> T:
        value = parse(text)
        if not allowed(value):
            raise argparse.ArgumentTypeError(f"{text}: must be {bounds}")
        return value

    return parse_within


count = _bounded(whole_number, lambda n: n >= 1, "1 or more")
seed = _bounded(whole_number, lambda n: n >= 0, "0 or more")
positive = _bounded(number, lambda x: 0 < x < math.inf, "a number above 0")
share = _bounded(number, lambda x: 0 <= x <= 1, "within 0 and 1")
temperature = _bounded(number, lambda x: 0 <= x <= 10, "within 0 and 10")

MEAN_TEMPERATURE = 1.0


def price(text: str) -> tuple[float, float]:
    """Dollars for a million tokens read and written."""
    numbers = [number(part) for part in text.split(",")]
    if len(numbers) != 2 or not all(0 <= value < math.inf for value in numbers):
        raise argparse.ArgumentTypeError(f"{text}: write IN,OUT, as in 0.40,1.60")
    return numbers[0], numbers[1]


JUDGE = (
    "a name of the catalogue, a frozen judge's file, a run folder, FILE.yaml[:name], FILE.py:NAME"
)


def add_table_flags(parser: argparse.ArgumentParser, *, data_help: str) -> None:
    files = parser.add_argument_group(f"files ({WRITTEN_ENDINGS}; --data also {READ_ONLY_ENDINGS})")
    files.add_argument("--data", required=True, type=Path, metavar="FILE", help=data_help)
    files.add_argument(
        "--out", type=Path, metavar="FILE", help="the file to write; it appears when it is whole"
    )
    files.add_argument(
        "--map",
        action="append",
        default=[],
        metavar="TEXT=COLUMN",
        help="read a judge's text from this column, as in summary=output; repeatable",
    )
    files.add_argument("--force", action="store_true", help="write over an existing --out")
    files.add_argument(
        "--safe-csv",
        action="store_true",
        help="put an apostrophe before cells that a spreadsheet would run as formulas (=, +, -, @)",
    )
    files.add_argument(
        "--resume",
        action="store_true",
        help="go on with a run that was cut short: the same command again; pays nothing twice",
    )
    files.add_argument(
        "--journal",
        type=Path,
        metavar="FILE",
        help="where every reply is kept as it comes (OUT.replies.jsonl; none for the embedded "
        "model)",
    )
    parser.add_argument(
        "--prefix",
        default="",
        metavar="TEXT",
        help="put before the names of new columns, as in judge_ (nothing)",
    )


def add_model_flags(parser: argparse.ArgumentParser) -> None:
    model = parser.add_argument_group("model and budget")
    model.add_argument(
        "--lm",
        metavar="NAME",
        help="embedded (offline, free), openai/NAME, azure/NAME, PROVIDER/NAME as DSPy takes it, "
        "or replay:JOURNAL (the frozen judge's own, else embedded)",
    )
    model.add_argument(
        "--api-base",
        metavar="URL",
        help="an OpenAI-compatible server, as in http://localhost:8000/v1 (OPENAI_BASE_URL)",
    )
    model.add_argument(
        "--max-calls", type=count, metavar="N", help="send N requests at most (no limit)"
    )
    model.add_argument(
        "--max-cost",
        type=positive,
        metavar="USD",
        help="spend this at most, in US dollars (no limit)",
    )
    model.add_argument(
        "--api-key-env",
        metavar="NAME",
        help="the environment variable that holds the key (the provider's own)",
    )
    model.add_argument(
        "--price",
        type=price,
        metavar="IN,OUT",
        help="US dollars for a million tokens read and written, where no table knows the model's",
    )
    model.add_argument(
        "--max-tokens",
        type=count,
        metavar="N",
        help="of a reply (512, of models known to reason 4,096; more where a reply is cut short)",
    )
    model.add_argument(
        "--reasoning-effort",
        metavar="LEVEL",
        help="as the model takes it: minimal, low, medium, high (the model's own)",
    )
    model.add_argument(
        "--concurrency", type=count, default=64, metavar="N", help="requests under way at once (64)"
    )
    model.add_argument(
        "--seed", type=seed, default=0, metavar="N", help="for every random draw (0)"
    )


def add_plan_flags(parser: argparse.ArgumentParser) -> None:
    plan = parser.add_argument_group("from replies to a score")
    plan.add_argument(
        "--plan",
        choices=("one", "mean", "weighted"),
        help="one reply; the mean of --samples replies; or ratings weighted by their "
        "probabilities (the embedded model's default; one for every other)",
    )
    plan.add_argument(
        "--samples", type=count, metavar="N", help="the mean of N replies; the same as --plan mean"
    )
    plan.add_argument(
        "--temperature", type=temperature, metavar="T", help="of the replies (0; with --samples 1)"
    )
    plan.add_argument(
        "--weighted",
        action="store_true",
        help="the same as --plan weighted; needs log-probabilities",
    )


def add_run_flags(parser: argparse.ArgumentParser) -> None:
    run = parser.add_argument_group("the run")
    run.add_argument(
        "--dry-run", action="store_true", help="estimate requests, tokens and price, then stop"
    )
    run.add_argument(
        "--engine",
        choices=("local", "ray"),
        default="local",
        help="ray: over many processes or a cluster (RAY_ADDRESS); needs ray[data] (local)",
    )
    run.add_argument(
        "--workers", type=count, default=2, metavar="N", help="Ray's processes for each judge (2)"
    )
    run.add_argument(
        "--batch-api",
        choices=("submit", "status", "collect"),
        help="the provider's batch files, at half price: submit now, collect within a day",
    )
    run.add_argument(
        "--keep-going",
        action="store_true",
        help="go on though almost all of the first 48 judgements have failed",
    )
    run.add_argument("--json", action="store_true", help="print the result as JSON")
    run.add_argument(
        "--verbose",
        action="store_true",
        help="say each retry, failed request and rate limit on stderr, and where an error arose; "
        "never a key or a whole text",
    )
    run.add_argument(
        "--config",
        type=Path,
        metavar="FILE.yaml",
        help="any of these flags by name, as in 'lm: openai/NAME'; those given beat it",
    )


def plan_of(args: argparse.Namespace) -> SamplingPlan | None:
    """The plan that the flags name, or None where they leave it to the judge."""
    plans = {args.plan, "weighted" if args.weighted else None, "mean" if args.samples else None}
    kinds = sorted(plans - {None})
    if len(kinds) > 1:
        raise UsageError(f"the flags ask for two plans, {' and '.join(kinds)}; give one")
    temperature = args.temperature
    if kinds == ["mean"]:
        if not args.samples:
            raise UsageError("--plan mean needs --samples N")
        if temperature is None:
            temperature = MEAN_TEMPERATURE
        if temperature == 0 and args.samples > 1:
            raise UsageError("--temperature 0 draws the same reply every time; use 1 or more")
        return SamplingPlan(kind="mean", samples=args.samples, temperature=temperature)
    if not kinds and temperature is None:
        return None
    return SamplingPlan(kind=kinds[0] if kinds else "one", temperature=temperature or 0.0)


def constructed_note(judge: Judge) -> str | None:
    """What the user of a judge that no person's label taught has to know."""
    if not judge.constructed:
        return None
    return (
        f"{judge.name} was tuned on constructed labels, which no person gave, so it may agree with "
        "people less than an untuned judge: tune one on labels of your own (python -m optimize "
        "--data FILE)"
    )


def to_ask(judge: Judge, args: argparse.Namespace) -> Judge:
    """The same, where it is going to be asked: no file chooses where texts and keys go."""
    lm, api_base = judge.model_to_ask(args.lm, args.api_base)
    return replace(follow(judge, args), lm=lm, api_base=api_base)


def follow(judge: Judge, args: argparse.Namespace) -> Judge:
    """The judge with the model and the plan that the flags name."""
    if note := constructed_note(judge):
        print(f"note: {note}", file=sys.stderr)
    configured = replace(
        judge,
        lm=args.lm or judge.lm,
        from_file=judge.from_file and args.lm is None,
        plan=plan_of(args) or judge.plan,
    )
    if judge.plan is not None and configured != judge:
        print(
            f"note: {judge.name} was frozen for {judge.lm}, plan {judge.plan.kind}; with another "
            "model or plan its measured correlations do not hold",
            file=sys.stderr,
        )
    return configured


def with_rationale(judge: Judge, name: str) -> Judge:
    """The seed judge asked for a sentence of reasons first; a frozen judge asks as it was tuned."""
    if judge.plan is not None or judge.kind == "pairwise":
        raise UsageError(f"{name} is frozen or pairwise; --rationale is for other rating judges")
    return Judge.of(judge.subject, rationale=True, lm=judge.lm)


def mapping_of(pairs: Sequence[str]) -> dict[str, str]:
    """{text: column} from the values of --map; UsageError where a text is given two columns."""
    mapping: dict[str, str] = {}
    for pair in pairs:
        name, equals, column = pair.partition("=")
        if not (equals and name and column):
            raise UsageError(f"--map {pair}: write TEXT=COLUMN, as in summary=my_column")
        if mapping.setdefault(name, column) != column:
            raise UsageError(f"--map {name}: {mapping[name]} and {column}; a text has one column")
    return mapping
