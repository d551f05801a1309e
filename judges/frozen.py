"""The frozen judge: one JSON file that anybody can load and run, and that can hold no code.

Everything in the file is checked before any of it is used: size, encoding, keys, types, lengths,
digest, and that the messages are what the DSPy state renders to.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from judges import schema
from judges.dimension import Comparison, Dimension
from judges.frozen_shape import DEMO_VALUE, DOCUMENT, FORMAT, MESSAGE_TEXT, SUBJECTS, VERSION
from judges.judge import Judge, Subject
from judges.models.secrets import Secrets
from judges.prompt import Field, Prompt, Value, encodable
from judges.scoring import SamplingPlan
from judges.tables.landing import write_whole

MOST_BYTES = 20_000_000
# Twenty bytes of JSON may take a thousand in memory, and each value is checked: a judge has few.
MOST_BRACKETS = 500_000
MOST_VALUES = 200_000
# What all demonstrations may take of it; an instruction and a provenance fit beside them.
MOST_DEMO_BYTES = 16_000_000


class FrozenJudgeError(ValueError):
    """A file that is no frozen judge, or no longer the one that was saved."""


def save(judge: Judge, path: Path | str, *, overwrite: bool = False) -> Path:
    """Write atomically and return the path; FileExistsError unless `overwrite`."""
    path = Path(path)
    text = dumps(judge)
    write_whole(path, text.encode("utf-8"), overwrite=overwrite)
    return path


def load(path: Path | str) -> Judge:
    """Read a frozen judge; raises FrozenJudgeError, or OSError where the file cannot be read."""
    path = Path(path)
    if not path.is_file():
        why = "not a regular file" if path.exists() else "no such file"
        raise FrozenJudgeError(f"{path}: {why}")
    # One byte more than allowed is read, since a file may grow after its size was asked.
    with path.open("rb") as file:
        raw = file.read(MOST_BYTES + 1)
    try:
        return loads(raw)
    except FrozenJudgeError as error:
        raise FrozenJudgeError(f"{path}: {error}") from error


def dumps(judge: Judge) -> str:
    """The file's text; raises FrozenJudgeError for what the format cannot hold."""
    document = _document(judge)
    document["digest"] = digest(document)
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    if where := _secret_in(document, "judge", Secrets()):
        raise FrozenJudgeError(f"{where} holds what looks like a key; it is not written down")
    try:
        loads(text.encode("utf-8"))  # what could not be read back is not written
    except UnicodeEncodeError as error:
        place = text[max(0, error.start - 40) : error.start]
        raise FrozenJudgeError(f"a broken character (a lone surrogate) after {place!r}") from error
    return text


def demo_bytes(prompt: Prompt, demo: Mapping[str, Value]) -> int | None:
    """What a demonstration takes in a judge's file; None where it cannot hold it.

    So with what may be a key: it is not written down, and another demonstration does as well.
    """
    if _secret_in(demo, "demo", Secrets()):
        return None
    messages = replace(prompt, demos=(demo,)).template()[1:3]
    try:
        for name, value in demo.items():
            DEMO_VALUE(value, name)
        for message in messages:
            MESSAGE_TEXT(message["content"], "message")
    except schema.ShapeError:
        return None
    text = json.dumps([demo, messages], indent=4, ensure_ascii=False)
    return len(text.encode("utf-8"))


def without_secrets(judge: Judge) -> tuple[Judge, tuple[str, ...]]:
    """The judge as it can be written down, and what was left out of it for that."""
    secrets = Secrets()
    if not _secret_in(_document(judge), "judge", secrets):
        return judge, ()
    prompt, notes = judge.prompt, []
    shown = [demo for demo in prompt.demos if not _secret_in(demo, "demo", secrets)]
    if left_out := len(prompt.demos) - len(shown):
        notes.append(
            f"{left_out} of {len(prompt.demos)} demonstrations hold what looks like a key and are "
            "left out of judge.json; its figures were measured with them"
        )
    prompt = replace(
        prompt,
        instruction=secrets.blot(prompt.instruction),
        fields=tuple(replace(f, description=secrets.blot(f.description)) for f in prompt.fields),
        demos=tuple(shown),
    )
    subject = judge.subject
    judged: dict[str, object] = {"inputs": dict(subject.inputs)}
    for name in ("definition", "instruction", "source"):
        judged[name] = getattr(subject, name)
    if isinstance(subject, Dimension):
        judged["anchors"] = dict(subject.anchors)
    clean: Any = secrets.omit(judged)
    provenance: Any = secrets.omit(judge.provenance)
    written = replace(
        judge, subject=replace(subject, **clean), prompt=prompt, provenance=provenance
    )
    if (clean, prompt.instruction) != (judged, judge.prompt.instruction):
        notes.append(
            "what looks like a key in the judge's instruction or definition is struck out in "
            "judge.json; its figures were measured with it"
        )
    return written, tuple(notes)


def _secret_in(value: object, path: str, secrets: Secrets) -> str | None:
    """Where a text of plain data holds one, if any does."""
    if isinstance(value, str):
        return path if secrets.holds(value) else None
    entries: Iterable[tuple[object, object]] = ()
    if isinstance(value, Mapping):
        entries = value.items()
    elif isinstance(value, list | tuple):
        entries = enumerate(value)
    for name, entry in entries:
        if secrets.holds(str(name)):
            return path
        if where := _secret_in(entry, f"{path}.{name}", secrets):
            return where
    return None


def loads(raw: bytes) -> Judge:
    """Rebuild a judge from a file's bytes; raises FrozenJudgeError."""
    document = _decode(raw)
    try:
        _check_version(document)
        schema.check_size(document, "judge", most=MOST_VALUES)
        DOCUMENT(document, "judge")
        SUBJECTS[document["kind"]](document["subject"], "judge.subject")
    except schema.ShapeError as error:
        raise FrozenJudgeError(schema.shortened(error)) from error
    if document["digest"] != digest(document):
        raise FrozenJudgeError(
            "the digest does not match: the file was changed after it was saved; "
            "freeze the judge again instead of editing its file"
        )
    try:
        judge = _judge(document)
    except ValueError as error:
        raise FrozenJudgeError(schema.shortened(error)) from error
    return _check_derived(document, judge)


def digest(document: Mapping[str, object]) -> str:
    """sha256 over the canonical JSON of everything but the digest itself."""
    whole = {name: value for name, value in document.items() if name != "digest"}
    canonical = json.dumps(whole, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return f"sha256:{hashlib.sha256(canonical.encode('ascii')).hexdigest()}"


def _decode(raw: bytes) -> dict[str, Any]:
    if len(raw) > MOST_BYTES:
        raise FrozenJudgeError(f"more than {MOST_BYTES:,} bytes; a frozen judge is smaller")
    if raw[:1] == b"\x80" or raw[:2] in (b"PK", b"\x1f\x8b"):
        raise FrozenJudgeError("a pickle or an archive, which is never loaded; a judge is JSON")
    if raw.count(b"[") + raw.count(b"{") > MOST_BRACKETS:
        raise FrozenJudgeError(f"more than {MOST_BRACKETS:,} brackets; a frozen judge has fewer")
    try:
        document = json.loads(
            raw.decode("utf-8"), object_pairs_hook=_once, parse_constant=_no_constant
        )
    except UnicodeDecodeError as error:
        raise FrozenJudgeError(f"not UTF-8 text (byte {error.start}); a judge is JSON") from error
    except json.JSONDecodeError as error:
        raise FrozenJudgeError(
            f"not JSON, or cut short: {error.msg} at line {error.lineno}"
        ) from error
    except RecursionError as error:
        raise FrozenJudgeError("nested too deeply for a judge") from error
    except ValueError as error:
        raise FrozenJudgeError(f"not a judge's JSON: {error}") from error
    if not isinstance(document, dict):
        raise FrozenJudgeError("not a judge: its JSON is no mapping")
    return document


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise FrozenJudgeError("a key stands twice in one mapping")
    return made


def _no_constant(name: str) -> object:
    raise FrozenJudgeError(f"{name} is no number of JSON")


def _check_version(document: Mapping[str, object]) -> None:
    """Before everything else, so that a file of another version is called that."""
    if document.get("format") != FORMAT:
        raise FrozenJudgeError(f"not a frozen judge: its 'format' is not {FORMAT!r}")
    if document.get("version") != VERSION:
        raise FrozenJudgeError(
            f"format version {repr(document.get('version'))[:20]}; this release reads {VERSION}: "
            "load it with the release that wrote it, or freeze the judge again"
        )


def _document(judge: Judge) -> dict[str, Any]:
    prompt, plan = judge.prompt, judge.settled_plan()
    return {
        "format": FORMAT,
        "version": VERSION,
        "kind": judge.kind,
        "name": judge.name,
        "subject": _subject_entry(judge.subject),
        "texts": list(judge.texts),
        "scale": list(judge.subject.scale) if isinstance(judge.subject, Dimension) else None,
        "messages": [{"role": m["role"], "content": m["content"]} for m in prompt.template()],
        "program": {
            "instructions": prompt.instruction,
            "demos": [dict(demo) for demo in prompt.demos],
            "fields": [
                {
                    "name": field.name,
                    "description": field.description,
                    "role": field.role,
                    "choices": list(field.choices) if field.choices else None,
                }
                for field in prompt.fields
            ],
        },
        "sampling": {
            "kind": plan.kind,
            "samples": plan.samples,
            "temperature": plan.temperature,
        },
        "lm": judge.lm,
        "provenance": _plain(_with_endpoint(judge)),
    }


def _with_endpoint(judge: Judge) -> Mapping[str, object] | None:
    """Its provenance, with the endpoint that its user named where no run recorded any."""
    if judge.api_base is None or judge.endpoint is not None:
        return judge.provenance
    from judges.models.opening import endpoint_of

    return {**(judge.provenance or {}), "endpoint": endpoint_of(judge.lm, judge.api_base)}


def _subject_entry(subject: Subject) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": subject.name,
        "definition": subject.definition,
        "inputs": [{"name": n, "description": what} for n, what in subject.inputs.items()],
        "instruction": subject.instruction,
        "source": subject.source,
    }
    if isinstance(subject, Comparison):
        return {**entry, "candidate": subject.candidate}
    anchors = [{"rating": rating, "meaning": what} for rating, what in subject.anchors.items()]
    return {**entry, "anchors": anchors}


def _plain(value: object) -> object:
    """Provenance as JSON takes it: NumPy scalars unwrapped, undefined numbers null."""
    if isinstance(value, Mapping):
        return {encodable(str(name)): _plain(entry) for name, entry in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(entry) for entry in value]
    unwrap = getattr(value, "item", None)
    bare = unwrap() if callable(unwrap) else value
    if isinstance(bare, str):
        # A file's name may hold bytes that are no text.
        return encodable(bare)
    return None if isinstance(bare, float) and not math.isfinite(bare) else bare


def _judge(document: Mapping[str, Any]) -> Judge:
    program, sampling = document["program"], document["sampling"]
    fields = tuple(
        Field(
            name=field["name"],
            description=field["description"],
            role=field["role"],
            choices=tuple(field["choices"]) if field["choices"] else None,
        )
        for field in program["fields"]
    )
    return Judge(
        subject=_subject(document["subject"]),
        prompt=Prompt(
            instruction=program["instructions"], fields=fields, demos=tuple(program["demos"])
        ),
        plan=SamplingPlan(**sampling),
        lm=document["lm"],
        provenance=document["provenance"],
        from_file=True,
    )


def _subject(entry: Mapping[str, Any]) -> Subject:
    shared = {
        "name": entry["name"],
        "definition": entry["definition"],
        "inputs": {text["name"]: text["description"] for text in entry["inputs"]},
        "instruction": entry["instruction"],
        "source": entry["source"],
    }
    if "candidate" in entry:
        return Comparison(**shared, candidate=entry["candidate"])
    return Dimension(**shared, anchors={a["rating"]: a["meaning"] for a in entry["anchors"]})


def _check_derived(document: Mapping[str, Any], judge: Judge) -> Judge:
    """Return the judge as its messages were rendered.

    What the file says twice must agree, or a reader would see one judge and run another.
    """
    again = _document(judge)
    if again["messages"] != document["messages"]:
        # Earlier releases broke fewer markers in instruction and demos; it asks what it asked then.
        earlier = replace(judge, prompt=replace(judge.prompt, rendering=1))
        if (older := _document(earlier))["messages"] == document["messages"]:
            judge, again = earlier, older
    for name in ("kind", "name", "texts", "scale", "messages", "program", "subject"):
        if again[name] != document[name]:
            raise FrozenJudgeError(
                f"its {name!r} does not follow from its program and subject; "
                "freeze the judge again instead of editing its file"
            )
    return judge
