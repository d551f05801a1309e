"""Labels as they are given: what is shown to whom, what stands, and the file that keeps them.

Annotators disagree where their ratings differ by 2 or more (of 2 or 3 answers: at all), and one
disagrees with the judge where its score is a point or more away, or its word or choice another.
"""

import json
import math
import os
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from errno import ENOSPC
from itertools import pairwise
from pathlib import Path
from statistics import median
from threading import RLock
from typing import Any, Literal

import msgspec

from data.tables.problems import count
from data.types import LabelError, LabelledOutput, LabelledPairs, LabelledSet
from data.values import says_nothing
from dspy_judges.errors import JudgesError
from judges.dimension import Comparison, Subject
from judges.judge import kind_of
from judges.judgement import AnyJudgement, Verdict
from optimize.figures import json_number
from optimize.items import VOTES
from optimize.statistics.human import annotator_agreement

Value = int | str
After = Literal["annotators", "judge"]
State = dict[str, Any]
# The time that a label takes is the median of so many, known from so few.
RECENT, FEWEST = 20, 3
LONGEST_NAME = 80
_SIDE = re.compile(r"\b[AB]\b")
_TURNED = " (A and B are the other way round here)"


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


class _Line(msgspec.Struct):
    """What a line of the file says beside its output; no value takes a label back."""

    annotator: str
    labelled_at: datetime
    value: Value | None
    comment: str = ""
    changed_after: After | None = None


class _Given:
    """One annotator's labels by item: those that stand, the last one last, and what was before.

    `blind` are the last before any was given after seeing those that `seen` says.
    """

    def __init__(self) -> None:
        self.standing: dict[int, _Line] = {}
        self.undone: dict[int, _Line] = {}
        self.blind: dict[int, Value | None] = {}
        self.seen: dict[int, After] = {}

    def add(self, item: int, line: _Line) -> None:
        if before := self.standing.pop(item, None):
            self.undone[item] = before
        if line.value is not None:
            self.standing[item] = line
        if line.changed_after:
            self.seen[item] = line.changed_after
        if item not in self.seen:
            self.blind[item] = line.value


@dataclass(kw_only=True, eq=False)
class Session:
    """Outputs or pairs in their order, and the file of their labels; for requests of any thread.

    A label is one write of a whole line and stands once the disk has it: what is remembered is what
    the file holds. `texts` are shown, the judged one last; `draws` has by id how a document was
    drawn, which its labels carry. `notes` say what else the file held.
    """

    subject: Subject
    labelled: LabelledSet | LabelledPairs
    texts: Sequence[str]
    path: Path
    seed: int = 0
    draws: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    judgements: Mapping[str, AnyJudgement] | None = None
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    notes: list[str] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self._lock, self._numbers = RLock(), numbers_of(self.subject)
        self._key = "preferred" if isinstance(self.subject, Comparison) else "rating"
        chance, documents = random.Random(self.seed), dict[str, list[Any]]()
        for item in self.labelled.items:
            documents.setdefault(item.document_id, []).append(item)
        groups = chance.sample([*documents.values()], len(documents))
        # Of each item what all its lines hold, what the page shows, and whether A and B are turned.
        self._rows: list[dict[str, Any]] = []
        self._shown: list[State] = []
        self._turned: list[bool] = []
        for number, group in enumerate(groups, 1):
            for place, item in enumerate(chance.sample(group, len(group)), 1):
                self._turned.append(self._key == "preferred" and chance.random() < 0.5)
                self._rows.append(row_of(item, self.subject.name))
                shown = {"document": number, "documents": len(groups), "place": place}
                shown |= {"item": len(self._shown), "of_document": len(group)}
                self._shown.append({**shown, **self._texts_of(len(self._shown))})
        self._index = {row["id"]: item for item, row in enumerate(self._rows)}
        self._given: dict[str, _Given] = {}
        self._file = self._read()

    def _texts_of(self, item: int) -> State:
        """The texts that the page shows of an item."""
        row = self._rows[item]
        texts = [{"name": name, "text": row[name]} for name in self.texts if name in row]
        if self._key == "rating":
            return {"texts": texts[:-1], "judged": texts[-1:]}
        sides = "ba" if self._turned[item] else "ab"
        names = zip("AB", sides, strict=True)
        judged = [{"name": name, "text": row[f"response_{side}"]} for name, side in names]
        return {"texts": texts, "judged": judged}

    def _read(self) -> Any:
        """The file, its labels taken; a last line that a kill cut off is removed. LabelError."""
        *lines, last = (self.path.read_bytes() if self.path.exists() else b"").split(b"\n")
        is_whole = last.endswith(b"}") or not b'{"id": '.startswith(last[:7])
        lines += [last] if is_whole else []
        others = sum(not self._take(line, n) for n, line in enumerate(lines, 1) if line.strip())
        file: Any = self.path.open("ab", buffering=0)  # so that a line is one write
        if is_whole:
            file.write(b"\n")
        elif last:
            file.truncate(sum(len(line) + 1 for line in lines))
            self.notes.append("a last line that was cut off is removed")
        if others:
            what = "of other outputs or another dimension"
            self.notes.append(f"{count(others, 'line')} {what}: left as they are")
        return file

    def _take(self, line: bytes, number: int = 0) -> bool:
        """Remember a line; False where it is about something else."""
        fault = "is no label of this page"
        try:
            row = msgspec.json.decode(line)
            label = msgspec.convert({**row, "value": row[self._key]}, _Line)
            item = self._index.get(row["id"])
            own = {} if item is None else self._rows[item]
            if item is None or row.get("dimension") != own.get("dimension"):
                return False
            differing = [name for name in own if row.get(name) != own[name]]
            if differing or not (label.value is None or label.value in self._numbers):
                fault = f"{differing[0] if differing else label.value!r:.60} is not of this FILE"
                raise LookupError
        except (ValueError, LookupError, TypeError):
            fault = f"{self.path}, line {number}: {fault}; name another file by --out"
            raise LabelError(fault) from None
        self._given.setdefault(label.annotator, _Given()).add(item, label)
        return True

    def _append(self, who: str, item: int, value: Value | None, comment: str, after: Any) -> None:
        """Write a line and remember it; RefusedError, and the file is as it was."""
        after = after or self._of(who).seen.get(item)
        at = self.now().astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        row = {**self._rows[item], "annotator": who, self._key: value, "comment": comment}
        row |= {"labelled_at": at, "changed_after": after, **self.draws.get(row["id"], {})}
        row = {k: of for k, of in row.items() if of or k not in ("comment", "changed_after")}
        line = f"{json.dumps(row, ensure_ascii=False)}\n".encode()
        if self._file.closed:
            raise RefusedError("not saved: the command has ended; start it again", 507)
        end = self._file.seek(0, os.SEEK_END)
        try:
            if not os.path.samestat(os.fstat(self._file.fileno()), self.path.stat()):
                raise OSError(0, "another file took its place; start the command again")
            if self._file.write(line) < len(line):
                raise OSError(ENOSPC, os.strerror(ENOSPC))
            os.fsync(self._file.fileno())
        except OSError as error:
            self._file.truncate(end)
            raise RefusedError(f"not saved: {self.path}: {error.strerror}", 507) from None
        self._take(line)

    def close(self) -> int:
        """How many labels stand, after the one that is being saved; no more are taken."""
        with self._lock:
            self._file.close()
            return sum(len(given.standing) for given in self._given.values())

    def _of(self, annotator: str) -> _Given:
        return self._given.get(annotator, _Given())

    def state(self, annotator: str, item: int | None = None) -> State:
        """What the page shows this annotator: this item, or the next one without a label."""
        with self._lock:
            given, n = self._of(annotator), len(self._rows)
            if item is None:
                item = next((at for at in range(n) if at not in given.standing), None)
            shown = None
            if item is not None:
                undone = given.undone.get(item)
                shown = {**self._shown[item], "undone": undone and self._said(item, undone)}
            times = [line.labelled_at for line in [*given.standing.values()][-RECENT - 1 :]]
            gaps = [(b - a).total_seconds() for a, b in pairwise(times)]
            left = median(gaps) * (n - len(given.standing)) if len(gaps) >= FEWEST else None
            return {
                "task": _task(self.subject),
                "outputs": n,
                "done": len(given.standing),
                "seconds_left": left if left is None else round(left),
                "agreement": self._agreement(),
                "annotators": sorted(self._given),
                "disagreements": len(self._disagreements(annotator)),
                "has_judge": self.judgements is not None,
                "item": shown,
            }

    def label(self, click: Click) -> State:
        """Save a label, and return the next state; one that stands already is not written again."""
        with self._lock:
            who, item = _name_of(click.annotator), click.item
            if click.value not in self._numbers or not 0 <= item < len(self._rows):
                raise RefusedError(f"{click.value!r:.40} is no answer, or the item is none")
            stands = self._of(who).standing.get(item)
            shown = stands and self._turn(item, stands.value, stands.comment)
            if shown != (click.value, comment := click.comment.strip()):
                if (shown and shown[0]) != click.before:
                    message = "this label was given or changed in another window meanwhile"
                    raise RefusedError(message, 409, self.state(who))
                self._append(who, item, *self._turn(item, click.value, comment), click.after)
            return self.state(who)

    def undo(self, click: Click) -> State:
        """Take back the annotator's last label that stands; the state, with its item again."""
        with self._lock:
            who = _name_of(click.annotator)
            item = next(reversed(self._of(who).standing), None)
            if item is not None:
                self._append(who, item, None, "", None)
            return self.state(who, item)

    def review(self, annotator: str) -> State:
        """The items of this annotator's disagreements, with others first, then with the judge."""
        with self._lock:
            own, items = self._of(annotator).standing, []
            for item, after in self._disagreements(annotator):
                others = [
                    {"annotator": name, **self._said(item, label)}
                    for name in sorted(self._given.keys() - {annotator})
                    if after == "annotators" and (label := self._given[name].standing.get(item))
                ]
                said = None if after == "annotators" else self._judge_said(item)
                about = {"own": self._said(item, own[item]), "others": others, "judge": said}
                items.append({**self._shown[item], **about, "after": after})
            return {"items": items}

    def _turn(self, item: int, value: Any, comment: str) -> tuple[Any, str]:
        """What the file says as the page shows it; what a page says as the file has it."""
        if not self._turned[item]:
            return value, comment
        bare = comment.removesuffix(_TURNED)
        if bare == comment and _SIDE.search(comment):
            bare += _TURNED
        return {"A": "B", "B": "A"}.get(value, value), bare

    def _said(self, item: int, line: _Line) -> State:
        turned = self._turn(item, line.value, line.comment)
        return dict(zip(("value", "comment"), turned, strict=True))

    def _disagreements(self, annotator: str) -> list[tuple[int, After]]:
        """The items of which the annotator and others, or else the judge, say different things."""
        gap = 2 if len(self._numbers) > 3 else 1
        by_others, by_judge = list[tuple[int, After]](), list[tuple[int, After]]()
        others = [of.standing for name, of in self._given.items() if name != annotator]
        for item, line in sorted(self._of(annotator).standing.items()):
            own = self._numbers[line.value]
            theirs = (self._numbers[of[item].value] for of in others if item in of)
            if any(abs(own - number) >= gap for number in theirs):
                by_others.append((item, "annotators"))
            elif said := self._judge_said(item):
                number = self._numbers[self._turn(item, said["value"], "")[0]]
                number = said["score"] if kind_of(self.subject) == "rating" else number
                by_judge += [(item, "judge")] if abs(own - number) >= 1 else []
        return by_others + by_judge

    def _judge_said(self, item: int) -> State | None:
        """The judge's answer to an item as the page shows it; None: it failed, or there is none."""
        judged = (self.judgements or {}).get(self._rows[item]["id"])
        if judged is None or judged.failure is not None:
            return None
        if isinstance(judged, Verdict):
            value, reason = self._turn(item, judged.preferred, judged.comparison or "")
            score = -judged.score if self._turned[item] else judged.score
            return {"value": value, "score": score, "reason": reason}
        value = min(self._numbers, key=lambda value: abs(self._numbers[value] - judged.score))
        return {"value": value, "score": judged.score, "reason": judged.rationale or ""}

    def _agreement(self) -> list[State]:
        """How far every two annotators said the same before they saw each other's labels."""
        names = sorted(self._given)
        blind = [self._given[name].blind for name in names]
        items = {item for of in blind for item in of}
        ratings = [[self._numbers.get(of.get(item), math.nan) for of in blind] for item in items]
        return [
            {"annotators": [names[of.first or 0], names[of.second]], "n": of.n_outputs}
            | {"equal": json_number(of.equal), "kappa": json_number(of.kappa)}
            for of in (annotator_agreement(ratings) if len(names) > 1 else ())
        ]


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


def row_of(item: Any, name: str) -> dict[str, Any]:
    """What every line about an output or pair says of it."""
    systems = ["system"] if isinstance(item, LabelledOutput) else ["system_a", "system_b"]
    row = {"id": item.id, "group": item.document_id, **{of: getattr(item, of) for of in systems}}
    row = {**{key: value for key, value in row.items() if value is not None}, **item.texts}
    if isinstance(item, LabelledOutput):
        return {**row, "dimension": name}
    return {**row, "response_a": item.response_a, "response_b": item.response_b}


def _name_of(annotator: str) -> str:
    """An annotator's name as the file has it."""
    name = " ".join(annotator.split())
    if says_nothing(name) or len(name) > LONGEST_NAME or not name.isprintable():
        raise RefusedError(f"give a name of 1 to {LONGEST_NAME} letters")
    return name
