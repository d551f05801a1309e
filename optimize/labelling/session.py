"""Labels as they are given: what is shown to whom, what stands, and the file that keeps them.

Two annotators disagree where their ratings differ by 2 or more, or their words or choices at all;
an annotator and the judge where its score is a whole point or more away, or its word or choice
another.
"""

import errno
import json
import os
import random
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from threading import Lock
from typing import Any, ClassVar

from data.tables.problems import count
from data.types import LabelError, LabelledPair, LabelledPairs, LabelledSet
from data.values import says_nothing
from dspy_judges.errors import JudgesError
from judges.judge import Kind
from judges.judgement import AnyJudgement, Verdict
from judges.terminal import INVISIBLE
from optimize.figures import json_number
from optimize.items import VOTES
from optimize.statistics.human import annotator_agreement

Value = int | str
State = dict[str, Any]
# The time of a label is the median of so many, known from so few.
_RECENT, _FEWEST = 20, 3
_LONGEST_NAME, _LONGEST_COMMENT = 80, 20_000
_GAPS = {"rating": 2.0}  # between annotators; 1 to a judge
_SIDE = re.compile(r"\b[AB]\b")
_TURNED = " (A and B are the other way round here)"


class RefusedError(JudgesError, ValueError):
    """What a page asked for is not done; `status` is HTTP's, `state` what there is instead."""

    status: ClassVar[int] = 400
    state: State | None = None


class ChangedError(RefusedError):
    """The label that the page showed is another by now."""

    status = 409


class NotSavedError(RefusedError):
    """The label could not be written, and the file is as it was."""

    status = 507


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One thing an annotator may say: the file's value, the number that it counts, its key."""

    value: Value
    number: float
    key: str
    anchor: str | None = None

    def as_json(self) -> State:
        text = str(self.value)
        return {"value": self.value, "text": text, "key": self.key, "anchor": self.anchor}


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What people are asked: of two words the good one is the first of the answers."""

    name: str
    kind: Kind
    definition: str
    answers: tuple[Answer, ...]
    texts: tuple[str, ...] = ()  # those shown, the judged one last (of a pair those beside both)

    def as_json(self) -> State:
        answers = [answer.as_json() for answer in self.answers]
        about = {"name": self.name, "kind": self.kind, "definition": self.definition}
        return {**about, "answers": answers}


@dataclass(frozen=True, slots=True)
class _Label:
    value: Value
    comment: str


@dataclass(slots=True)
class _Given:
    """What one annotator gave, by item: what stands, the oldest first, and what was before."""

    standing: dict[int, _Label] = field(default_factory=dict)
    # The last label before they saw another's; whose they saw; the last label taken back.
    blind: dict[int, Value] = field(default_factory=dict)
    seen: dict[int, str] = field(default_factory=dict)
    undone: dict[int, _Label] = field(default_factory=dict)
    times: deque[datetime] = field(default_factory=lambda: deque(maxlen=_RECENT + 1))

    def add(self, item: int, label: _Label | None, seen: str | None, at: datetime) -> None:
        """Take one line of the file."""
        before = self.standing.pop(item, None)
        if seen:
            self.seen[item] = seen
        if label is None:
            self.undone |= {item: before} if before else {}
        else:
            self.standing[item] = label
            self.times.append(at)
        if item not in self.seen:
            self.blind.pop(item, None)
            self.blind |= {item: label.value} if label else {}


def _now() -> datetime:
    return datetime.now(UTC)


class Session:
    """The outputs in their order and the labels of their file, for pages in any thread.

    Every label is one write of a whole line, and stands once the disk has it; what is remembered is
    what the file holds. `notes` say what the file held that is no label of these outputs.
    """

    def __init__(
        self,
        task: Task,
        outputs: LabelledSet | LabelledPairs,
        path: Path,
        *,
        seed: int = 0,
        judgements: Mapping[str, AnyJudgement] | None = None,
        now: Callable[[], datetime] = _now,
    ) -> None:
        self.task, self.path, self.notes = task, path, list[str]()
        self._now, self._lock = now, Lock()
        chance = random.Random(seed)
        documents: dict[str, list[Any]] = {}
        for output in outputs.items:
            documents.setdefault(output.document_id, []).append(output)
        groups = list(documents.values())
        chance.shuffle(groups)
        for group in groups:
            chance.shuffle(group)
        self._items = [output for group in groups for output in group]
        self._places = [
            {"document": number, "documents": len(groups), "place": at, "of_document": len(group)}
            for number, group in enumerate(groups, 1)
            for at in range(1, len(group) + 1)
        ]
        is_pairs = task.kind == "pairwise"
        self._turned = [is_pairs and chance.random() < 0.5 for _ in self._items]
        self._numbers = {answer.value: answer.number for answer in task.answers}
        self._index = {item.id: index for index, item in enumerate(self._items)}
        judged = {self._index[name]: of for name, of in (judgements or {}).items()}
        self._judged = {index: of for index, of in judged.items() if of.failure is None}
        self._has_judge = judgements is not None
        self._given: dict[str, _Given] = {}
        self._agreements: dict[tuple[str, str], State] = {}
        self._torn: int | None = None
        # Unbuffered: a line is one write.
        self._file: Any = path.open("ab+", buffering=0)
        try:
            self._read()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file, once a label that is being written has been."""
        with self._lock:
            self._file.close()

    @property
    def n_labels(self) -> int:
        """How many labels stand."""
        return sum(len(given.standing) for given in self._given.values())

    # The file

    def _read(self) -> None:
        """Take what the file holds; a last line that was cut off by a kill is removed."""
        self._file.seek(0)
        *lines, last = self._file.read().split(b"\n")
        n_unknown = 0
        for number, line in enumerate(lines, 1):
            n_unknown += bool(line.strip()) and not self._take(self._row(line, number), number)
        if last:
            try:
                n_unknown += not self._take(self._row(last, len(lines) + 1), len(lines) + 1)
                self._file.write(b"\n")
            except LabelError:
                if not b'{"id": '.startswith(last[:7]) or last.endswith(b"}"):
                    raise
                self._file.truncate(sum(len(line) + 1 for line in lines))
                self.notes.append("the last line was cut off, and is removed")
        if n_unknown:
            of = "of other outputs, or on another dimension"
            self.notes.append(f"{count(n_unknown, 'line')} {of}: left as they are")

    def _row(self, line: bytes, number: int) -> Mapping[str, Any]:
        """A line of the file; LabelError where this page writes no such line."""
        with suppress(ValueError, RecursionError):
            row = json.loads(line)
            key = "preferred" if self.task.kind == "pairwise" else "rating"
            if isinstance(row, dict) and {"id", "annotator", "labelled_at", key} <= row.keys():
                return row
        self._refuse(number, "is no label of such a page")
        raise AssertionError

    def _refuse(self, number: int, what: str) -> None:
        raise LabelError(f"{self.path}, line {number}: {what}; name another file by --out")

    def _take(self, row: Mapping[str, Any], number: int = 0) -> bool:
        """Remember a line; False where it is about something else."""
        index = self._index.get(str(row["id"]))
        if index is None or row.get("dimension", self.task.name) != self.task.name:
            return False
        value = row["preferred" if self.task.kind == "pairwise" else "rating"]
        if value is not None and value not in self._numbers:
            self._refuse(number, f"{value!r:.40} is none of the answers")
        texts = self._texts_of(index)
        if {name: row.get(name) for name in texts} != texts:
            self._refuse(number, f"the output {row['id']!r:.60} has another text there")
        try:
            at = datetime.fromisoformat(row["labelled_at"])
        except (ValueError, TypeError):
            self._refuse(number, "labelled_at is no time")
        who, label = str(row["annotator"]), None
        if value is not None:
            label = _Label(value, str(row.get("comment") or ""))
        self._given.setdefault(who, _Given()).add(index, label, row.get("changed_after"), at)
        for pair in [pair for pair in self._agreements if who in pair]:
            del self._agreements[pair]
        return True

    def _texts_of(self, index: int) -> dict[str, str]:
        """Every text of an output or pair, as its label's line has them."""
        item = self._items[index]
        if isinstance(item, LabelledPair):
            return {**item.texts, "response_a": item.response_a, "response_b": item.response_b}
        return dict(item.texts)

    def _append(
        self, annotator: str, index: int, value: Value | None, comment: str, seen: str | None
    ) -> None:
        """Write a line and remember it; NotSavedError, and the file is as it was."""
        item, is_pair = self._items[index], self.task.kind == "pairwise"
        systems = ("system_a", "system_b") if is_pair else ("system",)
        at = self._now().astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        row: dict[str, Any] = {"id": item.id, "group": item.document_id}
        row |= {name: of for name in systems if (of := getattr(item, name)) is not None}
        row |= self._texts_of(index)
        row |= {} if is_pair else {"dimension": self.task.name}
        row |= {"annotator": annotator, "preferred" if is_pair else "rating": value}
        row |= {"comment": comment} if comment else {}
        row |= {"labelled_at": at, **({"changed_after": seen} if seen else {})}
        self._write(f"{json.dumps(row, ensure_ascii=False)}\n".encode())
        self._take(row)

    def _write(self, line: bytes) -> None:
        if self._file.closed:
            raise NotSavedError("not saved: the command has ended; start it again")
        try:
            if not os.path.samestat(os.fstat(self._file.fileno()), self.path.stat()):
                raise OSError(errno.ESTALE, "it was replaced: end the command and start it again")
            if self._torn is not None:
                self._file.truncate(self._torn)
            self._torn = self._file.seek(0, os.SEEK_END)
            if self._file.write(line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self._file.fileno())
            self._torn = None
        except OSError as error:
            with suppress(OSError):
                if self._torn is not None:
                    self._file.truncate(self._torn)
                    self._torn = None
            message = f"not saved: {self.path}: {error.strerror}; mend that and click again"
            raise NotSavedError(message) from None

    # What a page asks for

    def state(self, annotator: str) -> State:
        """What the page shows this annotator."""
        with self._lock:
            return self._state(annotator)

    def label(
        self,
        annotator: str,
        item: object,
        value: object,
        comment: object = "",
        before: object = None,
        after: object = None,
    ) -> State:
        """Save a label; the next state. ChangedError where `before` is not the label that stands.

        `before` is the value that the page showed (None: none), `after` whose labels ("annotators"
        or "judge"). The very label that stands is not written twice.
        """
        who = _name_of(annotator)
        with self._lock:
            if type(item) is not int or not 0 <= item < len(self._items):
                raise RefusedError("there is no such item")
            known = {(type(each), each) for each in self._numbers}
            if {(type(value), value), *known} != known or after not in (
                None,
                "annotators",
                "judge",
            ):
                raise RefusedError(f"{value!r:.40} is none of the answers")
            if not isinstance(comment, str) or len(comment) > _LONGEST_COMMENT:
                raise RefusedError(f"a comment is a text of at most {_LONGEST_COMMENT:,} letters")
            said: Any = self._turn(item, value)
            label = _Label(said, self._turn_comment(item, _readable(comment).strip()))
            given = self._given.get(who, _Given())
            stands = given.standing.get(item)
            if stands != label:
                if (stands and stands.value) != self._turn(item, before):
                    error = ChangedError("this label was changed in another window meanwhile")
                    error.state = self._state(who)
                    raise error
                seen: Any = after or given.seen.get(item)
                self._append(who, item, label.value, label.comment, seen)
            return self._state(who)

    def undo(self, annotator: str) -> State:
        """Take back this annotator's last label that stands; the state with its item again."""
        who = _name_of(annotator)
        with self._lock:
            given = self._given.get(who, _Given())
            item = next(reversed(given.standing), None)
            if item is not None:
                self._append(who, item, None, "", given.seen.get(item))
            return self._state(who, item)

    def review(self, annotator: str) -> State:
        """This annotator's disagreements, those with other annotators first."""
        with self._lock:
            given = self._given.get(annotator, _Given())
            items = []
            for item, after in self._disagreements(annotator):
                others = [
                    {"annotator": name, **self._shown(item, of.standing[item])}
                    for name, of in sorted(self._given.items())
                    if after == "annotators" and name != annotator and item in of.standing
                ]
                own = self._shown(item, given.standing[item])
                judge = self._judge_says(item) if after == "judge" else None
                about = {"own": own, "others": others, "judge": judge, "after": after}
                items.append({**self._item(item), **about})
            return {"items": items}

    def _state(self, annotator: str, item: int | None = None) -> State:
        given, n = self._given.get(annotator, _Given()), len(self._items)
        if item is None:
            item = next((at for at in range(n) if at not in given.standing), None)
        shown = None
        if item is not None:
            undone = given.undone.get(item)
            shown = {**self._item(item), "undone": undone and self._shown(item, undone)}
        gaps = [
            (b - a).total_seconds()
            for a, b in zip(given.times, list(given.times)[1:], strict=False)
        ]
        left = n - len(given.standing)
        return {
            "task": self.task.as_json(),
            "outputs": n,
            "done": len(given.standing),
            "seconds_left": round(median(gaps) * left) if len(gaps) >= _FEWEST else None,
            "agreement": self._agreement(),
            "annotators": sorted(self._given),
            "disagreements": len(self._disagreements(annotator)),
            "has_judge": self._has_judge,
            "item": shown,
        }

    def _item(self, index: int) -> State:
        item = self._items[index]
        texts = [{"name": n, "text": item.texts[n]} for n in self.task.texts if n in item.texts]
        judged = texts[-1:]
        if isinstance(item, LabelledPair):
            sides = [item.response_a, item.response_b][:: -1 if self._turned[index] else 1]
            judged = [{"name": n, "text": t} for n, t in zip("AB", sides, strict=True)]
        else:
            texts = texts[:-1]
        return {"item": index, **self._places[index], "texts": texts, "judged": judged}

    def _turn(self, item: int, value: Any) -> Any:
        """A choice as the file has it, of one that is shown, or the other way round."""
        return {"A": "B", "B": "A"}.get(value, value) if self._turned[item] else value

    def _turn_comment(self, item: int, comment: str) -> str:
        """The same of what people and judges write about A and B."""
        if not self._turned[item] or not _SIDE.search(comment.removesuffix(_TURNED)):
            return comment
        bare = comment.removesuffix(_TURNED)
        return bare if bare != comment else comment + _TURNED

    def _shown(self, item: int, label: _Label) -> State:
        comment = self._turn_comment(item, label.comment)
        return {"value": self._turn(item, label.value), "comment": comment}

    def _disagreements(self, annotator: str) -> list[tuple[int, str]]:
        """The items, and with whom: annotators first, then those with the judge alone."""
        gap = _GAPS.get(self.task.kind, 0.5)
        given = self._given.get(annotator, _Given())
        others = [of.standing for name, of in self._given.items() if name != annotator]
        by_annotators, by_judge = [], []
        for item, label in sorted(given.standing.items()):
            own = self._numbers[label.value]
            theirs = (of[item].value for of in others if item in of)
            if any(abs(self._numbers[value] - own) >= gap for value in theirs):
                by_annotators.append((item, "annotators"))
            elif judged := self._judge_says(item):
                is_rating = self.task.kind == "rating"
                said = (
                    judged["score"]
                    if is_rating
                    else self._numbers[self._turn(item, judged["value"])]
                )
                if abs(said - own) >= (1 if is_rating else gap):
                    by_judge.append((item, "judge"))
        return by_annotators + by_judge

    def _judge_says(self, item: int) -> State | None:
        """What the judge said of an item, as the page shows it; None where it failed."""
        judged = self._judged.get(item)
        if judged is None:
            return None
        score = judged.score
        if isinstance(judged, Verdict):
            value: Any = self._turn(item, judged.preferred)
            score, reason = -score if self._turned[item] else score, judged.comparison
        else:
            nearest = min(self.task.answers, key=lambda answer: abs(answer.number - score))
            value, reason = nearest.value, judged.rationale
        return {"value": value, "score": score, "reason": self._turn_comment(item, reason or "")}

    def _agreement(self) -> list[State]:
        """How far every two annotators said the same before they saw each other's labels."""
        names = sorted(self._given)
        for place, first in enumerate(names):
            for second in names[place + 1 :]:
                if (first, second) not in self._agreements:
                    self._agreements[first, second] = self._agreement_of(first, second)
        return [of for _, of in sorted(self._agreements.items()) if of["n"]]

    def _agreement_of(self, first: str, second: str) -> State:
        a, b = self._given[first].blind, self._given[second].blind
        both = [[self._numbers[a[item]], self._numbers[b[item]]] for item in a.keys() & b.keys()]
        names = {"annotators": [first, second], "n": len(both)}
        if not both:
            return {**names, "equal": None, "kappa": None}
        (row,) = annotator_agreement(both)
        return {**names, "equal": json_number(row.equal), "kappa": json_number(row.kappa)}


def _readable(text: str) -> str:
    """The text; RefusedError where it is no Unicode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise RefusedError("the text holds half a surrogate pair") from None
    return text


def _name_of(annotator: object) -> str:
    """An annotator's name as the file has it."""
    name = " ".join(annotator.split()) if isinstance(annotator, str) else ""
    if says_nothing(name) or len(name) > _LONGEST_NAME or INVISIBLE.search(name):
        raise RefusedError(f"give a name of 1 to {_LONGEST_NAME} letters")
    return name


def two_words(words: Sequence[str], anchors: Mapping[int, str]) -> tuple[Answer, ...]:
    """The answers of a verdict, the good word first, by their first letters."""
    keys = [word[0].casefold() for word in words]
    keys = keys if keys[0] != keys[1] else ["1", "2"]
    return tuple(
        Answer(value=word, number=number, key=key, anchor=anchors.get(number) or None)
        for word, number, key in zip(words, (1, 0), keys, strict=True)
    )


def ratings(anchors: Mapping[int, str]) -> tuple[Answer, ...]:
    """The answers of a scale, by their digits; 0 is the key of 10 where there is no 0."""
    return tuple(
        Answer(value=rating, number=rating, key=str(rating)[-1], anchor=text or None)
        for rating, text in anchors.items()
    )


def sides() -> tuple[Answer, ...]:
    """The answers of a pair."""
    return tuple(
        Answer(value=value, number=VOTES[value], key=value[0].casefold()) for value in VOTES
    )
