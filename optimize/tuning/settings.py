"""A run's settings, checked; what is judged, and on which scale."""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any, Literal, get_args, get_type_hints

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
    def proposer(self) -> tuple[str, str | None]:
        """The proposer's model, and the endpoint that was given for it or for the whole run.

        A decision model writes no instructions. Unless a proposer is named, the embedded model is
        it, which writes none either.
        """
        if is_decision(self.lm):
            return self.proposer_lm or EMBEDDED, self.proposer_api_base
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
        lm, api_base = self.proposer
        same = (lm.partition("/")[0], api_base) == (self.lm.partition("/")[0], self.api_base)
        return self.proposer_api_key_env or (self.api_key_env if same else None)

    @property
    def prices(self) -> tuple[Price | None, Price | None]:
        """Of the judge and of the proposer: the user's, else the table's; None: not known."""
        judge = price_of(read_price(self.price)) if self.price else find_price(self.lm)
        lm = self.proposer[0]
        if self.proposer_price:
            return judge, price_of(read_price(self.proposer_price))
        return judge, judge if lm == self.lm else find_price(lm)


_TYPES: Mapping[str, Any] = get_type_hints(Settings, include_extras=True)
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
        how["texts"] = ()
        plain["dimension"] = only_dimension(read_labels(plain["data"], **how))
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


def _plain_value(name: str, value: Any) -> Any:
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


def _wrong_value(error: msgspec.ValidationError, values: Mapping[str, Any]) -> SettingsError:
    """What is wrong with a value, by its flag."""
    reason, _, path = str(error).replace("`", "").replace(" | null", "").rpartition(" - at $.")
    name = path.partition("[")[0]
    words = [word for word in _leaves(_TYPES[name]) if isinstance(word, str)]
    reason = f"choose from {', '.join(words)}" if words else reason[:1].lower() + reason[1:]
    value = ("" if name.startswith("proposer_m") else " ") + repr(values[name])
    return SettingsError(f"{flag_of(name)}{value}: {reason}")


def _leaves(kind: Any) -> list[Any]:
    """The types and words that a setting may be."""
    return [leaf for part in get_args(kind) for leaf in _leaves(part)] or [kind]


def _check(settings: Settings) -> None:
    """Raise SettingsError for what a setting's type does not say."""
    from optimize.search.optimizer import find_optimizer  # which a help text does without

    if (settings.dimension is None) == (settings.pairwise is None):
        raise SettingsError("give --dimension NAME or --pairwise NAME, one of the two")
    if settings.scale is not None:
        bounds_of(settings.scale)
    secret = Redactor()
    for flag, lm in (("--lm", settings.lm), ("--proposer-lm", settings.proposer_lm)):
        if lm and secret.holds(lm):
            raise SettingsError(f"{flag} {KEY_FOR_NAME}")
    for variable in (settings.api_key_env, settings.proposer_api_key_env):
        if variable is not None and (not variable.isidentifier() or secret.holds(variable)):
            raise SettingsError(
                "--api-key-env names an environment variable, and is never a key itself"
            )
    for price in filter(None, (settings.price, settings.proposer_price)):
        try:
            read_price(price)
        except ValueError:
            raise SettingsError(f"--price {price}: write IN,OUT, as in 0.40,1.60") from None
    refuse_secret(settings.api_base)
    refuse_secret(settings.proposer_api_base)
    if (settings.plan == "mean") != (settings.samples is not None):
        raise SettingsError("--plan mean and --samples N are given together")
    find_optimizer(settings.optimizer)
    _check_decisions(settings)
    gepa = "--optimizer gepa" if settings.optimizer == "gepa" else None
    flag_given = gepa or ("--proposer-lm" if settings.proposer_lm else None)
    if flag_given and is_embedded(settings.lm):
        raise SettingsError(
            f"{flag_given}: the embedded model follows no proposed instruction; name a language "
            f"model by --lm, or leave {flag_given} out"
        )


def _check_decisions(settings: Settings) -> None:
    """Raise SettingsError for a decision model with settings that only chat models have."""
    if settings.proposer_lm and is_decision(settings.proposer_lm):
        raise SettingsError(
            f"--proposer-lm {settings.proposer_lm}: a decision model writes no instruction; name a "
            "chat model"
        )
    if not is_decision(settings.lm):
        return
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
