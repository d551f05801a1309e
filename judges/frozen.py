"""Read and write the file of a frozen judge: a JSON document without code, API keys or addresses.

The whole file is checked before any part of it is used. The messages in the file are sent exactly
as they are.
"""

import hashlib
import json
import re
import textwrap
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from msgspec import UNSET, Meta, Struct, UnsetType, convert, to_builtins
from msgspec.json import decode
from msgspec.structs import asdict

from dspy_judges.bounds import MAX_JUDGE_BRACKETS, MAX_JUDGE_BYTES
from dspy_judges.errors import JudgesError
from dspy_judges.files import read_bytes
from judges.client import Redactor
from judges.definition import Identifier, NonBlankText, Rating
from judges.dimension import Comparison, Dimension, DimensionError, Subject
from judges.prompt import MAX_DEMOS, SLOT_PATTERN, Prompt, Value, utf8_text
from judges.protocol import Message
from judges.questions import AnswerWeights
from judges.scoring import SamplingPlan

FILE_FORMAT: Final = "dspy-judges frozen judge"
FILE_VERSION: Final = 1
# The mark of rows that a judge was tuned on: a key, or the end of a column, in files of scores.
TUNED_ON: Final = "tuned_on"
MAX_MEMBERS = 64
# The most bytes of all demonstrations in a file. The other parts of the file need bytes, too.
MAX_DEMO_BYTES = 16_000_000
MAX_MESSAGE_LENGTH = 500
# DSPy sends what follows this mark in a message as an image, a file or the like.
CUSTOM_TYPE_MARK = "<<CUSTOM-TYPE-"
# The order in which the roles of a judge's messages may occur, each role after a space.
ROLE_ORDER = re.compile(r"( system)?( user assistant)* user")

# The name of a model, a panel's member or a data set, on one line.
Name = Annotated[str, Meta(max_length=1000, pattern=r"^[^\s\x00-\x1f]+(?: [^\s\x00-\x1f]+)*\Z")]
JsonObject = dict[str, object]


class FrozenJudgeError(JudgesError, ValueError):
    """A file is not a frozen judge in its original state, or a judge cannot be saved in a file."""


class _StrictStruct(Struct, kw_only=True, forbid_unknown_fields=True):
    """A JSON object of the file; keys that are not declared here are refused."""


class SubjectEntry(_StrictStruct):
    """The subject as JSON; a dimension has anchors and maybe words, a comparison a candidate."""

    name: Identifier
    definition: NonBlankText
    inputs: dict[Identifier, str]
    instruction: NonBlankText
    source: str
    anchors: dict[Rating, str] | UnsetType = UNSET
    words: tuple[str, str] | UnsetType = UNSET
    candidate: Identifier | UnsetType = UNSET

    @classmethod
    def of(cls, subject: Subject) -> Self:
        values = {name: getattr(subject, name, None) for name in cls.__struct_fields__}
        return cls(**{name: value for name, value in values.items() if value is not None})

    def read(self) -> Subject:
        entries = {name: value for name, value in asdict(self).items() if value is not UNSET}
        is_comparison = "candidate" in entries
        if is_comparison == ("anchors" in entries) or (is_comparison and "words" in entries):
            raise DimensionError(f"{self.name}: needs anchors or a candidate, and not both")
        return Comparison(**entries) if is_comparison else Dimension(**entries)


class _DataEntry(Struct):
    name: Name
    constructed: bool = False


class _QuestionLoss(Struct):
    name: Identifier
    loss: float | None = None  # how far the objective falls without the question


_ErrorCount = Annotated[int, Meta(ge=0, le=2**31)]


class Provenance(Struct, kw_only=True):
    """The entries on a judge's tuning that a loaded judge uses.

    The file may have other entries, with any JSON data, which only people read.
    """

    data: _DataEntry | UnsetType = UNSET
    optimizer: Name = "?"
    shipped: Name | None = None
    endpoint: str | None = None
    tuned_on: list[str] = []
    answers: list[_QuestionLoss] = []
    tested: list[tuple[_ErrorCount, _ErrorCount, _ErrorCount, _ErrorCount, _ErrorCount]] = []


def texts_digest(texts: Mapping[str, str]) -> str:
    """Return 16 hex digits that identify texts, whatever their whitespace and their order."""
    normalised_texts = sorted(" ".join(text.split()) for text in texts.values())
    content = "\0".join(normalised_texts).encode(errors="surrogatepass")
    return hashlib.sha256(content).hexdigest()[:16]


class _CommonEntries(_StrictStruct, kw_only=True):
    """The keys that the files of judges and of panels share, without the digest."""

    format: Literal["dspy-judges frozen judge"] = FILE_FORMAT
    version: Literal[1] = FILE_VERSION
    subject: SubjectEntry
    provenance: JsonObject | None


class JudgeFile(_CommonEntries, kw_only=True):
    """The file of a judge; a `threshold` of one half, or `weights` of None, are left out."""

    messages: Annotated[list[Message], Meta(min_length=1, max_length=2 + 2 * MAX_DEMOS)]
    program: Prompt
    sampling: SamplingPlan
    lm: Name
    threshold: Annotated[float, Meta(gt=0, le=1)] | UnsetType = UNSET
    weights: AnswerWeights | UnsetType = UNSET


class MemberEntry(_StrictStruct):
    """A panel's member: weight, slope and intercept (see `Member`), and its judge's whole file."""

    name: Name
    weight: float
    slope: float
    intercept: float
    judge: JudgeFile


class PanelFile(_CommonEntries, kw_only=True):
    """The file of a panel."""

    members: Annotated[list[MemberEntry], Meta(min_length=1, max_length=MAX_MEMBERS)]


AnyJudgeFile = JudgeFile | PanelFile


def load(path: Path | str) -> AnyJudgeFile:
    """Read and check a frozen judge's file; raises FrozenJudgeError for any other file."""
    try:
        return loads(read_bytes(Path(path), MAX_JUDGE_BYTES))
    except OSError as error:
        raise FrozenJudgeError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise FrozenJudgeError(f"{path}: {error}") from error


def dumps(judge: AnyJudgeFile) -> str:
    """Return the JSON text of a judge's file; raises FrozenJudgeError if a file cannot hold it."""
    document = to_builtins(judge, str_keys=True)
    document["digest"] = digest(document)
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    if Redactor().has_secret(text):
        raise FrozenJudgeError(
            "its texts hold the value of an environment variable *_KEY, *_TOKEN or *_SECRET; take "
            "it out of the instruction, the definition or the labels"
        )
    loads(text.encode("utf-8"))  # raises an error if the text could not be read back
    return text


def loads(raw: bytes) -> AnyJudgeFile:
    """Read and check the bytes of a frozen judge's file (see `load`)."""
    if len(raw) > MAX_JUDGE_BYTES or raw.count(b"[") + raw.count(b"{") > MAX_JUDGE_BRACKETS:
        bounds = f"{MAX_JUDGE_BYTES:,} bytes or {MAX_JUDGE_BRACKETS:,} brackets"
        raise FrozenJudgeError(f"more than {bounds}")
    try:
        document = decode(raw, type=JsonObject)
        if (document.get("format"), document.get("version")) != (FILE_FORMAT, FILE_VERSION):
            raise FrozenJudgeError(f"not a {FILE_FORMAT} of version {FILE_VERSION}")
        if document.pop("digest", None) != digest(document):
            raise FrozenJudgeError("the digest does not match: the file was changed by hand")
        file_class: type[AnyJudgeFile] = PanelFile if "members" in document else JudgeFile
        file = convert(document, file_class, str_keys=True)
        _check_file(file)
    except RecursionError as error:
        raise FrozenJudgeError("not a frozen judge: nested too deeply") from error
    except FrozenJudgeError:
        raise
    except ValueError as error:  # raised by msgspec, or by a wrong subject or plan
        raise FrozenJudgeError(f"not a frozen judge: {one_line(error)}") from error
    return file


def digest(document: Mapping[str, object]) -> str:
    """Return the SHA-256 of a document as canonical JSON, without its entry `digest`."""
    hashed_entries = {name: value for name, value in document.items() if name != "digest"}
    canonical = json.dumps(hashed_entries, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return f"sha256:{hashlib.sha256(canonical.encode('ascii')).hexdigest()}"


def demo_bytes(prompt: Prompt, demo: Mapping[str, Value], redactor: Redactor) -> int | None:
    """Return the bytes that a demonstration takes in a file; None if no file can hold it."""
    messages = replace(prompt, demos=(demo,)).template()[1:3]
    try:
        text = json.dumps([demo, messages], indent=4, ensure_ascii=False)
        return None if redactor.has_secret(text) else len(text.encode("utf-8"))
    except UnicodeEncodeError:
        return None


def _check_file(file: AnyJudgeFile) -> None:
    """Raise ValueError unless a file's messages fit its subject and contain only text.

    The constructors of judges check whether the prompt and the weights fit the subject.
    """
    if file.provenance is not None:
        convert(file.provenance, Provenance)
    subject = file.subject.read()
    if isinstance(file, PanelFile):
        for member in file.members:
            _check_file(member.judge)
        return
    roles = "".join(f" {message['role']}" for message in file.messages)
    slots = sorted(SLOT_PATTERN.findall(file.messages[-1]["content"]))
    if not ROLE_ORDER.fullmatch(roles) or slots != sorted(subject.texts):
        raise FrozenJudgeError(
            "its messages must be: a system message, a user and an assistant message for each "
            "demonstration, and a user message with one {{slot}} for each of "
            f"{', '.join(subject.texts)}"
        )
    if any(CUSTOM_TYPE_MARK in message["content"] for message in file.messages):
        raise FrozenJudgeError(
            f"its messages contain {CUSTOM_TYPE_MARK!r}, which DSPy does not send as text"
        )


def one_line(error: Exception) -> str:
    """Return an error's message on one line; a long message, which quotes a file, is cut."""
    return textwrap.shorten(str(error), MAX_MESSAGE_LENGTH, placeholder="...")


def plain_data(value: object) -> Any:
    """Return a value as JSON data: NumPy scalars become numbers; NaN and infinity become None."""

    def number_or_text(value: Any) -> object:
        return value.item() if hasattr(value, "item") else str(value)

    text = json.dumps(value, ensure_ascii=False, default=number_or_text)
    return json.loads(utf8_text(text), parse_constant=lambda name: None)
