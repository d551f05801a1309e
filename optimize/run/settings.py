"""A run's settings, checked; what is judged, and on which scale."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, Literal, get_args, get_type_hints

import msgspec
from msgspec import Meta

from data.flags import read_bounds, read_values, split_mapping
from dspy_judges.errors import UsageError
from judges.cli.flags import mapping
from judges.client import (
    KEY_FOR_NAME,
    OPENAI,
    Price,
    Redactor,
    endpoint_of,
    find_price,
    holds_secret,
    is_embedded,
    price_of,
    read_price,
)
from judges.dimension import MAX_RATINGS, Comparison, Dimension, Subject
from judges.prompt import Reasoning

Level = Literal["summary", "dataset", "system"]
OptimizerName = Literal["rank", "gepa"]
Ship = Literal["better", "tuned"]
# The chance that a judge ships which is no better than the untuned one.
RISK = 0.1

# Past any number of calls or dollars.
MAX_NUMBER = 1e15
# Labels on any scale: only their order counts.
ANY_SCALE = "any"
# For the proposer's address: its provider's own.
DEFAULT = "default"

Text = Annotated[str, Meta(min_length=1)]
Count = Annotated[int, Meta(ge=1, le=int(MAX_NUMBER))]
WholeNumber = Annotated[int, Meta(ge=0, le=int(MAX_NUMBER))]
Dollars = Annotated[float, Meta(gt=0, le=MAX_NUMBER)]
Bounds = tuple[float, float]


class SettingsError(UsageError):
    """A setting makes no sense; the message says which and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One run.

    `scale` is LOW-HIGH, for people and judge, or "any": the judge keeps its own. The proposer is
    asked where the judge is, unless `proposer_api_base` names an address, or "default": its
    provider's own. `data` None is the starter set, or labels that are in memory.
    """

    dimension: Text | None = None
    pairwise: Text | None = None
    data: Text | None = None
    map: Mapping[Text, Text | Sequence[Text]] = field(default_factory=dict)
    values: Mapping[str, float | str | None] = field(default_factory=dict)
    scale: Text | None = None
    lm: Text = "embedded"
    proposer_lm: Text | None = None
    api_base: Text | None = None
    proposer_api_base: Text | None = None
    api_key_env: Text | None = None
    proposer_api_key_env: Text | None = None
    price: Text | None = None
    proposer_price: Text | None = None
    max_tokens: Count | None = None
    proposer_max_tokens: Count | None = None
    reasoning_effort: Text | None = None
    proposer_reasoning_effort: Text | None = None
    plan: Literal["one", "mean", "weighted"] | None = None
    samples: Count | None = None
    temperature: Annotated[float, Meta(ge=0, le=10)] | None = None
    reasoning: Literal["none", "brief", "steps", "auto"] = "auto"
    concurrency: Count = 64
    cache: Text | None = None
    optimizer: OptimizerName = "rank"
    level: Level | Literal["auto"] = "auto"
    max_demos: WholeNumber | None = None
    max_calls: Count | None = None
    max_cost: Dollars | None = None
    risk: Annotated[float, Meta(gt=0, le=0.5)] = RISK
    ship: Ship = "better"
    probes: bool = False
    seed: WholeNumber = 0
    verbose: bool = False

    def __post_init__(self) -> None:
        if (self.dimension is None) == (self.pairwise is None):
            raise SettingsError("give --dimension NAME or --pairwise NAME, one of the two")
        for name, kind in _TYPES.items():
            _check(name, getattr(self, name), kind)
        if self.scale is not None:
            bounds_of(self.scale)
        for flag, lm in (("--lm", self.lm), ("--proposer-lm", self.proposer_lm)):
            if lm and Redactor().holds(lm):
                raise SettingsError(f"{flag} {KEY_FOR_NAME}")
        for variable in (self.api_key_env, self.proposer_api_key_env):
            if variable is not None and (not variable.isidentifier() or Redactor().holds(variable)):
                raise SettingsError(
                    "--api-key-env names an environment variable, and is never a key itself"
                )
        for price in (self.price, self.proposer_price):
            check_price(price)
        for address in (self.api_base, self.proposer_api_base):
            refuse_secret(address)
        if is_embedded(self.lm):
            self._check_embedded()
        if (self.plan == "mean") != (self.samples is not None):
            raise SettingsError("--plan mean and --samples N are given together")

    def _check_embedded(self) -> None:
        """Raise SettingsError for what needs a judge that follows instructions."""
        wanted = {"--optimizer gepa": self.optimizer == "gepa", "--proposer-lm": self.proposer_lm}
        for flag, given in wanted.items():
            if given:
                raise SettingsError(
                    f"{flag}: the embedded model follows no proposed instruction; name a language "
                    f"model by --lm, or leave {flag} out"
                )

    @property
    def seed_reasoning(self) -> Reasoning | None:
        """What the untuned judge writes before its answer; None: what its dimension asks for."""
        return None if self.reasoning == "auto" else self.reasoning

    @property
    def reasoning_to_try(self) -> tuple[Reasoning, ...]:
        """What else the search may have the judge write before its answer.

        Nothing where a form is named, nor for the embedded model, which does not think in words.
        """
        if self.reasoning != "auto" or self.optimizer != "rank" or is_embedded(self.lm):
            return ()
        own = "brief" if self.pairwise else "none"
        return tuple(reasoning for reasoning in get_args(Reasoning) if reasoning != own)

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
    def proposer_key_variable(self) -> str | None:
        """Where the proposer's key is: the judge's goes nowhere that the judge is not asked."""
        judge = (self.lm.partition("/")[0], self.api_base)
        lm, api_base = self.proposer
        same = (lm.partition("/")[0], api_base) == judge
        return self.proposer_api_key_env or (self.api_key_env if same else None)

    @property
    def prices(self) -> tuple[Price | None, Price | None]:
        """Of the judge and of the proposer: the user's, else the table's; None: not known."""
        own = self.price and price_of(read_price(self.price))
        judge = own or find_price(self.lm)
        proposer_lm = self.proposer[0]
        if self.proposer_price:
            return judge, price_of(read_price(self.proposer_price))
        return judge, judge if proposer_lm == self.lm else find_price(proposer_lm)

    @property
    def endpoints(self) -> dict[str, str]:
        """The address at which each model answers, with no key in it; makes no connection."""
        return {
            "judge": endpoint_of(self.lm, self.api_base),
            "proposer": endpoint_of(*self.proposer),
        }

    def to_json(self) -> dict[str, Any]:
        """For config.json."""
        built: dict[str, Any] = msgspec.to_builtins(self)
        return built


_TYPES: Mapping[str, Any] = get_type_hints(Settings, include_extras=True)
# What may differ when a run goes on: what it costs, where replies are kept, and what ships.
FREE = frozenset(
    {"max_calls", "max_cost", "price", "proposer_price", "concurrency", "cache", "ship", "verbose"}
    | {"api_base", "proposer_api_base", "api_key_env", "proposer_api_key_env"}
)


def flag_of(name: str) -> str:
    """The setting as the command line has it."""
    own = name.removeprefix("proposer_")
    if own == name or own == "lm":
        return "--" + name.replace("_", "-")
    return f"--{own.replace('_', '-')} proposer="


def choices_of(name: str) -> tuple[str, ...]:
    """The words that a setting may be; none where it may be any."""

    def words(kind: Any) -> list[str]:
        parts = get_args(kind)
        return [p for part in parts for p in ([part] if isinstance(part, str) else words(part))]

    return tuple(dict.fromkeys(words(_TYPES[name])))


def _check(name: str, value: Any, kind: Any) -> None:
    """Raise SettingsError for a value of another type or beyond its bounds."""
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        reason = str(error).replace("`", "")
        if choices := choices_of(name):
            reason = f"choose from {', '.join(choices)}"
        flag = flag_of(name)
        raise SettingsError(
            f"{flag}{'' if flag.endswith('=') else ' '}{value!r}: {reason[:1].lower()}{reason[1:]}"
        ) from None


def read_settings(given: Mapping[str, Any]) -> Settings:
    """The settings of flags or of keywords; raises SettingsError."""
    plain = {name: value for name, value in given.items() if value is not None}
    named = plain.get("map")
    if isinstance(named, str | os.PathLike):
        named = [os.fspath(named)]
    if isinstance(named, list):
        named = mapping([str(word) for word in named])
    # A mapping file has words, too.
    plain["map"], plain["values"] = split_mapping(named, values_of(plain.get("values", {})))
    scale = plain.get("scale")
    if isinstance(scale, list | tuple) and len(scale) == 2:
        plain["scale"] = f"{scale[0]}:{scale[1]}"
    if "cache" in plain:
        plain["cache"] = os.fspath(plain["cache"])
    for name in ("price", "proposer_price"):
        if isinstance(pair := plain.get(name), list | tuple):
            plain[name] = ",".join(map(str, pair))
    known = {declared.name for declared in fields(Settings)}
    if unknown := sorted(plain.keys() - known):
        raise SettingsError(f"there is no setting {unknown[0]!r}")
    return Settings(**plain)


def bounds_of(scale: str) -> Bounds | None:
    """The scale's ends; None for "any". Raises SettingsError."""
    if scale == ANY_SCALE:
        return None
    bounds = read_bounds(scale)
    if bounds is None:
        raise SettingsError(f"--scale {scale}: expected LOW-HIGH, such as 1-5, 0-100 or -1:1")
    return bounds


def refuse_secret(api_base: str | None) -> None:
    """Raise SettingsError for an address that must not be written down."""
    if api_base and holds_secret(api_base):
        raise SettingsError("--api-base holds a password or a key: give it by OPENAI_API_KEY")


def check_price(text: str | None) -> None:
    """Raise SettingsError for what is no price."""
    if text is None:
        return
    try:
        read_price(text)
    except ValueError:
        raise SettingsError(f"--price {text}: write IN,OUT, as in 0.40,1.60") from None


def values_of(values: Any) -> dict[str, Any]:
    """Words and what they count, from --values or a mapping; raises SettingsError."""
    if not isinstance(values, Mapping | list | tuple):
        raise SettingsError(f"--values {values!r}: expected words and numbers, as in {{good: 3}}")
    try:
        return {**read_values(values)}
    except ValueError as error:
        raise SettingsError(f"--values {error}") from None


def read(settings: Settings) -> Subject:
    """The dimension or comparison; raises SettingsError where a flag does not suit it."""
    from judges.loading import read_subject  # which a help text does without

    return on_scale(read_subject(settings.subject), settings)


def on_scale(subject: Subject, settings: Settings) -> Subject:
    """The subject on the scale of the settings; raises SettingsError where a flag is not for it."""
    pairwise = isinstance(subject, Comparison)
    if pairwise != (settings.pairwise is not None):
        right = "--pairwise" if pairwise else "--dimension"
        raise SettingsError(f"{subject.name}: say {right} {settings.subject}")
    if settings.scale is None:
        return subject
    if isinstance(subject, Comparison):
        raise SettingsError("--scale: pairs have votes, and no scale")
    bounds = bounds_of(settings.scale)
    return subject if bounds is None else rescale(subject, bounds)


def rescale(dimension: Dimension, bounds: Bounds) -> Dimension:
    """The dimension rated from one bound to the other, in whole numbers."""
    ratings = whole_ratings(bounds)
    return dimension.on_scale(ratings[0], ratings[-1])


def whole_ratings(bounds: Bounds) -> tuple[int, ...]:
    """Every rating of a scale; SettingsError where it is no judge's."""
    low, high = bounds
    if not (low.is_integer() and high.is_integer() and high - low < MAX_RATINGS):
        raise SettingsError(
            f"--scale {low:g}-{high:g}: a judge rates in whole numbers, {MAX_RATINGS} at most; "
            "say --scale any to keep its own, since only the order of the labels counts"
        )
    return tuple(range(int(low), int(high) + 1))


def label_bounds(subject: Dimension, scale: str | None) -> Bounds | None:
    """Between what labels must lie; None: anything."""
    if scale is not None:
        return bounds_of(scale)
    return float(subject.scale[0]), float(subject.scale[-1])
