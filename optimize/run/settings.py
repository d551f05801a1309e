"""A run's settings: flags over a YAML file over a resumed run's over defaults; what is judged."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from data.flags import join_scale, read_bounds, read_mapping
from judges.cli.arguments import Parser as OneLineParser
from judges.define import is_python, read_subject
from judges.dimension import MOST_RATINGS, Comparison, Dimension, Subject
from judges.errors import UsageError
from judges.models.providers import THROUGH_DSPY, endpoint_of
from judges.models.redaction import KEY_FOR_NAME, Redactor, holds_secret
from judges.models.registry import is_plain, quoted
from judges.protocol import OPENAI
from optimize.search.objective import LEVELS, Level
from optimize.search.optimizers import OPTIMIZERS

SPLITS = ("document", "system", "both")
PLANS = ("auto", "one", "mean", "weighted")
HOTTEST = 10.0
# Past any number of calls or dollars.
MOST = 1e15
MOST_BYTES = 100_000
# Labels on any scale: only their order counts.
ANY_SCALE = "any"
# What may differ when a run is resumed: a larger budget makes further trials, and pays for none
# again.
FREE = frozenset(
    {"out", "resume", "json", "concurrency", "max_calls", "max_cost", "keep_going", "verbose"}
)
# What a run folder never chooses, since it would take texts and keys to a host of its choice.
ADDRESSES = ("api_base", "proposer_api_base")
# For --proposer-api-base: the provider's own.
DEFAULT = "default"


class SettingsError(UsageError):
    """A flag or a configuration file makes no sense; the message says which and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One run. `split` None: by document and system where there are systems enough.

    `scale` is LOW-HIGH, for people and judge, or "any": the judge keeps its own. The proposer is
    asked where the judge is, unless `proposer_api_base` names an address, or "default": its
    provider's own.
    """

    dimension: str | None = None
    pairwise: str | None = None
    data: str | None = None
    map: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    scale: str | None = None
    lm: str = "embedded"
    api_base: str | None = None
    proposer_lm: str | None = None
    proposer_api_base: str | None = None
    optimizer: str = "rank"
    level: Level | Literal["auto"] = "auto"
    max_calls: int | None = None
    max_cost: float | None = None
    concurrency: int = 64
    samples: int | None = None
    temperature: float | None = None
    weighted: bool = False
    plan: str | None = None
    probes: bool = False
    seed: int = 0
    split: str | None = None
    out: str | None = None
    resume: bool = False
    keep_going: bool = False
    json: bool = False
    verbose: bool = False

    def __post_init__(self) -> None:
        if (self.dimension is None) == (self.pairwise is None):
            raise SettingsError("give --dimension NAME or --pairwise NAME, one of the two")
        _check_kinds(self)
        for name, allowed in CHOICES.items():
            value = getattr(self, name)
            if value is not None and value not in allowed:
                raise SettingsError(f"{_flag(name)} {value!r}: choose from {', '.join(allowed)}")
        for name in ("max_calls", "max_cost", "concurrency", "samples"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise SettingsError(f"{_flag(name)} {value}: must be above 0")
        if self.seed < 0:
            raise SettingsError(f"--seed {self.seed}: must be 0 or more")
        if self.temperature is not None and not 0 <= self.temperature <= HOTTEST:
            raise SettingsError(f"--temperature {self.temperature:g}: must be within 0 and 10")
        if self.scale is not None:
            bounds_of(self.scale)
        for flag, lm in (("--lm", self.lm), ("--proposer-lm", self.proposer_lm)):
            if lm and Redactor().holds(lm):
                raise SettingsError(f"{flag} {KEY_FOR_NAME}")
        refuse_secret(self.api_base)
        refuse_secret(self.proposer_api_base, "--proposer-api-base")
        if self.weighted and self.samples is not None:
            raise SettingsError("--weighted reads one reply's probabilities; drop --samples")
        if self.weighted and self.plan not in (None, "weighted"):
            raise SettingsError(f"--plan {self.plan} and --weighted are two plans; give one")
        if self.plan == "mean" and self.samples is None:
            raise SettingsError("--plan mean needs --samples N")
        if self.plan in ("one", "weighted") and self.samples is not None:
            raise SettingsError(f"--plan {self.plan} reads one reply; drop --samples")

    @property
    def subject(self) -> str:
        return self.dimension or self.pairwise or ""

    @property
    def proposer(self) -> tuple[str, str | None]:
        """The proposer's model, and the endpoint that was given for it or for the whole run."""
        lm = self.proposer_lm or self.lm
        if self.proposer_api_base == DEFAULT:
            return lm, OPENAI if lm.startswith("openai/") else None
        base = self.proposer_api_base or self.api_base
        if base is None and lm.partition("/")[0] != "azure" and self.lm.startswith("openai/"):
            # Named for the judge, and so for the run.
            base = os.environ.get("OPENAI_BASE_URL") or None
        return lm, base

    @property
    def endpoints(self) -> dict[str, str]:
        """Where both models answer, without any key; nothing is opened for it."""
        return {
            "judge": endpoint_of(self.lm, self.api_base),
            "proposer": endpoint_of(*self.proposer),
        }

    def known(self) -> dict[str, Any]:
        return asdict(self)


CHOICES: Mapping[str, Sequence[str]] = {
    "optimizer": tuple(OPTIMIZERS),
    "level": ("auto", *LEVELS),
    "split": SPLITS,
    "plan": PLANS,
}
_WHOLE = frozenset({"max_calls", "concurrency", "samples", "seed"})
_NUMBERS = frozenset({"max_cost", "temperature"})
_YES_OR_NO = frozenset({"weighted", "probes", "resume", "keep_going", "json", "verbose"})
# What may be left out, and says nothing then.
_OPEN = frozenset(setting.name for setting in fields(Settings) if setting.default is None)


def _check_kinds(settings: Settings) -> None:
    """Values from YAML and from Python may be of any kind; those from flags are right."""
    for name, value in settings.known().items():
        if value is None and name in _OPEN:
            continue
        if name == "map":
            is_valid = _is_map(value) and all(
                isinstance(column, str) and column
                for name, columns in value.items()
                for column in (
                    name,
                    *(columns if isinstance(columns, list | tuple) else (columns,)),
                )
            )
            expected = "our names and their columns, as in {relevance: my_column}"
        elif name in _YES_OR_NO:
            is_valid, expected = isinstance(value, bool), "true or false"
        elif name in _WHOLE | _NUMBERS:
            kinds = (int,) if name in _WHOLE else (int, float)
            is_valid = isinstance(value, kinds) and not isinstance(value, bool)
            # Compared, since an endless integer is no float.
            is_valid = is_valid and -MOST <= value <= MOST
            expected = "a whole number" if name in _WHOLE else "a number"
        else:
            is_valid, expected = isinstance(value, str) and value != "", "a name"
        if not is_valid:
            raise SettingsError(f"{_flag(name)} {value!r}: expected {expected}")


def _is_map(value: object) -> bool:
    return isinstance(value, Mapping)


def bounds_of(scale: str) -> tuple[float, float] | None:
    """The scale's ends; None for "any". Raises SettingsError."""
    if scale == ANY_SCALE:
        return None
    bounds = read_bounds(scale)
    if bounds is None:
        raise SettingsError(f"--scale {scale}: expected LOW-HIGH, such as 1-5, 0-100 or -1:1")
    return bounds


def refuse_secret(api_base: str | None, flag: str = "--api-base") -> None:
    """Raise SettingsError for an address that must not be written down."""
    if api_base and holds_secret(api_base):
        raise SettingsError(f"{flag} holds a password or a key: give it by OPENAI_API_KEY")


class Parser(OneLineParser):
    """Says what is wrong in one line, and takes -1:1 for a scale."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        words = None if args is None else join_scale([str(word) for word in args])
        return super().parse_known_args(words, namespace)


def resolve(
    flags: Mapping[str, Any],
    saved: Mapping[str, Any] | None = None,
    endpoints: Mapping[str, str] | None = None,
) -> Settings:
    """Flags beat the YAML file, which beats what a resumed run was told; raises SettingsError.

    `endpoints` are those of the run to resume. Its folder may be a stranger's, so what it names
    and what would choose a host or run a program has to be given again.
    """
    flag_settings = _normalized(flags)
    file = flag_settings.pop("config", None)
    chosen = {**_read(file), **flag_settings} if file else flag_settings
    if saved is not None:
        _check_same(saved, chosen)
        _check_repeated_on_resume(saved, chosen)
    merged = {**(saved or {}), **{name: None for name in ADDRESSES if saved}, **chosen}
    if unknown := sorted(merged.keys() - {setting.name for setting in fields(Settings)}):
        where = f"{file}: " if file and unknown[0] not in flag_settings else ""
        raise SettingsError(f"{where}unknown setting {unknown[0]!r}")
    settings = Settings(**merged)
    if saved is not None:
        _check_endpoints(settings, endpoints or Settings(**{**saved, **chosen}).endpoints)
    return settings


def _check_repeated_on_resume(saved: Mapping[str, Any], chosen: Mapping[str, Any]) -> None:
    """A model that is no provider's own, a data set of the hub, and code: only as flags."""
    for name, value in saved.items():
        if name in chosen or not isinstance(value, str):
            continue
        must_repeat = (
            (name in ("lm", "proposer_lm") and not is_plain(value))
            or (name == "data" and value.startswith("hf:"))
            or (name in ("dimension", "pairwise") and is_python(value))
        )
        if must_repeat:
            raise SettingsError(
                f"the run to resume names {_flag(name)} {quoted(value)}, which its folder alone "
                f"cannot choose: give it again, as in {_flag(name)} {quoted(value)}"
            )


def _check_endpoints(settings: Settings, recorded: Mapping[str, str]) -> None:
    """The run goes on only where it was begun, and only if its user names that place."""
    flags = {"judge": "--api-base", "proposer": "--proposer-api-base"}
    for role, address_now in settings.endpoints.items():
        address_then = recorded.get(role, address_now)
        if address_then == address_now:
            continue
        address = quoted(address_then.removeprefix(THROUGH_DSPY).strip() or "default")
        raise SettingsError(
            f"the run to resume asked its {role} at {address}, and not at {quoted(address_now)}: "
            f"give {flags[role]} {address} again to go on there"
        )


def _normalized(settings: Mapping[str, Any]) -> dict[str, Any]:
    """NAME=COLUMN pairs as a mapping, and a pair of numbers as a scale."""
    plain = dict(settings)
    if isinstance(plain.get("map"), list):
        plain["map"] = mapping([str(pair) for pair in plain["map"]])
    scale = plain.get("scale")
    if isinstance(scale, list | tuple) and len(scale) == 2:
        plain["scale"] = f"{scale[0]}:{scale[1]}"
    return plain


def _check_same(saved: Mapping[str, Any], chosen: Mapping[str, Any]) -> None:
    for name, value in chosen.items():
        if name not in FREE and name not in ADDRESSES and name in saved and saved[name] != value:
            raise SettingsError(
                f"{_flag(name)} {value}: the run to resume was made with {saved[name]}; "
                "leave the flag out, or start another run"
            )


def _read(file: str) -> dict[str, Any]:
    from judges.yaml_text import YamlTextError, read_yaml

    try:
        read = read_yaml(Path(file), most_bytes=MOST_BYTES)
    except (OSError, YamlTextError) as error:
        raise SettingsError(f"{file}: cannot be read: {' '.join(str(error).split())}") from error
    if not isinstance(read, dict) or not all(isinstance(name, str) for name in read):
        raise SettingsError(f"{file}: expected settings, one `name: value` a line")
    return _normalized({name.replace("-", "_"): value for name, value in read.items()})


def mapping(pairs: Sequence[str]) -> dict[str, str | list[str]]:
    """Read NAME=COLUMN pairs; a dimension given several columns has one annotator in each."""
    split = [pair.partition("=") for pair in pairs]
    for name, equals, column in split:
        if not (name and equals and column):
            raise SettingsError(f"--map {name}{equals}{column}: expected NAME=COLUMN")
    return read_mapping((name, column) for name, _, column in split)


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


Bounds = tuple[float, float]


def read(settings: Settings) -> Subject:
    """The dimension or comparison; raises SettingsError where a flag does not suit it."""
    subject = read_subject(settings.subject)
    pairwise = isinstance(subject, Comparison)
    if pairwise != (settings.pairwise is not None):
        right = "--pairwise" if pairwise else "--dimension"
        raise SettingsError(f"{subject.name}: say {right} {settings.subject}")
    if settings.scale is None:
        return subject
    if isinstance(subject, Comparison):
        raise SettingsError("--scale: pairs have votes, and no scale")
    bounds = bounds_of(settings.scale)
    return subject if bounds is None else on_scale(subject, bounds)


def on_scale(dimension: Dimension, bounds: Bounds) -> Dimension:
    """The dimension rated from one bound to the other, in whole numbers."""
    ratings = whole_ratings(bounds)
    return dimension.on_scale(ratings[0], ratings[-1])


def whole_ratings(bounds: Bounds) -> tuple[int, ...]:
    """Every rating of a scale; SettingsError where it is no judge's."""
    low, high = bounds
    if not (low.is_integer() and high.is_integer() and high - low < MOST_RATINGS):
        raise SettingsError(
            f"--scale {low:g}-{high:g}: a judge rates in whole numbers, {MOST_RATINGS} at most; "
            "say --scale any to keep its own, since only the order of the labels counts"
        )
    return tuple(range(int(low), int(high) + 1))


def label_bounds(subject: Dimension, scale: str | None) -> Bounds | None:
    """Between what labels must lie; None: anything."""
    if scale is not None:
        return bounds_of(scale)
    return float(subject.scale[0]), float(subject.scale[-1])
