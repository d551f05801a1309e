"""The label file of a labelling session: one line for each label, and each skipped item."""

import json
import os
import unicodedata
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from errno import ENOSPC
from pathlib import Path
from threading import RLock
from typing import Literal

import msgspec

from dspy_judges.errors import JudgesError
from dspy_judges.files import claim_file
from judges.dimension import Subject
from judges.labels.preparation import SAMPLING_COLUMNS
from judges.labels.types import LabelError
from judges.tables.problems import count_text

# The value of a label: a rating, one of two words, or A, B or tie.
LabelValue = int | float | str
# Whose answers an annotator had seen before giving a label.
WhoseAnswer = Literal["annotators", "judge"]


class ClickError(JudgesError, ValueError):
    """Raised if a click on the page is refused; `status` is the HTTP status of the response."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


class LabelRecord(msgspec.Struct, omit_defaults=True):
    """One line of the label file: a label, or the mark that an item is skipped or unsure.

    A line with a mark has the value None, so that `read_labels` ignores it. A line with the value
    None and no mark takes back the annotator's earlier line on the item. `changed_after` says
    whose answers on the item the annotator had seen before; None if nobody's.
    """

    annotator: str
    labelled_at: datetime
    value: LabelValue | None
    comment: str = ""
    changed_after: WhoseAnswer | None = None
    skipped: bool = False
    unsure: bool = False

    @property
    def value_and_comment(self) -> dict[str, object]:
        return {"value": self.value, "comment": self.comment}


@dataclass
class AnnotatorLabels:
    """The labels and marks of one annotator, by the index of the item.

    `records` maps each item to its newest label or mark, in the order in which they were given.
    `exposed_items` are the items on which the annotator has seen an answer of others or of the
    judge. `blind_records` has the newest records from before the annotator saw others' answers.
    """

    records: dict[int, LabelRecord] = field(default_factory=dict)
    blind_records: dict[int, LabelRecord] = field(default_factory=dict)
    exposed_items: set[int] = field(default_factory=set)

    @property
    def labels(self) -> dict[int, LabelRecord]:
        return {item: record for item, record in self.records.items() if record.value is not None}

    def add(self, item: int, record: LabelRecord) -> None:
        self.records.pop(item, None)
        if record.value is not None or record.skipped or record.unsure:
            self.records[item] = record
        if record.changed_after:
            self.exposed_items.add(item)
        if item not in self.exposed_items:
            self.blind_records[item] = record


class LabelLog:
    """The label file, and the labels in it by annotator.

    Each label is one line of the file, and is saved once the line is on disk. If another program
    changes the file, every later call raises ClickError.

    `rows` has the fields of each item, and every line on the item repeats these fields. `notes` say
    which lines of the file were removed or are ignored.
    """

    def __init__(
        self,
        path: Path,
        subject: Subject,
        rows: Sequence[Mapping[str, object]],
        possible_answers: Collection[LabelValue | None],
    ) -> None:
        self.path, self.rows, self.notes = path, rows, list[str]()
        self.by_annotator: defaultdict[str, AnnotatorLabels] = defaultdict(AnnotatorLabels)
        self._possible_answers, self._lock = possible_answers, RLock()
        self._item_by_id = {str(row["id"]): item for item, row in enumerate(rows)}
        self._value_key, self._common_fields = "rating", {"dimension": subject.name}
        if subject.is_pairwise:
            self._value_key, self._common_fields = "preferred", {}
        if subject.kind == "rating":
            lowest, highest = min(subject.scale), max(subject.scale)
            self._common_fields["rating_scale"] = f"{lowest}-{highest}"
        self._read_file()

    def _read_file(self) -> None:
        """Open the label file and read its labels; remove an incomplete last line."""
        *lines, last_line = claim_file(self.path).read_bytes().split(b"\n")
        # A last line that begins like this page's lines, but is not JSON, was cut off.
        is_last_line_complete = not b'{"id": '.startswith(last_line[:7])
        with suppress(ValueError, RecursionError):
            msgspec.json.decode(last_line)
            is_last_line_complete = True
        if is_last_line_complete:
            lines.append(last_line)
        was_added = [self._add_line(line, n) for n, line in enumerate(lines, 1) if line.strip()]
        self._file = self.path.open("ab", buffering=0)  # each line is a single write
        self._n_bytes = sum(len(line) + 1 for line in lines)
        if is_last_line_complete:
            self._file.write(b"\n")
        elif last_line:
            self._file.truncate(self._n_bytes)
            self.notes.append("removed the last line, which was incomplete")
        if n_ignored := was_added.count(False):
            lines_text = count_text(n_ignored, "line")
            self.notes.append(f"ignored {lines_text} on other outputs or dimensions")

    def _add_line(self, line: bytes, number: int) -> bool:
        """Read one line of the file; return False for a line on another output or dimension."""
        try:
            row = msgspec.json.decode(line, type=dict[str, object])
            record = msgspec.convert({**row, "value": row[self._value_key]}, LabelRecord)
            item = self._item_by_id.get(str(row["id"]))
            if row.get("dimension") != self._common_fields.get("dimension"):
                return False
            problem = self._contradiction(row, record, item)
        except (ValueError, LookupError, RecursionError):
            problem = "is not a label from this page"
        if problem:
            raise LabelError(f"{self.path}, line {number}: {problem}; name another file with --out")
        if item is None:
            return False
        self.by_annotator[record.annotator].add(item, record)
        return True

    def _contradiction(self, row: dict[str, object], record: LabelRecord, item: int | None) -> str:
        """Return a phrase on how a line contradicts this session; "" if the line fits."""
        expected_row = {**self._common_fields, **({} if item is None else self.rows[item])}
        for name in sorted(expected_row.keys() & row.keys() - {*SAMPLING_COLUMNS}):
            value, expected_value = row[name], expected_row[name]
            if value != expected_value:
                return f"{name} is {value!r:.40}, but in this session {expected_value!r:.40}"
        if record.value is not None and record.value not in self._possible_answers:
            return f"{record.value!r:.40} is not a possible answer"
        return ""

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the file's lock; raises ClickError if another program has changed the file."""
        with self._lock:
            is_unchanged = False
            with suppress(OSError, ValueError):  # the file was deleted or closed
                opened_stat, stat = os.fstat(self._file.fileno()), self.path.stat()
                is_unchanged = os.path.samestat(opened_stat, stat) and stat.st_size == self._n_bytes
            if not is_unchanged:
                problem = "another program changed the file, or the command has ended"
                raise ClickError(f"{self.path}: {problem}; start the command again", 507)
            yield

    def append(self, item: int, record: LabelRecord) -> None:
        """Append a label to the file and to `by_annotator`; raises ClickError if writing fails."""
        record_fields = msgspec.to_builtins(record)
        value = record_fields.pop("value")
        row = {**self.rows[item], **self._common_fields, **record_fields, self._value_key: value}
        line = f"{json.dumps(row, ensure_ascii=False)}\n".encode()
        try:
            if self._file.write(line) < len(line):
                raise OSError(ENOSPC, os.strerror(ENOSPC))
            os.fsync(self._file.fileno())
        except OSError as error:
            self._file.truncate(self._n_bytes)
            raise ClickError(f"not saved: {self.path}: {error.strerror}", 507) from None
        self._n_bytes += len(line)
        self.by_annotator[record.annotator].add(item, record)

    def close(self) -> int:
        """Wait until every label is saved, close the file, and return the number of its labels."""
        with self._lock, closing(self._file), self.locked():
            n_labels = sum(len(labels.labels) for labels in self.by_annotator.values())
        if not self._n_bytes:
            self.path.unlink()  # other commands would refuse an empty label file
        return n_labels

    def labels_of(self, annotator: str) -> AnnotatorLabels:
        return self.by_annotator.get(annotator, AnnotatorLabels())

    def labels_of_others(self, annotator: str) -> dict[str, AnnotatorLabels]:
        sorted_labels = sorted(self.by_annotator.items())
        return {name: labels for name, labels in sorted_labels if name != annotator}

    def name_in_file(self, annotator: str) -> str:
        """Return the annotator's name as the file spells it, ignoring case and extra spaces."""
        name = unicodedata.normalize("NFC", " ".join(annotator.split()))
        same_names = (known for known in self.by_annotator if known.casefold() == name.casefold())
        return next(same_names, name)
