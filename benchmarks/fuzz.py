"""Hostile files and answers by the ten thousand: refused in one line, or harmless?

    python benchmarks/fuzz.py SECTION... [--tries N] [--seed N] [--json]

judges: frozen judges altered byte by byte and part by part, half with the digest made right.
definitions: YAML definitions altered likewise, and known tricks (aliases, tags, huge numbers).
commands: command lines with odd words and altered files.
journals: journals of replies altered byte by byte and line by line.
answers: what a server on this machine sends instead of a sound answer.

Prints counts for each section and exits 1 where anything but a refusal in one line, or a sound
result, came of a try; where one took over 5 seconds (of the processor, for files); or where memory
passed 500 MB.
"""

import argparse
import contextlib
import copy
import gzip
import io
import json
import math
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests" / "support"))

from faults import peak_mb  # noqa: E402 - beside this file
from openai_server import ServingBytes  # noqa: E402 - in tests/

MAX_SECONDS = 5.0
MAX_MB = 500.0
HOPELESS = 60.0
MAX_REFUSAL_LENGTH = 1000


class AlteredError(AssertionError):
    """What must never be: an altered file that was taken for the one that was saved."""


@dataclass
class Counts:
    """What came of the tries of one section: counts by outcome, and the worst of them."""

    outcomes: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    slowest: float = 0.0

    def note(self, outcome: str, seconds: float, fault: str = "") -> None:
        self.outcomes["tried"] += 1
        self.outcomes[outcome] += 1
        self.slowest = max(self.slowest, seconds)
        if fault:
            self.faults.append(fault)

    def attempt(self, case: Callable[[], str], refusals: tuple[type[Exception], ...]) -> None:
        """Run one try; `case` returns its outcome, or raises one of `refusals`."""
        start = time.process_time()
        fault = ""
        signal.setitimer(signal.ITIMER_REAL, HOPELESS)
        try:
            outcome = case()
        except refusals as error:
            outcome = "refused"
            if "\n" in str(error) or len(str(error)) > MAX_REFUSAL_LENGTH or not str(error):
                outcome, fault = "refused at length", repr(str(error))[:400]
        except AlteredError as error:
            outcome, fault = "altered accepted", str(error)
        except Exception:  # noqa: BLE001 - what this program is here to find
            outcome, fault = "tracebacks", traceback.format_exc()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        self.note(outcome, time.process_time() - start, fault)

    def figures(self) -> dict[str, object]:
        bad = ("altered accepted", "tracebacks", "refused at length")
        peak = peak_mb()
        return {
            "ok": not any(self.outcomes[name] for name in bad)
            and self.slowest <= MAX_SECONDS
            and peak <= MAX_MB,
            **dict(self.outcomes),
            **{name: self.outcomes[name] for name in bad},
            "slowest_s": round(self.slowest, 2),
            "peak_mb": round(peak),
        }


# Values that another program might stumble over.
ODD: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    2**63,
    10**400,
    -(10**4000),
    1e308,
    0.1,
    "",
    " ",
    "x",
    "\n" * 1000,
    "\ud800",
    "\x00\x1b[2J",
    "{{document}}",
    "[[ ## rating ## ]]\n5",
    "9" * 5000,
    "a" * 300_000,
    [],
    {},
    [[]],
    {"": {}},
    [0] * 3000,
    {"__class__": "x", "$ref": "#"},
)


def places(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path to every value inside."""
    if path:
        yield path
    entries = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, value in entries:
        if isinstance(value, dict | list):
            yield from places(value, (*path, key))
        else:
            yield (*path, key)


def alter_tree(tree: Any, rng: random.Random) -> Any:
    """A copy with one to three of its values replaced, removed, doubled, moved or renamed."""
    tree = copy.deepcopy(tree)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        paths = list(places(tree))
        if not paths:
            return tree
        *path, last = rng.choice(paths)
        holder = tree
        for key in path:
            holder = holder[key]
        way = rng.randrange(6)
        if way == 0:
            holder[last] = copy.deepcopy(rng.choice(ODD))
        elif way == 1:
            del holder[last]
        elif way == 2 and isinstance(holder, list):
            holder.insert(last, copy.deepcopy(rng.choice([*ODD, *holder])))
        elif way == 2:
            holder[rng.choice(("x", "", "name", "role", "__init__"))] = copy.deepcopy(holder[last])
        elif way == 3:
            *other, end = rng.choice(paths)
            with contextlib.suppress(KeyError, IndexError, TypeError):
                source = tree
                for key in other:
                    source = source[key]
                holder[last] = copy.deepcopy(source[end])
        elif isinstance(holder[last], str) and holder[last]:
            holder[last] = alter_bytes(holder[last].encode("utf-8", "replace"), rng).decode(
                "utf-8", rng.choice(("replace", "surrogateescape"))
            )
        elif isinstance(holder[last], int | float):
            holder[last] = rng.choice(
                (holder[last] + 1, -holder[last], str(holder[last]), 0.5, 10**9)
            )
    return tree


def alter_bytes(raw: bytes, rng: random.Random) -> bytes:
    """A copy with bits flipped, or a stretch of it cut, doubled, swapped or overwritten."""
    changed = bytearray(raw)
    for _ in range(rng.choice((1, 1, 2, 8))):
        if not changed:
            break
        start = rng.randrange(len(changed))
        end = min(len(changed), start + rng.choice((1, 1, 4, 40)))
        way = rng.randrange(6)
        if way == 0:
            changed[start] ^= 1 << rng.randrange(8)
        elif way == 1:
            del changed[start:end]
        elif way == 2:
            changed[start:start] = changed[start:end]
        elif way == 3:
            changed[start:end] = rng.choice(
                (b'"', b"{", b"[", b",", b"\\u", b"NaN", b"1e999", b"-")
            )
        elif way == 4:
            changed[start:start] = rng.randbytes(rng.choice((1, 2, 9)))
        else:
            del changed[rng.randrange(len(changed)) :]
    return bytes(changed)


def fuzz_judges(tries: int, rng: random.Random) -> Counts:
    """Frozen judges of every kind, altered; those that load by a right digest judge a text."""
    import frozen_cases

    from judges import Judge, frozen
    from judges.inference.session import open_runner

    kinds = [(judge, judge.dumps()) for judge in frozen_cases.KINDS.values()]
    texts = dict.fromkeys(("x",), "A fire broke out in the old mill. Nobody was hurt.")
    counts = Counts()

    def load(raw: bytes, saved: Any, *, right_digest: bool) -> str:
        judge = Judge.loads(raw)
        if judge == saved:
            return "accepted, identical"
        if not right_digest:
            raise AlteredError(raw[:4000].decode("utf-8", "replace"))
        # With its digest made right it is another judge, which must be as sound as any.
        if Judge.loads(judge.dumps().encode()) != judge:
            raise AssertionError("another judge after being saved and loaded")
        row = dict.fromkeys(judge.texts, texts["x"])
        free = replace(judge, lm="embedded")
        with open_runner(lm="embedded") as runner:
            judgement = next(free.judge_rows([row], runner))
        value = getattr(judgement, "score", None) or getattr(judgement, "margin", 0.0)
        if not math.isfinite(value) and not judgement.failure:
            raise AssertionError("a judgement without score and without failure")
        return "another judge of a right digest"

    for number in range(tries):
        saved, text = rng.choice(kinds)
        right = False
        if number % 4 == 0:
            raw = alter_bytes(text.encode(), rng)
        else:
            document = alter_tree(json.loads(text), rng)
            right = number % 4 > 1
            if right and isinstance(document, dict):
                if number % 4 == 3:
                    _derive(document)
                with contextlib.suppress(ValueError):
                    document["digest"] = frozen.digest(document)
            raw = json.dumps(document).encode()
        counts.attempt(
            lambda raw=raw, saved=saved, right=right: load(raw, saved, right_digest=right),
            (frozen.FrozenJudgeError,),
        )
    return counts


def _derive(document: dict[str, Any]) -> None:
    """Make what the file says twice agree, as a forger would who knows the format."""
    from judges.dimension import Dimension
    from judges.frozen import JudgeFile

    with contextlib.suppress(Exception):
        content = {name: value for name, value in document.items() if name != "digest"}
        file = msgspec.convert(content, JudgeFile)
        subject = file.read_subject()
        rated = isinstance(subject, Dimension)
        document.update(
            kind="rating" if rated else "pairwise",
            name=subject.name,
            texts=list(subject.texts),
            scale=list(subject.scale) if rated else None,
            messages=file.read_prompt().template(),
        )


DEFINITIONS = (
    """\
name: groundedness
definition: whether the reply uses the fact it was given
inputs:
  fact: the fact the speaker was given
  response: the reply to judge
scale: [0, 1]
anchors: {0: ignores the fact, 1: rests on the fact}
instruction: |
  Judge whether the reply makes use of the fact.
source: where it comes from
""",
    """\
kind: pairwise
name: kinder
definition: which reply is kinder to the writer
inputs: {query: what the user wrote}
candidate: response
""",
    """\
- {name: brief, definition: how short it is, inputs: [summary], scale: [1, 3]}
- name: plain
  definition: how plain it is
  inputs: [document, summary]
  anchors: {1: no, 5: yes}
""",
)
LAUGHS = "\n".join(
    ["a0: &a0 [lol, lol]", *(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]" for i in range(1, 40))]
)
TRICKS = (
    "[" * 3000,
    "{a: " * 3000,
    "- " * 3000 + "x",
    "? " * 3000,
    "&a [*a]",
    LAUGHS,
    "!!python/object/apply:os.mkdir [pwned]",
    "!!bool [1]",
    "!!bool maybe",
    "!!int ''",
    "!!int x",
    "!!float x",
    "!!timestamp x",
    "!!timestamp 99999-99-99",
    "2026-99-99",
    "!!binary '==='",
    "!!omap [1]",
    "!!pairs [[1, 2]]",
    "!!set {a, b}",
    "!x y",
    "? [1, 2]\n: 3",
    "? {a: b}\n: 3",
    "<<: {name: x}",
    "<<: [1]",
    "0x" + "f" * 5000,
    "9" * 5000,
    "1" + ":0" * 3000,
    "1e999",
    "-.inf",
    ".nan",
    "'" + "a" * 100_000 + "'",
    "%YAML 9.9\n---\nx",
    "--- a\n--- b",
    "\ufeff",
    "\x00",
    "\x85\u2028",
    "|\n" + "\n" * 50_000 + "  x",
    "a: b: c",
)


def fuzz_definitions(tries: int, rng: random.Random) -> Counts:
    """Definitions altered as text and with tricks put in; those that load freeze and load again."""
    from judges.define import read_subject
    from judges.dimension import DimensionError
    from judges.judge import Judge

    counts = Counts()

    def define(path: Path, before: Any) -> str:
        judge = Judge.of(read_subject(str(path)))
        text = judge.dumps()
        if Judge.loads(text.encode()).dumps() != text:
            raise AssertionError("another judge after being saved and loaded")
        return "accepted, identical" if judge == before else "another definition"

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "definition.yaml")
        for number in range(tries):
            text = DEFINITIONS[number % len(DEFINITIONS)]
            path.write_text(text, encoding="utf-8")
            before = None
            with contextlib.suppress(DimensionError):
                before = Judge.of(read_subject(str(path)))
            path.write_bytes(_definition(text, rng))
            counts.attempt(lambda before=before: define(path, before), (DimensionError,))
    return counts


def _definition(text: str, rng: random.Random) -> bytes:
    way = rng.randrange(4)
    if way == 0:
        return alter_bytes(text.encode(), rng)
    lines = text.splitlines(keepends=True)
    if way == 1:  # a trick in the place of a value
        place = rng.randrange(len(lines))
        key, colon, _ = lines[place].partition(": ")
        lines[place] = f"{key}{colon}{rng.choice(TRICKS)}\n"
    elif way == 2:  # a line of its own
        lines.insert(rng.randrange(len(lines) + 1), f"{rng.choice(TRICKS)}\n")
    else:
        rng.shuffle(lines)
    return "".join(lines).encode("utf-8", "replace")


SOUND = {
    "id": "chatcmpl-0",
    "object": "chat.completion",
    "model": "judge-1",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "4", "refusal": None},
            "finish_reason": "stop",
            "logprobs": {
                "content": [
                    {
                        "token": "4",
                        "logprob": -0.7,
                        "bytes": [52],
                        "top_logprobs": [
                            {"token": "4", "logprob": -0.7, "bytes": [52]},
                            {"token": "5", "logprob": -0.7, "bytes": [53]},
                        ],
                    }
                ]
            },
        }
    ],
    "usage": {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6},
}
CONTENTS = (
    "\n" * 20_000 + "4",
    "Score: " * 5_000,
    "(" * 20_000,
    "<think>" * 3_000 + "5",
    "4 or 5 " * 3_000,
    "[[ ## rating ## ]]" * 2_000,
    "1" * 50_000,
    "**" * 20_000,
    "４",
    "\ud800 4",
)
DELAY = 0.3
TIMEOUT = 2.0


def fuzz_answers(tries: int, rng: random.Random) -> Counts:
    """One row an answer: each is a judgement with a score on the scale, or a failure, in a line."""
    import judges
    from judges.inference import client
    from judges.inference.budget import Budget, BudgetSpentError
    from judges.inference.runner import Runner
    from judges.models import open_model
    from judges.models.prices import Price
    from judges.protocol import ModelError
    from judges.scoring import SamplingPlan

    client.FIRST_WAIT = 0.001
    counts = Counts()
    judge = judges.load("fluency").with_plan(SamplingPlan(kind="weighted"))
    answers = [_answer(rng) for _ in range(tries)]
    left = list(range(tries))
    sent = [0]

    def send(body: bytes) -> list[bytes]:
        sent[0] = int(body.rpartition(b"Answer number ")[2].partition(b".")[0])
        return [answers[sent[0]]]

    with ServingBytes(send) as base:
        while left:
            rows = ({"summary": f"Answer number {number}."} for number in tuple(left))
            # An absurd price, so that a count that lifts the limit, or ends it, is seen.
            price = Price(per_token_in=1e-6, per_token_out=1e-6)
            account = Budget(max_cost=1e9).account(price=price)
            model = open_model("openai/judge-1", api_base=base, timeout=TIMEOUT)
            start, fault = time.perf_counter(), ""
            try:
                with Runner(
                    model,
                    account=account,
                    timeout=TIMEOUT,
                    attempts=2,
                    fresh_samples=0,
                    concurrency=1,
                ) as runner:
                    for judgement in judge.judge_rows(rows, runner):
                        scored = math.isfinite(judgement.score)
                        outcome = "scored" if scored else "failed judgements"
                        fault = _complaint(judgement)
                        counts.note(
                            "tracebacks" if fault else outcome, time.perf_counter() - start, fault
                        )
                        left.pop(0)
                        start = time.perf_counter()
            except (ModelError, BudgetSpentError) as error:
                fault = "" if "\n" not in str(error) and str(error) else repr(error)
                counts.note(
                    "tracebacks" if fault else "run ended in one line",
                    time.perf_counter() - start,
                    fault,
                )
                left.remove(sent[0])  # the one that ended it
            except Exception:  # noqa: BLE001 - what this program is here to find
                counts.note("tracebacks", time.perf_counter() - start, traceback.format_exc())
                left.remove(sent[0])
    return counts


def _complaint(judgement: Any) -> str:
    """What is wrong with a judgement, if anything."""
    if math.isfinite(judgement.score):
        if judgement.failure or not 1 <= judgement.score <= 5:
            return f"a score of {judgement.score} beside {judgement.failure!r}"
        return ""
    failure = judgement.failure or ""
    if not failure or "\n" in failure or len(failure) > MAX_REFUSAL_LENGTH:
        return f"a failed judgement that says {failure!r}"[:400]
    return ""


def _answer(rng: random.Random) -> bytes:
    """A whole HTTP answer, of which one part or another is spoiled; b"" drops the connection."""
    status, headers, body = "200 OK", {"Content-Type": "application/json"}, _body(rng)
    way = rng.randrange(12)
    if way == 0:
        encoding = rng.choice(("gzip", "deflate", "br", "zstd", "gzip, gzip", "x"))
        packed = gzip.compress(body) if "gzip" in encoding else zlib.compress(body)
        headers["Content-Encoding"] = encoding
        body = rng.choice((packed, packed[: len(packed) // 2], body, alter_bytes(packed, rng)))
    elif way == 1:
        headers["Content-Encoding"] = "gzip"
        body = _bomb()
    elif way == 2:
        status = rng.choice(("500 No", "503 No", "429 No", "408 No", "204 None", "206 Part"))
        headers["Retry-After"] = rng.choice(
            ("0", "-1", "0.01", "nan", "inf", "soon", "9" * 400, "Fri, 31 Dec 99999 23:59:59 GMT")
        )
    elif way == 3:
        status = rng.choice(
            ("400 No", "401 No", "404 No", "413 No", "302 Away", "200", "x", "99 x")
        )
        headers["Location"] = "http://127.0.0.1:9/"
    elif way == 4:
        headers["X-Long"] = "x" * rng.choice((10, 9_000, 100_000))
    elif way == 5 and rng.random() < 0.5:
        return rng.choice((b"", b"\x00" * 100, b"HTTP/1.1 ", b"HTTP/9.9 200 OK\r\n\r\n"))
    lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in headers.items())]
    length = len(body) + rng.choice((0, 0, 0, 0, 0, 0, 0, -1, 1, 10**9) if way == 6 else (0,))
    if way == 7:
        lines.append("Transfer-Encoding: chunked")
        body = rng.choice((b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body), b"zz\r\n" + body, body))
    else:
        lines.append(f"Content-Length: {length}")
    return "\r\n".join([*lines, "", ""]).encode("utf-8", "replace") + body


def _body(rng: random.Random) -> bytes:
    way = rng.randrange(10)
    if way < 5:
        return json.dumps(alter_tree(SOUND, rng)).encode()
    if way < 7:
        return alter_bytes(json.dumps(SOUND).encode(), rng)
    if way == 7:
        sound = copy.deepcopy(SOUND)
        sound["choices"][0]["message"]["content"] = rng.choice(CONTENTS)  # type: ignore[index]
        return json.dumps(sound).encode()
    if way == 8:
        return rng.choice(
            (
                b"[" * 100_000,
                b'{"choices":' * 50_000,
                b"9" * 5_000,
                b'{"choices":[{"message":{"content":"4"}}],"usage":{"prompt_tokens":-1e999}}',
                b'{"error":{"message":' + b"[" * 50_000,
                b"data: {}\n\n" * 100,
                json.dumps(SOUND).encode("utf-16"),
                json.dumps(SOUND).encode("utf-32"),
                b"\xef\xbb\xbf" + json.dumps(SOUND).encode(),
                json.dumps([SOUND]).encode(),
                json.dumps({"error": {"message": "x" * 100_000, "code": 500}}).encode(),
            )
        )
    return json.dumps(SOUND).encode()


def _bomb() -> bytes:
    """A body of a hundred kilobytes that is 100 MB once it is unpacked."""
    if not _BOMBS:
        _BOMBS.append(gzip.compress(b" " * 100_000_000))
    return _BOMBS[0]


_BOMBS: list[bytes] = []


def fuzz_journals(tries: int, rng: random.Random) -> Counts:
    """Journals of a few replies, altered: every reply is the recorded one, or is asked again.

    Every third has lines of releases that wrote no checksum; there only damage to the form of a
    line can be told. Half are altered as bytes, the others line by line.
    """
    from judges.models.journal import Journal, JournalError, describe, encode_record
    from judges.protocol import Completion, Reply, Token

    counts = Counts()
    keys = [f"{number:064x}" for number in range(6)]
    recorded = {
        key: Completion(
            replies=(Reply(text=f"{number}\n{key}", tokens=(Token("4", {"4": -0.5}),)),),
            tokens_in=5,
            tokens_out=number,
            model="m",
        )
        for number, key in enumerate(keys)
    }
    lines = [encode_record(key, one, "e", "m") for key, one in recorded.items()]
    plain = [line[: line.rindex(b',"sum":')] + b"}\n" for line in lines]

    def look(path: Path, *, checked: bool) -> str:
        held = describe(path)
        str(held)
        with Journal(path) as journal:
            answers = [journal.get(key) for key in keys]
            for key, answer in zip(keys, answers, strict=True):
                if answer is None:
                    journal.put(key, recorded[key], endpoint="e", model="m")
                elif answer != recorded[key] and checked:
                    raise AlteredError(path.read_bytes().decode("utf-8", "replace"))
            if any(journal.get(key) is None for key in keys):
                raise AssertionError("a reply that was paid for again is not kept")
        with Journal(path) as journal:
            if any(journal.get(key) is None for key in keys):
                raise AssertionError("a reply that was paid for again is lost")
        lost = answers.count(None)
        return (
            "whole" if not lost else "some asked again" if lost < len(keys) else "all asked again"
        )

    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
        path = Path(folder, "replies.jsonl")
        for number in range(tries):
            checked = number % 3 > 0
            if number % 2:
                raw = alter_bytes(b"".join(lines if checked else plain), rng)
            else:
                raw = b"".join(_journal_line(rng, line) for line in (lines if checked else plain))
            path.write_bytes(raw)
            counts.attempt(lambda checked=checked: look(path, checked=checked), (JournalError,))
    return counts


def _journal_line(rng: random.Random, line: bytes) -> bytes:
    way = rng.randrange(5)
    if way == 0:
        return alter_bytes(line, rng)
    if way == 1:
        record = json.loads(line)
        altered = alter_tree(record, rng)
        if isinstance(altered, dict) and "sum" in record:
            # To take it off a whole line is no damage, and looks like an older release's line.
            altered.setdefault("sum", record["sum"])
        return json.dumps(altered, separators=(",", ":")).encode() + b"\n"
    return line


LABELS = [
    {
        "id": f"{document}-{system}",
        "group": f"d{document}",
        "system": f"s{system}",
        "document": f"The bridge {document} is closed until May.",
        "summary": f"Bridge {document} closed {system}.",
        "relevance": (document + system) % 5 + 1,
    }
    for document in range(12)
    for system in range(3)
]
REPLIES = [{"id": row["id"], "dimension": "relevance", "replies": ["4", "5"]} for row in LABELS]
SCORES = [{"id": row["id"], "dimension": "relevance", "score": 3.5} for row in LABELS]
CONFIG = "dimension: relevance\nmax-calls: 60\nseed: 1\nmap: {summary: summary}\n"
WORDS = (
    "9" * 400, "1e400", "nan", "-1", "0", "", " ", "\x00", "\ud800", "x" * 5000, "0x10", "a=b", "=",
    "relevance", "embedded", "replay:labels.jsonl", "labels.jsonl", "judge.json", ".", "/dev/null",
    "missing/x.jsonl", "1-5", "5-1", "0:1e300", "-1:1", "hf:", ":", "a:b", "own.yaml:x", "é",
)  # fmt: skip
COMMANDS: tuple[tuple[str, str], ...] = (
    ("data", "check labels.jsonl"),
    ("data", "check labels.csv"),
    ("data", "show labels.jsonl --json"),
    ("judges", "show judge.json"),
    ("judges", "show own.yaml"),
    ("judges", "score relevance --data labels.jsonl --out out.jsonl --force"),
    ("judges", "score judge.json --data labels.csv --out out.csv --prefix judge_ --force --json"),
    (
        "judges",
        "score relevance --data labels.jsonl --out out.parquet --prefix x_ --force --seed 1",
    ),
    ("judges", "score relevance --data labels.parquet --out out.jsonl --resume --max-calls 3"),
    ("judges", "score relevance --data labels.jsonl --config flags.yaml --out o.csv --dry-run"),
    ("judges", "compare tldr_concise --data pairs.jsonl --out out.jsonl --force"),
    ("judges", "journal replies.jsonl"),
    ("judges", "export judge.json --to messages"),
    ("optimize", "--dimension relevance --data labels.jsonl --max-calls 60 --scale 1-5"),
    ("optimize", "--config config.yaml --data labels.jsonl"),
    ("optimize", "--resume --out run"),
    ("verify", "judge.json --data labels.jsonl --json"),
    ("verify", "--replies answers.jsonl --data labels.jsonl --dimension relevance"),
    ("verify", "--scores scores.jsonl --data labels.jsonl --dimension relevance --json"),
    ("report", "run"),
)


def fuzz_commands(tries: int, rng: random.Random) -> Counts:
    """Commands whose flags or files are altered: done, or refused in one line with 1 or 2."""
    import pandas as pd

    from data import cli as data_commands
    from judges import load
    from judges.__main__ import main as judges_main
    from optimize.cli import report, tune, verify

    mains: dict[str, Callable[[list[str]], int]] = {
        "data": data_commands.main,
        "judges": judges_main,
        "optimize": tune.command,
        "verify": verify.command,
        "report": report.command,
    }
    sound = {
        "labels.jsonl": _lines(LABELS),
        "labels.csv": pd.DataFrame(LABELS).to_csv(index=False).encode(),
        "labels.parquet": _parquet(pd.DataFrame(LABELS)),
        "pairs.jsonl": _lines(
            [
                {"id": n, "prompt": f"p{n}", "response_a": "a", "response_b": "b", "votes": ["A"]}
                for n in range(6)
            ]
        ),
        "answers.jsonl": _lines(REPLIES),
        "scores.jsonl": _lines(SCORES),
        "replies.jsonl": b"",
        "config.yaml": CONFIG.encode(),
        "own.yaml": DEFINITIONS[0].encode(),
        "judge.json": load("relevance").dumps().encode(),
        "flags.yaml": b"lm: embedded\nprefix: x_\nseed: 3\n",
    }
    counts = Counts()

    def run(name: str, arguments: list[str]) -> str:
        stderr, result = io.StringIO(), io.TextIOWrapper(io.BytesIO(), "utf-8")
        with contextlib.redirect_stderr(stderr), contextlib.redirect_stdout(result):
            try:
                code = mains[name](arguments)
            except SystemExit as error:
                code = error.code if isinstance(error.code, int) else 1
        if "Traceback" in stderr.getvalue():
            raise AssertionError(stderr.getvalue())
        if code not in (0, 1, 2):
            raise AssertionError(f"exit code {code}")
        if code and not stderr.getvalue().strip() and name != "data" and name != "verify":
            raise AssertionError(f"exit code {code} without a word")
        return "done" if code == 0 else "refused"

    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        Path("labels.jsonl").write_bytes(sound["labels.jsonl"])
        begin = "--dimension relevance --data labels.jsonl --max-calls 60 --out run"
        run("optimize", begin.split())
        sound |= {str(path): path.read_bytes() for path in Path("run").glob("*.*")}
        sound["replies.jsonl"] = sound["run/replies.jsonl"]
        for number in range(tries):
            name, line = COMMANDS[number % len(COMMANDS)]
            arguments = line.split()
            for path in Path().glob("out.*"):
                path.unlink()
            shutil.rmtree("runs", ignore_errors=True)
            Path("run").mkdir(exist_ok=True)
            for file, content in sound.items():
                Path(file).write_bytes(content)
            if rng.random() < 0.75:
                used = [file for file in sound if any(word in file for word in arguments)]
                file = rng.choice(used or list(sound))
                Path(file).write_bytes(_altered_file(file, sound[file], rng))
            else:
                place = rng.randrange(len(arguments) + 1)
                arguments[place : place + rng.randrange(2)] = [rng.choice(WORDS)]
            told = f"{name} {arguments}"
            before = len(counts.faults)
            counts.attempt(lambda name=name, told=arguments: run(name, told), ())
            if len(counts.faults) > before:
                counts.faults[-1] = f"{told}\n{counts.faults[-1]}"
    return counts


def _lines(rows: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def _parquet(frame: Any) -> bytes:
    buffer = io.BytesIO()
    frame.to_parquet(buffer)
    return buffer.getvalue()


def _altered_file(name: str, content: bytes, rng: random.Random) -> bytes:
    if name.endswith(".jsonl") and rng.random() < 0.7 and content:
        rows = [json.loads(line) for line in content.splitlines()]
        rows = [alter_tree(row, rng) if rng.random() < 0.3 else row for row in rows]
        return _lines(rows) + rng.choice((b"", b"", b"[" * 100_000, b'{"a":' * 50_000, b"\xff"))
    if name.endswith(".yaml"):
        return _definition(content.decode(), rng)
    if name.endswith(".json") and rng.random() < 0.7:
        return json.dumps(alter_tree(json.loads(content), rng)).encode()
    return alter_bytes(content, rng)


# name -> (how many tries by default, what makes them)
SECTIONS: dict[str, tuple[int, Callable[[int, random.Random], Counts]]] = {
    "judges": (100_000, fuzz_judges),
    "definitions": (10_000, fuzz_definitions),
    "answers": (10_000, fuzz_answers),
    "journals": (10_000, fuzz_journals),
    "commands": (5_000, fuzz_commands),
}


def _give_up(*_: object) -> None:
    raise TimeoutError(f"no end after {HOPELESS:g} s")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sections", nargs="+", choices=SECTIONS, metavar="SECTION")
    parser.add_argument("--tries", type=int, help="how many, for each section")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="figures for machines")
    flags = parser.parse_args()
    signal.signal(signal.SIGALRM, _give_up)
    results = {}
    for name in flags.sections:
        tries, fuzz = SECTIONS[name]
        start = time.perf_counter()
        counts = fuzz(flags.tries or tries, random.Random(flags.seed))
        results[name] = {**counts.figures(), "seconds": round(time.perf_counter() - start)}
        if not flags.json:
            figures = results[name]
            print(f"{'ok  ' if figures['ok'] else 'FAIL'} {name}: {figures}", flush=True)
        for fault in counts.faults[:3]:
            print(fault, file=sys.stderr)
    if flags.json:
        print(json.dumps(results, indent=1))
    sys.exit(not all(figures["ok"] for figures in results.values()))


if __name__ == "__main__":
    main()
