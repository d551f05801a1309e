"""Flags: parsed strictly, declared once for all commands, and what they make of a judge."""

import argparse
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, get_args

import data.flags
from data.tables.formats import READ_ONLY_ENDINGS, WRITTEN_ENDINGS
from judges.cli.shell import print_note
from judges.dimension import Subject
from judges.errors import UsageError
from judges.frozen import Missing
from judges.inference.progress import QUIET, visible
from judges.judge import Judge
from judges.judgement import AnyJudgement
from judges.models.prices import read_price
from judges.models.redaction import Redactor
from judges.panel import Panel
from judges.parsing.recorded import recorded_replies, recorded_scores
from judges.prompt import Reasoning
from judges.scoring import SamplingPlan


class Parser(data.flags.Parser):
    """The parser of all commands, which prints neither a key nor what a terminal would obey."""

    def one_line(self, message: str) -> str:
        return visible(Redactor().redact(super().one_line(message)))


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
    try:
        return read_price(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text}: write IN,OUT, as in 0.40,1.60") from None


API_KEY_ENV = "the environment variable that holds the key (the provider's own)"
PRICE = "US dollars for a million tokens read and written, where no table knows the model's"
MAX_TOKENS = (
    "of a reply (512, after steps or questions 1,024; eight times that of models known to reason; "
    "more where a reply is cut short)"
)
REASONING_EFFORT = "as the model takes it: minimal, low, medium, high (the model's own)"
CACHE = (
    "where replies are kept across runs, so that no request is paid twice; none: nowhere (the "
    "user's cache folder)"
)
JUDGE = "a name of the catalogue, a frozen judge's file, a run folder, or FILE.yaml"


def add_table_flags(parser: argparse.ArgumentParser, *, data_help: str) -> None:
    files = parser.add_argument_group(f"files ({WRITTEN_ENDINGS}; --data also {READ_ONLY_ENDINGS})")
    files.add_argument("--data", required=True, type=Path, metavar="FILE", help=data_help)
    files.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="the file to write; it appears when it is whole; - is stdout, and of --data stdin",
    )
    files.add_argument(
        "--format", choices=("jsonl", "csv", "tsv"), help="of what - stands for (jsonl)"
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
    add_request_flags(model)
    model.add_argument(
        "--concurrency", type=count, default=64, metavar="N", help="requests under way at once (64)"
    )
    model.add_argument(
        "--seed", type=seed, default=0, metavar="N", help="for every random draw (0)"
    )


def add_request_flags(parser: "argparse.ArgumentParser | argparse._ArgumentGroup") -> None:
    """How a model is asked, beside where and how often."""
    add = parser.add_argument
    add("--api-key-env", metavar="NAME", help=API_KEY_ENV)
    add("--price", type=price, metavar="IN,OUT", help=PRICE)
    add("--max-tokens", type=count, metavar="N", help=MAX_TOKENS)
    add("--reasoning-effort", metavar="LEVEL", help=REASONING_EFFORT)
    add("--cache", metavar="DIR", help=CACHE)


def request_options(args: argparse.Namespace) -> dict[str, Any]:
    """What `add_request_flags` and --concurrency ask for, as the keywords of a session."""
    names = ("api_key_env", "price", "max_tokens", "reasoning_effort", "cache", "concurrency")
    return {name: getattr(args, name) for name in names}


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
        "--batch-api",
        choices=("submit", "status", "collect"),
        help="the provider's batch files, at half price: submit now, collect within a day",
    )
    add_reporting_flags(run)
    add_quiet_flag(run)
    run.add_argument(
        "--config",
        type=Path,
        metavar="FILE.yaml",
        help="any of these flags by name, as in 'lm: openai/NAME'; those given beat it",
    )


def add_reporting_flags(run: "argparse.ArgumentParser | argparse._ArgumentGroup") -> None:
    """What is said of a run that asks a model, and whether failures end it."""
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


def add_quiet_flag(parser: "argparse.ArgumentParser | argparse._ArgumentGroup") -> None:
    parser.add_argument("--quiet", action="store_true", help=QUIET)


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
    judge.model_to_ask(args.lm, args.api_base)
    return follow(judge, args).with_model(args.lm, args.api_base)


def follow(judge: Judge, args: argparse.Namespace) -> Judge:
    """The judge with the model and the plan that the flags name."""
    if note := constructed_note(judge):
        print_note(f"note: {note}")
    plan = plan_of(args)
    if isinstance(judge, Panel):
        if plan is not None:
            raise UsageError(
                f"{judge.name} is a panel, whose members have plans of their own: leave out the "
                "flags on plan, samples and temperature"
            )
        return replace(judge, score_map=None) if getattr(args, "raw_scores", False) else judge
    configured = replace(
        judge,
        lm=args.lm or judge.lm,
        from_file=judge.from_file and args.lm is None,
        plan=plan or judge.plan,
    )
    if judge.plan is not None and configured != judge:
        print_note(
            f"note: {judge.name} was frozen for {judge.lm}, plan {judge.plan.kind}; with another "
            "model or plan its measured correlations do not hold"
        )
    if configured != judge or getattr(args, "raw_scores", False):
        configured = replace(configured, score_map=None)
    return configured


def add_recording_flags(
    parser: "argparse.ArgumentParser | argparse._ArgumentGroup", *, missing: bool = True
) -> None:
    """The files of a panel's recorded members."""
    for flag, what in (("--scores", "numbers"), ("--replies", "raw replies")):
        parser.add_argument(
            flag,
            metavar="[NAME=]FILE",
            action="append",
            default=[],
            help=f"{what} of a panel's recorded member, called by its file's stem; repeatable",
        )
    if missing:
        parser.add_argument(
            "--missing",
            choices=get_args(Missing),
            help="where a panel's member gives no score: fail, or renormalise the others' weights "
            "(as it was frozen)",
        )


def split_name(text: str) -> tuple[str, str]:
    """The name before an equals sign, empty where there is none, and what it is the name of."""
    name, equals, rest = text.partition("=")
    if not equals or Path(text).exists() or "/" in name:
        return "", text
    if not (name and rest):
        raise UsageError(f"{text}: expected NAME=... with both sides")
    return name, rest


def read_recordings(
    subject: Subject,
    scores: Sequence[str],
    replies: Sequence[str],
    *,
    letters: Mapping[str, str] | None = None,
    ties: Mapping[str, str] | None = None,
) -> dict[str, dict[str, AnyJudgement]]:
    """Judgements by id of each recorded judge: NAME, or NAME:PROMPT where a file has several.

    `letters` are those of a judge whose replies are letters, by its name ("": of all); `ties` in
    the same way the letter of replies that prefer neither of a pair.
    Raises RecordingError, and UsageError for two of a name.
    """
    recordings: dict[str, dict[str, AnyJudgement]] = {}

    def add(name: str, judgements: dict[str, AnyJudgement]) -> None:
        if name in recordings:
            raise UsageError(f"two recordings are called {name}: name one, as in OTHER={name}")
        recordings[name] = judgements

    for text in scores:
        name, file = split_name(text)
        add(name or Path(file).stem, recorded_scores(Path(file), subject))
    for text in replies:
        name, file = split_name(text)
        stem = name or Path(file).stem

        by_prompt = recorded_replies(
            Path(file),
            subject,
            letters=partial(_of_prompt, letters or {}, stem),
            tie=partial(_of_prompt, ties or {}, stem),
        )
        for prompt, judgements in by_prompt.items():
            add(f"{stem}{':' * bool(prompt)}{prompt}", judgements)
    return recordings


def _of_prompt(values: Mapping[str, str], stem: str, prompt: str) -> str:
    """What is said of a prompt's replies, else of its file's, else of all."""
    return next(filter(None, map(values.get, (f"{stem}:{prompt}", stem, ""))), "")


def with_recordings(judge: Judge, args: argparse.Namespace) -> Judge:
    """A panel with the recordings of the flags, and what they say of missing members."""
    files = [*args.scores, *args.replies]
    if not isinstance(judge, Panel):
        if files or args.missing:
            flag = "--missing" if args.missing else "--scores" if args.scores else "--replies"
            raise UsageError(f"{judge.name} is no panel with recorded members: leave out {flag}")
        return judge
    panel = replace(judge, missing=args.missing) if args.missing else judge
    panel, names = with_recorded_members(panel, args.scores, args.replies)
    for text in files:
        name = split_name(text)[0] or Path(split_name(text)[1]).stem
        if not any(member == name or member.startswith(f"{name}:") for member in names):
            raise UsageError(
                f"{text}: {judge.name} has no recorded member {name}; there are "
                f"{', '.join(panel.recordings) or 'none'}: name the file, as in NAME={text}"
            )
    panel.check_recorded()
    return panel


def with_recorded_members(
    panel: Panel, scores: Sequence[str], replies: Sequence[str]
) -> tuple[Panel, tuple[str, ...]]:
    """The panel with those of these recordings that are its members', and their names."""
    # Of a file with several prompts, some may have had no weight.
    stems = {name: name.partition(":")[0] for name in panel.recordings}

    def of_members(files: Sequence[str]) -> list[str]:
        named = [(text, *split_name(text)) for text in files]
        known = {*stems, *stems.values()}
        return [text for text, name, file in named if (name or Path(file).stem) in known]

    recordings = read_recordings(
        panel.subject,
        of_members(scores),
        of_members(replies),
        letters={member.name: member.letters for member in panel.members},
        ties={member.name: member.tie for member in panel.members},
    )
    recorded = {name: rows for name, rows in recordings.items() if name in stems}
    return panel.with_recorded(recorded), tuple(recorded)


def add_reasoning_flag(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--reasoning",
        choices=get_args(Reasoning),
        help="what a judge that is not frozen writes before its answer: nothing, a sentence, "
        "steps, or questions that it answers (a rating: none; a choice: brief)",
    )


def reasoning_as_asked(judge: Judge, name: str, args: argparse.Namespace) -> Judge:
    """The untuned judge with the reasoning of the flags; a frozen judge asks as it was tuned."""
    reasoning: Reasoning | None = args.reasoning
    if reasoning is None:
        return judge
    if judge.is_frozen:
        raise UsageError(f"{name} is frozen: --reasoning is for judges that are not; leave it out")
    return Judge.of(judge.subject, reasoning=reasoning, lm=judge.lm)


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
