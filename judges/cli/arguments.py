"""Flags: parsed strictly, shared by several commands, or read from a YAML file."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from judges.errors import UsageError
from judges.inference.progress import visible
from judges.judge import Judge
from judges.models.redaction import Redactor
from judges.scoring import SamplingPlan
from judges.yaml_text import YamlTextError, read_yaml


class Parser(argparse.ArgumentParser):
    """Ends with 2 and one line; a flag's name is written out."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("allow_abbrev", False)
        super().__init__(*args, **kwargs)

    def error(self, message: str) -> NoReturn:
        told = visible(Redactor().redact(" ".join(message.split())))
        self.exit(2, f"{self.prog}: {told} (--help lists the flags)\n")


def count(text: str) -> int:
    """A whole number, 1 or more; for argparse's `type`."""
    number = whole(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text}: must be 1 or more")
    return number


def seed(text: str) -> int:
    number = whole(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text}: must be 0 or more")
    return number


def positive(text: str) -> float:
    number = number_of(text)
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text}: must be a number above 0")
    return number


def share(text: str) -> float:
    number = number_of(text)
    if not 0 <= number <= 1:
        raise argparse.ArgumentTypeError(f"{text}: must be within 0 and 1")
    return number


def temperature(text: str) -> float:
    number = number_of(text)
    if not 0 <= number <= 10:
        raise argparse.ArgumentTypeError(f"{text}: must be within 0 and 10")
    return number


def whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number") from None


def number_of(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number") from None


MEAN_TEMPERATURE = 1.0


JUDGE = (
    "a name of the catalogue, a frozen judge's file, a run folder, FILE.yaml[:name], FILE.py:NAME"
)


def add_table_flags(parser: argparse.ArgumentParser, *, what: str) -> None:
    files = parser.add_argument_group("files (.jsonl, .csv, .tsv or .parquet; --data also .json)")
    files.add_argument("--data", required=True, type=Path, metavar="FILE", help=what)
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
    kinds = {args.plan, "weighted" if args.weighted else None, "mean" if args.samples else None}
    named = sorted(kind for kind in kinds if kind)
    if len(named) > 1:
        raise UsageError(f"the flags ask for two plans, {' and '.join(named)}; give one")
    if not named:
        if args.temperature is not None:
            return SamplingPlan(kind="one", temperature=args.temperature)
        return None
    if named == ["mean"]:
        if not args.samples:
            raise UsageError("--plan mean needs --samples N")
        warm = MEAN_TEMPERATURE if args.temperature is None else args.temperature
        if warm == 0 and args.samples > 1:
            raise UsageError("--temperature 0 draws the same reply every time; use 1 or more")
        return SamplingPlan(kind="mean", samples=args.samples, temperature=warm)
    temperature = 0.0 if args.temperature is None else args.temperature
    return SamplingPlan(
        kind="weighted" if named == ["weighted"] else "one", temperature=temperature
    )


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
    followed = replace(
        judge,
        lm=args.lm or judge.lm,
        from_file=judge.from_file and args.lm is None,
        plan=plan_of(args) or judge.plan,
    )
    if judge.plan is not None and followed != judge:
        print(
            f"note: {judge.name} was frozen for {judge.lm}, plan {judge.plan.kind}; with another "
            "model or plan its measured correlations do not hold",
            file=sys.stderr,
        )
    return followed


def with_rationale(judge: Judge, name: str) -> Judge:
    """The seed judge asked for a sentence of reasons first; a frozen judge asks as it was tuned."""
    if judge.plan is not None or judge.kind == "pairwise":
        raise UsageError(f"{name} is frozen or pairwise; --rationale is for other rating judges")
    return Judge.of(judge.subject, rationale=True, lm=judge.lm)


def mapping_of(pairs: Sequence[str]) -> dict[str, str]:
    mapping: dict[str, str] = {}
    for pair in pairs:
        name, equals, column = pair.partition("=")
        if not (equals and name and column):
            raise UsageError(f"--map {pair}: write TEXT=COLUMN, as in summary=my_column")
        if mapping.setdefault(name, column) != column:
            raise UsageError(f"--map {name}: {mapping[name]} and {column}; a text has one column")
    return mapping


MOST_BYTES = 100_000
# What names the command itself, or is no flag.
NO_FLAG = frozenset({"config", "help", "run", "judge", "judges", "file"})


def with_config(
    commands: Mapping[str, argparse.ArgumentParser], given: Sequence[str]
) -> Sequence[str]:
    """The arguments with those of a file named by --config put before them."""
    if not given or given[0] not in commands:
        return given
    # Looked for before the rest is parsed, since the file may give what the command requires.
    only = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    only.add_argument("--config")
    try:
        file = only.parse_known_args(list(given[1:]))[0].config
    except argparse.ArgumentError:
        return given
    if file is None:
        return given
    known = {action.dest for action in commands[given[0]]._actions} - NO_FLAG
    # After the command's name, so that what the user typed comes later and wins.
    return [given[0], *_flags(Path(file), known), *given[1:]]


def _flags(path: Path, known: set[str]) -> list[str]:
    try:
        values = read_yaml(path, most_bytes=MOST_BYTES)
    except YamlTextError as error:
        raise UsageError(f"{path}: {error}") from error
    if not isinstance(values, dict):
        raise UsageError(f"{path}: flags' names and values are wanted, as in 'lm: openai/NAME'")
    flags = []
    for name, value in values.items():
        if str(name).replace("-", "_") not in known:
            raise UsageError(f"{path}: no flag --{name}")
        flag = f"--{str(name).replace('_', '-')}"
        entries = value if isinstance(value, list) else [value]
        if isinstance(value, dict):
            entries = [f"{key}={column}" for key, column in value.items()]
        for entry in entries:
            if entry is True:
                flags.append(flag)
            elif entry is not False and entry is not None:
                flags.append(f"{flag}={entry}")
    return flags
