"""A labelling session shows each annotator the next item (output or pair), and saves their labels.

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
from optimize.figures.as_json import JsonObject, json_number
from optimize.items import MARGIN_OF_VOTE
from optimize.label_page.label_log import ClickError, LabelLog, LabelRecord, LabelValue, WhoseAnswer
from optimize.statistics.plain_agreement import quadratic_kappa

# What an annotator may give instead of a label. A skipped item is shown again at the end; an item
# marked unsure is not.
Mark = Literal["skipped", "unsure"]
MAX_NAME_LENGTH = 80


class JudgeAnswer(msgspec.Struct, frozen=True):
    """A judge's answer on an item: `value` is the possible answer that is nearest to `score`."""

    value: LabelValue | None
    score: float
    reason: str


class Click(msgspec.Struct, forbid_unknown_fields=True):
    """The request that the page sends if the annotator gives a label or clicks undo.

    `item` is the index of the item in the session's order. `value` is ignored if there is a `mark`.
    `before` is the annotator's own label that the page showed on the item, if any. `after` says
    whose other answers on the item the page showed, if any.
    """

    annotator: str
    item: int = -1
    value: LabelValue = ""
    mark: Mark | None = None
    comment: str = ""
    before: LabelValue | None = None
    after: WhoseAnswer | None = None


@dataclass(kw_only=True, eq=False)
class LabelSession:
    """The items to label, in a random order, and the label file. All methods are thread-safe.

    `rows` has the fields of each item. `text_fields` are the fields that the page shows above the
    outputs. `output_fields` maps the name of each output on the page to its field. `path` is the
    label file. `judge_answers` maps the items' ids to the judge's answers.
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
        rng = random.Random(self.seed)
        documents = [*dict.fromkeys(row["group"] for row in self.rows)]
        number_of = {name: n for n, name in enumerate(rng.sample(documents, len(documents)), 1)}
        shuffled_rows = rng.sample(self.rows, len(self.rows))
        self.rows = sorted(shuffled_rows, key=lambda row: number_of[row["group"]])
        self._document_numbers = [number_of[row["group"]] for row in self.rows]
        self._number_by_answer = answer_numbers(self.subject)
        self.label_log = LabelLog(self.path, self.subject, self.rows, self._number_by_answer)

    def _checked_name(self, annotator: str) -> str:
        name = self.label_log.name_in_file(annotator)
        if is_missing_value(name) or len(name) > MAX_NAME_LENGTH or not name.isprintable():
            raise ClickError(f"give a name of 1 to {MAX_NAME_LENGTH} letters")
        return name

    def _item_json(self, item: int) -> JsonObject:
        row, document_number = self.rows[item], self._document_numbers[item]
        outputs = [{"name": name, "text": row[field]} for name, field in self.output_fields.items()]
        return {
            "item": item,
            "document": document_number,
            "documents": self._document_numbers[-1],
            "place": item - self._document_numbers.index(document_number) + 1,
            "of_document": self._document_numbers.count(document_number),
            "texts": [{"name": name, "text": row[name]} for name in self.text_fields],
            "judged": outputs,
        }

    def state(self, annotator: str) -> JsonObject:
        """Return the page's state, with the next item that the annotator has not labelled."""
        with self.label_log.locked():
            annotator = self.label_log.name_in_file(annotator)
            own_labels = self.label_log.labels_of(annotator)
            records, labels = own_labels.records, own_labels.labels
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
                "agreement": self._agreement_json(annotator),
                "annotators": sorted(self.label_log.by_annotator),
                "disagreements": n_disagreements,
                "has_judge": self.judge_answers is not None,
                "item": None if next_item is None else self._item_json(next_item),
            }

    def label(self, click: Click) -> JsonObject:
        """Save a label, unless it repeats the annotator's newest label; return the new state."""
        with self.label_log.locked():
            name, item = self._checked_name(click.annotator), click.item
            value, comment = None if click.mark else click.value, click.comment.strip()
            is_answer = click.mark is not None or value in self._number_by_answer
            if not is_answer or not 0 <= item < len(self.rows):
                raise ClickError(f"{click.value!r:.40} is no answer, or the item does not exist")
            newest_label = self.label_log.labels_of(name).labels.get(item)
            if newest_label and (newest_label.value, newest_label.comment) == (value, comment):
                return self.state(name)
            if (newest_label and newest_label.value) != click.before:
                raise ClickError("this label was given or changed in another window meanwhile", 409)
            record = LabelRecord(name, datetime.now(UTC), value, comment, click.after)
            record.skipped, record.unsure = click.mark == "skipped", click.mark == "unsure"
            self.label_log.append(item, record)
            return self.state(name)

    def undo(self, click: Click) -> JsonObject:
        """Take back the annotator's newest label or mark; return the state that shows its item."""
        with self.label_log.locked():
            name = self._checked_name(click.annotator)
            if not (records := self.label_log.labels_of(name).records):
                return self.state(name)
            item, newest_record = [*records.items()][-1]
            self.label_log.append(item, LabelRecord(name, datetime.now(UTC), None))
            undone_label = {"undone": newest_record.value_and_comment}
            return self.state(name) | {"item": self._item_json(item) | undone_label}

    def review(self, annotator: str) -> JsonObject:
        """Return the items on which the annotator disagrees with others, then with the judge."""
        with self.label_log.locked():
            annotator = self.label_log.name_in_file(annotator)
            own_labels, items = self.label_log.labels_of(annotator).labels, list[JsonObject]()
            for source, disagreements in self._disagreements(annotator).items():
                for item in disagreements:
                    others = self._labels_by_others(item, annotator) if source != "judge" else []
                    judge_answer = self._judge_answer(item) if source == "judge" else None
                    answers = {"others": others, "judge": msgspec.to_builtins(judge_answer)}
                    answers |= {"own": own_labels[item].value_and_comment, "after": source}
                    items.append(self._item_json(item) | answers)
            return {"items": items}

    def _labels_by_others(self, item: int, annotator: str) -> list[JsonObject]:
        return [
            {"annotator": name, **record.value_and_comment}
            for name, other_labels in self.label_log.labels_of_others(annotator).items()
            if (record := other_labels.labels.get(item))
        ]

    def _judge_answer(self, item: int) -> JudgeAnswer | None:
        return (self.judge_answers or {}).get(str(self.rows[item]["id"]))

    def _disagreements(self, annotator: str) -> dict[WhoseAnswer, list[int]]:
        """Return two lists: items where the annotator disagrees with others, and with the judge."""
        items_by_source: dict[WhoseAnswer, list[int]] = {"annotators": [], "judge": []}
        min_difference = 2 if len(self._number_by_answer) > 3 else 1
        own_numbers = self._numbers_of(self.label_log.labels_of(annotator).records)
        other_labels = self.label_log.labels_of_others(annotator).values()
        others_numbers = [self._numbers_of(labels.records) for labels in other_labels]
        for item, number in sorted(own_numbers.items()):
            differences = [abs(number - numbers.get(item, number)) for numbers in others_numbers]
            if max(differences, default=0) >= min_difference:
                items_by_source["annotators"].append(item)
            elif answer := self._judge_answer(item):
                is_rating = self.subject.kind == "rating"
                judge_number = answer.score if is_rating else self._number_by_answer[answer.value]
                if abs(number - judge_number) >= 1:
                    items_by_source["judge"].append(item)
        return items_by_source

    def _agreement_json(self, annotator: str) -> list[JsonObject]:
        """Return the agreement with each annotator, on labels given before seeing others'."""
        agreements: list[JsonObject] = []
        own_numbers = self._numbers_of(self.label_log.labels_of(annotator).blind_records)
        for name, other_labels in self.label_log.labels_of_others(annotator).items():
            other_numbers = self._numbers_of(other_labels.blind_records)
            shared_items = own_numbers.keys() & other_numbers.keys()
            if shared_items:
                own, other = np.array([(own_numbers[i], other_numbers[i]) for i in shared_items]).T
                kappa = json_number(quadratic_kappa(own, other))
                agreement = {"n": own.size, "equal": float(np.mean(own == other)), "kappa": kappa}
                agreements.append({"annotators": [annotator, name], **agreement})
        return agreements

    def _numbers_of(self, records: Mapping[int, LabelRecord]) -> dict[int, float]:
        number_by_answer = self._number_by_answer
        values = {item: record.value for item, record in records.items()}
        return {item: number_by_answer[v] for item, v in values.items() if v in number_by_answer}


def answer_numbers(subject: Subject) -> Mapping[LabelValue | None, float]:
    """Map each possible answer to its number: the good one of two words is 1, the bad one 0."""
    if subject.is_pairwise:
        return dict(MARGIN_OF_VOTE.items())
    if subject.words:
        good_word, bad_word = subject.words
        return {good_word: 1, bad_word: 0}
    return {rating: rating for rating in subject.scale}


def _task_json(subject: Subject) -> JsonObject:
    """Return what the page says about the task; each answer gets a key on the keyboard."""
    number_by_answer = answer_numbers(subject)
    key_position = -1 if subject.kind == "rating" else 0
    keys = [str(answer)[key_position].casefold() for answer in number_by_answer]
    # The page uses the keys c, u, r, s and n for its own actions. If two answers or an answer and
    # an action have the same letter, each answer gets a digit.
    if len({*keys, *"cursn"}) < len(keys) + 5:
        keys = [str(number) for number in range(1, len(keys) + 1)]
    anchors = {} if isinstance(subject, Comparison) else {**subject.anchors}
    answers = []
    for (value, number), key in zip(number_by_answer.items(), keys, strict=True):
        anchor = anchors.get(int(number)) or None
        answers.append({"value": value, "text": str(value), "key": key, "anchor": anchor})
    task = {"name": subject.name, "kind": subject.kind, "definition": subject.definition}
    return {**task, "answers": answers}
