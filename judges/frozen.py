"""The file of a frozen judge: one JSON document without code, keys or addresses.

The whole file is checked before any of it is used. Its messages are sent word for word.
"""

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, convert, to_builtins
from msgspec.json import decode
from msgspec.structs import asdict

from dspy_judges.bounds import MAX_JUDGE_BRACKETS, MAX_JUDGE_BYTES
from dspy_judges.errors import JudgesError
from dspy_judges.files import read_bytes
from judges.client import Redactor
from judges.dimension import Comparison, Dimension, DimensionError, Subject, check_prompt
from judges.prompt import MAX_DEMOS, SLOT, Prompt, Value, encodable
from judges.protocol import Message
from judges.questions import AnswerWeights
from judges.scoring import SamplingPlan

FORMAT: Final = "dspy-judges frozen judge"
VERSION: Final = 1
MAX_MEMBERS = 64
# Bytes of all demonstrations in a file, which leaves room for instruction and provenance.
MAX_DEMO_BYTES = 16_000_000
MAX_MESSAGE_LENGTH = 500
# DSPy's mark of a part of a message that it sends as an image, a file or the like.
CUSTOM_TYPE = "<<CUSTOM-TYPE-"
# The roles of messages, each with a space before it.
ROLES = re.compile(r"( system)?( user assistant)* user")

Word = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]{0,63}\Z")]
Text = Annotated[str, Meta(max_length=20_000, pattern=r"\S")]
Rating = Annotated[int, Meta(ge=-1000, le=1000)]
# The name of a model, a member or a data set, on one line.
Name = Annotated[str, Meta(max_length=1000, pattern=r"^[^\s\x00-\x1f]+(?: [^\s\x00-\x1f]+)*\Z")]
Hash = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
Plain = dict[str, Any]


class FrozenJudgeError(JudgesError, ValueError):
    """A file is not a frozen judge, was changed by hand, or cannot hold a judge."""


class _Strict(Struct, kw_only=True, forbid_unknown_fields=True):
    """A part of the file that may have no other keys."""


class SubjectEntry(_Strict):
    """A dimension, with anchors and maybe words, or a comparison, with a candidate."""

    name: Word
    definition: Text
    inputs: dict[Word, str]
    instruction: Text
    source: str
    anchors: dict[Rating, str] | UnsetType = UNSET
    words: tuple[str, str] | UnsetType = UNSET
    candidate: Word | UnsetType = UNSET

    def read(self) -> Subject:
        entries: Plain = {name: v for name, v in asdict(self).items() if v is not UNSET}
        is_comparison = "candidate" in entries
        if is_comparison == ("anchors" in entries) or (is_comparison and "words" in entries):
            raise DimensionError(f"{self.name}: has either anchors or a candidate")
        return Comparison(**entries) if is_comparison else Dimension(**entries)


class _Split(Struct):
    sha256: Hash


class _Data(_Split):
    """The data set of a provenance; keys that no code reads may hold any plain data."""

    name: Name
    constructed: bool = False


class _Answer(Struct):
    """One answer of a tuned judge, and what its figure would lose without the question."""

    name: Word
    loss: float | None = None


_Count = Annotated[int, Meta(ge=0, le=2**31)]


class _Provenance(Struct, kw_only=True):
    data: _Data | UnsetType = UNSET
    split: _Split | UnsetType = UNSET
    optimizer: Name = "none"
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0
    shipped: Name = "seed"
    budget: Plain = {}
    versions: dict[str, str] = {}
    seed_judge: Plain = {}
    tuned_judge: Plain = {}
    answers: list[_Answer] = []
    tested: list[tuple[_Count, _Count, _Count, _Count, _Count]] = []


class _File(_Strict, kw_only=True):
    """The keys that the files of judges and panels share, beside the digest."""

    format: Literal["dspy-judges frozen judge"] = FORMAT
    version: Literal[1] = VERSION
    subject: SubjectEntry
    provenance: Plain | None


class JudgeFile(_File, kw_only=True):
    """The file of a judge."""

    messages: Annotated[list[Message], Meta(min_length=1, max_length=2 + 2 * MAX_DEMOS)]
    program: Prompt
    sampling: SamplingPlan
    lm: Name
    # Of a verdict, where a pass does not begin at one half.
    threshold: Annotated[float, Meta(gt=0, le=1)] | UnsetType = UNSET
    # Of a judge that asks questions.
    weights: AnswerWeights | UnsetType = UNSET


class PanelMember(_Strict):
    """A judge as in its own file, with its weight and the line to the panel's scale."""

    name: Name
    weight: float
    slope: float
    intercept: float
    judge: JudgeFile


class PanelFile(_File, kw_only=True):
    """The file of a panel."""

    members: Annotated[list[PanelMember], Meta(min_length=1, max_length=MAX_MEMBERS)]


AnyFile = JudgeFile | PanelFile


def shared_entries(subject: Subject, provenance: Mapping[str, object] | None) -> Plain:
    """The subject and the provenance as every file holds them."""
    values = {name: getattr(subject, name, None) for name in SubjectEntry.__struct_fields__}
    entry = SubjectEntry(**{name: value for name, value in values.items() if value is not None})
    return {"subject": entry, "provenance": None if provenance is None else plain(provenance)}


def load(path: Path | str) -> AnyFile:
    """The checked content of a frozen judge's file; raises FrozenJudgeError."""
    try:
        return loads(read_bytes(Path(path), MAX_JUDGE_BYTES))
    except OSError as error:
        raise FrozenJudgeError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise FrozenJudgeError(f"{path}: {error}") from error


def dumps(judge: AnyFile) -> str:
    """The JSON text of a file; raises FrozenJudgeError where the format cannot hold the judge."""
    document = to_builtins(judge, str_keys=True)
    document["digest"] = digest(document)
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    if Redactor().holds(text):
        raise FrozenJudgeError(
            "its texts hold a key of an environment variable (*_KEY, *_TOKEN, *_SECRET); take it "
            "out of the instruction, the definition or the labels"
        )
    loads(text.encode("utf-8"))  # nothing is written that could not be read back
    return text


def loads(raw: bytes) -> AnyFile:
    """The checked content of a file's bytes; raises FrozenJudgeError."""
    if len(raw) > MAX_JUDGE_BYTES or raw.count(b"[") + raw.count(b"{") > MAX_JUDGE_BRACKETS:
        most = f"{MAX_JUDGE_BYTES:,} bytes or {MAX_JUDGE_BRACKETS:,} brackets"
        raise FrozenJudgeError(f"more than {most}")
    try:
        document = decode(raw, type=Plain)
        if (document.get("format"), document.get("version")) != (FORMAT, VERSION):
            raise FrozenJudgeError(f"not a {FORMAT} of version {VERSION}")
        if document.pop("digest", None) != digest(document):
            raise FrozenJudgeError("the digest does not match: the file was changed by hand")
        kind: type[AnyFile] = PanelFile if "members" in document else JudgeFile
        file = convert(document, kind, str_keys=True)
        _check(file)
    except RecursionError as error:
        raise FrozenJudgeError("not a frozen judge: nested too deeply") from error
    except FrozenJudgeError:
        raise
    except ValueError as error:  # msgspec's, DimensionError, an impossible plan
        raise FrozenJudgeError(f"not a frozen judge: {one_line(error)}") from error
    return file


def digest(document: Mapping[str, object]) -> str:
    """sha256 over the canonical JSON of everything but the digest itself."""
    content = {name: value for name, value in document.items() if name != "digest"}
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return f"sha256:{hashlib.sha256(canonical.encode('ascii')).hexdigest()}"


def demo_bytes(prompt: Prompt, demo: Mapping[str, Value], secrets: Redactor) -> int | None:
    """Bytes of a demonstration in a judge's file; None where the file cannot hold it."""
    messages = replace(prompt, demos=(demo,)).template()[1:3]
    try:
        text = json.dumps([demo, messages], indent=4, ensure_ascii=False)
        return None if secrets.holds(text) else len(text.encode("utf-8"))
    except UnicodeEncodeError:
        return None


def _check(file: AnyFile) -> None:
    """Raise ValueError unless the messages fit the subject and hold nothing but text."""
    if file.provenance is not None:
        convert(file.provenance, _Provenance)
    subject = file.subject.read()
    if isinstance(file, PanelFile):
        for member in file.members:
            _check(member.judge)
        return
    check_prompt(subject, file.program)
    if file.weights and (problem := file.weights.problem(file.program.choices)):
        raise FrozenJudgeError(f"it has {problem}")
    roles = "".join(f" {message['role']}" for message in file.messages)
    slots = sorted(SLOT.findall(file.messages[-1]["content"]))
    if not ROLES.fullmatch(roles) or slots != sorted(subject.texts):
        raise FrozenJudgeError(
            "its messages must be the system's, demonstrations as a user's and an assistant's, and "
            f"the user's with one {{{{slot}}}} for each of {', '.join(subject.texts)}"
        )
    if any(CUSTOM_TYPE in message["content"] for message in file.messages):
        raise FrozenJudgeError(f"its messages hold {CUSTOM_TYPE!r}: something other than text")


def one_line(message: object) -> str:
    """A message on one line, cut where a quoted file makes it long."""
    text = " ".join(str(message).split())
    return text if len(text) <= MAX_MESSAGE_LENGTH else f"{text[: MAX_MESSAGE_LENGTH - 3]}..."


def plain(value: object) -> object:
    """Provenance as plain data for JSON: NumPy scalars unwrapped, undefined numbers null."""
    if isinstance(value, Mapping):
        return {encodable(str(name)): plain(entry) for name, entry in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(entry) for entry in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return encodable(value) if isinstance(value, str) else value
