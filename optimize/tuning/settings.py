"""A run's settings, checked; what is judged, and on which scale."""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_type_hints

import msgspec
from msgspec import Meta

from judges.cli.flags import mapping, read_number
from judges.client import KEY_FOR_NAME, Price, Redactor, find_price, price_of, read_price
from judges.dimension import Comparison, Subject
from judges.labels.flags import split_mapping
from judges.labels.readers import read_labels
from judges.prompt import Reasoning
from judges.protocol import EMBEDDED, OPENAI, is_decision, is_embedded
from optimize.inputs.flags import RISK, SettingsError, bounds_of, refuse_secret, rescale, values_of
from optimize.statistics.correlations import Level

Objective = Literal["balanced", "spearman"]
Ship = Literal["better", "tuned"]
# Past any number of calls or dollars.
MAX_NUMBER = 1e15
# For the proposer's address: its provider's own.
DEFAULT = "default"

Text = Annotated[str, Meta(min_length=1)]
Count = Annotated[int, Meta(ge=1, le=int(MAX_NUMBER))]
WholeNumber = Annotated[int, Meta(ge=0, le=int(MAX_NUMBER))]
Dollars = Annotated[float, Meta(ge=0, le=MAX_NUMBER)]


class RunModel(NamedTuple):
    """A model of a run: its endpoint, the variable that holds its key, and its price if known."""

    lm: str
    api_base: str | None
    api_key_env: str | None
    price: Price | None
    max_tokens: int | None
    reasoning_effort: str | None


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """One run, as `read_settings` makes and checks it.

    `scale` is LOW-HIGH, for people and judge, or "any": the judge keeps its own. The proposer is
    asked where the judge is, unless `proposer_api_base` names an address, or "default": its
    provider's own. `data` None is the starter set, or labels that are in memory.
    """

    dimension: Text | None = None
    pairwise: Text | None = None
    data: Text | None = None
    map: Mapping[Text, Text | Sequence[Text]] = {}
    values: Mapping[str, float | str | None] = {}
    annotations: Text | None = None
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
    optimizer: Text = "rank"
    objective: Objective | Literal["auto"] = "auto"
    level: Level | Literal["auto"] = "auto"
    max_demos: WholeNumber | None = None
    max_calls: Count | None = None
    max_cost: Dollars | None = None
    risk: Annotated[float, Meta(gt=0, le=0.5)] = RISK
    ship: Ship = "better"
    probes: bool = False
    seed: WholeNumber = 0
    verbose: bool = False

    @property
    def subject(self) -> str:
        return self.dimension or self.pairwise or ""

    @property
    def reasoning_to_try(self) -> tuple[Reasoning, ...]:
        """What else the search may have the judge write; nothing where a form is named."""
        writes_no_text = is_embedded(self.lm) or is_decision(self.lm)
        if self.reasoning != "auto" or self.optimizer != "rank" or writes_no_text:
            return ()
        own = "brief" if self.pairwise else "none"
        return tuple(reasoning for reasoning in get_args(Reasoning) if reasoning != own)

    @property
    def judge(self) -> RunModel:
        """The model that judges."""
        return RunModel(
            self.lm,
            self.api_base,
            self.api_key_env,
            price_of(read_price(self.price)) if self.price else find_price(self.lm),
            self.max_tokens,
            self.reasoning_effort,
        )

    @property
    def proposer(self) -> RunModel:
        """The model that writes instructions; the embedded one, which writes none, if none does.

        A decision model writes no instructions either. The judge's key goes nowhere that the judge
        is not asked.
        """
        lm = self.proposer_lm or (EMBEDDED if is_decision(self.lm) else self.lm)
        base = self._proposer_base(lm)
        key = self.proposer_api_key_env
        if (lm.partition("/")[0], base) == (self.lm.partition("/")[0], self.api_base):
            key = key or self.api_key_env
        price = self.judge.price if lm == self.lm else find_price(lm)
        if self.proposer_price:
            price = price_of(read_price(self.proposer_price))
        return RunModel(
            lm, base, key, price, self.proposer_max_tokens, self.proposer_reasoning_effort
        )

    def _proposer_base(self, lm: str) -> str | None:
        """The endpoint that was given for the proposer, else the one for the whole run."""
        if is_decision(self.lm):
            return self.proposer_api_base
        if self.proposer_api_base == DEFAULT:
            return OPENAI if lm.startswith("openai/") else None
        base = self.proposer_api_base or self.api_base
        if base is None and lm.partition("/")[0] != "azure" and self.lm.startswith("openai/"):
            # Named for the judge, and so for the run.
            base = os.environ.get("OPENAI_BASE_URL") or None
        return base


_TYPES: Mapping[str, object] = get_type_hints(Settings, include_extras=True)
# Settings that may change between the starts of a run: limits, prices, addresses, and what ships.
CHANGEABLE = frozenset(
    {"max_calls", "max_cost", "price", "proposer_price", "concurrency", "cache", "ship", "verbose"}
    | {"api_base", "proposer_api_base", "api_key_env", "proposer_api_key_env"}
)


def flag_of(name: str) -> str:
    """The setting as the command line has it."""
    own = name.removeprefix("proposer_")
    if own == name or own == "lm":
        return "--" + name.replace("_", "-")
    return f"--{own.replace('_', '-')} proposer="


def read_settings(values: Mapping[str, Any]) -> Settings:
    """The settings of flags, which are words, or of keywords; raises SettingsError."""
    plain = {name: value for name, value in values.items() if value is not None}
    if unknown := sorted(plain.keys() - _TYPES.keys()):
        raise SettingsError(f"there is no setting {unknown[0]!r}")
    _read_columns(plain)
    if "data" in plain and not plain.keys() & {"dimension", "pairwise"}:
        from optimize.inputs.labelled import only_dimension  # which a help text does without

        how: Any = {name: plain.get(name) for name in ("map", "values", "annotations")}
        plain["dimension"] = only_dimension(read_labels(plain["data"], texts=(), **how))
    plain = {name: _plain_value(name, value) for name, value in plain.items()}
    try:
        settings = msgspec.convert(plain, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise _wrong_value(error, {**plain, **values}) from None
    _check(settings)
    return settings


def _read_columns(plain: dict[str, Any]) -> None:
    """Set the columns, values and scale that `map` gives: pairs, a mapping, or a mapping file."""
    columns = plain.get("map")
    if isinstance(columns, str | os.PathLike):
        columns = [os.fspath(columns)]
    if isinstance(columns, list):
        columns = mapping([str(word) for word in columns])
    # A mapping file has words, too.
    plain["map"], plain["values"] = split_mapping(columns, values_of(plain.get("values", {})))
    # A scale as `check` leaves it in a mapping file; one beside it goes before.
    if scale := plain["map"].pop("scale", None):
        plain.setdefault("scale", scale)


def _plain_value(name: str, value: object) -> object:
    """A setting's value as its type has it: paths and pairs of numbers as text, numbers read."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, tuple | list) and len(value) == 2:
        # A scale or a price in numbers.
        return (":" if name == "scale" else ",").join(map(str, value))
    if isinstance(value, str) and {int, float} & {*_leaves(_TYPES[name])}:
        with suppress(ValueError):
            return read_number(value)
    return value


def _wrong_value(error: msgspec.ValidationError, values: Mapping[str, object]) -> SettingsError:
    """What is wrong with a value, by its flag."""
    reason, _, path = str(error).replace("`", "").replace(" | null", "").rpartition(" - at $.")
    name = path.partition("[")[0]
    words = [word for word in _leaves(_TYPES[name]) if isinstance(word, str)]
    reason = f"choose from {', '.join(words)}" if words else reason[:1].lower() + reason[1:]
    value = ("" if name.startswith("proposer_m") else " ") + repr(values[name])
    return SettingsError(f"{flag_of(name)}{value}: {reason}")


def _leaves(kind: object) -> list[object]:
    """The types and words that a setting may be."""
    return [leaf for part in get_args(kind) for leaf in _leaves(part)] or [kind]


def _check(settings: Settings) -> None:
    """Raise SettingsError for what a setting's type does not say."""
    from optimize.search.optimizer import find_optimizer  # which a help text does without

    if (settings.dimension is None) == (settings.pairwise is None):
        raise SettingsError("give --dimension NAME or --pairwise NAME, one of the two")
    bounds_of(settings.scale)
    for prefix in ("", "proposer_"):
        _check_model(prefix, settings)
    if (settings.plan == "mean") != (settings.samples is not None):
        raise SettingsError("--plan mean and --samples N are given together")
    find_optimizer(settings.optimizer)
    if is_decision(settings.lm):
        _check_decisions(settings)
    if not is_embedded(settings.lm):
        return
    flags = {
        "--optimizer gepa": settings.optimizer == "gepa",
        "--proposer-lm": settings.proposer_lm,
    }
    if flag := next((name for name, is_given in flags.items() if is_given), None):
        raise SettingsError(
            f"{flag}: the embedded model follows no proposed instruction; name a language model by "
            f"--lm, or leave {flag} out"
        )


def _check_model(prefix: str, settings: Settings) -> None:
    """Raise SettingsError for a key in the place of a name, or for a malformed price."""
    names = ("lm", "api_key_env", "price", "api_base")
    lm, variable, price, api_base = (getattr(settings, prefix + name) for name in names)
    secret = Redactor()
    if lm and secret.holds(lm):
        raise SettingsError(f"{flag_of(prefix + 'lm')} {KEY_FOR_NAME}")
    if prefix and lm and is_decision(lm):
        raise SettingsError(
            f"--proposer-lm {lm}: a decision model writes no instruction; name a chat model"
        )
    if variable is not None and (not variable.isidentifier() or secret.holds(variable)):
        raise SettingsError(
            "--api-key-env names an environment variable, and is never a key itself"
        )
    try:
        read_price(price or "0,0")
    except ValueError:
        raise SettingsError(f"--price {price}: write IN,OUT, as in 0.40,1.60") from None
    refuse_secret(api_base)


def _check_decisions(settings: Settings) -> None:
    """Raise SettingsError for settings of a decision model that only chat models have."""
    names = ("plan", "samples", "temperature", "max_tokens", "reasoning_effort")
    flags = [flag_of(name) for name in names if getattr(settings, name) is not None]
    if settings.reasoning not in ("auto", "none"):
        flags.append("--reasoning")
    if flags:
        raise SettingsError(
            f"{flags[0]} is not for {settings.lm}: a decision model gives probabilities, and "
            "writes no text"
        )
    if settings.optimizer == "gepa" and not settings.proposer_lm:
        raise SettingsError("--optimizer gepa: name the chat model that writes by --proposer-lm")


def on_scale(subject: Subject, settings: Settings) -> Subject:
    """The subject on the scale of the settings; raises SettingsError where a flag is not for it."""
    pairwise = isinstance(subject, Comparison)
    if pairwise != (settings.pairwise is not None):
        right = "--pairwise" if pairwise else "--dimension"
        raise SettingsError(f"{subject.name}: say {right} {settings.subject}")
    if settings.scale is not None and pairwise:
        raise SettingsError("--scale: pairs have votes, and no scale")
    return rescale(subject, settings.scale)
