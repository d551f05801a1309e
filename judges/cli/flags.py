"""Flags that several commands share, and functions that apply them to a judge."""

import argparse
import math
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from difflib import get_close_matches
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, TypeVar

from dspy_judges.errors import UsageError, option_name
from judges.client import Redactor, check_model_name, read_price, url_has_secret
from judges.labels.options import MappingValue, read_mapping
from judges.protocol import is_decision_model
from judges.tables.formats import READABLE_ENDINGS
from judges.terminal import escape_invisible, print_note

if TYPE_CHECKING:
    from judges.client import ModelOptions
    from judges.panel import AnyJudge
    from judges.scoring import PlanKind, SamplingPlan

FlagOptions: TypeAlias = dict[str, Any]  # arguments of `add_argument`
FlagGroup: TypeAlias = "argparse.ArgumentParser | argparse._ArgumentGroup"
Number = TypeVar("Number", int, float)

DEFAULT_MEAN_TEMPERATURE = 1.0
# The model that `export` writes into the request for a judge that names no model.
DEFAULT_EXPORT_LM = "openai/gpt-4.1-mini"
JUDGE_HELP = "a catalogue name, a frozen judge's file, a run folder or FILE.yaml"
# The flags that take one file of labels or scores, or one judge; a second one is refused.
_ADVICE_IF_REPEATED = dict.fromkeys(
    ("data", "labels", "annotations", "scores"), "the flag takes one file; join these files"
) | {"judge": "name only one judge"}


class _StoreAction(argparse._StoreAction):
    """Stores a flag's value, and refuses a second file or judge where one is taken."""

    def __call__(self, parser: Any, namespace: Any, values: Any, flag: str | None = None) -> None:
        earlier_value = getattr(namespace, self.dest, None)
        advice = _ADVICE_IF_REPEATED.get(self.dest)
        if advice and earlier_value not in (None, self.default, values):
            raise argparse.ArgumentError(self, f"{earlier_value} and {values}: {advice}")
        super().__call__(parser, namespace, values, flag)


class Parser(argparse.ArgumentParser):
    """An argument parser that reports wrong usage in one line and exits with code 2.

    Flags cannot be abbreviated, and a flag that takes one file cannot be repeated. An argument such
    as `-1:1` is read as a value, not as a flag.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        defaults = {"allow_abbrev": False, "formatter_class": argparse.RawDescriptionHelpFormatter}
        super().__init__(*args, **{**defaults, **kwargs})
        self.register("action", None, _StoreAction)
        self._negative_number_matcher = re.compile(r"-[\d.]")

    def parse_known_args(  # type: ignore[override]
        self, args: Iterable[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        arguments = sys.argv[1:] if args is None else list(args)
        known_flags = list(self._option_string_actions)
        # argparse would report a missing flag before it reports a flag that does not exist.
        for argument in takewhile("--".__ne__, arguments):
            flag = argument.partition("=")[0]
            if flag.startswith("--") and " " not in argument and flag not in known_flags:
                similar_flags = get_close_matches(flag, known_flags, n=1, cutoff=0.75)
                suggestion = f"; did you mean {similar_flags[0]}?" if similar_flags else ""
                self.error(f"unrecognized arguments: {flag}{suggestion}")
        flags, unknown_arguments = super().parse_known_args(arguments, namespace)
        unknown = unknown_arguments[0] if unknown_arguments else ""
        takes_no_file = not self._get_positional_actions()  # else an intermixed file may follow
        if takes_no_file and "--data" in self._option_string_actions and Path(unknown).is_file():
            self.error(f"unrecognized arguments: {unknown}; did you mean --data {unknown}?")
        return flags, unknown_arguments

    def error(self, message: str) -> NoReturn:
        one_line_message = escape_invisible(Redactor().redact(" ".join(message.split())))
        self.exit(2, f"{self.prog}: {one_line_message} (--help lists the flags)\n")


def read_number(text: str) -> float:
    """Read a number such as .3, +3 or 1e-1; a whole number is returned as an int."""
    with suppress(ValueError):
        return int(text)
    number = float(text)
    return int(number) if number.is_integer() else number


def _parse_number(
    number_class: type[Number], min_number: Number, max_number: float, allowed_text: str, text: str
) -> Number:
    with suppress(ValueError):
        number = read_number(text)
        if min_number <= number <= max_number and number == number_class(number):
            return number_class(number)
    raise argparse.ArgumentTypeError(f"{text!r}: must be {allowed_text}{comma_advice(text)}")


def comma_advice(number_text: str) -> str:
    """Return the end of a message on a wrong number, which is "" if the number has no comma."""
    return "; write a decimal point and no comma, as in 0.8" if "," in number_text else ""


# Functions for the `type` of `add_argument`.
parse_float = partial(_parse_number, float, -math.inf, math.inf, "a number")
parse_count = partial(_parse_number, int, 1, 1e15, "a whole number, 1 or more")
parse_seed = partial(_parse_number, int, 0, 1e15, "a whole number, 0 or more")
parse_dollars = partial(_parse_number, float, 0.0, 1e12, "a number, 0 or more")
parse_temperature = partial(_parse_number, float, 0.0, 10.0, "a number from 0 to 10")


def parse_address(text: str) -> str:
    """Return a server's address; raise ArgumentTypeError if it is empty or has a password."""
    if not text.strip():
        raise argparse.ArgumentTypeError("is empty: give http://HOST:PORT/v1 or leave out the flag")
    if url_has_secret(text):
        raise argparse.ArgumentTypeError("holds a password or a key: set OPENAI_API_KEY instead")
    return text


def parse_price(text: str) -> tuple[float, float]:
    """Read a price IN,OUT: US dollars per million input tokens and per million output tokens."""
    try:
        return read_price(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text}: write IN,OUT, as in 0.40,1.60") from None


def _parse_turns(text: str) -> str:
    """Return the argument of --map that --turns is short for."""
    if text not in ("last", "all"):
        raise argparse.ArgumentTypeError(f"{text!r}: must be last or all")
    return f"turns={text}"


def _flag(metavar: str, help_text: str, **options: object) -> FlagOptions:
    """Return the arguments of `add_argument` for a flag with a value."""
    return {"metavar": metavar, "help": help_text, **options}


_repeatable = partial(_flag, action="append", default=[])
_switch: Callable[..., FlagOptions] = partial(dict, action="store_true")
# The flags that several commands have. The texts give the defaults in parentheses.
_SHARED_FLAGS = {
    # Flags on how labels are read.
    "--data": _flag(
        "FILE", f"human labels: {READABLE_ENDINGS}, or hf:owner/name (the starter set)"
    ),
    "--annotations": _flag("FILE", "a separate file of ratings: id, dimension, annotator"),
    "--map": _repeatable(
        "NAME=COLUMN",
        "read NAME (a dimension, text, id, group or system) from COLUMN; repeatable; or check's "
        "FILE.yaml",
    ),
    "--values": _repeatable(
        "WORD=N,...",
        "numbers that words in labels or replies mean: up=1,down=0 (n/a= for no label; pairs: "
        "left=A,C=tie)",
    ),
    "--turns": _repeatable(
        "TURNS", "judge last or all turns of a conversation (last)", dest="map", type=_parse_turns
    ),
    "--scale": _flag("LOW-HIGH", "labels' scale (the dimension's); any: only the order"),
    "--dimension": _flag("NAME", "the dimension that was judged: a name or FILE.yaml"),
    "--pairwise": _flag("NAME", "for pairs: the comparison, a name or FILE.yaml"),
    # Flags on the model, and on how its replies become a score.
    "--lm": _flag(
        "MODEL",
        "embedded (free), openai/NAME, decisions/NAME, systemone/NAME or any model of DSPy (the "
        "judge's)",
    ),
    "--api-base": _flag(
        "URL", "server's URL (OPENAI_BASE_URL, SYSTEMONE_BASE_URL)", type=parse_address
    ),
    "--api-key-env": _flag("NAME", "environment variable with the API key (the provider's)"),
    "--price": _flag("IN,OUT", "US dollars per million input and output tokens", type=parse_price),
    "--max-tokens": _flag(
        "N", "maximum tokens of a reply (512; more with reasoning)", type=parse_count
    ),
    "--reasoning-effort": _flag("LEVEL", "minimal, low, medium or high (the model's default)"),
    "--concurrency": _flag(
        "N", "maximum requests at the same time (64)", type=parse_count, default=64
    ),
    "--plan": _flag(
        "PLAN",
        "one reply, the mean of --samples replies, or weighted by probabilities (one; the embedded "
        "model: weighted)",
        choices=("one", "mean", "weighted"),
    ),
    "--samples": _flag("N", "number of replies for --plan mean", type=parse_count),
    "--temperature": _flag(
        "T", "temperature of the replies (0; for --plan mean 1)", type=parse_temperature
    ),
    "--reasoning": _flag(
        "FORM",
        "the reasoning that an untuned judge writes before its answer: none, brief, steps or "
        "questions (none for a rating, brief for a pair)",
        choices=("none", "brief", "steps", "questions"),
    ),
    # Flags on the run and its output.
    "--max-calls": _flag("N", "maximum requests (no limit)", type=parse_count),
    "--max-cost": _flag("USD", "maximum cost in US dollars (no limit)", type=parse_dollars),
    "--seed": _flag("N", "the random seed (0)", type=parse_seed, default=0),
    "--dry-run": _switch(help="print the estimated requests and cost, then stop"),
    "--json": _switch(help="print the result as JSON"),
    "--verbose": _switch(help="print retries, failed requests and tracebacks"),
    "--quiet": _switch(help="print no progress and no notes"),
}
READING_FLAGS = ("--map", "--values", "--turns")
ENDPOINT_FLAGS = ("--api-base", "--api-key-env", "--price", "--max-tokens", "--reasoning-effort")


def add_flags(group: FlagGroup, *flags: str, **overrides: object) -> None:
    """Add flags that several commands have; `overrides` replace arguments of `add_argument`."""
    for flag in flags:
        group.add_argument(flag, **{**_SHARED_FLAGS[flag], **overrides})


def add_model_flags(parser: argparse.ArgumentParser, limit_note: str = "") -> None:
    """Add the flags for a model and its limits; `limit_note` is added to the help on limits."""
    group = parser.add_argument_group(f"model and budget{limit_note}")
    add_flags(
        group, "--lm", *ENDPOINT_FLAGS, "--max-calls", "--max-cost", "--concurrency", "--seed"
    )


def request_options(flags: argparse.Namespace) -> "ModelOptions":
    """Return the options of a `Session`, from the flags that `add_model_flags` added."""
    return {
        "api_key_env": flags.api_key_env,
        "price": flags.price,
        "max_tokens": flags.max_tokens,
        "reasoning_effort": flags.reasoning_effort,
        "concurrency": flags.concurrency,
        "max_calls": flags.max_calls,
        "max_cost": flags.max_cost,
    }


def read_plan(
    plan_kind: "PlanKind | None", samples: int | None, temperature: float | None
) -> "SamplingPlan | None":
    """Return the plan that --plan, --samples and --temperature choose; None if none is set."""
    from judges.scoring import SamplingPlan

    if (plan_kind == "mean") != (samples is not None):
        plan_option, samples_option = option_name("plan", "mean"), option_name("samples", "N")
        raise UsageError(f"{plan_option} and {samples_option} go together: give both or neither")
    if samples is not None:
        temperature = DEFAULT_MEAN_TEMPERATURE if temperature is None else temperature
        if temperature == 0 and samples > 1:
            option_text = option_name("temperature", 0)
            raise UsageError(f"{option_text} draws the same reply every time; use 1 or more")
        return SamplingPlan(kind="mean", samples=samples, temperature=temperature)
    if plan_kind is None and temperature is None:
        return None
    return SamplingPlan(kind=plan_kind or "one", temperature=temperature or 0.0)


def with_reasoning_flag(judge: "AnyJudge", name: str, flags: argparse.Namespace) -> "AnyJudge":
    """Return the judge with the reasoning that --reasoning names, if the flag is set."""
    if flags.reasoning is None:
        return judge
    if judge.is_frozen:
        raise UsageError(f"{name} is frozen and keeps its reasoning: leave out --reasoning")
    from judges.judge import Judge

    return Judge.of(judge.subject, reasoning=flags.reasoning, lm=judge.lm)


def note_constructed_labels(judge: "AnyJudge") -> None:
    """Print a note if a judge was tuned on labels that no person gave."""
    if judge.uses_constructed_labels:
        problem = f"{judge.name} was tuned on constructed labels, which no person gave"
        advice = "labels by people make a better judge: dspy-judges tune --data FILE"
        print_note(f"note: {problem}; {advice}")


def with_model_flags(judge: "AnyJudge", judge_name: str, flags: argparse.Namespace) -> "AnyJudge":
    """Return the judge with the model, server, plan and reasoning that the flags choose.

    Prints a note if the judge was tuned on constructed labels, or was frozen for another model or
    plan. Raises UsageError if the judge does not support the plan or the reasoning, and
    FatalModelError if the judge's file names a model or server that only the user may choose.
    """
    from judges.judge import Judge

    judge = with_reasoning_flag(judge, judge_name, flags)
    if flags.lm:
        check_model_name(flags.lm)  # also for a dry run, which does not open the model
    note_constructed_labels(judge)
    plan = read_plan(flags.plan, flags.samples, flags.temperature)
    changed_judge = judge.with_model(flags.lm, flags.api_base)
    needs_text = plan is not None or flags.reasoning not in (None, "none")
    if needs_text and is_decision_model(changed_judge.lm):
        problem = f"{changed_judge.lm}: a decision model writes no text"
        raise UsageError(f"{problem}; leave out --plan, --samples, --temperature and --reasoning")
    if isinstance(changed_judge, Judge):
        changed_judge = changed_judge.with_plan(plan or changed_judge.plan)
    elif plan is not None:
        raise UsageError(f"{judge.name}: each judge of a panel has its own plan: leave out --plan")
    if isinstance(judge, Judge) and judge.plan is not None and changed_judge != judge:
        frozen_note = f"note: {judge.name} was frozen for {judge.lm}, plan {judge.plan.kind}"
        print_note(f"{frozen_note}; with another model or plan its measured figures do not hold")
    changed_judge.check_destination()
    return changed_judge


def split_named_value(named_value: str) -> tuple[str, str]:
    """Split NAME=VALUE into the name and the value; a text without a name gives "" and the text.

    A text has no name if it lacks "=", has a "/" before "=", or is the path of a file.
    """
    name, equals_sign, value = named_value.partition("=")
    if not equals_sign or Path(named_value).exists() or "/" in name:
        return "", named_value
    if not (name and value):
        raise UsageError(f"{named_value}: write NAME=VALUE; neither may be empty")
    return name, value


def read_map_flags(map_flags: Sequence[str]) -> dict[str, MappingValue]:
    """Read the arguments of --map, NAME=COLUMN or FILE.yaml, and return the columns by NAME."""
    try:
        return read_mapping(map_flags)
    except ValueError as error:
        raise UsageError(f"{option_name('map')} {error}") from None
