"""Decide whether one pass/fail judge may replace another, by labels where their verdicts differ.

A row is "changed" if the two judges give it different verdicts. Only changed rows need human
labels: on all other rows both judges are right or both are wrong. The gain on a changed row is 1 if
only the new judge is right, and -1 if only the old judge is right. The difference in accuracy is
the share of changed rows times their mean gain, which is estimated from a random sample with
labels. The standard error, clustered by document, covers two sources of chance: which documents are
in the data, and which changed rows were drawn.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

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
from optimize.statistics.balanced import is_clearly_worse
from optimize.statistics.intervals import (
    Interval,
    Mask,
    Vector,
    cautious_interval,
    random_generator,
    student_quantile,
)

NEEDS_VERDICTS_MESSAGE = (
    "--changed is for judges of pass or fail: for ratings and pairs label documents at random "
    "(dspy-judges plan). A rank correlation rests on all outputs of a document, and choosing the "
    "documents in which ranks moved saves only 3 to 13% of the labels on SummEval"
)
# The margin of a noninferiority test, in standard errors: the sum of two normal quantiles. A new
# judge that is worse by the margin passes in 5 % of cases, an equally good one in 80 %.
MARGIN_IN_SE = 1.644854 + 0.841621
# The smallest number of changed rows that `rows_to_label` returns.
MIN_ROWS_TO_LABEL = 30


@dataclass(frozen=True, slots=True)
class ClearLoss:
    """On how many fails (or passes) only the new judge is right, and on how many only the old."""

    word: str
    n_gained: int
    n_lost: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedRowsSwap(SwapDecision):
    """The decision whether to swap judges, by labels on only the rows on which the judges differ.

    `difference` is the difference in accuracy over all outputs, and `sample_interval` its 90 %
    interval for these outputs alone. Only the new judge is right on `n_gained` outputs, only the
    old one on `n_lost`. Accuracy hardly shows errors in the rarer class, so the swap is undecided
    if the new judge is clearly worse on fails or on passes, with the numbers in `clear_loss`. If
    both judges are equally good, `n_needed` labels show in 80 % of cases that the new judge is not
    worse by the margin. If no changed row has a label, `file_to_label` has `n_drawn` rows.
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
    n_needed = rows_to_label(len(changed_ids), len(items), margin)
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
    contributions, possible_contribution = gain_contributions(gains, is_changed, items.document_ids)
    interval = None
    if not np.isnan(contributions).any():
        interval = cautious_interval(contributions, possible_contribution, result.looks)
    outcome, clear_loss = swap_outcome(interval, result.margin), None
    for word, label in (("fails", 0), ("passes", 1)):
        n_gained, n_lost = (int((gains[human == label] == gain).sum()) for gain in (1, -1))
        if outcome in ("better", "not worse") and is_clearly_worse(n_lost, n_gained):
            outcome = "undecided"
            clear_loss = ClearLoss(word, n_gained, n_lost)
    return replace(
        result,
        outcome=outcome,
        difference=Difference(
            value=float(contributions.mean()), interval=interval, n_documents=contributions.size
        ),
        sample_interval=interval_on_these_rows(gains, is_changed),
        n_labelled=int((~np.isnan(gains[is_changed])).sum()),
        n_gained=int((gains == 1).sum()),
        n_lost=int((gains == -1).sum()),
        clear_loss=clear_loss,
    )


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


def gain_contributions(
    gain: ArrayLike, is_changed: Mask, document: ArrayLike
) -> tuple[Vector, float]:
    """Return the documents' contributions to the difference in accuracy, and their possible size.

    `gain` is -1, 0 or 1 for labelled rows and NaN for others; gains of unchanged rows are ignored.
    The mean of the contributions is the new judge's accuracy minus the old judge's; it is NaN if no
    changed row has a label. `cautious_interval` takes the contributions and their possible size.
    """
    gains = np.asarray(gain, dtype=float)
    document_codes = np.unique(np.asarray(document), return_inverse=True)[1]
    is_labelled = is_changed & ~np.isnan(gains)
    mean_gain = np.nan if is_changed.any() else 0.0
    if is_labelled.any():
        mean_gain = float(gains[is_labelled].mean())
    excess_gain_by_row = np.where(is_labelled, gains - mean_gain, 0)
    # Sums over each document: of rows, changed rows, labelled changed rows, and excess gains.
    columns = np.ones(gains.size), is_changed, is_labelled, excess_gain_by_row
    sums = (np.bincount(document_codes, column) for column in columns)
    n_rows, n_changed, n_labelled, excess_gain_sums = sums
    n_documents, n_labelled_in_all = n_rows.size, max(n_labelled.sum(), 1)
    changed_share = n_changed.sum() / n_rows.sum()
    contributions = (
        changed_share * mean_gain
        + n_documents / n_rows.sum() * mean_gain * (n_changed - changed_share * n_rows)
        + changed_share * n_documents / n_labelled_in_all * excess_gain_sums
    )
    if not is_changed.any():
        return contributions, n_documents * float(((n_rows / n_rows.sum()) ** 2).sum())
    squared_label_shares = (n_labelled / n_labelled_in_all) ** 2
    return contributions, float(changed_share * n_documents * squared_label_shares.sum())


def interval_on_these_rows(gain: ArrayLike, is_changed: Mask) -> Interval | None:
    """Return the 90 % interval for the difference in accuracy on exactly these rows.

    The interval covers only one error: that of drawing changed rows for labelling. It is a single
    point if all changed rows have a label. The interval is None if no changed row has a label. Two
    made-up rows with the gains 1 and -1 are added, as `cautious_interval` explains.
    """
    gains = np.asarray(gain, dtype=float)
    known_gains = gains[is_changed & ~np.isnan(gains)]
    n_labelled, n_changed = known_gains.size, int(is_changed.sum())
    if not n_labelled:
        return None if n_changed else Interval(0.0, 0.0)
    changed_share = float(is_changed.mean())
    gain_sd = float(np.append(known_gains, [1, -1]).std(ddof=1))
    error_factor = math.sqrt((1 - n_labelled / n_changed) / n_labelled)
    quantile = student_quantile(n_labelled, confidence=0.95)
    half_width = quantile * changed_share * gain_sd * error_factor
    accuracy_difference = changed_share * float(known_gains.mean())
    return Interval(accuracy_difference - half_width, accuracy_difference + half_width)


def rows_to_label(n_changed: int, n_rows: int, margin: float) -> int:
    """Return how many labels show in 80 % of cases that an equally good judge is no worse."""
    return max(MIN_ROWS_TO_LABEL, math.ceil((MARGIN_IN_SE * n_changed / n_rows / margin) ** 2))
