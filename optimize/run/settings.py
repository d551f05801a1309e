"""A run's settings: flags over a YAML file over a resumed run's over defaults; what is judged.

A setting is declared once, as a field of Settings: the flag, the key in a YAML file, the argument
of tune() and the line of config.json follow from it.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import Field, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, TypedDict, get_args, get_type_hints

from data.flags import read_bounds, read_mapping, read_values
from data.tables.formats import READ_ENDINGS
from judges.cli.arguments import API_KEY_ENV, CACHE, MAX_TOKENS, PRICE, REASONING_EFFORT
from judges.define import is_python, read_subject
from judges.dimension import MAX_RATINGS, Comparison, Dimension, Subject
from judges.errors import UsageError
from judges.inference.progress import QUIET
from judges.models.cache import NO_CACHE
from judges.models.prices import Price, find_price, price_of, read_price
from judges.models.providers import THROUGH_DSPY, endpoint_of
from judges.models.redaction import KEY_FOR_NAME, Redactor, holds_secret
from judges.models.registry import is_plain, quoted
from judges.prompt import Reasoning
from judges.protocol import OPENAI, is_embedded
from judges.yaml_text import YamlTextError, read_yaml
from optimize.search.objective import LEVELS, Level
from optimize.search.optimizers import OPTIMIZERS, OptimizerName

SPLITS = ("document", "system", "both")
# Past any number of calls or dollars.
MAX_NUMBER = 1e15
MAX_BYTES = 100_000
# Labels on any scale: only their order counts.
ANY_SCALE = "any"
# For --proposer-api-base: the provider's own.
DEFAULT = "default"
# What a run folder never chooses, since it would take texts and keys to a host of its choice.
ADDRESSES = ("api_base", "proposer_api_base")
KEY_VARIABLES = ("api_key_env", "proposer_api_key_env")


class SettingsError(UsageError):
    """A flag or a configuration file makes no sense; the message says which and why."""


Limit = tuple[str, Callable[[float], bool]]
POSITIVE: Limit = ("above 0", lambda value: value > 0)
NOT_NEGATIVE: Limit = ("0 or more", lambda value: value >= 0)
A_TEMPERATURE: Limit = ("within 0 and 10", lambda value: 0 <= value <= 10)


def setting(
    default: Any,
    metavar: str,
    help_text: str,
    *,
    choices: Iterable[str] = (),
    limit: Limit | None = None,
    free: bool = False,
) -> Any:
    """Declare a setting; the kind of its value is the field's type, None meaning "left out".

    What is `free` may differ when a run is resumed: a larger budget makes further trials, and pays
    for none again.
    """
    metadata = {
        "metavar": metavar,
        "help": help_text,
        "choices": tuple(choices),
        "limit": limit,
        "free": free,
    }
    if isinstance(default, dict):
        return field(default_factory=dict, metadata=metadata)
    return field(default=default, metadata=metadata)


# The parts of --help, each with its first setting.
GROUPS = {
    "dimension": "what is judged",
    "lm": "who judges",
    "optimizer": "how it is tuned",
    "out": "the run",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One run. `split` None: by document and system where there are systems enough.

    `scale` is LOW-HIGH, for people and judge, or "any": the judge keeps its own. The proposer is
    asked where the judge is, unless `proposer_api_base` names an address, or "default": its
    provider's own.
    """

    dimension: str | None = setting(
        None, "NAME", "a catalogue name, FILE.yaml[:name] or FILE.py:NAME"
    )
    pairwise: str | None = setting(None, "NAME", "the same, for a comparison of two outputs")
    data: str | None = setting(
        None,
        "FILE",
        f"human labels: {READ_ENDINGS}, or hf:owner/name (the starter set, whose labels are "
        "constructed)",
    )
    map: Mapping[str, str | Sequence[str]] = setting(
        {},
        "NAME=COLUMN",
        "read NAME (a dimension, a text, id, group, system, annotator) from this column; "
        "repeatable; a dimension given several (NAME=A,B) has an annotator in each; or a mapping "
        "file (FILE.yaml)",
    )
    values: Mapping[str, float | str | None] = setting(
        {},
        "WORD=NUMBER,...",
        "what words count, as in up=1,down=0, n/a= (nothing) or, of pairs, left=A,right=B",
    )
    scale: str | None = setting(
        None,
        "LOW-HIGH",
        "the scale people were given, as in 0-100; the judge then rates on it too. 'any': the "
        "judge keeps its own, and only the order of the labels counts",
    )
    lm: str = setting(
        "embedded", "MODEL", "embedded (the default), openai/NAME, azure/NAME, any of DSPy's"
    )
    api_base: str | None = setting(None, "URL", "an OpenAI-compatible server (OPENAI_BASE_URL)")
    proposer_lm: str | None = setting(
        None, "MODEL", "who writes new instructions (the judge's model)"
    )
    proposer_api_base: str | None = setting(
        None,
        "URL",
        "where the proposer is asked, or default: its provider's own (where the judge is)",
    )
    max_tokens: int | None = setting(None, "N", MAX_TOKENS, limit=POSITIVE)
    reasoning_effort: str | None = setting(None, "LEVEL", REASONING_EFFORT)
    api_key_env: str | None = setting(None, "NAME", API_KEY_ENV, free=True)
    price: str | None = setting(None, "IN,OUT", PRICE, free=True)
    proposer_max_tokens: int | None = setting(
        None, "N", "of a proposal (2,048, of models known to reason 16,384)", limit=POSITIVE
    )
    proposer_reasoning_effort: str | None = setting(
        None, "LEVEL", "of the proposer (the model's own)"
    )
    proposer_api_key_env: str | None = setting(
        None, "NAME", "of the proposer (the judge's, where both are asked at one place)", free=True
    )
    proposer_price: str | None = setting(
        None, "IN,OUT", "of the proposer (the judge's, where it is the same model)", free=True
    )
    plan: Literal["auto", "one", "mean", "weighted"] | None = setting(
        None,
        "PLAN",
        "one, mean (of --samples) or weighted; auto tries them on dev and takes the cheapest that "
        "is within a standard error of the best",
        choices=("auto", "one", "mean", "weighted"),
    )
    samples: int | None = setting(None, "N", "a score is the mean of N replies (1)", limit=POSITIVE)
    temperature: float | None = setting(
        None, "T", "of a reply (0; with --samples 1)", limit=A_TEMPERATURE
    )
    weighted: bool = setting(
        False, "", "a score is the ratings weighted by probability (the embedded model's default)"
    )
    probes: bool = setting(
        False,
        "",
        "attack the shipped judge, for the report; costs calls (the embedded model: always)",
    )
    cache: str | None = setting(None, "DIR", CACHE, free=True)
    concurrency: int = setting(64, "N", "requests in flight (64)", limit=POSITIVE, free=True)
    optimizer: OptimizerName = setting(  # noqa: RUF009
        "rank", "NAME", f"{', '.join(OPTIMIZERS)} (rank)", choices=OPTIMIZERS
    )
    level: Level | Literal["auto"] = setting(  # noqa: RUF009 - a dataclass field, as all of these
        "auto",
        "LEVEL",
        f"of rho: {', '.join(LEVELS)} or auto: summary where documents have three outputs or more "
        "(auto)",
        choices=("auto", *LEVELS),
    )
    split: Literal["document", "system", "both"] | None = setting(
        None,
        "BY",
        f"{', '.join(SPLITS)} (both where there are 8 systems, else document)",
        choices=SPLITS,
    )
    reasoning: Literal["none", "brief", "steps", "auto"] = setting(
        "auto",
        "FORM",
        "what the judge writes before its answer: none, brief (a sentence) or steps; auto: the "
        "search also tries others than its own where replies cost money (auto)",
        choices=("none", "brief", "steps", "auto"),
    )
    max_calls: int | None = setting(
        None,
        "N",
        "most calls to the judge, search and measurement together (of free models 20,000, or four "
        "times the outputs; of others as many as the dollars pay for)",
        limit=POSITIVE,
        free=True,
    )
    max_cost: float | None = setting(
        None,
        "USD",
        "most dollars, both models together (what so many labels are worth, as --dry-run says)",
        limit=POSITIVE,
        free=True,
    )
    max_demos: int | None = setting(
        None,
        "N",
        "most labelled examples that a tuned judge may show; 0: none (as many as pay)",
        limit=NOT_NEGATIVE,
    )
    prefer: Literal["cost", "accuracy"] = setting(
        "cost",
        "WHAT",
        "of judges within a standard error of the best on dev, ship the cheapest to use (cost, "
        "the default) or the best (accuracy); for models that cost money",
        choices=("cost", "accuracy"),
    )
    seed: int = setting(0, "N", "for every random draw (0)", limit=NOT_NEGATIVE)
    out: str | None = setting(None, "DIR", "the run's folder (runs/NAME-001, then -002)", free=True)
    resume: bool = setting(
        False, "", "go on with a run that was stopped; pays nothing twice", free=True
    )
    dry_run: bool = setting(
        False,
        "",
        "say what the run would take (calls, tokens, dollars, time), and stop: nothing is asked or "
        "written",
        free=True,
    )
    keep_going: bool = setting(
        False, "", "go on though almost all of the first 48 judgements have failed", free=True
    )
    json: bool = setting(False, "", "print summary.json in place of the table", free=True)
    verbose: bool = setting(
        False,
        "",
        "say each retry, failed request and rate limit on stderr, and where an error arose",
        free=True,
    )
    quiet: bool = setting(False, "", QUIET, free=True)

    def __post_init__(self) -> None:
        if (self.dimension is None) == (self.pairwise is None):
            raise SettingsError("give --dimension NAME or --pairwise NAME, one of the two")
        for declared in fields(self):
            _check(declared, getattr(self, declared.name))
        if self.scale is not None:
            bounds_of(self.scale)
        for flag, lm in (("--lm", self.lm), ("--proposer-lm", self.proposer_lm)):
            if lm and Redactor().holds(lm):
                raise SettingsError(f"{flag} {KEY_FOR_NAME}")
        for name in KEY_VARIABLES:
            check_key_variable(getattr(self, name), flag_of(name))
        for name in ("price", "proposer_price"):
            check_price(getattr(self, name), flag_of(name))
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
    def seed_reasoning(self) -> Reasoning | None:
        """What the seed writes before its answer; None: what its dimension asks for."""
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
        return asdict(self)


class TuneOptions(TypedDict, total=False):
    """The settings that `tune` takes by keyword, with the types that a user may give them.

    A test holds it to the fields of Settings.
    """

    map: Mapping[str, str | Sequence[str]] | str
    values: Mapping[str, float | str | None]
    scale: str | tuple[float, float] | None
    lm: str | None
    api_base: str | None
    proposer_lm: str | None
    proposer_api_base: str | None
    max_tokens: int | None
    reasoning_effort: str | None
    api_key_env: str | None
    price: str | tuple[float, float] | None
    proposer_max_tokens: int | None
    proposer_reasoning_effort: str | None
    proposer_api_key_env: str | None
    proposer_price: str | tuple[float, float] | None
    plan: Literal["auto", "one", "mean", "weighted"] | None
    samples: int | None
    temperature: float | None
    weighted: bool
    probes: bool
    cache: str | os.PathLike[str] | None
    concurrency: int
    optimizer: OptimizerName
    level: Level | Literal["auto"]
    split: Literal["document", "system", "both"] | None
    reasoning: Literal["none", "brief", "steps", "auto"]
    max_calls: int | None
    max_cost: float | None
    max_demos: int | None
    prefer: Literal["cost", "accuracy"]
    seed: int
    keep_going: bool
    verbose: bool


SETTINGS: Mapping[str, Field[Any]] = {declared.name: declared for declared in fields(Settings)}
_TYPES = get_type_hints(Settings)
_EXPECTED = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a name",
    dict: "our names and their columns, as in {relevance: my_column}",
}


def kind_of(name: str) -> type:
    """The setting's kind of value: bool, int, float, dict or str."""
    if name in ("map", "values"):
        return dict
    types = (_TYPES[name], *get_args(_TYPES[name]))
    return next((kind for kind in (bool, int, float) if kind in types), str)


def flag_of(name: str) -> str:
    return "--" + name.replace("_", "-")


def _check(declared: Field[Any], value: Any) -> None:
    """Values from YAML and from Python may be of any kind; those from flags are right."""
    if value is None and declared.default is None:
        return
    flag, kind = flag_of(declared.name), kind_of(declared.name)
    if declared.name == "values":
        values_of(value)
        return
    choices, limit = declared.metadata["choices"], declared.metadata["limit"]
    if not _is_of_kind(value, kind):
        raise SettingsError(f"{flag} {value!r}: expected {_EXPECTED[kind]}")
    if choices and value not in choices:
        raise SettingsError(f"{flag} {value!r}: choose from {', '.join(choices)}")
    if limit is not None and not limit[1](value):
        raise SettingsError(f"{flag} {value:g}: must be {limit[0]}")


def _is_of_kind(value: Any, kind: type) -> bool:
    """Whether a value is of a setting's type: finite where a number, not empty where a text."""
    if kind is dict:
        return isinstance(value, Mapping) and all(
            isinstance(column, str) and column
            for name, columns in value.items()
            for column in (name, *(columns if isinstance(columns, list | tuple) else (columns,)))
            if not (name == "values" and isinstance(columns, Mapping))
        )
    if kind in (bool, str):
        return isinstance(value, kind) and value != ""
    kinds = (int,) if kind is int else (int, float)
    # Compared, since an endless integer is no float.
    return (
        isinstance(value, kinds)
        and not isinstance(value, bool)
        and -MAX_NUMBER <= value <= MAX_NUMBER
    )


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


def with_config(flags: Mapping[str, Any]) -> dict[str, Any]:
    """The flags, over those that the file of `config` gives; raises SettingsError."""
    chosen = _normalized(flags)
    file = chosen.pop("config", None)
    if not file:
        return chosen
    from_file = _read(file)
    if unknown := sorted(from_file.keys() - SETTINGS.keys()):
        raise SettingsError(f"{file}: unknown setting {unknown[0]!r}")
    return {**from_file, **chosen}


def check_key_variable(name: str | None, flag: str) -> None:
    """Raise SettingsError for a key in the place of the name of its variable; never repeats it."""
    if name is not None and (not name.isidentifier() or Redactor().holds(name)):
        raise SettingsError(f"{flag} names an environment variable, and is never a key itself")


def check_price(text: str | None, flag: str) -> None:
    """Raise SettingsError for what is no price."""
    if text is None:
        return
    try:
        read_price(text)
    except ValueError:
        raise SettingsError(f"{flag} {text}: write IN,OUT, as in 0.40,1.60") from None


def resolve(
    flags: Mapping[str, Any],
    saved: Mapping[str, Any] | None = None,
    endpoints: Mapping[str, str] | None = None,
) -> Settings:
    """Flags beat the YAML file, which beats what a resumed run was told; raises SettingsError.

    `endpoints` are those of the run to resume. Its folder may be a stranger's, so what it names
    and what would choose a host or run a program has to be given again.
    """
    chosen = with_config(flags)
    if saved is not None:
        _check_same(saved, chosen)
        _check_repeated_on_resume(saved, chosen)
    if saved:
        # An opt-out holds; a folder of replies is chosen by no run folder, as no address is.
        own = {"cache"} if saved.get("cache") != NO_CACHE else set()
        merged = {**saved, **dict.fromkeys({*ADDRESSES, *own}), **chosen}
    else:
        merged = dict(chosen)
    if unknown := sorted(merged.keys() - SETTINGS.keys()):
        raise SettingsError(f"unknown setting {unknown[0]!r}")
    settings = Settings(**merged)
    if saved is not None:
        _check_endpoints(settings, endpoints or Settings(**{**saved, **chosen}).endpoints)
    return settings


def _check_repeated_on_resume(saved: Mapping[str, Any], chosen: Mapping[str, Any]) -> None:
    """A model that is no provider's own, a key, a data set of the hub, and code: only as flags."""
    for name, value in saved.items():
        if name in chosen or not isinstance(value, str):
            continue
        must_repeat = (
            (name in ("lm", "proposer_lm") and not is_plain(value))
            or name in KEY_VARIABLES
            or (name == "data" and value.startswith("hf:"))
            or (name in ("dimension", "pairwise") and is_python(value))
        )
        if must_repeat:
            raise SettingsError(
                f"the run to resume names {flag_of(name)} {quoted(value)}, which its folder alone "
                f"cannot choose: give it again, as in {flag_of(name)} {quoted(value)}"
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
    """NAME=COLUMN pairs as a mapping, and pairs of numbers as a scale and as prices."""
    plain = dict(settings)
    if isinstance(plain.get("map"), list):
        plain["map"] = mapping([str(pair) for pair in plain["map"]])
    elif isinstance(plain.get("map"), str | os.PathLike):
        plain["map"] = mapping([os.fspath(plain["map"])])
    if plain.get("values") is not None:
        plain["values"] = values_of(plain["values"])
    scale = plain.get("scale")
    if isinstance(scale, list | tuple) and len(scale) == 2:
        plain["scale"] = f"{scale[0]}:{scale[1]}"
    if isinstance(cache := plain.get("cache"), os.PathLike):
        plain["cache"] = os.fspath(cache)
    for name in ("price", "proposer_price"):
        if isinstance(pair := plain.get(name), list | tuple):
            plain[name] = ",".join(map(str, pair))
    return plain


def _check_same(saved: Mapping[str, Any], chosen: Mapping[str, Any]) -> None:
    """Raise SettingsError where a flag differs from the run to resume and may not."""
    for name, value in chosen.items():
        free = name in ADDRESSES or (name in SETTINGS and SETTINGS[name].metadata["free"])
        if not free and name in saved and saved[name] != value:
            raise SettingsError(
                f"{flag_of(name)} {value}: the run to resume was made with {saved[name]}; "
                "leave the flag out, or start another run"
            )


def _read(file: str) -> dict[str, Any]:
    """The settings of a YAML file by name; raises SettingsError."""
    try:
        read = read_yaml(Path(file), max_bytes=MAX_BYTES)
    except (OSError, YamlTextError) as error:
        raise SettingsError(f"{file}: cannot be read: {' '.join(str(error).split())}") from error
    if not isinstance(read, dict) or not all(isinstance(name, str) for name in read):
        raise SettingsError(f"{file}: expected settings, one `name: value` a line")
    return _normalized({name.replace("-", "_"): value for name, value in read.items()})


def mapping(words: Sequence[str]) -> dict[str, Any]:
    """Read NAME=COLUMN pairs and mapping files; raises SettingsError."""
    try:
        return read_mapping(words)
    except ValueError as error:
        raise SettingsError(f"--map {error}") from None


def values_of(values: Any) -> dict[str, Any]:
    """Words and what they count, from --values or a mapping; raises SettingsError."""
    if not isinstance(values, Mapping | list | tuple):
        raise SettingsError(f"--values {values!r}: expected words and numbers, as in {{good: 3}}")
    try:
        return {**read_values(values)}
    except ValueError as error:
        raise SettingsError(f"--values {error}") from None


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
