"""The settings of a tuning run: read them from flags or keyword arguments, and check them."""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Literal, NamedTuple, get_args, get_type_hints

import msgspec
from msgspec import Meta, ValidationError

from dspy_judges.errors import SettingsError, option_name
from judges.cli.flags import comma_advice, read_number, read_plan
from judges.client import KEY_IN_NAME_PROBLEM, Price, Redactor, find_price, price_of, read_price
from judges.labels.names import judge_name
from judges.labels.values import WordValues
from judges.prompt import Reasoning
from judges.protocol import EMBEDDED, is_decision_model, is_embedded
from optimize.inputs.flags import parse_scale, refuse_key_in_address
from optimize.inputs.labelled import LabelSource, only_dimension
from optimize.search.optimizer import find_optimizer
from optimize.search.problem import DEFAULT_RISK
from optimize.statistics.correlations import Level

Objective = Literal["balanced", "spearman"]
ShipPolicy = Literal["better", "tuned"]
# Upper bound on every number in the settings, which no run needs to exceed.
MAX_NUMBER = 1e15

NonEmptyText = Annotated[str, Meta(min_length=1)]
PositiveInt = Annotated[int, Meta(ge=1, le=int(MAX_NUMBER))]
NonNegativeInt = Annotated[int, Meta(ge=0, le=int(MAX_NUMBER))]
Dollars = Annotated[float, Meta(ge=0, le=MAX_NUMBER)]


class ModelSettings(NamedTuple):
    """The settings with which a run opens one of its models."""

    lm: str
    api_base: str | None
    api_key_env: str | None
    price: Price | None
    max_tokens: int | None
    reasoning_effort: str | None


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of one tuning run, which `read_settings` makes and checks.

    `scale` is LOW-HIGH, or "any" if only the order of the labels counts. If `data` is None, the
    labels are the starter set or are in memory.
    """

    dimension: NonEmptyText | None = None
    pairwise: NonEmptyText | None = None
    data: NonEmptyText | None = None
    map: Mapping[NonEmptyText, NonEmptyText | Sequence[NonEmptyText]] = {}
    values: WordValues = {}
    annotations: NonEmptyText | None = None
    scale: NonEmptyText | None = None
    lm: NonEmptyText = "embedded"
    proposer_lm: NonEmptyText | None = None
    api_base: NonEmptyText | None = None
    proposer_api_base: NonEmptyText | None = None
    api_key_env: NonEmptyText | None = None
    proposer_api_key_env: NonEmptyText | None = None
    price: NonEmptyText | None = None
    proposer_price: NonEmptyText | None = None
    max_tokens: PositiveInt | None = None
    proposer_max_tokens: PositiveInt | None = None
    reasoning_effort: NonEmptyText | None = None
    proposer_reasoning_effort: NonEmptyText | None = None
    plan: Literal["one", "mean", "weighted"] | None = None
    samples: PositiveInt | None = None
    temperature: Annotated[float, Meta(ge=0, le=10)] | None = None
    reasoning: Literal["none", "brief", "steps", "auto"] = "auto"
    concurrency: PositiveInt = 64
    cache: NonEmptyText | None = None
    optimizer: NonEmptyText = "rank"
    objective: Objective | Literal["auto"] = "auto"
    level: Level | Literal["auto"] = "auto"
    max_demos: NonNegativeInt | None = None
    max_calls: PositiveInt | None = None
    max_cost: Dollars | None = None
    risk: Annotated[float, Meta(gt=0, le=0.5)] = DEFAULT_RISK
    ship: ShipPolicy = "better"
    probes: bool = False
    seed: NonNegativeInt = 0
    verbose: bool = False

    @property
    def subject_text(self) -> str:
        """The value of --dimension or --pairwise: NAME, FILE.yaml or NAME=DEFINITION."""
        return self.dimension or self.pairwise or ""

    @property
    def label_source(self) -> LabelSource:
        return LabelSource.of(
            self.data,
            map=self.map,
            values=self.values,
            annotations=self.annotations,
            scale=self.scale,
        )

    @property
    def reasoning_to_try(self) -> tuple[Reasoning, ...]:
        """The forms of reasoning that the search tries beside the default form; often none."""
        writes_text = not is_embedded(self.lm) and not is_decision_model(self.lm)
        if self.reasoning != "auto" or self.optimizer != "rank" or not writes_text:
            return ()
        default_form = "brief" if self.pairwise else "none"
        return tuple(form for form in get_args(Reasoning) if form != default_form)

    @property
    def judge_model(self) -> ModelSettings:
        return ModelSettings(
            lm=self.lm,
            api_base=self.api_base,
            api_key_env=self.api_key_env,
            price=_model_price(self.price, self.lm),
            max_tokens=self.max_tokens,
            reasoning_effort=self.reasoning_effort,
        )

    @property
    def proposer_model(self) -> ModelSettings:
        """The model that writes instructions; the embedded model if no model writes them.

        The default is the judge's model, unless that is a decision model, which cannot write text.
        The judge's key is sent only to the judge's provider and address.
        """
        is_decision = is_decision_model(self.lm)
        lm = self.proposer_lm or (EMBEDDED if is_decision else self.lm)
        api_base = self.proposer_api_base or (None if is_decision else self.api_base)
        has_judges_provider = lm.partition("/")[0] == self.lm.partition("/")[0]
        has_judges_key = has_judges_provider and api_base == self.api_base
        price_text = self.proposer_price or (self.price if lm == self.lm else None)
        return ModelSettings(
            lm=lm,
            api_base=api_base,
            api_key_env=self.proposer_api_key_env or (self.api_key_env if has_judges_key else None),
            price=_model_price(price_text, lm),
            max_tokens=self.proposer_max_tokens,
            reasoning_effort=self.proposer_reasoning_effort,
        )


def _model_price(price_text: str | None, lm: str) -> Price | None:
    """Return the price in the settings, else the known price of the model; None if unknown."""
    return price_of(read_price(price_text)) if price_text else find_price(lm)


# Types as they are called in messages of msgspec, and as they are called in ours.
_WORDS_FOR_TYPES = {"`int`": "a whole number", "`float`": "a number", "`str`": "a text"}
_TYPE_BY_SETTING: Mapping[str, object] = get_type_hints(Settings, include_extras=True)
# These settings suit a judge's model only if the model writes text.
TEXT_SETTINGS = ("plan", "samples", "temperature", "max_tokens", "reasoning_effort", "reasoning")
# The settings that may differ when an unfinished run is started again.
CHANGEABLE_SETTINGS = frozenset(
    {"max_calls", "max_cost", "price", "proposer_price", "concurrency", "cache", "ship", "verbose"}
    | {"api_base", "proposer_api_base", "api_key_env", "proposer_api_key_env"}
)


def read_settings(value_by_setting: Mapping[str, object]) -> Settings:
    """Read a run's settings, which are texts of flags or keyword arguments, and check them."""
    given_values = {name: value for name, value in value_by_setting.items() if value is not None}
    split_values = _split_map(given_values).items()
    plain_values = {name: _plain_value(name, value) for name, value in split_values}
    try:
        settings = msgspec.convert(plain_values, Settings, strict=False)
    except ValidationError as error:
        raise _wrong_value_error(error, {**plain_values, **value_by_setting}) from None
    if settings.data and not settings.subject_text:
        # In the setting `dimension`, `=` begins a definition. But a column's name may have a `=`.
        dimension = only_dimension(settings.label_source.read_outputs())
        dimension = judge_name(dimension) or dimension
        settings = msgspec.structs.replace(settings, dimension=dimension)
    _check_settings(settings)
    return settings


def _split_map(value_by_setting: Mapping[str, object]) -> dict[str, object]:
    """Move the keys `values` and `scale` of the setting `map` to the settings of these names."""
    mapping = value_by_setting.get("map")
    if isinstance(mapping, str | os.PathLike):
        mapping = [os.fspath(mapping)]
    if isinstance(mapping, list):  # the arguments of --map
        mapping = [*map(str, mapping)]
    assert isinstance(mapping, list | Mapping | None)
    source = LabelSource.of(None, map=mapping, values=value_by_setting.get("values", {}))
    columns_and_words = {"map": source.options.mapping, "values": source.options.values}
    return {"scale": source.scale, **value_by_setting, **columns_and_words}


def _plain_value(setting: str, value: object) -> object:
    """Convert a setting's value: paths and pairs of numbers to text, numbers in text to numbers."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, tuple | list) and len(value) == 2:  # a scale or a price
        return (":" if setting == "scale" else ",").join(map(str, value))
    if setting.endswith("price"):
        return str(value)
    if isinstance(value, str) and {int, float} & {*_type_parts(_TYPE_BY_SETTING[setting])}:
        with suppress(ValueError):
            return read_number(value)
    return value


def _wrong_value_error(error: ValidationError, values: Mapping[str, object]) -> SettingsError:
    """Return the SettingsError for a wrong value; its message begins with the setting's name."""
    message, _, value_path = str(error).replace(" | null", "").rpartition(" - at `$.")
    reason, setting = message.partition(", got ")[0], value_path.rstrip("`").partition("[")[0]
    for type_text, words in _WORDS_FOR_TYPES.items():
        reason = reason.replace(type_text, words)
    reason = reason.replace("`", "")
    choices = [part for part in _type_parts(_TYPE_BY_SETTING[setting]) if isinstance(part, str)]
    reason = f"choose from {', '.join(choices)}" if choices else reason[:1].lower() + reason[1:]
    # The repr of a value such as a DataFrame has several lines, which are joined.
    value_text = " ".join(repr(values[setting]).split())[:80]
    reason += comma_advice(value_text) if "number" in reason else ""
    return SettingsError(f"{option_name(setting, value_text)}: {reason}")


def _type_parts(nested_type: object) -> list[object]:
    """Return the parts of a nested type: for `Literal["one"] | int`, the text "one" and int."""
    inner_parts = [part for inner_type in get_args(nested_type) for part in _type_parts(inner_type)]
    return inner_parts or [nested_type]


def _check_settings(settings: Settings) -> None:
    if (settings.dimension is None) == (settings.pairwise is None):
        raise SettingsError("give either --dimension NAME or --pairwise NAME")
    parse_scale(settings.scale)
    _check_model(settings, "")
    _check_model(settings, "proposer_")
    read_plan(settings.plan, settings.samples, settings.temperature)
    find_optimizer(settings.optimizer)
    for name in TEXT_SETTINGS if is_decision_model(settings.lm) else ():
        if getattr(settings, name) not in (None, "auto", "none"):
            raise SettingsError(
                f"{option_name(name)} is not for {settings.lm}: a decision model gives "
                "probabilities and does not write text"
            )
    if is_embedded(settings.lm) and settings.proposer_lm:
        raise SettingsError(
            f"{option_name('proposer_lm')}: the embedded model cannot follow a proposed "
            f"instruction; leave it out, or name a language model with {option_name('lm')}"
        )
    if settings.optimizer == "gepa" and is_embedded(settings.proposer_model.lm):
        raise SettingsError(
            f"{option_name('optimizer', 'gepa')}: name a language model that writes instructions "
            f"with {option_name('lm')} or {option_name('proposer_lm')}"
        )


def _check_model(settings: Settings, prefix: Literal["", "proposer_"]) -> None:
    field_names = ("lm", "api_key_env", "price", "api_base")
    lm, key_variable, price, api_base = (getattr(settings, prefix + name) for name in field_names)
    redactor = Redactor()
    if redactor.has_secret(lm or ""):
        raise SettingsError(f"{option_name(prefix + 'lm')} {KEY_IN_NAME_PROBLEM}")
    if prefix and is_decision_model(lm or ""):
        raise SettingsError(
            f"{option_name('proposer_lm', lm)}: a decision model cannot write instructions; name "
            "a chat model"
        )
    if key_variable and (not key_variable.isidentifier() or redactor.has_secret(key_variable)):
        option = option_name(prefix + "api_key_env")
        raise SettingsError(f"{option} takes the name of an environment variable, not a key")
    try:
        read_price(price or "0,0")
    except ValueError:
        option = option_name(prefix + "price", price)
        raise SettingsError(f"{option}: write IN,OUT, as in 0.40,1.60") from None
    refuse_key_in_address(api_base)
    model = settings.proposer_model if prefix else settings.judge_model
    if settings.max_cost is not None and model.price is None:
        raise SettingsError(
            f"{option_name('max_cost')}: the price of {model.lm} is not known; give "
            f"{option_name(prefix + 'price', 'IN,OUT')}, or {option_name('max_calls')}"
        )
