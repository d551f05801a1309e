"""The command `compare`: judges and models side by side on the same labels."""

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from judges.cli.flags import (
    add_plan_flags,
    add_reasoning_flag,
    add_reporting_flags,
    constructed_note,
    count,
    mapping,
    positive,
    price,
    read_plan,
    seed,
    split_name,
)
from judges.cli.table import estimate_runs
from judges.client import Store, check_name, endpoint_of, price_of
from judges.dimension import Comparison as PairSubject
from judges.dimension import Subject
from judges.judge import Judge
from judges.loading import load, read_subject
from judges.scoring import SamplingPlan
from judges.terminal import (
    DONE,
    FAILED,
    print_error,
    print_lines,
    print_note,
    run_command,
)
from optimize.cli.tool import INTERRUPTED_RUN, Parser, add_label_flags, add_level_flag, print_json
from optimize.cli.verify import recorded_scale
from optimize.items import Items, items_of
from optimize.measuring.comparison import compare_judges
from optimize.measuring.entries import (
    Entry,
    Outcome,
    Source,
    ask_entries,
    expectation_lines,
)
from optimize.measuring.measure import on_labels_scale
from optimize.measuring.sources import ScoredItems, from_pair_replies, from_replies, from_scores
from optimize.report.answer import compare_lines
from optimize.report.page import write_comparison
from optimize.run.labels import (
    Labelled,
    check_level,
    find_subject,
    load_labels,
)
from optimize.run.run_folder import REPLIES, REPORT, SUMMARY, open_run, write_json
from optimize.run.settings import SettingsError, refuse_secret, values_of

NAME = "dspy-judges compare"
ABOUT = """\
Judges and models side by side on one labelled set: how far each agrees with
people, how sure the differences from the best are, what it costs and how long
it takes. A JUDGE (a catalogue name, a judge's file, a run folder) is asked by
its own model; --scores and --replies of other judges join at no cost."""

EXAMPLES = """\
examples:
  dspy-judges compare --dimension coherence --data labels.jsonl \\
      --lm openai/gpt-4.1-nano --lm openai/gpt-4.1-mini --max-cost 2
  dspy-judges compare runs/coherence-001 --data labels.jsonl \\
      --scores gpt-4o=scores.jsonl --dimension coherence --lm own=openai/qwen3 \\
      --api-base own=http://localhost:8000/v1 --price own=0.05,0.05

It ends with 0; with 1 where a judge could not be measured on all outputs, which
it lists with the reason; 2 for wrong usage; 130 where it was interrupted (the
same command again goes on, and pays nothing twice)."""


def address(text: str) -> str:
    refuse_secret(text)
    return text


# The flags that may be given for one model, as in --price NAME=0.40,1.60, and their readers.
FLAGS_PER_MODEL: Mapping[str, Callable[[str], Any]] = {
    "api_base": address,
    "api_key_env": str,
    "price": price,
    "max_tokens": count,
    "reasoning_effort": str,
}


def parser() -> argparse.ArgumentParser:
    command_parser = Parser(
        prog=NAME,
        usage=f"{NAME} [JUDGE ...] [--lm MODEL ...] [options]",
        description=ABOUT,
        epilog=EXAMPLES,
        allow_abbrev=False,
    )

    judges = command_parser.add_argument_group("judges (each may be NAME=...) and labels")
    judges.add_argument("judges", nargs="*", metavar="JUDGE", help="or JUDGE@MODEL; repeatable")
    repeatable(judges, "--lm", "MODEL", "asked with the catalogue judge's prompt; repeatable")
    add_common_flags(command_parser, judges, "compare")
    return command_parser


def repeatable(group: Any, flag: str, metavar: str, text: str) -> None:
    group.add_argument(flag, metavar=metavar, action="append", default=[], help=text)


def add_common_flags(command_parser: argparse.ArgumentParser, labels: Any, run_name: str) -> None:
    """What is judged (in the group `labels`), by which models, and how."""
    repeatable(labels, "--scores", "FILE", "any judge's numbers, as dspy-judges verify reads them")
    repeatable(labels, "--replies", "FILE", "raw replies; each of their prompts is a judge")
    add = labels.add_argument
    add("--dimension", metavar="NAME", help="a catalogue name or FILE.yaml")
    add("--pairwise", metavar="NAME", help="the same, for a comparison of two outputs")
    add_label_flags(labels)
    add("--scale", metavar="LOW-HIGH", help="of the labels (the dimension's); 'any': only order")
    add_level_flag(labels)
    models = command_parser.add_argument_group("models and run (NAME=VALUE: of one model)")
    repeatable(models, "--api-base", "URL", "an OpenAI-compatible server (OPENAI_BASE_URL)")
    repeatable(models, "--api-key-env", "NAME", "the variable that holds the key (the provider's)")
    repeatable(models, "--price", "IN,OUT", "US dollars for a million tokens read and written")
    repeatable(models, "--max-tokens", "N", "of a reply (512; more of models known to reason)")
    repeatable(models, "--reasoning-effort", "LEVEL", "minimal, low, medium, high (the model's)")
    add_plan_flags(command_parser)
    add_reasoning_flag(command_parser)
    add = models.add_argument
    add("--max-calls", type=count, metavar="N", help="most requests, all models (no limit)")
    add("--max-cost", type=positive, metavar="USD", help="most dollars, all models (no limit)")
    add("--concurrency", type=count, default=64, metavar="N", help="requests in flight (64)")
    add("--seed", type=seed, default=0, metavar="N", help="for every random draw (0)")
    add("--out", metavar="DIR", help=f"the run's folder (runs/{run_name}-001, then -002)")
    add("--dry-run", action="store_true", help="say what it may take, then stop")
    add_reporting_flags(models)


def command(arguments: Sequence[str]) -> int:
    """Measure and print all judges; returns 1 where one could not be measured."""

    def screen(result: dict[str, Any]) -> str:
        return "\n".join(compare_lines(result))

    result, code = Comparison(parser().parse_intermixed_args(arguments)).run_command(NAME, screen)
    left_out = [] if result is None else result["left_out"]
    for row in left_out:
        print_error(f"{NAME}: not measured: {row['name']}: {row['why']}")
    return FAILED if left_out else code


class JudgesRun:
    """A run over several judges, from flags to entries and a folder.

    `command` stands in its config.json, and `run_name` in its folder's name.
    """

    command: ClassVar[str]
    run_name: ClassVar[str]

    def __init__(self, flags: argparse.Namespace) -> None:
        self.flags = flags
        self.dimension = ""
        self.pairwise = False

    def execute(self) -> dict[str, Any] | None:
        """What --json prints; None after --dry-run, which prints what to expect alone."""
        raise NotImplementedError

    def run_command(
        self, name: str, text_of: Callable[[dict[str, Any]], str]
    ) -> tuple[dict[str, Any] | None, int]:
        """Execute and print, whatever fails in one line; what was printed, and the exit code."""
        flags, results = self.flags, list[dict[str, Any]]()

        def print_result() -> int:
            result = self.execute()
            if result is not None:
                results.append(result)
                if flags.json:
                    print_json(result)
                else:
                    print_lines(text_of(result).splitlines())
            return DONE

        code = run_command(
            name,
            print_result,
            verbose=flags.verbose,
            quiet=flags.quiet,
            interrupted=INTERRUPTED_RUN,
        )
        return next(iter(results), None), code

    def expectation_lines(
        self, entries: Sequence[Entry], answered: Mapping[str, int] | None = None
    ) -> list[str]:
        """What asking the judges may take, and the limits on spending."""
        flags = self.flags
        limits = f"; --max-cost ${flags.max_cost:g}" if flags.max_cost else ""
        limits += f"; --max-calls {flags.max_calls:,}" if flags.max_calls else ""
        return expectation_lines(entries, answered or {}, flags.seed, limits)

    def ask(self, entries: Sequence[Entry], folder: Path) -> list[Outcome]:
        """Every judge's scores, after a word on what they may take."""
        flags = self.flags
        for line in self.expectation_lines(entries, Store.answered(folder / REPLIES)):
            print_note(line)
        return ask_entries(
            entries,
            folder,
            print_note,
            seed=flags.seed,
            max_calls=flags.max_calls,
            max_cost=flags.max_cost,
            concurrency=flags.concurrency,
        )

    def entries(self) -> tuple[list[Entry], Labelled]:
        """Every judge with the items that it reads, and the labels; raises what is to be mended."""
        flags = self.flags
        loaded = self._judges()
        options: dict[str, Any] = {entry.name: entry.options for entry in loaded}
        for option, read_option in FLAGS_PER_MODEL.items():
            for name, value in _values_by_name(flags, option, list(options), read_option).items():
                options[name] = {**options[name], option: value}
        # Labels are read with the texts of a judge; most judges read the same.
        labels: dict[tuple[str, ...], Labelled] = {}
        judges = [entry.judge for entry in loaded if entry.judge is not None]
        for judge in judges:
            texts = tuple(judge.subject.inputs)
            if texts not in labels:
                labels[texts] = self._labels(judge.subject, flags.scale)
        labelled = next(iter(labels.values()), None) or self._labels(None, None)
        check_level(flags.level, items_of(labelled, self.dimension), pairs=self.pairwise)
        entries: list[Entry] = []
        for entry, judge in zip(loaded, judges, strict=True):
            labels_read = labels[tuple(judge.subject.inputs)]
            items = items_of(labels_read, self.dimension, judge.subject)
            items = self.items_to_judge(items, labelled, judges)
            expected = estimate_runs(
                judge,
                n_rows=len(items),
                characters=sum(len(text) for item in items.items for text in item.texts.values()),
                orders=2 if self.pairwise else 1,
                price=price_of(options[entry.name].get("price")),
            )
            entry = replace(entry, items=items, expected=tuple(expected))
            entries.append(replace(entry, options=options[entry.name]))
        entries += self.recordings(labelled)
        for note in labelled.notes:
            print_note(f"note: {note}")
        return entries, labelled

    def items_to_judge(self, items: Items, labelled: Labelled, judges: Sequence[Judge]) -> Items:
        """What each judge is asked about: all that is labelled."""
        return items

    def recordings(self, labelled: Labelled) -> list[Entry]:
        """What was recorded of other judges."""
        entries: list[Entry] = []
        for kind, read in (("scores", self._scores), ("replies", self._replies)):
            for text in getattr(self.flags, kind):
                name, file = split_name(text)
                entries += read(name or Path(file).stem, Path(file), labelled)
        return entries

    def _judges(self) -> list[Entry]:
        """The judges that are asked, without items yet; settles what is judged."""
        flags = self.flags
        word = flags.dimension or flags.pairwise
        loaded = [_load_judge(text) for text in flags.judges]
        if flags.dimension and flags.pairwise:
            raise SettingsError("give --dimension NAME or --pairwise NAME, one of the two")
        if word is None and (flags.lm or not loaded):
            raise SettingsError(
                "say what is judged: --dimension NAME, or --pairwise NAME for pairs"
            )
        subject = (read_subject if flags.lm else find_subject)(word) if word else None
        self.pairwise = bool(flags.pairwise) if word else loaded[0][1].kind == "pairwise"
        if subject is not None and isinstance(subject, PairSubject) != self.pairwise:
            right = "--dimension" if self.pairwise else "--pairwise"
            raise SettingsError(f"{subject.name}: say {right} {word}")
        self.dimension = subject.name if subject else word or loaded[0][1].name
        for entry, judge in loaded:
            self.check_subject(entry.name, judge)
            if note := constructed_note(judge):
                print_note(f"note: {note}")
        of_models: list[tuple[Entry, Judge]] = []
        for text in flags.lm:
            name, lm = split_name(text)
            check_name(lm)
            assert subject is not None
            of_models.append((_entry(name or lm, "model", lm), Judge.of(subject, lm=lm)))
        judges = [*of_models, *loaded]
        plan = read_plan(flags.plan, flags.samples, flags.temperature)
        if (plan or flags.reasoning) and all(judge.is_frozen for _, judge in judges):
            raise SettingsError(
                "--plan, --samples, --temperature and --reasoning are of judges that are asked and "
                "not frozen, and here is none: leave them out"
            )
        return [
            replace(entry, judge=_as_flags_say(judge, flags, plan).with_model(entry.options["lm"]))
            for entry, judge in judges
        ]

    def check_subject(self, name: str, judge: Judge) -> None:
        """Raise SettingsError for a judge of something else."""
        if judge.name != self.dimension or (judge.kind == "pairwise") != self.pairwise:
            raise SettingsError(f"{name} is about {judge.name!r}, not {self.dimension!r}")

    def _labels(self, subject: Subject | None, scale: str | None) -> Labelled:
        """The labels with a subject's texts; without one, for recordings alone."""
        return load_labels(
            self.flags.data or None,
            self.dimension,
            subject or find_subject(self.dimension),
            mapping=mapping(self.flags.map),
            values=values_of(self.flags.values),
            scale=scale,
            recorded=subject is None,
            pairwise=self.pairwise,
        )

    def _scores(self, name: str, path: Path, labelled: Labelled) -> list[Entry]:
        items = items_of(labelled, self.dimension)
        return [_recorded(name, "scores", from_scores(path, items, self.dimension))]

    def _replies(self, name: str, path: Path, labelled: Labelled) -> list[Entry]:
        """The judge of a file of replies; one a prompt, where there are several."""
        items, words = items_of(labelled, self.dimension), values_of(self.flags.values)
        if self.pairwise:
            by_prompt = from_pair_replies(path, items, self.dimension, words)
        else:
            scale = recorded_scale(self.flags.scale, find_subject(self.dimension))
            by_prompt = from_replies(path, items, self.dimension, scale, words)
        return [
            _recorded(f"{name}:{prompt}" if prompt else name, "replies", scored)
            for prompt, scored in sorted(by_prompt.items())
        ]

    def open_run(
        self, entries: Sequence[Entry], labelled: Labelled | None
    ) -> AbstractContextManager[Path]:
        """The run's folder, begun or gone on with."""
        data = {"name": labelled.name, "sha256": labelled.sha256} if labelled else {}
        config = {
            "command": self.command,
            "settings": {"dimension": self.dimension, "seed": self.flags.seed},
            "data": data,
            "judges": [self._described(entry) for entry in entries],
        }
        return open_run(self.flags.out, self.run_name, config, print_note)

    def _described(self, entry: Entry) -> dict[str, str]:
        """What config.json holds of a judge; `key` tells what its replies depend on."""
        row = {"name": entry.name, "source": entry.source}
        if entry.judge is None:
            return row
        endpoint = endpoint_of(entry.lm, entry.options.get("api_base"))
        key = entry.key(self.flags.seed)
        return {**row, "lm": entry.lm, "endpoint": endpoint, "key": key}


class Comparison(JudgesRun):
    """One comparison from flags to summary.json and report.html."""

    command = "optimize.compare"
    run_name = "compare"

    def execute(self) -> dict[str, Any] | None:
        """What --json prints; None after --dry-run, which prints what to expect alone."""
        flags, started = self.flags, time.monotonic()
        entries, labelled = self.entries()
        check_entries(entries, flags)
        if flags.dry_run:
            print_lines(self.expectation_lines(entries))
            return None
        with self.open_run(entries, labelled) as folder:
            outcomes = self.ask(entries, folder)
            result = compare_judges(
                outcomes, self.dimension, labelled, level=flags.level, seed=flags.seed
            )
            seconds = round(time.monotonic() - started, 3)
            result = {"command": self.command, **result, "seconds": seconds, "folder": str(folder)}
            write_json(folder / SUMMARY, result)
            write_comparison(folder / REPORT, result)
        return result


def _recorded(name: str, source: Source, scored: ScoredItems) -> Entry:
    if scored.n_unjudged or scored.n_unknown:
        print_error(
            f"warning: {name}: {scored.n_unjudged} labelled outputs have no record, and "
            f"{scored.n_unknown} records no labelled output: both are left out"
        )
    return Entry(name=name, source=source, scored=scored)


def _load_judge(text: str) -> tuple[Entry, Judge]:
    """The judge of [NAME=]JUDGE[@MODEL]."""
    name, spec = split_name(text)
    file, at, lm = spec.rpartition("@")
    if not at or Path(spec).exists():
        file, lm = spec, ""
    check_name(lm)
    # Folders above say more of a machine than of a judge.
    short, model = name or "/".join(Path(file).parts[-2:]), f"@{lm}" if lm and not name else ""
    return _entry(f"{short}{model}", "judge", lm or None), load(file)


def _entry(name: str, source: Source, lm: str | None) -> Entry:
    """A judge by its name and the model that its user chose, before anything is known of it."""
    return Entry(name=name, source=source, options={"lm": lm})


def _as_flags_say(judge: Judge, flags: argparse.Namespace, plan: SamplingPlan | None) -> Judge:
    """The judge on the labels' scale, with reasoning and plan of the flags; a frozen one as is."""
    if judge.is_frozen:
        return judge
    judge = on_labels_scale(judge, flags.scale)
    if flags.reasoning:
        judge = Judge.of(judge.subject, reasoning=flags.reasoning, lm=judge.lm)
    return replace(judge, plan=plan)


def _split_target(text: str) -> tuple[str | None, str]:
    """The name in NAME=VALUE, None where a value is for all (an address may have such a sign)."""
    name, equals, value = text.partition("=")
    return (name, value) if equals and "://" not in name else (None, text)


def _values_by_name(
    flags: argparse.Namespace, option: str, names: Sequence[str], read: Callable[[str], Any] = str
) -> dict[str, Any]:
    """What a flag says for each name: its own NAME=VALUE, else the value given for all."""
    flag, values = "--" + option.replace("_", "-"), dict[str | None, Any]()
    for text in getattr(flags, option):
        target, value = _split_target(text)
        if target in values:
            whose = f" of {target}" if target else ""
            raise SettingsError(f"{flag}{whose} is given twice; write {flag} NAME=VALUE")
        try:
            values[target] = read(value)
        except argparse.ArgumentTypeError as error:
            raise SettingsError(f"{flag} {error}") from None
    by_name = {name: values.get(name, values.get(None)) for name in names}
    return {name: value for name, value in by_name.items() if value is not None}


def check_entries(entries: Sequence[Entry], flags: argparse.Namespace) -> None:
    """SettingsError for judges that cannot be told apart, or whose limit cannot bind."""
    names = [entry.name for entry in entries]
    if len(names) < 2:
        raise SettingsError("name two judges or more: JUDGE, --lm, --scores or --replies")
    for name in names:
        if names.count(name) > 1:
            raise SettingsError(f"two judges are called {name}: name one, as in NAME={name}")
    for option in FLAGS_PER_MODEL:
        for target, _ in map(_split_target, getattr(flags, option)):
            if target is not None and target not in names:
                raise SettingsError(
                    f"--{option.replace('_', '-')} {target}=...: no such judge; there are "
                    f"{', '.join(names)}"
                )
    for entry in entries:
        if flags.max_cost is not None and entry.expected_cost is None:
            raise SettingsError(
                f"--max-cost: the price of {entry.lm} is not known; give --price "
                f"{entry.name}=IN,OUT, or --max-calls in place of --max-cost"
            )
