"""Read and write the file of a frozen judge: a JSON object without code, API keys or addresses.

The whole file is checked before any value of it is used. The messages in the file are sent exactly
as they are.
"""

import hashlib
import json
import re
import textwrap
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Final, Literal, Self

from msgspec import UNSET, Meta, Struct, UnsetType, convert, field, to_builtins
from msgspec.json import decode
from msgspec.structs import asdict

from dspy_judges.bounds import MAX_JUDGE_BRACKETS, MAX_JUDGE_BYTES
from dspy_judges.errors import JudgesError
from judges.client import Redactor
from judges.definition import NonBlankText, Rating
from judges.dimension import Comparison, Dimension, DimensionError, Subject
from judges.prompt import MAX_DEMOS, SLOT_PATTERN, FieldValue, Prompt, utf8_text
from judges.protocol import Message
from judges.questions import AnswerWeights
from judges.scoring import SamplingPlan

FILE_FORMAT: Final = "dspy-judges frozen judge"
FILE_VERSION: Final = 1
# In files of scores, a key tuned_on or a column NAME_tuned_on marks rows that tuned a judge.
TUNED_ON_KEY: Final = "tuned_on"
MAX_MESSAGE_LENGTH = 500
# A mark in a message: DSPy sends the text after the mark as an image or a file, not as a text.
CUSTOM_TYPE_MARK = "<<CUSTOM-TYPE-"
# The allowed roles of a judge's messages, in their order and with a space before each role.
ROLE_ORDER = re.compile(r"( system)?( user assistant)* user")

# The name of a model, a panel's member or a data set, on one line.
ONE_LINE_PATTERN = r"^[^\s\x00-\x1f]+(?: [^\s\x00-\x1f]+)*\Z"
OneLineName = Annotated[str, Meta(max_length=1000, pattern=ONE_LINE_PATTERN)]
JsonObject = dict[str, object]


class FrozenJudgeError(JudgesError, ValueError):
    """A file is not a frozen judge or was changed by hand, or a judge cannot be saved."""


class _StrictStruct(Struct, kw_only=True, forbid_unknown_fields=True):
    """A JSON object in a judge's file; keys that the class does not declare are refused."""


class SubjectEntry(_StrictStruct):
    """What a judge judges: a dimension with anchors, or a comparison with a candidate."""

    name: str
    definition: NonBlankText
    inputs: dict[str, str]
    instruction: NonBlankText
    source: str
    anchors: dict[Rating, str] | UnsetType = UNSET
    words: tuple[str, str] | UnsetType = UNSET
    candidate: str | UnsetType = UNSET

    @classmethod
    def from_subject(cls, subject: Subject) -> Self:
        value_by_key = {key: getattr(subject, key, None) for key in cls.__struct_fields__}
        return cls(**{key: value for key, value in value_by_key.items() if value is not None})

    def to_subject(self) -> Subject:
        value_by_key = {key: value for key, value in asdict(self).items() if value is not UNSET}
        has_anchors, is_comparison = "anchors" in value_by_key, "candidate" in value_by_key
        if has_anchors == is_comparison or (is_comparison and "words" in value_by_key):
            raise DimensionError(f"{self.name}: a judge has anchors or a candidate, and not both")
        return Comparison(**value_by_key) if is_comparison else Dimension(**value_by_key)


class _TuningLabels(Struct):
    name: OneLineName
    is_constructed: bool = field(default=False, name="constructed")


class _AnswerLoss(Struct):
    name: str
    loss: float | None = None  # how far the goal of tuning falls without the answer


_Count = Annotated[int, Meta(ge=0, le=2**31)]
_ErrorTableRow = Annotated[list[_Count], Meta(min_length=5, max_length=5)]


class Provenance(Struct, kw_only=True):
    """What a judge's file says about the judge's tuning: the keys that a loaded judge uses.

    `shipped_judge` is "seed" if the untuned judge was shipped. `error_table` counts the judge's
    errors on test labels (see `judges.true_rate.count_errors`). All other keys are for people.
    """

    tuning_labels: _TuningLabels | UnsetType = field(default=UNSET, name="data")
    optimizer: OneLineName = "?"
    shipped_judge: OneLineName | None = field(default=None, name="shipped")
    endpoint: str | None = None
    tuned_row_digests: list[str] = field(default_factory=list, name="tuned_on")
    answer_losses: list[_AnswerLoss] = field(default_factory=list, name="answers")
    error_table: list[_ErrorTableRow] = field(default_factory=list, name="tested")

    @property
    def is_untuned(self) -> bool:
        return self.shipped_judge == "seed"


def texts_digest(texts: Mapping[str, str]) -> str:
    """Return 16 hex digits that identify texts, regardless of their whitespace and order."""
    joined_texts = "\0".join(sorted(" ".join(text.split()) for text in texts.values()))
    return hashlib.sha256(joined_texts.encode(errors="surrogatepass")).hexdigest()[:16]


class _FileHeader(_StrictStruct, kw_only=True):
    """The keys that the files of judges and of panels share, except the digest."""

    format: Literal["dspy-judges frozen judge"] = FILE_FORMAT
    version: Literal[1] = FILE_VERSION
    subject: SubjectEntry
    provenance: JsonObject | None

    def __post_init__(self) -> None:
        if self.provenance is not None:
            convert(self.provenance, Provenance)  # raises ValueError if it is malformed


class JudgeFile(_FileHeader, kw_only=True):
    """The file of a judge; `threshold` and `weights` may be left out.

    The messages are plain text, and the last one has a slot for each text to judge.
    """

    messages: Annotated[list[Message], Meta(min_length=1, max_length=2 + 2 * MAX_DEMOS)]
    prompt: Prompt = field(name="program")
    sampling: SamplingPlan
    lm: OneLineName
    threshold: Annotated[float, Meta(gt=0, le=1)] | UnsetType = UNSET
    weights: AnswerWeights | UnsetType = UNSET

    def __post_init__(self) -> None:
        super().__post_init__()
        text_names = self.subject.to_subject().texts
        role_sequence = "".join(f" {message['role']}" for message in self.messages)
        slot_names = sorted(SLOT_PATTERN.findall(self.messages[-1]["content"]))
        if not ROLE_ORDER.fullmatch(role_sequence) or slot_names != sorted(text_names):
            raise FrozenJudgeError(
                "its messages must be: a system message, a user and an assistant message for each "
                "demonstration, and a user message with one {{slot}} for each of "
                f"{', '.join(text_names)}"
            )
        if any(CUSTOM_TYPE_MARK in message["content"] for message in self.messages):
            mark_phrase = f"the mark {CUSTOM_TYPE_MARK!r}, which DSPy does not send as text"
            raise FrozenJudgeError(f"its messages contain {mark_phrase}")


class MemberEntry(_StrictStruct):
    """A panel's member: the numbers of `judges.panel.Member`, and the member's whole file."""

    name: OneLineName
    weight: float
    slope: float
    intercept: float
    judge: JudgeFile


class PanelFile(_FileHeader, kw_only=True):
    members: list[MemberEntry]


AnyJudgeFile = JudgeFile | PanelFile


def dumps(judge_file: AnyJudgeFile) -> str:
    """Return the JSON text of a judge's file; raises FrozenJudgeError if it contains an API key."""
    judge_json = to_builtins(judge_file, str_keys=True)
    judge_json["digest"] = json_digest(judge_json)
    json_text = json.dumps(judge_json, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    if Redactor().has_secret(json_text):
        problem = "its texts hold the value of an environment variable *_KEY, *_TOKEN or *_SECRET"
        raise FrozenJudgeError(f"{problem}; take it out of the definition or the labels")
    loads(json_text.encode("utf-8"))  # raises an error if the text could not be read back
    return json_text


def loads(json_bytes: bytes) -> AnyJudgeFile:
    """Read and check a frozen judge's file; raises FrozenJudgeError for any other content."""
    n_brackets = json_bytes.count(b"[") + json_bytes.count(b"{")
    if len(json_bytes) > MAX_JUDGE_BYTES or n_brackets > MAX_JUDGE_BRACKETS:
        raise FrozenJudgeError(f"over {MAX_JUDGE_BYTES:,} bytes or {MAX_JUDGE_BRACKETS:,} brackets")
    try:
        judge_json = decode(json_bytes, type=JsonObject)
        if (judge_json.get("format"), judge_json.get("version")) != (FILE_FORMAT, FILE_VERSION):
            raise FrozenJudgeError(f"not a {FILE_FORMAT} of version {FILE_VERSION}")
        if judge_json.pop("digest", None) != json_digest(judge_json):
            raise FrozenJudgeError("the digest does not match: the file was changed by hand")
        file_class: type[AnyJudgeFile] = PanelFile if "members" in judge_json else JudgeFile
        return convert(judge_json, file_class, str_keys=True)
    except FrozenJudgeError:
        raise
    except RecursionError as error:
        raise FrozenJudgeError("not a frozen judge: nested too deeply") from error
    except ValueError as error:  # raised by msgspec, or for a wrong subject or plan
        raise FrozenJudgeError(f"not a frozen judge: {one_line_message(error)}") from error


def json_digest(json_object: Mapping[str, object]) -> str:
    """Return the SHA-256 hash of an object as canonical JSON."""
    canonical_text = json.dumps(json_object, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return f"sha256:{hashlib.sha256(canonical_text.encode('ascii')).hexdigest()}"


def can_be_saved(prompt: Prompt, demo: Mapping[str, FieldValue], redactor: Redactor) -> bool:
    """Return whether a judge's file may hold the demo: valid Unicode that has no API key."""
    messages = replace(prompt, demos=(demo,)).template()
    json_text = json.dumps([demo, messages], ensure_ascii=False)
    return utf8_text(json_text) == json_text and not redactor.has_secret(json_text)


def one_line_message(error: Exception) -> str:
    """Return an error's message on one line; a long message is cut, since it may quote a file."""
    message = getattr(error, "strerror", None) or str(error)  # `strerror` leaves out the path
    return textwrap.shorten(message, MAX_MESSAGE_LENGTH, placeholder="...")


def to_json_data(value: object) -> Any:
    """Return a value as JSON data: NumPy scalars become numbers; NaN and infinity become None."""

    def number_or_text(value: Any) -> object:
        return value.item() if hasattr(value, "item") else str(value)

    json_text = json.dumps(value, ensure_ascii=False, default=number_or_text)
    return json.loads(utf8_text(json_text), parse_constant=lambda name: None)
