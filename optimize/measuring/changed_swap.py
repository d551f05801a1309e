"""Decide whether one pass/fail judge may replace another, by labels where their verdicts differ."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from dspy_judges.errors import SettingsError
from judges.labels.preparation import SWAP_SAMPLE_COLUMN
from judges.labels.readers import read_items, read_labelled_items
from judges.labels.types import LabelError, LabelledSet
from judges.tables.atomic_write import write_atomically
from optimize.inputs.labelled import LabelSource, only_dimension
from optimize.items import Items, make_items
from optimize.measuring.asking import JudgeEntry, Task
from optimize.measuring.comparison import Difference
from optimize.measuring.scored import are_fractions
from optimize.measuring.swap import SwapDecision, paired_scores, swap_outcome
from optimize.statistics import changed_rows
from optimize.statistics.balanced import is_clearly_worse
from optimize.statistics.intervals import (
    Interval,
    Mask,
    Vector,
    cautious_interval,
    random_generator,
)

NEEDS_VERDICTS_MESSAGE = (
    "--changed is for judges of pass or fail: for ratings and pairs label documents at random "
    "(dspy-judges plan). A rank correlation rests on all outputs of a document, and choosing the "
    "documents in which ranks moved saves only 3 to 13% of the labels on SummEval"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearLoss:
    """The class, "fails" or "passes", on which the new judge is clearly worse."""

    word: str
    n_gained: int
    n_lost: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedRowsSwap(SwapDecision):
    """The decision whether to swap judges, by labels on only the rows on which the judges differ.

    `difference` is the difference in accuracy over all outputs, and `sample_interval` its 90 %
    interval for these outputs alone. Only the new judge is right on `n_gained` outputs, only the
    old one on `n_lost`. Accuracy hardly shows errors in the rarer class, so the swap is undecided
    if the new judge is clearly worse on one class (`clear_loss`). If both judges are equally good,
    `n_needed` labels show in 80 % of cases that the new judge is not worse by the margin. If no
    changed row has a label, `file_to_label` has `n_drawn` rows.
    """

    dimension: str
    data_identity: Mapping[str, str] = field(metadata={"json": "data"})
    n_outputs: int
    n_documents: int
    n_changed: int
    sample_interval: Interval | None = field(default=None, metadata={"json": "here"})
    n_labelled: int = 0
    n_gained: int = 0
    n_lost: int = 0
    clear_loss: ClearLoss | None = None
    n_needed: int = 0
    n_drawn: int = 0
    file_to_label: str | None = field(default=None, metadata={"json": "file"})


def decide_by_changes(
    new_judge: JudgeEntry,
    old_judge: JudgeEntry,
    task: Task,
    label_source: LabelSource,
    *,
    margin: float,
    looks: int,
    seed: int,
) -> ChangedRowsSwap:
    """Decide by labels on the rows whose verdict changes; without labels, write rows to label."""
    new_scored, old_scored = paired_scores(new_judge, old_judge)
    # A judge of pass or fail gives verdicts (0 or 1), or probabilities of a pass.
    for scored_items in (new_scored, old_scored):
        if scored_items.scale not in ((), (0, 1)) or not are_fractions(scored_items.scores):
            raise SettingsError(NEEDS_VERDICTS_MESSAGE)
    items, is_changed = new_scored.items, new_scored.verdicts != old_scored.verdicts
    changed_ids = [items[row].id for row in np.flatnonzero(is_changed)]
    n_needed = changed_rows.rows_to_label(len(changed_ids), len(items), margin)
    result = ChangedRowsSwap(
        dimension=task.dimension,
        data_identity={"name": task.labels.name, "sha256": task.labels.sha256},
        new_judge=new_judge.name,
        old_judge=old_judge.name,
        n_outputs=len(items),
        n_documents=len(items.documents),
        n_changed=len(changed_ids),
        outcome="undecided",
        margin=margin,
        looks=looks,
        difference=None,
        n_needed=n_needed,
        n_drawn=min(n_needed, len(changed_ids)),
    )
    file, label_by_id = str(label_source.data), _read_labels(label_source, task.dimension)
    if changed_ids and not label_by_id:
        drawn_ids = random_generator(seed, "changed").permutation(changed_ids)[: result.n_drawn]
        _write_rows(Path(file), task, drawn_ids.tolist())
        return replace(result, file_to_label=file)
    if unexpected_ids := sorted(label_by_id.keys() - {*changed_ids}):
        raise LabelError(
            f"{file}: {len(unexpected_ids):,} labels are on outputs whose verdict is unchanged, or "
            f"that {task.labels.name} lacks, such as {unexpected_ids[0]!r}; leave out "
            "--changed, or label only the rows that verify wrote to this file"
        )
    human = np.array([label_by_id.get(item.id, math.nan) for item in items])
    gains = (new_scored.verdicts == human) * 1.0 - (old_scored.verdicts == human)
    # An output shows neither gain nor loss if it has no label, or if its annotators are tied.
    gains[np.isnan(human) | (human == 0.5)] = np.nan
    return _decide_by_gains(result, gains, human, is_changed, items)


def _decide_by_gains(
    result: ChangedRowsSwap, gains: Vector, human: Vector, is_changed: Mask, items: Items
) -> ChangedRowsSwap:
    """Return the decision by the new judge's gains: 1 if only it is right, -1 if only the old."""
    contributions, possible_contribution = changed_rows.gain_contributions(
        gains, is_changed, items.document_ids
    )
    interval = None
    if not np.isnan(contributions).any():
        interval = cautious_interval(contributions, possible_contribution, result.looks)
    outcome, clear_loss = swap_outcome(interval, result.margin), None
    if outcome in ("better", "not worse") and (clear_loss := _find_clear_loss(gains, human)):
        outcome = "undecided"
    return replace(
        result,
        outcome=outcome,
        difference=Difference(
            value=float(contributions.mean()), interval=interval, n_documents=contributions.size
        ),
        sample_interval=changed_rows.interval_on_these_rows(gains, is_changed),
        n_labelled=int((~np.isnan(gains[is_changed])).sum()),
        n_gained=int((gains == 1).sum()),
        n_lost=int((gains == -1).sum()),
        clear_loss=clear_loss,
    )


def _find_clear_loss(gains: Vector, human: Vector) -> ClearLoss | None:
    """Return the class of labels on which the new judge is clearly worse; None if there is none."""
    for word, label in (("fails", 0), ("passes", 1)):
        n_gained, n_lost = (int((gains[human == label] == gain).sum()) for gain in (1, -1))
        if is_clearly_worse(n_lost, n_gained):
            return ClearLoss(word=word, n_gained=n_gained, n_lost=n_lost)
    return None


def _read_labels(label_source: LabelSource, dimension: str) -> dict[str, float]:
    """Return people's labels by id; {} if the file does not exist or has no label."""
    path, options = str(label_source.data), label_source.options
    if not Path(path).exists() or not read_items(path, map=options.mapping).reading.ratings:
        return {}
    options = replace(options, dimensions=[dimension], texts=(), annotations=None)
    labels = read_labelled_items(path, options, item_kind="outputs")
    assert isinstance(labels, LabelledSet)
    only_dimension(labels)
    return {item.id: item.human for item in make_items(labels, dimension)}


def _write_rows(path: Path, task: Task, ids: Sequence[str]) -> None:
    """Write these outputs without labels; raise SettingsError if the file has other content."""
    assert isinstance(task.labels, LabelledSet)
    row_by_id = {output.id: output.row for output in task.labels.outputs}
    rows = ({**row_by_id[output_id], SWAP_SAMPLE_COLUMN: "two judges differ"} for output_id in ids)
    lines = "".join(f"{json.dumps(row)}\n" for row in rows).encode()
    if path.exists() and path.read_bytes() != lines:
        raise SettingsError(
            f"--changed {path}: it holds no labels on {task.dimension}, and its rows are not the "
            "rows to label: name a file with the labels, or a new file"
        )
    write_atomically(path, lines, overwrite=True)
