"""Flags that several commands share, and functions that apply them to a judge."""

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from difflib import get_close_matches
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, TypeVar

from dspy_judges.errors import UsageError, option_name
from judges.client import Redactor, check_model_name, read_price, url_has_secret
from judges.labels.flags import MappingValue, read_mapping
from judges.protocol import is_decision_model
from judges.terminal import QUIET_HELP, escape_invisible, print_note

if TYPE_CHECKING:
    from judges.client import ModelOptions
    from judges.panel import AnyJudge
    from judges.scoring import PlanKind, SamplingPlan

Flags: TypeAlias = "argparse.ArgumentParser | argparse._ArgumentGroup"
Number = TypeVar("Number", int, float)

MEAN_TEMPERATURE = 1.0
# The model that `export` writes into the request for a judge that names no model.
DEFAULT_EXPORT_LM = "openai/gpt-4.1-mini"
# Help texts that several commands share. Defaults are in parentheses.
API_KEY_ENV_HELP = "environment variable with the API key (the provider's)"
PRICE_HELP = "US dollars per million input and output tokens"
MAX_TOKENS_HELP = "maximum tokens of a reply (512; more with reasoning)"
REASONING_EFFORT_HELP = "minimal, low, medium or high (the model's default)"
JUDGE_HELP = "a catalogue name, a frozen judge's file, a run folder or FILE.yaml"


# Flags that take one file with labels or scores; of any other flag, the last value counts.
_ONE_FILE_FLAGS = ("data", "labels", "annotations", "scores")


class _Store(argparse._StoreAction):
    """Stores the value of a flag; refuses a second file for a flag that reads one file."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        first = getattr(namespace, self.dest, None)
        if self.dest in _ONE_FILE_FLAGS and first not in (None, self.default, values):
            raise argparse.ArgumentError(
                self, f"{first} and {values}: the flag takes one file; join these files"
            )
        super().__call__(parser, namespace, values, option_string)


class Parser(argparse.ArgumentParser):
    """An argument parser that reports wrong usage in one line and exits with code 2.

    Flags cannot be abbreviated, and a flag that reads one file cannot be repeated. An argument
    such as `-1:1` is read as a value, not as a flag.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("allow_abbrev", False)
        kwargs.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(*args, **kwargs)
        self.register("action", None, _Store)
        self._negative_number_matcher = re.compile(r"-[\d.]")

    def parse_known_args(  # type: ignore[override]
        self, args: Iterable[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        arguments = sys.argv[1:] if args is None else list(args)
        defined_flags = self._option_string_actions
        if not self._subparsers:
            # Unknown flags are reported first: if a required flag is misspelt, argparse would only
            # report that it is missing.
            for argument in takewhile("--".__ne__, arguments):
                flag = argument.partition("=")[0]
                if flag.startswith("--") and " " not in argument and flag not in defined_flags:
                    similar_flags = get_close_matches(flag, list(defined_flags), n=1)
                    hint = f"; did you mean {similar_flags[0]}?" if similar_flags else ""
                    self.error(f"unrecognized arguments: {flag}{hint}")
        flags, unknown = super().parse_known_args(arguments, namespace)
        takes_no_file = "--data" in defined_flags and not self._get_positional_actions()
        if unknown and takes_no_file and Path(unknown[0]).is_file():
            self.error(f"unrecognized arguments: {unknown[0]}; did you mean --data {unknown[0]}?")
        return flags, unknown

    def error(self, message: str) -> NoReturn:
        line = escape_invisible(Redactor().redact(" ".join(message.split())))
        self.exit(2, f"{self.prog}: {line} (--help lists the flags)\n")


def read_number(text: str) -> float:
    """Read a number such as .3, +3 or 1e-1; a whole number is returned as an int."""
    with suppress(ValueError):
        return int(text)
    number = float(text)
    return int(number) if number.is_integer() else number


def _number_parser(
    number_class: type[Number], low: Number, high: float, description: str
) -> Callable[[str], Number]:
    """Return a function for argparse's `type` that reads a number from `low` to `high`."""

    def read(text: str) -> Number:
        with suppress(ValueError):
            value = read_number(text)
            if low <= value <= high and value == number_class(value):
                return number_class(value)
        raise argparse.ArgumentTypeError(f"{text!r}: must be {description}")

    return read


# Functions for the `type` of `add_argument`.
parse_count = _number_parser(int, 1, 1e15, "a whole number, 1 or more")
parse_seed = _number_parser(int, 0, 1e15, "a whole number, 0 or more")
parse_dollars = _number_parser(float, 0.0, 1e12, "a number, 0 or more")
parse_temperature = _number_parser(float, 0.0, 10.0, "a number from 0 to 10")


def parse_address(text: str) -> str:
    """Return the address of a model's server; raise ArgumentTypeError for other addresses."""
    if not text.strip():
        raise argparse.ArgumentTypeError(
            "is empty: give http://HOST:PORT/v1, or leave out the flag"
        )
    if url_has_secret(text):
        raise argparse.ArgumentTypeError("holds a password or a key: give it by OPENAI_API_KEY")
    return text


def parse_price(text: str) -> tuple[float, float]:
    """Read a price IN,OUT: US dollars per million input tokens and per million output tokens."""
    try:
        return read_price(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text}: write IN,OUT, as in 0.40,1.60") from None


def add_table_flags(parser: argparse.ArgumentParser, *, data_help: str) -> None:
    files = parser.add_argument_group(
        "files (.jsonl, .csv or .parquet; --data also .json, .tsv or .xlsx)"
    )
    files.add_argument("--data", required=True, type=Path, metavar="FILE", help=data_help)
    help_text = "the file to write; the same command resumes an interrupted run"
    files.add_argument("--out", type=Path, metavar="FILE", help=help_text)
    help_text = "the column of a text, or FILE.yaml with columns; repeatable"
    files.add_argument("--map", action="append", default=[], metavar="NAME=COLUMN", help=help_text)


def add_model_flags(parser: argparse.ArgumentParser, limits: str = "") -> None:
    """Add the flags of a model; `limits`, such as " for each start", ends the help on limits."""
    add = parser.add_argument_group("model and budget").add_argument
    help_text = (
        "embedded (free), openai/NAME, decisions/NAME, systemone/NAME or any model of DSPy "
        "(the judge's)"
    )
    add("--lm", metavar="MODEL", help=help_text)
    help_text = "server's URL (OPENAI_BASE_URL, SYSTEMONE_BASE_URL)"
    add("--api-base", type=parse_address, metavar="URL", help=help_text)
    add("--api-key-env", metavar="NAME", help=API_KEY_ENV_HELP)
    add("--price", type=parse_price, metavar="IN,OUT", help=PRICE_HELP)
    add("--max-tokens", type=parse_count, metavar="N", help=MAX_TOKENS_HELP)
    add("--reasoning-effort", metavar="LEVEL", help=REASONING_EFFORT_HELP)
    add("--max-calls", type=parse_count, metavar="N", help=f"maximum requests{limits} (no limit)")
    help_text = f"maximum cost in US dollars{limits} (no limit)"
    add("--max-cost", type=parse_dollars, metavar="USD", help=help_text)
    help_text = "maximum requests at the same time (64)"
    add("--concurrency", type=parse_count, default=64, metavar="N", help=help_text)
    add("--seed", type=parse_seed, default=0, metavar="N", help="the random seed (0)")


def request_options(args: argparse.Namespace) -> "ModelOptions":
    """Return the options of a `Session`, as set by the flags that `add_model_flags` adds."""
    return {
        "api_key_env": args.api_key_env,
        "price": args.price,
        "max_tokens": args.max_tokens,
        "reasoning_effort": args.reasoning_effort,
        "concurrency": args.concurrency,
    }


def add_plan_flags(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("from replies to a score").add_argument
    add(
        "--plan",
        choices=("one", "mean", "weighted"),
        metavar="PLAN",
        help="one: one reply; mean: mean of --samples replies; weighted: ratings weighted by "
        "probability (one; weighted for the embedded model)",
    )
    add("--samples", type=parse_count, metavar="N", help="number of replies for --plan mean")
    help_text = "temperature of the replies (0; for --plan mean 1)"
    add("--temperature", type=parse_temperature, metavar="T", help=help_text)


def read_plan(
    kind: "PlanKind | None", samples: int | None, temperature: float | None
) -> "SamplingPlan | None":
    """Return the sampling plan for the values of --plan, --samples and --temperature, if any."""
    from judges.scoring import SamplingPlan

    if (kind == "mean") != (samples is not None):
        options = f"{option_name('plan', 'mean')} and {option_name('samples', 'N')}"
        raise UsageError(f"{options} go together: give both or neither")
    if samples is not None:
        temperature = MEAN_TEMPERATURE if temperature is None else temperature
        if temperature == 0 and samples > 1:
            option = option_name("temperature", 0)
            raise UsageError(f"{option} draws the same reply every time; use 1 or more")
        return SamplingPlan(kind="mean", samples=samples, temperature=temperature)
    if kind is None and temperature is None:
        return None
    return SamplingPlan(kind=kind or "one", temperature=temperature or 0.0)


def add_reasoning_flag(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--reasoning",
        choices=("none", "brief", "steps", "questions"),
        metavar="FORM",
        help="the reasoning that an untuned judge writes before its answer: none, brief, steps or "
        "questions (none for a rating, brief for a pair)",
    )


def add_run_flags(parser: argparse.ArgumentParser) -> None:
    run = parser.add_argument_group("the run")
    help_text = "print an estimate of requests and cost, and ask no model"
    run.add_argument("--dry-run", action="store_true", help=help_text)
    run.add_argument(
        "--batch-api",
        choices=("submit", "collect"),
        metavar="STEP",
        help="use batch files at half price: submit, and collect within a day",
    )
    add_reporting_flags(run)
    run.add_argument("--quiet", action="store_true", help=QUIET_HELP)


def add_reporting_flags(run: Flags) -> None:
    run.add_argument("--json", action="store_true", help="print the result as JSON")
    help_text = "print retries, failed requests and tracebacks"
    run.add_argument("--verbose", action="store_true", help=help_text)


def with_reasoning_flag(judge: "AnyJudge", name: str, args: argparse.Namespace) -> "AnyJudge":
    """Return the judge with the form of reasoning that --reasoning names, if the flag is set."""
    if args.reasoning is None:
        return judge
    if judge.is_frozen:
        raise UsageError(
            f"{name} is frozen: --reasoning is for judges that are not frozen; leave it out"
        )
    from judges.judge import Judge

    return Judge.of(judge.subject, reasoning=args.reasoning, lm=judge.lm)


def constructed_labels_note(judge: "AnyJudge") -> str | None:
    """Return a warning if a judge was tuned on labels that no person gave; otherwise None."""
    if not judge.uses_constructed_labels:
        return None
    return (
        f"{judge.name} was tuned on constructed labels, which no person gave: it may agree with "
        "people less than an untuned judge (dspy-judges tune --data FILE)"
    )


def with_model_flags(judge: "AnyJudge", name: str, args: argparse.Namespace) -> "AnyJudge":
    """Return the judge with the model, server, plan and reasoning that the flags choose.

    Prints a note if the judge was tuned on constructed labels, or was frozen for another model or
    plan. Raises UsageError if this judge does not support the plan or the reasoning, and
    FatalModelError if the judge's file names a model or server that only the user may choose.
    """
    from judges.judge import Judge

    judge = with_reasoning_flag(judge, name, args)
    if args.lm:
        check_model_name(args.lm)  # also for a dry run, which does not open the model
    if note := constructed_labels_note(judge):
        print_note(f"note: {note}")
    plan = read_plan(args.plan, args.samples, args.temperature)
    changed_judge = judge.with_model(args.lm, args.api_base)
    if plan is not None and not isinstance(changed_judge, Judge):
        raise UsageError(f"{judge.name}: each judge of a panel has its own plan: leave out --plan")
    if is_decision_model(changed_judge.lm) and (
        plan is not None or args.reasoning not in (None, "none")
    ):
        raise UsageError(
            "--plan, --samples, --temperature and --reasoning cannot be used with "
            f"{changed_judge.lm}: a decision model gives probabilities, and writes no text"
        )
    if isinstance(changed_judge, Judge) and isinstance(judge, Judge):
        changed_judge = changed_judge.with_plan(plan or changed_judge.plan)
        if judge.plan is not None and changed_judge != judge:
            print_note(
                f"note: {judge.name} was frozen for {judge.lm}, plan {judge.plan.kind}; with "
                "another model or plan its measured figures do not hold"
            )
    changed_judge.check_destination()
    return changed_judge


def split_name(text: str) -> tuple[str, str]:
    """Split NAME=VALUE into the name and the value; the name is "" if the text has none.

    A text has no name if it lacks "=", has a "/" before "=", or is the path of a file.
    """
    name, equals, value = text.partition("=")
    if not equals or Path(text).exists() or "/" in name:
        return "", text
    if not (name and value):
        raise UsageError(f"{text}: expected NAME=VALUE, and both must not be empty")
    return name, value


def read_map_flags(arguments: Sequence[str]) -> dict[str, MappingValue]:
    """Read the arguments of --map, each NAME=COLUMN or FILE.yaml."""
    try:
        return read_mapping(arguments)
    except ValueError as error:
        raise UsageError(f"{option_name('map')} {error}") from None
