"""A labelling session: it shows each annotator the next item, and saves their labels.

Two annotators disagree on an item if their ratings differ by 2 or more; if there are only 2 or 3
possible answers, they disagree if their answers differ. An annotator disagrees with the judge if
the judge's score differs from the annotator's rating by 1 or more, or if the judge's verdict or
preference is different.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from judges.dimension import Comparison, Subject
from judges.labels.values import is_missing_value
from optimize.figures.as_json import json_number
from optimize.items import MARGIN_OF_VOTE
from optimize.label_page.label_log import AnswersFrom, ClickError, LabelLog, LabelRecord, LabelValue
from optimize.statistics.plain_agreement import quadratic_kappa

# What an annotator may give instead of a label. A skipped item is shown again at the end; an item
# marked unsure is not.
Mark = Literal["skipped", "unsure"]
# A JSON object that the page gets.
PageState = dict[str, object]
MAX_NAME_LENGTH = 80


class JudgeAnswer(msgspec.Struct, frozen=True):
    """A judge's answer on an item: `value` is the possible answer that is nearest to `score`."""

    value: LabelValue | None
    score: float
    reason: str


class Click(msgspec.Struct, forbid_unknown_fields=True):
    """The request that the page sends if the annotator gives a label or clicks undo.

    `item` is the index of the item in the session's order. `value` is ignored if there is a `mark`.
    `before` is the annotator's earlier label that the page showed, if any, and `after` says whose
    other answers the page showed.
    """

    annotator: str
    item: int = -1
    value: LabelValue = ""
    mark: Mark | None = None
    comment: str = ""
    before: LabelValue | None = None
    after: AnswersFrom | None = None


@dataclass(kw_only=True, eq=False)
class LabelSession:
    """Items in a random order, and the file with their labels. All methods are thread-safe.

    `rows` has the fields of each output or pair. `text_fields` are the fields that the page shows
    above the outputs, and `output_fields` has the field of each output by its name on the page.
    `path` is the label file. `judge_answers` has the judge's answers by the items' ids.
    """

    subject: Subject
    rows: Sequence[Mapping[str, object]]
    text_fields: Sequence[str]
    output_fields: Mapping[str, str]
    path: Path
    seed: int = 0
    judge_answers: Mapping[str, JudgeAnswer] | None = None

    def __post_init__(self) -> None:
        # Documents come in a random order, and so do the items of each document.
        rng, documents = random.Random(self.seed), [*dict.fromkeys(map(_document_id, self.rows))]
        shuffled_documents = rng.sample(documents, len(documents))
        self._document_numbers = {name: n for n, name in enumerate(shuffled_documents, 1)}
        self.rows = sorted(
            rng.sample(self.rows, len(self.rows)),
            key=lambda row: self._document_numbers[_document_id(row)],
        )
        self._numbers = answer_numbers(self.subject)
        self.log = LabelLog(self.path, self.subject, self.rows, self._numbers)

    def _checked_name(self, annotator: str) -> str:
        name = self.log.name_in_file(annotator)
        if is_missing_value(name) or len(name) > MAX_NAME_LENGTH or not name.isprintable():
            raise ClickError(f"give a name of 1 to {MAX_NAME_LENGTH} letters")
        return name

    def _item_content(self, item: int) -> PageState:
        row, documents = self.rows[item], [*map(_document_id, self.rows)]
        document = documents[item]
        return {
            "item": item,
            "document": self._document_numbers[document],
            "documents": len(self._document_numbers),
            "place": item - documents.index(document) + 1,
            "of_document": documents.count(document),
            "texts": [{"name": name, "text": row[name]} for name in self.text_fields],
            "judged": [
                {"name": name, "text": row[key]} for name, key in self.output_fields.items()
            ],
        }

    def state(self, annotator: str) -> PageState:
        """Return the page's state, with the annotator's next item if one has no label."""
        with self.log.locked():
            annotator = self.log.name_in_file(annotator)
            records, labels = self.log.of(annotator).records, self.log.of(annotator).labels
            skipped_items = [item for item, record in records.items() if record.skipped]
            new_items = (item for item in range(len(self.rows)) if item not in records)
            next_item = next(chain(new_items, skipped_items), None)
            disagreements = self._disagreements(annotator)
            n_disagreements = len(disagreements["annotators"])
            if next_item is None:  # the judge's answers stay hidden as long as the annotator labels
                n_disagreements += len(disagreements["judge"])
            return {
                "task": _task_json(self.subject),
                "outputs": len(self.rows),
                "done": len(labels),
                "unsure": len(records) - len(labels) - len(skipped_items),
                "agreement": self._agreement(annotator),
                "annotators": sorted(self.log.by_annotator),
                "disagreements": n_disagreements,
                "has_judge": self.judge_answers is not None,
                "item": None if next_item is None else self._item_content(next_item),
            }

    def label(self, click: Click) -> PageState:
        """Save a label, unless the annotator's newest label is the same; return the next state."""
        with self.log.locked():
            name, item = self._checked_name(click.annotator), click.item
            value, comment = None if click.mark else click.value, click.comment.strip()
            if (value not in self._numbers and not click.mark) or not 0 <= item < len(self.rows):
                raise ClickError(
                    f"{click.value!r:.40} is not an answer, or the item does not exist"
                )
            latest = self.log.of(name).labels.get(item)
            if latest is None or (latest.value, latest.comment) != (value, comment):
                if (latest and latest.value) != click.before:
                    raise ClickError(
                        "this label was given or changed in another window meanwhile", 409
                    )
                record = LabelRecord(name, datetime.now(UTC), value, comment, click.after)
                record.skipped, record.unsure = click.mark == "skipped", click.mark == "unsure"
                self.log.append(item, record)
            return self.state(name)

    def undo(self, click: Click) -> PageState:
        """Take back the annotator's newest label or mark; return the state that shows its item."""
        with self.log.locked():
            name = self._checked_name(click.annotator)
            if not (records := self.log.of(name).records):
                return self.state(name)
            item, newest = [*records.items()][-1]
            self.log.append(item, LabelRecord(name, datetime.now(UTC), None))
            undone = {"undone": newest.value_and_comment}
            return self.state(name) | {"item": self._item_content(item) | undone}

    def review(self, annotator: str) -> PageState:
        """Return the items on which the annotator disagrees with others, then with the judge."""
        with self.log.locked():
            annotator = self.log.name_in_file(annotator)
            own, items = self.log.of(annotator).labels, list[PageState]()
            for source, disagreements in self._disagreements(annotator).items():
                for item in disagreements:
                    others, judge = list[PageState](), None
                    if source == "judge":
                        judge = msgspec.to_builtins(self._judge_answer(item))
                    else:
                        others = [
                            {"annotator": name, **record.value_and_comment}
                            for name, other in self.log.of_others(annotator).items()
                            if (record := other.labels.get(item))
                        ]
                    answers = {"own": own[item].value_and_comment, "others": others, "judge": judge}
                    items.append({**self._item_content(item), **answers, "after": source})
            return {"items": items}

    def _judge_answer(self, item: int) -> JudgeAnswer | None:
        return (self.judge_answers or {}).get(str(self.rows[item]["id"]))

    def _disagreements(self, annotator: str) -> dict[AnswersFrom, list[int]]:
        """Return the items on which the annotator disagrees, by whose answer differs."""
        items: dict[AnswersFrom, list[int]] = {"annotators": [], "judge": []}
        min_difference = 2 if len(self._numbers) > 3 else 1
        others = [self._numbers_of(each.records) for each in self.log.of_others(annotator).values()]
        for item, number in sorted(self._numbers_of(self.log.of(annotator).records).items()):
            differences = [abs(number - other.get(item, number)) for other in others]
            if max(differences, default=0) >= min_difference:
                items["annotators"].append(item)
            elif judge := self._judge_answer(item):
                is_rating = self.subject.kind == "rating"
                judge_number = judge.score if is_rating else self._numbers[judge.value]
                if abs(number - judge_number) >= 1:
                    items["judge"].append(item)
        return items

    def _agreement(self, annotator: str) -> list[PageState]:
        own, rows = self._numbers_of(self.log.of(annotator).blind_records), list[PageState]()
        for name, labels in self.log.of_others(annotator).items():
            other = self._numbers_of(labels.blind_records)
            if pairs := [(number, other[item]) for item, number in own.items() if item in other]:
                own_numbers, other_numbers = np.array(pairs).T
                kappa = json_number(quadratic_kappa(own_numbers, other_numbers))
                equal = float(np.mean(own_numbers == other_numbers))
                figures = {"n": len(pairs), "equal": equal, "kappa": kappa}
                rows.append({"annotators": [annotator, name], **figures})
        return rows

    def _numbers_of(self, records: Mapping[int, LabelRecord]) -> dict[int, float]:
        labels = {item: each for item, each in records.items() if each.value is not None}
        return {item: self._numbers[label.value] for item, label in labels.items()}


def _document_id(row: Mapping[str, object]) -> str:
    return str(row["group"])


def answer_numbers(subject: Subject) -> Mapping[LabelValue | None, float]:
    """Return the number that each possible answer counts; of two words, good comes first."""
    if isinstance(subject, Comparison):
        return dict(MARGIN_OF_VOTE.items())
    good, bad = subject.words or ("", "")
    return {good: 1, bad: 0} if good else {rating: rating for rating in subject.scale}


def _task_json(subject: Subject) -> PageState:
    """Return the task for the page; an answer's key is a digit if letters would be ambiguous."""
    number_of_answer, kind = answer_numbers(subject), subject.kind
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
