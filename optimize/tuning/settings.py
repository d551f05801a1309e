"""The settings of a run: how they are read from flags or keywords, and checked."""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, get_args, get_type_hints

import msgspec
from msgspec import Meta

from judges.cli.flags import mapping, read_number
from judges.client import KEY_IN_NAME_PROBLEM, Price, Redactor, find_price, price_of, read_price
from judges.dimension import Comparison, Subject
from judges.labels.flags import split_mapping
from judges.labels.values import Values
from judges.prompt import Reasoning
from judges.protocol import EMBEDDED, OPENAI_ADDRESS, is_decision, is_embedded
from optimize.inputs.flags import RISK, SettingsError, bounds_of, refuse_secret, rescale, values_of
from optimize.statistics.correlations import Level

if TYPE_CHECKING:
    from optimize.inputs.labelled import LabelSource

Objective = Literal["balanced", "spearman"]
Ship = Literal["better", "tuned"]
# Upper bound on every number in the settings; no run has so many calls or dollars.
MAX_NUMBER = 1e15
# The value of `proposer_api_base` for the default address of the proposer's provider.
DEFAULT = "default"

Text = Annotated[str, Meta(min_length=1)]
Count = Annotated[int, Meta(ge=1, le=int(MAX_NUMBER))]
WholeNumber = Annotated[int, Meta(ge=0, le=int(MAX_NUMBER))]
Dollars = Annotated[float, Meta(ge=0, le=MAX_NUMBER)]


class RunModel(NamedTuple):
    """A model of a run: its name, address, key variable, price (None if unknown) and limits."""

    lm: str
    api_base: str | None
    api_key_env: str | None
    price: Price | None
    max_tokens: int | None
    reasoning_effort: str | None


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one run, as `read_settings` makes and checks them.

    `scale` is LOW-HIGH, the scale of both people and the judge, or "any": people's labels then only
    count by their order, and the judge keeps its own scale. The proposer has the judge's address
    unless `proposer_api_base` is another address, or "default" for that of the proposer's provider.
    If `data` is None, the labels are the starter set or are in memory.
    """

    dimension: Text | None = None
    pairwise: Text | None = None
    data: Text | None = None
    map: Mapping[Text, Text | Sequence[Text]] = {}
    values: Values = {}
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
    def labels(self) -> "LabelSource":
        from optimize.inputs.labelled import LabelSource  # --help does not need it

        return LabelSource(
            data=self.data,
            map=self.map,
            values=self.values,
            annotations=self.annotations,
            scale=self.scale,
        )

    @property
    def reasoning_to_try(self) -> tuple[Reasoning, ...]:
        """The other forms of reasoning that the search tries; () if the user chose a form."""
        writes_no_text = is_embedded(self.lm) or is_decision(self.lm)
        if self.reasoning != "auto" or self.optimizer != "rank" or writes_no_text:
            return ()
        default = "brief" if self.pairwise else "none"
        return tuple(reasoning for reasoning in get_args(Reasoning) if reasoning != default)

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
        """The model that writes instructions; the embedded model if there is none.

        By default it is the judge's model, unless that is a decision model, which cannot write. The
        judge's key is used only for the provider and address of the judge.
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
        """The address given for the proposer, else the address for the whole run."""
        if is_decision(self.lm):
            return self.proposer_api_base
        if self.proposer_api_base == DEFAULT:
            return OPENAI_ADDRESS if lm.startswith("openai/") else None
        base = self.proposer_api_base or self.api_base
        if base is None and lm.partition("/")[0] != "azure" and self.lm.startswith("openai/"):
            # The variable is set for the judge, and so it holds for the whole run.
            base = os.environ.get("OPENAI_BASE_URL") or None
        return base


_TYPES: Mapping[str, object] = get_type_hints(Settings, include_extras=True)
# The settings that may change when an unfinished run is started again.
CHANGEABLE = frozenset(
    {"max_calls", "max_cost", "price", "proposer_price", "concurrency", "cache", "ship", "verbose"}
    | {"api_base", "proposer_api_base", "api_key_env", "proposer_api_key_env"}
)


def flag_of(name: str) -> str:
    """The flag of a setting on the command line; "--price proposer=" for `proposer_price`."""
    base_name = name.removeprefix("proposer_")
    if base_name in (name, "lm"):
        return "--" + name.replace("_", "-")
    return f"--{base_name.replace('_', '-')} proposer="


def read_settings(values: Mapping[str, object]) -> Settings:
    """Read and check the settings of a run, from the text of flags or from keyword arguments.

    Raises SettingsError if a setting is unknown, or its value is wrong or contradicts another.
    """
    plain = {name: value for name, value in values.items() if value is not None}
    if unknown := sorted(plain.keys() - _TYPES.keys()):
        raise SettingsError(f"there is no setting {unknown[0]!r}")
    _read_columns(plain)
    plain = {name: _plain_value(name, value) for name, value in plain.items()}
    try:
        settings = msgspec.convert(plain, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise _wrong_value(error, {**plain, **values}) from None
    if settings.data and not settings.subject:
        from optimize.inputs.labelled import only_dimension

        name = only_dimension(settings.labels.outputs())
        settings = msgspec.structs.replace(settings, dimension=name)
    _check_settings(settings)
    return settings


def _read_columns(plain: dict[str, object]) -> None:
    """Set `map`, `values` and `scale` from `map`, which is pairs, a mapping or a mapping file."""
    columns = plain.get("map")
    if isinstance(columns, str | os.PathLike):
        columns = [os.fspath(columns)]
    if isinstance(columns, list):
        columns = mapping([str(word) for word in columns])
    assert isinstance(columns, Mapping | None)
    # A mapping file may have values as well.
    columns, plain["values"] = split_mapping(columns, values_of(plain.get("values", {})))
    # The command `check` writes a scale into mapping files; the setting `scale` overrides it.
    if scale := columns.pop("scale", None):
        plain.setdefault("scale", scale)
    plain["map"] = columns


def _plain_value(name: str, value: object) -> object:
    """Convert a setting's value for its type: paths and pairs to text, numerals to numbers."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, tuple | list) and len(value) == 2:
        # A scale or a price that was given as a pair of numbers.
        return (":" if name == "scale" else ",").join(map(str, value))
    if isinstance(value, str) and {int, float} & {*_leaves(_TYPES[name])}:
        with suppress(ValueError):
            return read_number(value)
    return value


def _wrong_value(error: msgspec.ValidationError, values: Mapping[str, object]) -> SettingsError:
    """The error for a setting with a wrong value; the message begins with the setting's flag."""
    reason, _, path = str(error).replace("`", "").replace(" | null", "").rpartition(" - at $.")
    name = path.partition("[")[0]
    words = [word for word in _leaves(_TYPES[name]) if isinstance(word, str)]
    reason = f"choose from {', '.join(words)}" if words else reason[:1].lower() + reason[1:]
    value = ("" if name.startswith("proposer_m") else " ") + repr(values[name])
    return SettingsError(f"{flag_of(name)}{value}: {reason}")


def _leaves(kind: object) -> list[object]:
    """All types and words in a type such as `Literal["one", "mean"] | int | None`."""
    return [leaf for part in get_args(kind) for leaf in _leaves(part)] or [kind]


def _check_settings(settings: Settings) -> None:
    """Raise SettingsError for errors that the types of the settings cannot find."""
    from optimize.search.optimizer import find_optimizer  # --help does not need it

    if (settings.dimension is None) == (settings.pairwise is None):
        raise SettingsError("give either --dimension NAME or --pairwise NAME")
    bounds_of(settings.scale)
    for prefix in ("", "proposer_"):
        _check_model(prefix, settings)
    if (settings.plan == "mean") != (settings.samples is not None):
        raise SettingsError("--plan mean and --samples N go together: give both or neither")
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
            f"{flag}: the embedded model cannot follow a proposed instruction; name a language "
            f"model with --lm, or leave {flag} out"
        )


def _check_model(prefix: str, settings: Settings) -> None:
    """Raise SettingsError if a name is an API key, or if the price is malformed.

    `prefix` is "" for the judge's settings and "proposer_" for the proposer's.
    """
    names = ("lm", "api_key_env", "price", "api_base")
    lm, variable, price, api_base = (getattr(settings, prefix + name) for name in names)
    redactor = Redactor()
    if lm and redactor.holds(lm):
        raise SettingsError(f"{flag_of(prefix + 'lm')} {KEY_IN_NAME_PROBLEM}")
    if prefix and lm and is_decision(lm):
        raise SettingsError(
            f"--proposer-lm {lm}: a decision model cannot write instructions; name a chat model"
        )
    if variable is not None and (not variable.isidentifier() or redactor.holds(variable)):
        raise SettingsError("--api-key-env takes the name of an environment variable, not a key")
    try:
        read_price(price or "0,0")
    except ValueError:
        raise SettingsError(f"--price {price}: write IN,OUT, as in 0.40,1.60") from None
    refuse_secret(api_base)


def _check_decisions(settings: Settings) -> None:
    """Raise SettingsError if a decision model has settings that only chat models have."""
    names = ("plan", "samples", "temperature", "max_tokens", "reasoning_effort")
    flags = [flag_of(name) for name in names if getattr(settings, name) is not None]
    if settings.reasoning not in ("auto", "none"):
        flags.append("--reasoning")
    if flags:
        raise SettingsError(
            f"{flags[0]} is not for {settings.lm}: a decision model gives probabilities and does "
            "not write text"
        )
    if settings.optimizer == "gepa" and not settings.proposer_lm:
        raise SettingsError(
            "--optimizer gepa: name a chat model that writes instructions with --proposer-lm"
        )


def on_scale(subject: Subject, settings: Settings) -> Subject:
    """The subject on the scale of the settings.

    Raises SettingsError if a flag is not for this kind of subject.
    """
    pairwise = isinstance(subject, Comparison)
    if pairwise != (settings.pairwise is not None):
        right_flag = "--pairwise" if pairwise else "--dimension"
        raise SettingsError(f"{subject.name}: use {right_flag} {settings.subject}")
    if settings.scale is not None and pairwise:
        raise SettingsError("--scale: pairs have votes, not ratings on a scale")
    return rescale(subject, settings.scale)
