"""The frozen judge's file: one JSON document that anybody can load, and that can hold no code.

Everything in it is checked before any of it is used: size, types, lengths, digest, and that what it
says twice agrees. Its messages are what is sent, word for word.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType, convert, to_builtins
from msgspec.json import decode

from dspy_judges.errors import JudgesError
from judges.client import Message, Redactor
from judges.dimension import Comparison, Dimension, Subject, check_prompt
from judges.monotone import MonotoneMap
from judges.prompt import MAX_DEMOS, SLOT, Field, Prompt, Value, encodable
from judges.scoring import SamplingPlan
from judges.validation import InvalidDataError, Rating, Text, Word, shortened

FORMAT: Final = "dspy-judges frozen judge"
VERSION: Final = 1
PANEL: Final = "panel"
MAX_MEMBERS = 64
# Of a member: a smaller weight would lose digits in a mean.
LEAST_WEIGHT, MOST_WEIGHT = 1e-100, 1e6
MAX_BYTES = 20_000_000
# What DSPy marks parts of a message with that it sends as an image, a file or the like.
CUSTOM_TYPE = "<<CUSTOM-TYPE-"
MAX_BRACKETS = 500_000
MAX_CHARACTERS = 1_000_000
# What all demonstrations may take of it; an instruction and a provenance fit beside them.
MAX_DEMO_BYTES = 16_000_000

Short = Annotated[str, Meta(max_length=20_000)]
Named = Annotated[str, Meta(max_length=1000, pattern=r"\S")]
Hash = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
Plain = dict[str, Any]


class FrozenJudgeError(JudgesError, ValueError):
    """A file that is no frozen judge, or no longer the one that was saved."""


class _Strict(Struct, kw_only=True, forbid_unknown_fields=True):
    """A part of the file: all its keys, and no others."""


class Described(_Strict):
    name: Word
    description: Short


class Anchor(_Strict):
    rating: Rating
    meaning: Short


class SubjectEntry(_Strict):
    """A dimension, which has anchors, or a comparison, which has a candidate."""

    name: Word
    definition: Text
    inputs: Annotated[list[Described], Meta(min_length=1, max_length=32)]
    instruction: Annotated[str, Meta(max_length=200_000, pattern=r"\S")]
    source: Short
    anchors: Annotated[list[Anchor], Meta(min_length=2, max_length=1001)] | UnsetType = UNSET
    candidate: Word | UnsetType = UNSET

    @classmethod
    def of(cls, subject: Subject) -> "SubjectEntry":
        entry = cls(
            name=subject.name,
            definition=subject.definition,
            inputs=[
                Described(name=name, description=text) for name, text in subject.inputs.items()
            ],
            instruction=subject.instruction,
            source=subject.source,
        )
        if isinstance(subject, Comparison):
            entry.candidate = subject.candidate
        else:
            entry.anchors = [Anchor(rating=r, meaning=text) for r, text in subject.anchors.items()]
        return entry

    def read(self) -> Subject:
        shared: dict[str, Any] = {
            "name": self.name,
            "definition": self.definition,
            "inputs": {text.name: text.description for text in self.inputs},
            "instruction": self.instruction,
            "source": self.source,
        }
        if self.candidate:
            return Comparison(**shared, candidate=self.candidate)
        return Dimension(**shared, anchors={a.rating: a.meaning for a in self.anchors or ()})


class Program(_Strict):
    """What the DSPy program is rebuilt from."""

    instructions: Annotated[str, Meta(max_length=200_000, pattern=r"\S")]
    demos: Annotated[
        list[
            Annotated[
                dict[Word, Rating | Annotated[str, Meta(max_length=MAX_CHARACTERS)]],
                Meta(max_length=40),
            ]
        ],
        Meta(max_length=MAX_DEMOS),
    ]
    fields: Annotated[list[Field], Meta(min_length=2, max_length=40)]


class Sampling(_Strict):
    kind: Literal["one", "mean", "weighted"]
    samples: Annotated[int, Meta(ge=1, le=1000)]
    temperature: Annotated[int, Meta(ge=0, le=10)] | Annotated[float, Meta(ge=0, le=10)] | None


Knots = Annotated[
    list[Annotated[int, Meta(ge=-(10**9), le=10**9)] | float], Meta(min_length=2, max_length=1001)
]


class Knotted(_Strict):
    """A monotone map's knots."""

    inputs: Knots
    outputs: Knots

    @classmethod
    def of(cls, monotone_map: MonotoneMap) -> "Knotted":
        return cls(
            inputs=[float(knot) for knot in monotone_map.inputs],
            outputs=[float(knot) for knot in monotone_map.outputs],
        )

    def read(self) -> MonotoneMap:
        """Raises InvalidDataError where they do not increase."""
        return MonotoneMap(tuple(map(float, self.inputs)), tuple(map(float, self.outputs)))


class _Data(Struct):
    """Of a provenance what is read has its type; the rest is plain data."""

    name: Named
    sha256: Hash
    constructed: bool = False


class _Split(Struct):
    sha256: Hash


class _Provenance(Struct, kw_only=True):
    data: _Data | UnsetType = UNSET
    split: _Split | UnsetType = UNSET
    optimizer: Named = "none"
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0
    shipped: Named = "seed"
    budget: dict[Word, Any] = {}
    versions: dict[Named, Named] = {}
    seed_judge: dict[Word, Any] = {}
    tuned_judge: dict[Word, Any] = {}


class JudgeFile(_Strict, kw_only=True):
    """All that a frozen judge's file holds, but for the digest over it."""

    format: Literal["dspy-judges frozen judge"] = FORMAT
    version: Literal[1] = VERSION
    kind: Literal["rating", "pairwise"]
    name: Word
    subject: SubjectEntry
    texts: Annotated[list[Word], Meta(min_length=1, max_length=34)]
    scale: Annotated[list[Rating], Meta(min_length=2, max_length=1001)] | None
    messages: Annotated[list[Message], Meta(min_length=2, max_length=2 + 2 * MAX_DEMOS)]
    program: Program
    sampling: Sampling
    lm: Annotated[str, Meta(max_length=300, pattern=r"^[^\s\x00-\x1f]+(?: [^\s\x00-\x1f]+)*\Z")]
    provenance: Plain | None

    def read_prompt(self) -> Prompt:
        program = self.program
        return Prompt(
            instruction=program.instructions,
            fields=tuple(program.fields),
            demos=tuple(program.demos),
        )

    def read_plan(self) -> SamplingPlan:
        return SamplingPlan(**to_builtins(self.sampling))


class PanelMember(_Strict):
    """A judge's whole file, its own digest in it, with its map and weight."""

    name: Annotated[str, Meta(max_length=300, pattern=r"^[^\s\x00-\x1f]+(?: [^\s\x00-\x1f]+)*\Z")]
    judge: Plain
    map: Knotted
    weight: Annotated[float, Meta(ge=LEAST_WEIGHT, le=MOST_WEIGHT)]

    def read_judge(self) -> JudgeFile:
        """Its own file, every check made of it; raises FrozenJudgeError, as for a panel in it."""
        try:
            file = _typed(self.judge, JudgeFile)
            _check_agreement(file)
        except ValueError as error:
            raise FrozenJudgeError(f"member {self.name!r}: {shortened(error)}") from error
        return file

    def read_map(self) -> MonotoneMap:
        try:
            return self.map.read()
        except InvalidDataError as error:
            raise FrozenJudgeError(f"member {self.name!r}: {error}") from error


class PanelFile(_Strict, kw_only=True):
    """All that a panel's file holds, but for the digest over it."""

    format: Literal["dspy-judges frozen judge"] = FORMAT
    version: Literal[1] = VERSION
    kind: Literal["panel"] = PANEL
    name: Word
    subject: SubjectEntry
    texts: Annotated[list[Word], Meta(min_length=1, max_length=34)]
    scale: Annotated[list[Rating], Meta(min_length=2, max_length=1001)] | None
    members: Annotated[list[PanelMember], Meta(min_length=1, max_length=MAX_MEMBERS)]
    provenance: Plain | None


AnyFile = JudgeFile | PanelFile
File = TypeVar("File", JudgeFile, PanelFile)


def freeze(
    subject: Subject,
    prompt: Prompt,
    messages: Sequence[Message],
    plan: SamplingPlan,
    *,
    lm: str,
    provenance: Mapping[str, object] | None,
) -> JudgeFile:
    """What the file of such a judge holds; `messages` are sent, with `{{name}}` slots for texts."""
    return JudgeFile(
        kind="rating" if isinstance(subject, Dimension) else "pairwise",
        name=subject.name,
        subject=SubjectEntry.of(subject),
        texts=[field.name for field in prompt.inputs],
        scale=list(subject.scale) if isinstance(subject, Dimension) else None,
        messages=list(messages),
        program=Program(
            instructions=prompt.instruction,
            demos=[dict(demo) for demo in prompt.demos],
            fields=list(prompt.fields),
        ),
        sampling=Sampling(kind=plan.kind, samples=plan.samples, temperature=plan.temperature),
        lm=lm,
        provenance=None if provenance is None else plain(provenance),
    )


def stored(judge: AnyFile) -> Plain:
    """A judge's whole file as a panel's holds it, with its digest."""
    document: Plain = to_builtins(judge)
    return {**document, "digest": digest(document)}


def save(judge: AnyFile, path: Path | str, *, overwrite: bool = False) -> Path:
    """Write atomically and return the path; FileExistsError unless `overwrite`."""
    from data.tables.atomic_write import write_atomically  # which loading and judging do without

    path = Path(path)
    write_atomically(path, dumps(judge).encode("utf-8"), overwrite=overwrite)
    return path


def load(path: Path | str) -> AnyFile:
    """Read a frozen judge; raises FrozenJudgeError, or OSError where the file cannot be read."""
    path = Path(path)
    if not path.is_file():
        problem = "not a regular file" if path.exists() else "no such file"
        raise FrozenJudgeError(f"{path}: {problem}")
    # One byte more than allowed is read, since a file may grow after its size was asked.
    with path.open("rb") as file:
        raw = file.read(MAX_BYTES + 1)
    try:
        return loads(raw)
    except FrozenJudgeError as error:
        raise FrozenJudgeError(f"{path}: {error}") from error


def dumps(judge: AnyFile) -> str:
    """The file's text; raises FrozenJudgeError for what the format cannot hold."""
    document = to_builtins(judge)
    document["digest"] = digest(document)
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    if Redactor().holds(text):
        raise FrozenJudgeError(
            "its texts hold a key that an environment variable (*_KEY, *_TOKEN, *_SECRET) has; "
            "take it out of the instruction, the definition or the labels"
        )
    try:
        loads(text.encode("utf-8"))  # what could not be read back is not written
    except UnicodeEncodeError as error:
        context = text[max(0, error.start - 40) : error.start]
        raise FrozenJudgeError(
            f"a broken character (a lone surrogate) after {context!r}"
        ) from error
    return text


def loads(raw: bytes) -> AnyFile:
    """Check a file's bytes and return what they hold; raises FrozenJudgeError."""
    # Twenty bytes of JSON may take a thousand in memory.
    if len(raw) > MAX_BYTES or raw.count(b"[") + raw.count(b"{") > MAX_BRACKETS:
        raise FrozenJudgeError(f"more than {MAX_BYTES:,} bytes or {MAX_BRACKETS:,} brackets")
    try:
        document = decode(raw, type=dict[str, Any])
        if document.get("kind") == PANEL:
            panel = _typed(document, PanelFile)
            _check_panel(panel)
            return panel
        judge = _typed(document, JudgeFile)
        _check_agreement(judge)
    except FrozenJudgeError:
        raise
    except RecursionError as error:
        raise FrozenJudgeError("no frozen judge: nested too deeply") from error
    except ValueError as error:  # msgspec's, DimensionError, an impossible plan
        raise FrozenJudgeError(f"no frozen judge: {shortened(error)}") from error
    return judge


def digest(document: Mapping[str, object]) -> str:
    """sha256 over the canonical JSON of everything but the digest itself."""
    content = {name: value for name, value in document.items() if name != "digest"}
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return f"sha256:{hashlib.sha256(canonical.encode('ascii')).hexdigest()}"


def demo_bytes(prompt: Prompt, demo: Mapping[str, Value]) -> int | None:
    """What a demonstration takes in a judge's file; None where the file cannot hold it."""
    messages = replace(prompt, demos=(demo,)).template()[1:3]
    texts = [*map(str, demo.values()), *(message["content"] for message in messages)]
    if max(map(len, texts)) > MAX_CHARACTERS:
        return None
    try:
        text = json.dumps([demo, messages], indent=4, ensure_ascii=False)
        return None if Redactor().holds(text) else len(text.encode("utf-8"))
    except UnicodeEncodeError:
        return None


def _typed(document: dict[str, Any], kind: type[File]) -> File:
    """The document as its type; its digest is checked."""
    # Before everything else, so that a file of another version is called that.
    if (document.get("format"), document.get("version")) != (FORMAT, VERSION):
        raise FrozenJudgeError(
            f"no {FORMAT} of version {VERSION}; freeze the judge again with this release"
        )
    judge = convert({name: value for name, value in document.items() if name != "digest"}, kind)
    if judge.provenance is not None:
        convert(judge.provenance, _Provenance)
    if document.get("digest") != digest(document):
        raise FrozenJudgeError(
            "the digest does not match: the file was changed after it was saved; "
            "freeze the judge again instead of editing its file"
        )
    return judge


def _check_agreement(judge: JudgeFile) -> None:
    """What the file says twice must agree, or a reader would see one judge and run another."""
    subject, prompt = judge.subject.read(), judge.read_prompt()
    check_prompt(subject, prompt)
    messages, plan = judge.messages, judge.read_plan()
    rebuilt = freeze(
        subject, prompt.normalised(), messages, plan, lm=judge.lm, provenance=judge.provenance
    )
    for name in ("kind", "name", "texts", "scale", "program", "subject"):
        if getattr(rebuilt, name) != getattr(judge, name):
            raise FrozenJudgeError(
                f"its {name!r} does not follow from its program and subject; "
                "freeze the judge again instead of editing its file"
            )
    roles = [message["role"] for message in messages]
    turns = roles[1:-1] if roles[0] == "system" else roles[:-1]
    if turns != ["user", "assistant"] * (len(turns) // 2):
        raise FrozenJudgeError(
            "its messages must be the system's, demonstrations as a user's and an assistant's in "
            f"turn, and the user's, not {', '.join(roles)}; freeze the judge again"
        )
    if any(CUSTOM_TYPE in message["content"] for message in messages):
        raise FrozenJudgeError(
            f"its messages hold {CUSTOM_TYPE!r}, by which DSPy would send something other than "
            "text; freeze the judge again without it"
        )
    slots = sorted(SLOT.findall(messages[-1]["content"]))
    if messages[-1]["role"] != "user" or slots != sorted(judge.texts):
        raise FrozenJudgeError(
            "its last message must be the user's, with one {{slot}} for each of the texts "
            f"{', '.join(judge.texts)}; freeze the judge again instead of editing its file"
        )


def _check_panel(panel: PanelFile) -> None:
    """Its members are whole judges of their own names, and judge what the panel judges."""
    subject = panel.subject.read()
    scale = list(subject.scale) if isinstance(subject, Dimension) else None
    if (panel.name, panel.texts, panel.scale) != (subject.name, list(subject.texts), scale):
        raise FrozenJudgeError(
            "its name, texts or scale do not follow from its subject; freeze the panel again "
            "instead of editing its file"
        )
    for member in panel.members:
        member.read_map()
        member.read_judge()


def plain(value: object) -> Any:
    """Provenance as JSON takes it: NumPy scalars unwrapped, undefined numbers null."""
    if isinstance(value, Mapping):
        return {encodable(str(name)): plain(entry) for name, entry in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(entry) for entry in value]
    unwrap = getattr(value, "item", None)
    scalar = unwrap() if callable(unwrap) else value
    if isinstance(scalar, str):
        # A file's name may hold bytes that are no text.
        return encodable(scalar)
    return None if isinstance(scalar, float) and not math.isfinite(scalar) else scalar
