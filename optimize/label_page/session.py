"""A labelling session: the next item for each annotator, all labels, and the label file.

Two annotators disagree on an item if their ratings differ by 2 or more; if there are only 2 or 3
possible answers, they disagree if their answers differ. An annotator disagrees with the judge if
the judge's score is at least 1 away from the rating, or if its verdict or preference differs.
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
from typing import Literal

import msgspec
import numpy as np

from dspy_judges.errors import JudgesError
from dspy_judges.files import claim_file
from judges.dimension import Comparison, Subject, kind_of
from judges.labels.rows import SAMPLING_COLUMNS
from judges.labels.types import LabelError
from judges.labels.values import is_missing_value
from judges.tables.problems import count
from optimize.figures.as_json import json_number
from optimize.items import VOTES
from optimize.statistics.plain import quadratic_kappa

# A label: a rating, a word, or A, B or tie.
Value = int | float | str
# Whose answers an annotator saw before a label.
SeenAnswers = Literal["annotators", "judge"]
# Given instead of a label. A skipped item is shown again at the end; an unsure one is not.
Mark = Literal["skipped", "unsure"]
# A JSON object for the page.
State = dict[str, object]
# The fields of an output or a pair, as in a line of the label file.
Row = Mapping[str, object]
# The time for a label is the median over this many of the latest labels, if there are at least
# `FEWEST_TIMES`.
RECENT_LABELS, FEWEST_TIMES = 20, 3
LONGEST_NAME = 80


class JudgeAnswer(msgspec.Struct, frozen=True):
    """A judge's answer to an item: the nearest possible answer, the score, and the reason."""

    value: Value | None
    score: float
    reason: str


class RefusedError(JudgesError, ValueError):
    """A click is refused; `status` is the HTTP status, `state` what the page should show."""

    def __init__(self, message: str, status: int = 400, state: State | None = None) -> None:
        super().__init__(message)
        self.status, self.state = status, state


class Click(msgspec.Struct, forbid_unknown_fields=True):
    """The request that a page sends for a label or an undo.

    Attributes:
        annotator: The annotator's name.
        item: The number of the item.
        value: The label, unless there is a `mark`.
        mark: "skipped" or "unsure" instead of a label.
        comment: The annotator's comment.
        before: The annotator's earlier label, as the page showed it; None if there was none.
        after: Whose answers the page showed before the click, if any.
    """

    annotator: str
    item: int = -1
    value: Value = ""
    mark: Mark | None = None
    comment: str = ""
    before: Value | None = None
    after: SeenAnswers | None = None


class Label(msgspec.Struct):
    """A label as in a line of the file.

    A value of None takes an earlier label or mark back. Lines that are `skipped` or `unsure` have
    the value None too, so that readers of labels ignore them.

    Attributes:
        annotator: The annotator's name.
        labelled_at: The time of the label.
        value: The label.
        comment: The annotator's comment.
        changed_after: Whose answers the annotator saw before, if any.
        skipped: Whether the annotator skipped the item for now.
        unsure: Whether the annotator was not sure.
    """

    annotator: str
    labelled_at: datetime
    value: Value | None
    comment: str = ""
    changed_after: SeenAnswers | None = None
    skipped: bool = False
    unsure: bool = False

    @property
    def content(self) -> State:
        return {"value": self.value, "comment": self.comment}


@dataclass
class _Labels:
    """One annotator's labels by the number of the item.

    Attributes:
        latest: The labels that count, in the order in which they were given.
        marks: The marks that were given instead of labels.
        blind: The answers given before the annotator saw another answer to the item.
        exposed: The items on which the annotator has seen another answer.
    """

    latest: dict[int, Label] = field(default_factory=dict)
    marks: dict[int, Label] = field(default_factory=dict)
    blind: dict[int, Value | None] = field(default_factory=dict)
    exposed: set[int] = field(default_factory=set)

    def add(self, item: int, label: Label) -> None:
        self.latest.pop(item, None)
        self.marks.pop(item, None)
        if label.value is not None:
            self.latest[item] = label
        elif label.skipped or label.unsure:
            self.marks[item] = label
        if label.changed_after:
            self.exposed.add(item)
        if item not in self.exposed:
            self.blind[item] = label.value


@dataclass(kw_only=True, eq=False)
class Session:
    """The items in their order and the file of their labels; its methods are thread-safe.

    A label is written as a whole line in one write, and counts once it is on disk. If another
    program changes the file, every call is refused.

    Attributes:
        subject: The dimension or comparison.
        rows: The fields of each output or pair, which are repeated in its labels' lines.
        texts: The keys of the texts that the page shows above the outputs.
        outputs: The keys of the outputs, by their names on the page.
        path: The label file.
        seed: The seed of the order of items.
        judge: The judge's answers, by the item's id; None without a judge.
        now: Returns the current time.
        notes: Sentences on further content of the file when it was opened.
    """

    subject: Subject
    rows: Sequence[Row]
    texts: Sequence[str]
    outputs: Mapping[str, str]
    path: Path
    seed: int = 0
    judge: Mapping[str, JudgeAnswer] | None = None
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    notes: list[str] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self._lock, self._numbers = RLock(), numbers_of(self.subject)
        self._kind = kind_of(self.subject)
        self._key = "preferred" if self._kind == "pairwise" else "rating"
        self._dimension = None if self._kind == "pairwise" else self.subject.name
        self._common_fields = {"dimension": self._dimension} if self._dimension else {}
        if self._kind == "rating":
            self._common_fields["rating_scale"] = (
                f"{min(self.subject.scale)}-{max(self.subject.scale)}"
            )
        rng, documents = random.Random(self.seed), dict[str, list[Row]]()
        for row in self.rows:
            documents.setdefault(str(row["group"]), []).append(row)
        order = rng.sample([*documents.values()], len(documents))
        groups = [rng.sample(group, len(group)) for group in order]
        self.rows = [row for group in groups for row in group]
        self._positions = [
            {"document": n, "documents": len(groups), "place": place, "of_document": len(group)}
            for n, group in enumerate(groups, 1)
            for place in range(1, len(group) + 1)
        ]
        self._ids = [str(row["id"]) for row in self.rows]
        self._index = {item_id: item for item, item_id in enumerate(self._ids)}
        self._labels: dict[str, _Labels] = {}
        self._read()

    def _read(self) -> None:
        """Open the file and read its labels; remove a last line that was cut off.

        Raises:
            LabelError: A line is not a label from this page.
        """
        *lines, last = claim_file(self.path).read_bytes().split(b"\n")
        is_whole = not b'{"id": '.startswith(last[:7])
        with suppress(ValueError, RecursionError):
            msgspec.json.decode(last)
            is_whole = True
        lines += [last] if is_whole else []
        n_foreign = sum(
            not self._add_line(line, n) for n, line in enumerate(lines, 1) if line.strip()
        )
        self._file = self.path.open("ab", buffering=0)  # so that a line is one write
        self._size = sum(len(line) + 1 for line in lines)
        if is_whole:
            self._file.write(b"\n")
        elif last:
            self._file.truncate(self._size)
            self.notes.append("a last line that was cut off is removed")
        if n_foreign:
            topic = "about other outputs or another dimension"
            self.notes.append(f"{count(n_foreign, 'line')} {topic}: left unchanged")

    def _add_line(self, line: bytes, number: int) -> bool:
        """Add the label of a line; return False if it is about another output or dimension."""
        try:
            row = msgspec.json.decode(line, type=dict[str, object])
            label = msgspec.convert({**row, "value": row[self._key]}, Label)
            label.labelled_at = label.labelled_at.replace(tzinfo=label.labelled_at.tzinfo or UTC)
            item = self._index.get(row["id"]) if isinstance(row["id"], str) else None
            if row.get("dimension") != self._dimension:
                return False
            fault = self._fault(row, label, item)
        except (ValueError, LookupError, TypeError, RecursionError):
            fault = "is not a label from this page"
        if fault:
            raise LabelError(f"{self.path}, line {number}: {fault}; name another file with --out")
        if item is not None:
            self._labels.setdefault(label.annotator, _Labels()).add(item, label)
        return item is not None

    def _fault(self, row: Row, label: Label, item: int | None) -> str | None:
        """A phrase on where a line contradicts this session; None if it does not."""
        expected = {**self._common_fields, **({} if item is None else self.rows[item])}
        shared = expected.keys() & row.keys() - {*SAMPLING_COLUMNS}
        if name := min((name for name in shared if row[name] != expected[name]), default=None):
            return f"{name} is {row[name]!r:.40}, but in this session {expected[name]!r:.40}"
        if label.value is not None and label.value not in self._numbers:
            return f"{label.value!r:.40} is not a possible answer"
        return None

    def _append(self, item: int, label: Label) -> None:
        """Write a label to the file.

        Raises RefusedError if this fails; the file is then unchanged.
        """
        cells = msgspec.to_builtins(label)
        cells[self._key] = cells.pop("value")
        cells = {name: value for name, value in cells.items() if value or name == self._key}
        row = {**self.rows[item], **self._common_fields, **cells}
        line = f"{json.dumps(row, ensure_ascii=False)}\n".encode()
        try:
            if self._file.write(line) < len(line):
                raise OSError(ENOSPC, os.strerror(ENOSPC))
            os.fsync(self._file.fileno())
        except OSError as error:
            self._file.truncate(self._size)
            raise RefusedError(f"not saved: {self.path}: {error.strerror}", 507) from None
        self._size += len(line)
        self._labels.setdefault(label.annotator, _Labels()).add(item, label)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock during the block.

        Raises RefusedError if another program has changed the file.
        """
        with self._lock:
            try:
                opened, current = os.fstat(self._file.fileno()), self.path.stat()
                is_unchanged = os.path.samestat(opened, current) and current.st_size == self._size
            except (OSError, ValueError):  # the file was deleted or closed
                is_unchanged = False
            if not is_unchanged:
                fault = "another program changed it, or the command has ended; start it again"
                raise RefusedError(f"{self.path}: {fault}", 507)
            yield

    def close(self) -> int:
        """Close the file once no label is being saved; return how many labels count."""
        with self._lock, closing(self._file), self._locked():
            n_labels = sum(len(labels.latest) for labels in self._labels.values())
        if not self._size:
            self.path.unlink()  # no command can read an empty file
        return n_labels

    def _labels_of(self, annotator: str) -> _Labels:
        return self._labels.get(self._known_name(annotator), _Labels())

    def _known_name(self, annotator: str) -> str:
        """The annotator's name as it stands in the file, even if case or spaces differ."""
        name = unicodedata.normalize("NFC", " ".join(annotator.split()))
        names = (known for known in self._labels if known.casefold() == name.casefold())
        return name if name in self._labels else next(names, name)

    def _checked_name(self, annotator: str) -> str:
        name = self._known_name(annotator)
        if is_missing_value(name) or len(name) > LONGEST_NAME or not name.isprintable():
            raise RefusedError(f"give a name of 1 to {LONGEST_NAME} letters")
        return name

    def _content(self, item: int) -> State:
        """The item's texts, outputs and position, for the page."""
        row = self.rows[item]
        texts = [{"name": name, "text": row[name]} for name in self.texts]
        outputs = [{"name": name, "text": row[key]} for name, key in self.outputs.items()]
        return {"item": item, **self._positions[item], "texts": texts, "judged": outputs}

    def state(self, annotator: str, item: int | None = None, undone: Label | None = None) -> State:
        """The state of the page for an annotator.

        It has the given item, else the annotator's next item without a label. `undone` is a label
        that was just taken back.
        """
        with self._locked():
            annotator = self._known_name(annotator)
            own, n = self._labels_of(annotator), len(self.rows)
            labels, unsure = own.latest, [i for i, mark in own.marks.items() if mark.unsure]
            if item is None:
                remaining = [i for i in range(n) if i not in labels and i not in own.marks]
                item = next(iter([*remaining, *(i for i in own.marks if i not in unsure)]), None)
            content = {"undone": undone and undone.content}
            disagreements = self._disagreements(annotator)
            if item is not None:  # the judge's answers are hidden until every item has a label
                disagreements = [pair for pair in disagreements if pair[1] != "judge"]
            return {
                "task": _task(self.subject),
                "outputs": n,
                "done": len(labels),
                "unsure": len(unsure),
                "seconds_left": _seconds_left([*labels.values()], n - len(labels) - len(unsure)),
                "agreement": self._agreement(annotator),
                "annotators": sorted(self._labels),
                "disagreements": len(disagreements),
                "has_judge": self.judge is not None,
                "item": None if item is None else self._content(item) | content,
            }

    def label(self, click: Click) -> State:
        """Save a label unless it repeats the annotator's latest, and return the next state."""
        with self._locked():
            name, item = self._checked_name(click.annotator), click.item
            comment = click.comment.strip()
            value = None if click.mark else click.value
            if (value not in self._numbers and not click.mark) or not 0 <= item < len(self.rows):
                raise RefusedError(
                    f"{click.value!r:.40} is not an answer, or the item does not exist"
                )
            latest = self._labels_of(name).latest.get(item)
            if latest is None or (latest.value, latest.comment) != (value, comment):
                if (latest and latest.value) != click.before:
                    message = "this label was given or changed in another window meanwhile"
                    raise RefusedError(message, 409, self.state(name))
                label = Label(name, self.now(), value, comment, click.after)
                label.skipped, label.unsure = click.mark == "skipped", click.mark == "unsure"
                self._append(item, label)
            return self.state(name)

    def undo(self, click: Click) -> State:
        """Take back the annotator's newest label or mark, and return the state with its item."""
        with self._locked():
            name = self._checked_name(click.annotator)
            own = self._labels_of(name)
            entries = [*own.latest.items(), *own.marks.items()]
            if not entries:
                return self.state(name)
            item, label = max(reversed(entries), key=lambda entry: entry[1].labelled_at)
            self._append(item, Label(name, self.now(), None))
            return self.state(name, item, label)

    def review(self, annotator: str) -> State:
        """The items on which the annotator disagrees with others or with the judge.

        Disagreements with other annotators come first.
        """
        with self._locked():
            annotator = self._known_name(annotator)
            own, items = self._labels_of(annotator).latest, []
            others = sorted(self._labels.keys() - {annotator})
            for item, after in self._disagreements(annotator):
                other_labels = [
                    {"annotator": name, **label.content}
                    for name in others
                    if after == "annotators" and (label := self._labels[name].latest.get(item))
                ]
                judge = None if after == "annotators" else self._judge_of(item)
                labels = {
                    "own": own[item].content,
                    "others": other_labels,
                    "judge": msgspec.to_builtins(judge),
                }
                items.append(self._content(item) | labels | {"after": after})
            return {"items": items}

    def _judge_of(self, item: int) -> JudgeAnswer | None:
        return (self.judge or {}).get(self._ids[item])

    def _disagreements(self, annotator: str) -> list[tuple[int, SeenAnswers]]:
        """The items on which the annotator disagrees, with whom; other annotators come first."""
        others = [labels.latest for name, labels in self._labels.items() if name != annotator]
        latest = sorted(self._labels_of(annotator).latest.items())
        opponents = ((item, self._opponent(item, label, others)) for item, label in latest)
        return sorted(((item, who) for item, who in opponents if who), key=lambda pair: pair[1])

    def _opponent(
        self, item: int, label: Label, others: Sequence[Mapping[int, Label]]
    ) -> SeenAnswers | None:
        """Who disagrees with a label: another annotator, else the judge, else None."""
        gap, own = 2 if len(self._numbers) > 3 else 1, self._numbers[label.value]
        numbers = (self._numbers[labels[item].value] for labels in others if item in labels)
        if any(abs(own - number) >= gap for number in numbers):
            return "annotators"
        if not (judge := self._judge_of(item)):
            return None
        number = judge.score if self._kind == "rating" else self._numbers[judge.value]
        return "judge" if abs(own - number) >= 1 else None

    def _agreement(self, annotator: str) -> list[State]:
        """The agreement of the annotator's blind labels with each other annotator's."""
        numbers, own, rows = self._numbers, self._labels_of(annotator).blind, list[State]()
        for name in sorted(self._labels.keys() - {annotator}):
            other = self._labels[name].blind
            items = [i for i in own if own[i] in numbers and other.get(i) in numbers]
            if items:
                a, b = np.array([[numbers[labels[i]] for i in items] for labels in (own, other)])
                kappa, equal = json_number(quadratic_kappa(a, b)), float(np.mean(a == b))
                figures = {"n": len(items), "equal": equal, "kappa": kappa}
                rows.append({"annotators": [annotator, name], **figures})
        return rows


def numbers_of(subject: Subject) -> Mapping[Value | None, float]:
    """The number that each answer counts; if the answers are two words, the good one is first."""
    if isinstance(subject, Comparison):
        return dict(VOTES.items())
    good, bad = subject.words or ("", "")
    return {good: 1, bad: 0} if good else {rating: rating for rating in subject.scale}


def _seconds_left(labels: Sequence[Label], n_left: int) -> int | None:
    """The expected seconds for the remaining labels at the recent pace; None if it is unknown."""
    times = [label.labelled_at for label in labels[-RECENT_LABELS - 1 :]]
    gaps = [(b - a).total_seconds() for a, b in pairwise(times)]
    return round(median(gaps) * n_left) if len(gaps) >= FEWEST_TIMES else None


def _task(subject: Subject) -> State:
    """The task for the page; answers have numbers as their keys if their letters clash."""
    numbers, kind = numbers_of(subject), kind_of(subject)
    keys = [str(answer)[-1 if kind == "rating" else 0].casefold() for answer in numbers]
    # The page's own keys are c, u, r, s and n.
    if len({*keys, *"cursn"}) < len(keys) + 5:
        keys = [str(number) for number in range(1, len(keys) + 1)]
    anchors = {} if isinstance(subject, Comparison) else {**subject.anchors}
    answers = [
        {"value": value, "text": str(value), "key": key, "anchor": anchors.get(int(number)) or None}
        for (value, number), key in zip(numbers.items(), keys, strict=True)
    ]
    task = {"name": subject.name, "kind": kind, "definition": subject.definition}
    return {**task, "answers": answers}
