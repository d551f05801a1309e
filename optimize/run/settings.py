"""What a run is told: flags over a YAML file over a resumed run's settings over defaults."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, NoReturn, get_args

from judges.models.secrets import holds_secret
from optimize.search.objective import LEVELS, Level

Optimizer = Literal["rank", "gepa", "miprov2", "bootstrap"]
OPTIMIZERS: tuple[Optimizer, ...] = get_args(Optimizer)
SPLITS = ("document", "system", "both")
# What may differ when a run is resumed: none of it changes a trial.
FREE = frozenset({"out", "resume", "json", "concurrency", "max_cost", "verbose"})


class SettingsError(ValueError):
    """A flag or a configuration file makes no sense; the message says which and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One run. `split` None: by document and system where there are systems enough."""

    dimension: str | None = None
    pairwise: str | None = None
    data: str | None = None
    map: Mapping[str, str] = field(default_factory=dict)
    lm: str = "embedded"
    api_base: str | None = None
    proposer_lm: str | None = None
    optimizer: Optimizer = "rank"
    level: Level | Literal["auto"] = "auto"
    max_calls: int | None = None
    max_cost: float | None = None
    concurrency: int = 64
    samples: int | None = None
    temperature: float | None = None
    weighted: bool = False
    probes: bool = False
    seed: int = 0
    split: str | None = None
    out: str | None = None
    resume: bool = False
    json: bool = False
    verbose: bool = False

    def __post_init__(self) -> None:
        if (self.dimension is None) == (self.pairwise is None):
            raise SettingsError("give --dimension NAME or --pairwise NAME, one of the two")
        for name, allowed in CHOICES.items():
            value = getattr(self, name)
            if value is not None and value not in allowed:
                raise SettingsError(f"{_flag(name)} {value!r}: choose from {', '.join(allowed)}")
        for name in ("max_calls", "max_cost", "concurrency", "samples"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise SettingsError(f"{_flag(name)} {value}: must be above 0")
        refuse_secret(self.api_base)
        if self.weighted and self.samples is not None:
            raise SettingsError("--weighted reads one reply's probabilities; drop --samples")

    @property
    def subject(self) -> str:
        return self.dimension or self.pairwise or ""

    def known(self) -> dict[str, Any]:
        return asdict(self)


def refuse_secret(api_base: str | None) -> None:
    """Raise SettingsError for an address that must not be written down."""
    if api_base and holds_secret(api_base):
        raise SettingsError("--api-base holds a password or a key: give it by OPENAI_API_KEY")


CHOICES: Mapping[str, Sequence[str]] = {
    "optimizer": OPTIMIZERS,
    "level": ("auto", *LEVELS),
    "split": SPLITS,
}


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (--help lists the flags)\n")


def parser() -> argparse.ArgumentParser:
    """Every flag defaults to nothing, so that a file's value stands where no flag is given."""
    made = Parser(
        prog="python -m optimize",
        description="Tune a judge against human labels, and measure it on labels it never saw.",
        argument_default=argparse.SUPPRESS,
        allow_abbrev=False,
    )
    add = made.add_argument
    what = made.add_argument_group("what is judged")
    what.add_argument(
        "--dimension", metavar="NAME", help="catalogue name, FILE.yaml or FILE.py:NAME"
    )
    what.add_argument("--pairwise", metavar="NAME", help="the same for a comparison of two outputs")
    what.add_argument("--data", metavar="FILE", help="human labels; without it, the starter set")
    what.add_argument("--map", metavar="NAME=COLUMN", action="append", help="a column's own name")
    model = made.add_argument_group("who judges")
    model.add_argument(
        "--lm", metavar="MODEL", help="embedded (default), openai/NAME, any of DSPy's"
    )
    model.add_argument("--api-base", metavar="URL", help="an OpenAI-compatible endpoint")
    model.add_argument("--proposer-lm", metavar="MODEL", help="who writes instructions (the same)")
    model.add_argument("--samples", type=int, metavar="N", help="average so many replies")
    model.add_argument("--temperature", type=float, metavar="T", help="of those replies")
    model.add_argument("--weighted", action="store_true", help="weigh ratings by probability")
    model.add_argument(
        "--probes", action="store_true", help="attack the judge, for the report (free: always)"
    )
    model.add_argument("--concurrency", type=int, metavar="N", help="requests in flight (64)")
    search = made.add_argument_group("how it is tuned")
    search.add_argument("--optimizer", metavar="NAME", help=f"{', '.join(OPTIMIZERS)} (rank)")
    search.add_argument("--level", metavar="LEVEL", help=f"auto, {', '.join(LEVELS)} (auto)")
    search.add_argument("--split", metavar="BY", help=f"{', '.join(SPLITS)}")
    search.add_argument("--max-calls", type=int, metavar="N", help="most calls for the whole run")
    search.add_argument("--max-cost", type=float, metavar="USD", help="most dollars")
    search.add_argument("--seed", type=int, metavar="N", help="for every random draw (0)")
    add("--config", metavar="FILE", help="YAML with any of these; flags beat it")
    add("--out", metavar="DIR", help="run folder (runs/NAME-001, then -002)")
    add("--resume", action="store_true", help="go on where a run was stopped")
    add("--json", action="store_true", help="print summary.json")
    add(
        "--verbose",
        action="store_true",
        help="say each retry, failed request and rate limit, and where an error arose",
    )
    return made


def resolve(flags: Mapping[str, Any], saved: Mapping[str, Any] | None = None) -> Settings:
    """Flags beat the YAML file, which beats what a resumed run was told; raises SettingsError."""
    given = dict(flags)
    if "map" in given:
        given["map"] = mapping(given["map"])
    file = given.pop("config", None)
    told = {**_read(file), **given} if file else given
    if saved is not None:
        _check_same(saved, told)
    unknown = set(told) - {one.name for one in fields(Settings)}
    if unknown:
        raise SettingsError(f"{file}: unknown setting {sorted(unknown)[0]!r}")
    both = {**(saved or {}), **told}
    try:
        return Settings(**both)
    except TypeError as error:
        raise SettingsError(f"{file}: a setting has a value of the wrong kind ({error})") from error


def _check_same(saved: Mapping[str, Any], told: Mapping[str, Any]) -> None:
    for name, value in told.items():
        if name not in FREE and name in saved and saved[name] != value:
            raise SettingsError(
                f"{_flag(name)} {value}: the run to resume was made with {saved[name]}; "
                "leave the flag out, or start another run"
            )


def _read(file: str) -> dict[str, Any]:
    import yaml

    try:
        read = yaml.safe_load(Path(file).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise SettingsError(f"{file}: cannot be read: {' '.join(str(error).split())}") from error
    if not isinstance(read, dict) or not all(isinstance(name, str) for name in read):
        raise SettingsError(f"{file}: expected settings, one `name: value` a line")
    return {name.replace("-", "_"): value for name, value in read.items()}


def mapping(pairs: Sequence[str]) -> dict[str, str]:
    """Read NAME=COLUMN pairs."""
    split = [pair.partition("=") for pair in pairs]
    for name, equals, column in split:
        if not (name and equals and column):
            raise SettingsError(f"--map {name}{equals}{column}: expected NAME=COLUMN")
    return {name: column for name, _, column in split}


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")
