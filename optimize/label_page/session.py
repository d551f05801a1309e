"""A labelling session: it shows each annotator the next item, and saves labels to the label file.

Two annotators disagree on an item if their ratings differ by 2 or more; if there are only 2 or 3
possible answers, they disagree if their answers differ. An annotator disagrees with the judge if
the judge's score differs from the annotator's rating by 1 or more, or if the judge's verdict or
preference is another.
"""

import json
import os
import random
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from errno import ENOSPC
from pathlib import Path
from threading import RLock
from typing import Literal

import msgspec
import numpy as np

from dspy_judges.errors import JudgesError
from dspy_judges.files import claim_file
from judges.dimension import Comparison, Subject, kind_of
from judges.labels.preparation import SAMPLING_COLUMNS
from judges.labels.types import LabelError
from judges.labels.values import is_missing_value
from judges.tables.problems import count
from optimize.figures.as_json import json_number
from optimize.items import VOTES
from optimize.statistics.plain import quadratic_kappa

# The value of a label: a rating, one of two words, or A, B or tie.
Value = int | float | str
# The source of the answers that an annotator had seen before giving a label.
SeenAnswers = Literal["annotators", "judge"]
# What an annotator may give instead of a label. A skipped item is shown again at the end; an item
# marked unsure is not.
Mark = Literal["skipped", "unsure"]
# A JSON object that the page gets.
State = dict[str, object]
# The fields of an output or a pair, which are the start of its labels' lines in the label file.
Row = Mapping[str, object]
LONGEST_NAME = 80


class JudgeAnswer(msgspec.Struct, frozen=True):
    """A judge's answer on an item: `value` is the possible answer that is nearest to `score`."""

    value: Value | None
    score: float
    reason: str


class RefusedError(JudgesError, ValueError):
    """A click is refused; `status` is the HTTP status."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


class Click(msgspec.Struct, forbid_unknown_fields=True):
    """The request that the page sends if the annotator gives a label or clicks undo.

    `item` is the index of the item in the session's order. `value` is ignored if there is a `mark`.
    `before` is the annotator's earlier label that the page showed, if any, and `after` is the
    source of other answers that it showed.
    """

    annotator: str
    item: int = -1
    value: Value = ""
    mark: Mark | None = None
    comment: str = ""
    before: Value | None = None
    after: SeenAnswers | None = None


class Label(msgspec.Struct):
    """A label or a mark, as in a line of the label file.

    If the value is None, the line takes back an earlier label or mark. Lines that are `skipped` or
    `unsure` have the value None too, so that `read_labels` ignores them. `changed_after` is the
    source of other answers that the annotator had seen before.
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
    """The labels of one annotator, by the index of the item.

    `latest` has the newest label for each item, and `marks` has the marks that were given instead.
    `blind` has the newest values given before the annotator saw another answer on the item, and
    `exposed` has the items on which the annotator has seen one.
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
    """The items in a random order, and the file with their labels. All methods are thread-safe.

    Each label is one line of the file. It is written by a single write, and counts once it is on
    disk. If another program changes the file, every later call raises RefusedError.

    `rows` has the fields of each output or pair, which every line with its label repeats; `texts`
    names the fields that the page shows above the outputs, and `outputs` the fields that hold the
    outputs, by the outputs' names on the page. `judge` has the judge's answers by the items' ids.
    `notes` are on lines of the label file that the session removed or ignores.
    """

    subject: Subject
    rows: Sequence[Row]
    texts: Sequence[str]
    outputs: Mapping[str, str]
    path: Path
    seed: int = 0
    judge: Mapping[str, JudgeAnswer] | None = None
    notes: list[str] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self._lock, self._numbers = RLock(), numbers_of(self.subject)
        self._kind = kind_of(self.subject)
        self._key = "preferred" if self._kind == "pairwise" else "rating"
        self._common_fields = {} if self._kind == "pairwise" else {"dimension": self.subject.name}
        if self._kind == "rating":
            low, high = min(self.subject.scale), max(self.subject.scale)
            self._common_fields["rating_scale"] = f"{low}-{high}"
        # Documents come in a random order, and so do the items of each document.
        rng, documents = random.Random(self.seed), [*dict.fromkeys(map(_document, self.rows))]
        shuffled_documents = rng.sample(documents, len(documents))
        self._document_numbers = {name: n for n, name in enumerate(shuffled_documents, 1)}
        self.rows = sorted(
            rng.sample(self.rows, len(self.rows)),
            key=lambda row: self._document_numbers[_document(row)],
        )
        self._index = {str(row["id"]): item for item, row in enumerate(self.rows)}
        self._labels: dict[str, _Labels] = {}
        self._read()

    def _read(self) -> None:
        """Open the label file and read its labels; remove an incomplete last line.

        Raises:
            LabelError: A line is not a label from this page, or contradicts the session.
        """
        *lines, last_line = claim_file(self.path).read_bytes().split(b"\n")
        is_complete = not b'{"id": '.startswith(last_line[:7])
        with suppress(ValueError, RecursionError):
            msgspec.json.decode(last_line)
            is_complete = True
        lines += [last_line] if is_complete else []
        n_foreign = sum(
            not self._add_line(line, n) for n, line in enumerate(lines, 1) if line.strip()
        )
        self._file = self.path.open("ab", buffering=0)  # each line is a single write
        self._size = sum(len(line) + 1 for line in lines)
        if is_complete:
            self._file.write(b"\n")
        elif last_line:
            self._file.truncate(self._size)
            self.notes.append("a last line that was cut off is removed")
        if n_foreign:
            topic = "about other outputs or another dimension"
            self.notes.append(f"{count(n_foreign, 'line')} {topic}: left unchanged")

    def _add_line(self, line: bytes, number: int) -> bool:
        """Add the label of a line; return False if it is on another output or another dimension."""
        try:
            row = msgspec.json.decode(line, type=dict[str, object])
            label = msgspec.convert({**row, "value": row[self._key]}, Label)
            label.labelled_at = label.labelled_at.replace(tzinfo=label.labelled_at.tzinfo or UTC)
            item = self._index.get(row["id"]) if isinstance(row["id"], str) else None
            if row.get("dimension") != self._common_fields.get("dimension"):
                return False
            problem = self._fault(row, label, item)
        except (ValueError, LookupError, TypeError, RecursionError):
            problem = "is not a label from this page"
        if problem:
            raise LabelError(f"{self.path}, line {number}: {problem}; name another file with --out")
        if item is not None:
            self._labels.setdefault(label.annotator, _Labels()).add(item, label)
        return item is not None

    def _fault(self, row: Row, label: Label, item: int | None) -> str | None:
        """A phrase on how a line contradicts this session; None if it agrees with the session."""
        expected = {**self._common_fields, **({} if item is None else self.rows[item])}
        shared_fields = expected.keys() & row.keys() - {*SAMPLING_COLUMNS}
        if name := min(
            (name for name in shared_fields if row[name] != expected[name]), default=None
        ):
            return f"{name} is {row[name]!r:.40}, but in this session {expected[name]!r:.40}"
        if label.value is not None and label.value not in self._numbers:
            return f"{label.value!r:.40} is not a possible answer"
        return None

    def _append(self, item: int, label: Label) -> None:
        """Append a label to the label file, and count it.

        Raises RefusedError if the label cannot be written; the file is then unchanged.
        """
        fields = msgspec.to_builtins(label)
        fields[self._key] = fields.pop("value")
        fields = {name: value for name, value in fields.items() if value or name == self._key}
        row = {**self.rows[item], **self._common_fields, **fields}
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
        """Hold the session's lock for the time of the block.

        Raises RefusedError if another program has changed the label file.
        """
        with self._lock:
            try:
                opened, current = os.fstat(self._file.fileno()), self.path.stat()
                is_unchanged = os.path.samestat(opened, current) and current.st_size == self._size
            except (OSError, ValueError):  # the file was deleted or closed
                is_unchanged = False
            if not is_unchanged:
                reason = (
                    "another program changed it, or the command has ended; start the command again"
                )
                raise RefusedError(f"{self.path}: {reason}", 507)
            yield

    def close(self) -> int:
        """Close the label file once no label is being saved; return the number of valid labels."""
        with self._lock, closing(self._file), self._locked():
            n_labels = sum(len(labels.latest) for labels in self._labels.values())
        if not self._size:
            self.path.unlink()  # other commands would refuse an empty label file
        return n_labels

    def _labels_of(self, annotator: str) -> _Labels:
        return self._labels.get(annotator, _Labels())

    def _known_name(self, annotator: str) -> str:
        """The annotator's name as written in the label file, even if case or spaces differ."""
        name = unicodedata.normalize("NFC", " ".join(annotator.split()))
        return next((known for known in self._labels if known.casefold() == name.casefold()), name)

    def _checked_name(self, annotator: str) -> str:
        name = self._known_name(annotator)
        if is_missing_value(name) or len(name) > LONGEST_NAME or not name.isprintable():
            raise RefusedError(f"give a name of 1 to {LONGEST_NAME} letters")
        return name

    def _content(self, item: int) -> State:
        """The texts, outputs and position of an item, for the page."""
        row, documents = self.rows[item], [*map(_document, self.rows)]
        document = documents[item]
        return {
            "item": item,
            "document": self._document_numbers[document],
            "documents": len(self._document_numbers),
            "place": item - documents.index(document) + 1,
            "of_document": documents.count(document),
            "texts": [{"name": name, "text": row[name]} for name in self.texts],
            "judged": [{"name": name, "text": row[key]} for name, key in self.outputs.items()],
        }

    def state(self, annotator: str, item: int | None = None, undone: Label | None = None) -> State:
        """The state of the page for an annotator.

        The state contains the given item, or by default the annotator's next item without a label.
        `undone` is a label that the annotator has just taken back.
        """
        with self._locked():
            annotator = self._known_name(annotator)
            labels, marks = self._labels_of(annotator).latest, self._labels_of(annotator).marks
            skipped = [i for i, mark in marks.items() if mark.skipped]
            if item is None:
                unlabelled = sorted({*range(len(self.rows))} - labels.keys() - marks.keys())
                item = next(iter([*unlabelled, *skipped]), None)
            disagreements = self._disagreements(annotator)
            n_disagreements = len(disagreements["annotators"])
            if item is None:  # the judge's answers stay hidden as long as the annotator labels
                n_disagreements += len(disagreements["judge"])
            shown = None
            if item is not None:
                shown = self._content(item) | {"undone": undone and undone.content}
            return {
                "task": _task(self.subject),
                "outputs": len(self.rows),
                "done": len(labels),
                "unsure": len(marks) - len(skipped),
                "agreement": self._agreement(annotator),
                "annotators": sorted(self._labels),
                "disagreements": n_disagreements,
                "has_judge": self.judge is not None,
                "item": shown,
            }

    def label(self, click: Click) -> State:
        """Save a label, unless the annotator's newest label is the same; return the next state."""
        with self._locked():
            name, item = self._checked_name(click.annotator), click.item
            value, comment = None if click.mark else click.value, click.comment.strip()
            if (value not in self._numbers and not click.mark) or not 0 <= item < len(self.rows):
                raise RefusedError(
                    f"{click.value!r:.40} is not an answer, or the item does not exist"
                )
            latest = self._labels_of(name).latest.get(item)
            if latest is None or (latest.value, latest.comment) != (value, comment):
                if (latest and latest.value) != click.before:
                    raise RefusedError(
                        "this label was given or changed in another window meanwhile", 409
                    )
                label = Label(name, datetime.now(UTC), value, comment, click.after)
                label.skipped, label.unsure = click.mark == "skipped", click.mark == "unsure"
                self._append(item, label)
            return self.state(name)

    def undo(self, click: Click) -> State:
        """Take back the annotator's newest label or mark; return the state that shows its item."""
        with self._locked():
            name = self._checked_name(click.annotator)
            annotator_labels = self._labels_of(name)
            entries = [*annotator_labels.latest.items(), *annotator_labels.marks.items()]
            if not entries:
                return self.state(name)
            item, label = max(reversed(entries), key=lambda entry: entry[1].labelled_at)
            self._append(item, Label(name, datetime.now(UTC), None))
            return self.state(name, item, label)

    def review(self, annotator: str) -> State:
        """The items on which the annotator disagrees with another annotator or with the judge.

        Disagreements with annotators come before disagreements with the judge.
        """
        with self._locked():
            annotator, items = self._known_name(annotator), list[State]()
            own_labels = self._labels_of(annotator).latest
            others = sorted(self._labels.keys() - {annotator})
            for source, disagreements in self._disagreements(annotator).items():
                for item in disagreements:
                    other_labels = [
                        {"annotator": name, **label.content}
                        for name in others
                        if source == "annotators" and (label := self._labels[name].latest.get(item))
                    ]
                    judge = self._judge_of(item) if source == "judge" else None
                    labels = {
                        "own": own_labels[item].content,
                        "others": other_labels,
                        "judge": msgspec.to_builtins(judge),
                    }
                    items.append(self._content(item) | labels | {"after": source})
            return {"items": items}

    def _judge_of(self, item: int) -> JudgeAnswer | None:
        return (self.judge or {}).get(str(self.rows[item]["id"]))

    def _disagreements(self, annotator: str) -> dict[SeenAnswers, list[int]]:
        """The items on which the annotator disagrees, by the source of the other answer."""
        numbers = self._numbers
        items: dict[SeenAnswers, list[int]] = {"annotators": [], "judge": []}
        min_difference = 2 if len(numbers) > 3 else 1
        others = [labels.latest for name, labels in self._labels.items() if name != annotator]
        for item, label in sorted(self._labels_of(annotator).latest.items()):
            number = numbers[label.value]
            differences = [abs(number - numbers[o[item].value]) for o in others if item in o]
            if max(differences, default=0) >= min_difference:
                items["annotators"].append(item)
            elif judge := self._judge_of(item):
                judge_number = judge.score if self._kind == "rating" else numbers[judge.value]
                if abs(number - judge_number) >= 1:
                    items["judge"].append(item)
        return items

    def _agreement(self, annotator: str) -> list[State]:
        """The agreement of this annotator with every other annotator, on labels given blind."""
        numbers, own_labels, rows = self._numbers, self._labels_of(annotator).blind, list[State]()
        for name in sorted(self._labels.keys() - {annotator}):
            other_labels = self._labels[name].blind
            items = [
                i for i in own_labels if own_labels[i] in numbers and other_labels.get(i) in numbers
            ]
            if items:
                own_numbers, other_numbers = np.array(
                    [[numbers[labels[i]] for i in items] for labels in (own_labels, other_labels)]
                )
                kappa = json_number(quadratic_kappa(own_numbers, other_numbers))
                equal = float(np.mean(own_numbers == other_numbers))
                figures = {"n": len(items), "equal": equal, "kappa": kappa}
                rows.append({"annotators": [annotator, name], **figures})
        return rows


def _document(row: Row) -> str:
    return str(row["group"])


def numbers_of(subject: Subject) -> Mapping[Value | None, float]:
    """The possible answers with the number that each counts; of two words, good comes first."""
    if isinstance(subject, Comparison):
        return dict(VOTES.items())
    good, bad = subject.words or ("", "")
    return {good: 1, bad: 0} if good else {rating: rating for rating in subject.scale}


def _task(subject: Subject) -> State:
    """The labelling task for the page: definition, and possible answers with their keyboard keys.

    The keys are digits if letters would be ambiguous.
    """
    number_of_answer, kind = numbers_of(subject), kind_of(subject)
    keys = [str(answer)[-1 if kind == "rating" else 0].casefold() for answer in number_of_answer]
    # The page uses the keys c, u, r, s and n for its own actions.
    if len({*keys, *"cursn"}) < len(keys) + 5:
        keys = [str(number) for number in range(1, len(keys) + 1)]
    anchors = {} if isinstance(subject, Comparison) else {**subject.anchors}
    answers = [
        {"value": value, "text": str(value), "key": key, "anchor": anchors.get(int(number)) or None}
        for (value, number), key in zip(number_of_answer.items(), keys, strict=True)
    ]
    task = {"name": subject.name, "kind": kind, "definition": subject.definition}
    return {**task, "answers": answers}
