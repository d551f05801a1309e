"""Labels as they are given: what is shown to whom, what stands, and the file that keeps them.

Annotators disagree where their ratings differ by 2 or more (of 2 or 3 answers: at all), and one
disagrees with the judge where its score is a point or more away, or its word or choice another.
"""

import json
import os
import random
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from errno import ENOSPC
from itertools import pairwise
from pathlib import Path
from statistics import median
from threading import RLock
from typing import Any, Literal

import msgspec
import numpy as np

from dspy_judges.errors import JudgesError
from dspy_judges.files import claim_file
from judges.dimension import Comparison, Subject, kind_of
from judges.labels.rows import SAMPLING
from judges.labels.types import LabelError
from judges.labels.values import says_nothing
from judges.tables.problems import count
from optimize.figures.as_json import json_number
from optimize.items import VOTES
from optimize.statistics.plain import quadratic_kappa

Value = int | float | str
After = Literal["annotators", "judge"]
State = dict[str, Any]
# The time that a label takes is the median of so many, known from so few.
RECENT, FEWEST = 20, 3
LONGEST_NAME = 80


class RefusedError(JudgesError, ValueError):
    """A click that is not taken; `status` is HTTP's, `state` what the page should show instead."""

    def __init__(self, message: str, status: int = 400, state: State | None = None) -> None:
        super().__init__(message)
        self.status, self.state = status, state


class Click(msgspec.Struct, forbid_unknown_fields=True):
    """What a page sends: by whom and, of a label, what is said of which item.

    `before` is the value that it showed as theirs (None: none), `after` whose labels it showed.
    """

    annotator: str
    item: int = -1
    value: Value = ""
    comment: str = ""
    before: Value | None = None
    after: After | None = None


class Label(msgspec.Struct):
    """What a line of the file says beside its output; no value takes a label back."""

    annotator: str
    labelled_at: datetime
    value: Value | None
    comment: str = ""
    changed_after: After | None = None

    @property
    def said(self) -> State:
        return {"value": self.value, "comment": self.comment}


@dataclass
class _Given:
    """One annotator's labels by item: those that stand, the last one last, and those given blind.

    What is `seen` is not blind any more.
    """

    standing: dict[int, Label] = field(default_factory=dict)
    blind: dict[int, Value | None] = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)

    def add(self, item: int, label: Label) -> None:
        self.standing.pop(item, None)
        if label.value is not None:
            self.standing[item] = label
        if label.changed_after:
            self.seen.add(item)
        if item not in self.seen:
            self.blind[item] = label.value


@dataclass(kw_only=True, eq=False)
class Session:
    """Outputs or pairs in their order, and the file of their labels; for requests of any thread.

    `rows` hold what every line of the file says of an output or pair, `texts` and `judged` which of
    it the page shows, under which name. `judge` has by id the judge's `value`, its `score` and the
    `reason`. A label is one write of a whole line and stands once the disk has it: what is
    remembered is what the file holds, and where another program changed it, every call is refused.
    `notes` say what else the file held.
    """

    subject: Subject
    rows: Sequence[Mapping[str, Any]]
    texts: Sequence[str]
    judged: Mapping[str, str]
    path: Path
    seed: int = 0
    judge: Mapping[str, State] | None = None
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    notes: list[str] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self._lock, self._numbers = RLock(), numbers_of(self.subject)
        kind, self._about = kind_of(self.subject), dict[str, Any]()
        self._key = "preferred" if kind == "pairwise" else "rating"
        if kind != "pairwise":
            self._about = {"dimension": self.subject.name}
        if kind == "rating":
            self._about["rating_scale"] = f"{min(self._numbers)}-{max(self._numbers)}"
        chance, documents = random.Random(self.seed), dict[str, list[Mapping[str, Any]]]()
        for row in self.rows:
            documents.setdefault(row["group"], []).append(row)
        groups = chance.sample([*documents.values()], len(documents))
        self.rows = [row for group in groups for row in chance.sample(group, len(group))]
        names = "document", "documents", "place", "of_document"
        self._places = [
            dict(zip(names, (number, len(groups), place, len(group)), strict=True))
            for number, group in enumerate(groups, 1)
            for place in range(1, len(group) + 1)
        ]
        self._index = {row["id"]: item for item, row in enumerate(self.rows)}
        self._given: dict[str, _Given] = {}
        self._read()

    def _read(self) -> None:
        """Open the file with its labels; a last line that a kill cut off is removed. LabelError."""
        *lines, last = claim_file(self.path).read_bytes().split(b"\n")
        is_whole = not b'{"id": '.startswith(last[:7])
        with suppress(ValueError, RecursionError):
            msgspec.json.decode(last)
            is_whole = True
        lines += [last] if is_whole else []
        others = sum(not self._take(line, n) for n, line in enumerate(lines, 1) if line.strip())
        self._file: Any = self.path.open("ab", buffering=0)  # so that a line is one write
        self._size = sum(len(line) + 1 for line in lines)
        if is_whole:
            self._file.write(b"\n")
        elif last:
            self._file.truncate(self._size)
            self.notes.append("a last line that was cut off is removed")
        if others:
            what = "of other outputs or another dimension"
            self.notes.append(f"{count(others, 'line')} {what}: left as they are")

    def _take(self, line: bytes, number: int = 0) -> bool:
        """Remember a line; False where it is about something else."""
        fault = "is no label of this page"
        try:
            row = msgspec.json.decode(line)
            label = msgspec.convert({**row, "value": row[self._key]}, Label)
            label.labelled_at = label.labelled_at.replace(tzinfo=label.labelled_at.tzinfo or UTC)
            item = self._index.get(row["id"])
            if row.get("dimension") != self._about.get("dimension"):
                return False
            own = {**self._about, **({} if item is None else self.rows[item])}
            shared = own.keys() & row.keys() - {*SAMPLING}
            if differing := [name for name in shared if row[name] != own[name]]:
                name = min(differing)
                fault = f"{name} is {row[name]!r:.40}, and here {own[name]!r:.40}"
                raise LookupError
            if label.value is not None and label.value not in self._numbers:
                fault = f"{label.value!r:.40} is no answer here"
                raise LookupError
        except (ValueError, LookupError, TypeError, RecursionError):
            fault = f"{self.path}, line {number}: {fault}; name another file by --out"
            raise LabelError(fault) from None
        if item is not None:
            self._given.setdefault(label.annotator, _Given()).add(item, label)
        return item is not None

    def _append(self, item: int, label: Label) -> None:
        """Write a line and remember it; RefusedError, and the file is as it was."""
        said = msgspec.to_builtins(label)
        said[self._key] = said.pop("value")
        said = {name: of for name, of in said.items() if of or name == self._key}
        row = {**self.rows[item], **self._about, **said}
        line = f"{json.dumps(row, ensure_ascii=False)}\n".encode()
        try:
            if self._file.write(line) < len(line):
                raise OSError(ENOSPC, os.strerror(ENOSPC))
            os.fsync(self._file.fileno())
        except OSError as error:
            self._file.truncate(self._size)
            raise RefusedError(f"not saved: {self.path}: {error.strerror}", 507) from None
        self._size += len(line)
        self._given.setdefault(label.annotator, _Given()).add(item, label)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One thread at a time; RefusedError where the file is not as it was left."""
        with self._lock:
            try:
                left, now = os.fstat(self._file.fileno()), self.path.stat()
                is_as_left = os.path.samestat(left, now) and now.st_size == self._size
            except (OSError, ValueError):  # it is gone, or closed
                is_as_left = False
            if not is_as_left:
                fault = "another program changed it, or the command has ended; start it again"
                raise RefusedError(f"{self.path}: {fault}", 507)
            yield

    def close(self) -> int:
        """How many labels stand, after the one that is being saved; no more are taken."""
        with self._lock, closing(self._file), self._locked():
            n_labels = sum(len(given.standing) for given in self._given.values())
        if not self._size:
            self.path.unlink()  # which no command could read
        return n_labels

    def _of(self, annotator: str) -> _Given:
        return self._given.get(self._spelled(annotator), _Given())

    def _spelled(self, annotator: str) -> str:
        """A name as the file has it, however it is written this time."""
        name = unicodedata.normalize("NFC", " ".join(annotator.split()))
        names = (own for own in self._given if own.casefold() == name.casefold())
        return name if name in self._given else next(names, name)

    def _name_of(self, annotator: str) -> str:
        name = self._spelled(annotator)
        if says_nothing(name) or len(name) > LONGEST_NAME or not name.isprintable():
            raise RefusedError(f"give a name of 1 to {LONGEST_NAME} letters")
        return name

    def _shown(self, item: int) -> State:
        """An item as the page has it."""
        row = self.rows[item]
        texts = [{"name": name, "text": row[name]} for name in self.texts]
        judged = [{"name": name, "text": row[key]} for name, key in self.judged.items()]
        return {"item": item, **self._places[item], "texts": texts, "judged": judged}

    def state(self, annotator: str, item: int | None = None, undone: Label | None = None) -> State:
        """What the page shows this annotator: this item, or the next one without a label."""
        with self._locked():
            annotator = self._spelled(annotator)
            standing, n = self._of(annotator).standing, len(self.rows)
            if item is None:
                item = next((at for at in range(n) if at not in standing), None)
            times = [label.labelled_at for label in [*standing.values()][-RECENT - 1 :]]
            gaps = [(b - a).total_seconds() for a, b in pairwise(times)]
            known = len(gaps) >= FEWEST
            shown = {} if item is None else self._shown(item) | {"undone": undone and undone.said}
            return {
                "task": _task(self.subject),
                "outputs": n,
                "done": len(standing),
                "seconds_left": round(median(gaps) * (n - len(standing))) if known else None,
                "agreement": self._agreement(annotator),
                "annotators": sorted(self._given),
                # Of the judge nothing shows while labels are given.
                "disagreements": sum(
                    item is None or after != "judge" for _, after in self._disagreements(annotator)
                ),
                "has_judge": self.judge is not None,
                "item": shown or None,
            }

    def label(self, click: Click) -> State:
        """Save a label, and return the next state; one that stands already is not written again."""
        with self._locked():
            who, item, comment = self._name_of(click.annotator), click.item, click.comment.strip()
            if click.value not in self._numbers or not 0 <= item < len(self.rows):
                raise RefusedError(f"{click.value!r:.40} is no answer, or the item is none")
            stands = self._of(who).standing.get(item)
            if stands is None or (stands.value, stands.comment) != (click.value, comment):
                if (stands and stands.value) != click.before:
                    message = "this label was given or changed in another window meanwhile"
                    raise RefusedError(message, 409, self.state(who))
                self._append(item, Label(who, self.now(), click.value, comment, click.after))
            return self.state(who)

    def undo(self, click: Click) -> State:
        """Take back the annotator's last label that stands; the state, with its item again."""
        with self._locked():
            who = self._name_of(click.annotator)
            item, label = next(reversed(self._of(who).standing.items()), (None, None))
            if item is not None:
                self._append(item, Label(who, self.now(), None))
            return self.state(who, item, label)

    def review(self, annotator: str) -> State:
        """The items of this annotator's disagreements, with others first, then with the judge."""
        with self._locked():
            annotator = self._spelled(annotator)
            own, items = self._of(annotator).standing, []
            others = sorted(self._given.keys() - {annotator})
            for item, after in self._disagreements(annotator):
                theirs = [
                    {"annotator": name, **label.said}
                    for name in others
                    if after == "annotators" and (label := self._given[name].standing.get(item))
                ]
                judge = None if after == "annotators" else self._judge_of(item)
                about = {"own": own[item].said, "others": theirs, "judge": judge, "after": after}
                items.append(self._shown(item) | about)
            return {"items": items}

    def _judge_of(self, item: int) -> State | None:
        return (self.judge or {}).get(self.rows[item]["id"])

    def _disagreements(self, annotator: str) -> list[tuple[int, After]]:
        """The items of which the annotator and others, or else the judge, say different things."""
        gap = 2 if len(self._numbers) > 3 else 1
        found: list[tuple[int, After]] = []
        others = [of.standing for name, of in self._given.items() if name != annotator]
        for item, label in sorted(self._of(annotator).standing.items()):
            own = self._numbers[label.value]
            theirs = (self._numbers[of[item].value] for of in others if item in of)
            if any(abs(own - number) >= gap for number in theirs):
                found.append((item, "annotators"))
            elif judge := self._judge_of(item):
                rates = kind_of(self.subject) == "rating"
                number = judge["score"] if rates else self._numbers[judge["value"]]
                found += [(item, "judge")] if abs(own - number) >= 1 else []
        return sorted(found, key=lambda one: one[1])

    def _agreement(self, annotator: str) -> list[State]:
        """How far this one and each other said the same before they saw each other's labels."""
        numbers, own, rows = self._numbers, self._of(annotator).blind, list[State]()
        for name in sorted(self._given.keys() - {annotator}):
            theirs = self._given[name].blind
            items = [i for i in own if own[i] in numbers and theirs.get(i) in numbers]
            if items:
                a, b = np.array([[numbers[of[i]] for i in items] for of in (own, theirs)])
                kappa, equal = json_number(quadratic_kappa(a, b)), float(np.mean(a == b))
                about = {"n": len(items), "equal": equal, "kappa": kappa}
                rows.append({"annotators": [annotator, name], **about})
        return rows


def numbers_of(subject: Subject) -> dict[Any, float]:
    """The answers that there are, the good word first, and what each counts."""
    if isinstance(subject, Comparison):
        return {**VOTES}
    good, bad = subject.words or ("", "")
    return {good: 1, bad: 0} if good else {rating: rating for rating in subject.scale}


def _task(subject: Subject) -> State:
    """What the page says of the task; where two keys are alike, answers are numbered."""
    numbers, kind = numbers_of(subject), kind_of(subject)
    keys = [str(answer)[-1 if kind == "rating" else 0].casefold() for answer in numbers]
    # The page's own keys are c, u and r.
    keys = keys if len({*keys, *"cur"}) == len(keys) + 3 else [*map(str, range(1, len(keys) + 1))]
    anchors: Any = {} if isinstance(subject, Comparison) else subject.anchors
    answers = [
        {"value": value, "text": str(value), "key": key, "anchor": anchors.get(number) or None}
        for (value, number), key in zip(numbers.items(), keys, strict=True)
    ]
    about = {"name": subject.name, "kind": kind, "definition": subject.definition}
    return {**about, "answers": answers}
