"""A swap decided by labels of changed rows: those on which two judges of pass or fail differ."""

import argparse
import json
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from judges.cli.flags import mapping
from judges.dimension import Comparison
from judges.labels.readers import read_items, read_labels
from judges.labels.types import LabelError, LabelledSet
from judges.tables.atomic_write import write_atomically
from optimize.figures.as_json import DIGITS
from optimize.figures.as_text import short_name
from optimize.inputs.flags import SettingsError, values_of
from optimize.inputs.labelled import only_dimension
from optimize.measuring.asking import Entry, Task
from optimize.measuring.comparison import Difference
from optimize.measuring.request import Request
from optimize.measuring.scored import are_shares
from optimize.measuring.swap import Certificate, outcome_of, paired_scores
from optimize.statistics.balanced import is_clearly_worse, verdicts
from optimize.statistics.changed import interval_here, rows_to_label, terms_of
from optimize.statistics.correlations import Mask
from optimize.statistics.intervals import Interval, Vector, cautious_interval, stream

ONLY_VERDICTS = (
    "--changed is for judges of pass or fail: of ratings and pairs label documents at random "
    "(dspy-judges plan). A rank correlation rests on all outputs of a document, and choosing the "
    "documents in which ranks moved saves only 3 to 13% of the labels on SummEval"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearLoss:
    """How many passes or fails the new judge alone gets right, and how many the old one alone."""

    word: str
    n_gained: int
    n_lost: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedSwap(Certificate):
    """The certificate of a swap by labels of changed rows, or what to label for it.

    `n_changed` of `n_outputs` get another verdict. `n_labelled` of them have a label: `n_gained` of
    these are right by the new judge alone, `n_lost` by the old one alone. The difference is in
    accuracy over all outputs, and `here` is its 90 % interval for these very outputs. Accuracy
    hardly shows what a judge does on the rarer of passes and fails: `clear_loss` counts those on
    which the new judge is clearly worse, which no margin of accuracy makes up for. `n_needed`
    labels show in 80 % of cases that two equally good judges are so. Of them `n_drawn` can be
    drawn; without any label these stand in `file`, which the command `next` labels.
    """

    dimension: str
    data: Mapping[str, str]
    new: str
    old: str
    n_outputs: int
    n_documents: int
    n_changed: int
    here: Interval | None = None
    n_labelled: int = 0
    n_gained: int = 0
    n_lost: int = 0
    clear_loss: ClearLoss | None = None
    n_needed: int = 0
    n_drawn: int = 0
    file: str | None = None
    next: str | None = None

    @property
    def names(self) -> tuple[str, str]:
        return self.new, self.old

    @property
    def obstacle(self) -> str:
        if self.difference is None:
            return "no changed output has a label yet"
        if (loss := self.clear_loss) is None:
            return ""
        new, old = map(short_name, self.names)
        return (
            f"{new} is clearly worse on {loss.word}: of those labelled it gets {loss.n_lost:,} "
            f"wrong that {old} gets right, and {loss.n_gained:,} the other way round. To "
            "decide about balanced accuracy, label outputs at random and leave out --changed."
        )


def unlabelled_task(flags: argparse.Namespace, request: Request) -> Task:
    """All outputs of --data as what is judged; their labels, if they have any, are passed over."""
    if request.is_pairwise or isinstance(request.subject, Comparison):
        raise SettingsError(ONLY_VERDICTS)
    if not flags.data:
        raise SettingsError("--changed: name the outputs by --data FILE; they need no labels")
    labelled = read_items(flags.data, map=mapping(flags.map) or None)
    assert isinstance(labelled, LabelledSet)
    unknown = {request.name: (math.nan,)}
    outputs = tuple(replace(output, ratings=unknown) for output in labelled.outputs)
    return Task(
        dimension=request.name, labelled=replace(labelled, outputs=outputs), level="dataset"
    )


def changed_swap(
    flags: argparse.Namespace, new: Entry, old: Entry, task: Task, margin: float
) -> ChangedSwap:
    """The certificate by the labels in --changed, or that file with rows to label.

    Raises JudgesError where a judge has no score for more than a tenth of the outputs, LabelError
    for labels of rows that do not change, and SettingsError for judges that rate.
    """
    a, b = paired_scores(new, old)
    # Verdicts, or probabilities of a pass.
    if not all(each.scale in ((), (0, 1)) and are_shares(each.scores) for each in (a, b)):
        raise SettingsError(ONLY_VERDICTS)
    items, is_changed = a.items, verdicts(a.scores) != verdicts(b.scores)
    documents, n_changed = items.document_ids, int(is_changed.sum())
    n_needed = rows_to_label(n_changed, len(items), margin)
    result = ChangedSwap(
        dimension=task.dimension,
        data={"name": task.labelled.name, "sha256": task.labelled.sha256},
        new=new.name,
        old=old.name,
        n_outputs=len(items),
        n_documents=len(items.documents),
        n_changed=n_changed,
        swap="undecided",
        margin=margin,
        looks=flags.looks,
        difference=None,
        n_needed=n_needed,
        n_drawn=min(n_needed, n_changed),
    )
    ids, labels = [item.id for item in items.items], _labels(flags, task.dimension)
    if not labels and n_changed:
        order = stream(flags.seed, "changed").permutation(np.flatnonzero(is_changed))
        path = Path(flags.changed)
        _write_rows(path, task, [ids[row] for row in order[: result.n_drawn].tolist()])
        words = ["dspy-judges", "label", str(path), "--dimension", task.dimension]
        return replace(result, file=str(path), next=shlex.join(words))
    changed = {ids[row] for row in np.flatnonzero(is_changed).tolist()}
    if others := sorted(labels.keys() - changed):
        raise LabelError(
            f"{flags.changed}: {len(others):,} labels are of outputs that do not change, or that "
            f"{task.labelled.name} lacks, such as {others[0]!r}; --changed takes labels of the "
            "rows that it wrote alone (for labels of outputs at random leave it out)"
        )
    human = np.array([labels.get(name, math.nan) for name in ids])
    # Without a label, or where annotators are tied, nobody gains.
    has_label = ~np.isnan(human) & (human != 0.5)
    gain = np.where(has_label, (a.passes == human) * 1.0 - (b.passes == human), np.nan)
    return _certified(result, gain, human, is_changed, documents)


def _certified(
    result: ChangedSwap, gain: Vector, human: Vector, is_changed: Mask, documents: Sequence[str]
) -> ChangedSwap:
    """The certificate by the gain of each output, NaN without a label (see `terms_of`)."""
    terms, least = terms_of(gain, is_changed, documents)
    interval = None if np.isnan(terms).any() else cautious_interval(terms, least, result.looks)
    outcome, loss = outcome_of(interval, result.margin), None
    if outcome in ("better", "not worse") and (loss := _clear_loss(gain, human)):
        outcome = "undecided"
    value = round(float(terms.mean()), DIGITS)
    return replace(
        result,
        swap=outcome,
        clear_loss=loss,
        difference=Difference(value=value, interval=interval, n_documents=terms.size),
        here=interval_here(gain, is_changed),
        n_labelled=int((~np.isnan(gain[is_changed])).sum()),
        n_gained=int((gain == 1).sum()),
        n_lost=int((gain == -1).sum()),
    )


def _clear_loss(gain: Vector, human: Vector) -> ClearLoss | None:
    """The passes or the fails on which the new judge is clearly worse; None for neither."""
    for word, label in (("fails", 0), ("passes", 1)):
        own = gain[human == label]
        n_gained, n_lost = int((own == 1).sum()), int((own == -1).sum())
        if is_clearly_worse(n_lost, n_gained):
            return ClearLoss(word=word, n_gained=n_gained, n_lost=n_lost)
    return None


def _labels(flags: argparse.Namespace, dimension: str) -> dict[str, float]:
    """People's labels by id in the file --changed; none where it does not exist."""
    path = Path(flags.changed)
    columns = mapping(flags.map) or None
    if not path.exists() or not read_items(str(path), map=columns).reading.ratings:
        return {}
    labelled = read_labels(
        str(path), map=columns, dimensions=[dimension], values=values_of(flags.values), texts=()
    )
    only_dimension(labelled)
    rated = (output for output in labelled.outputs if output.ratings.get(dimension))
    return {output.id: labelled.label(output, dimension) for output in rated}


def _write_rows(path: Path, task: Task, ids: Sequence[str]) -> None:
    """Write these outputs without labels; SettingsError if the file is another."""
    assert isinstance(task.labelled, LabelledSet)
    rows = {output.id: output.row for output in task.labelled.outputs}
    content = "".join(f"{json.dumps(rows[name])}\n" for name in ids).encode()
    if path.suffix != ".jsonl":
        raise SettingsError(f"--changed {path}: name a file that ends in .jsonl")
    if path.exists() and path.read_bytes() != content:
        raise SettingsError(
            f"--changed {path}: it holds no labels on {task.dimension}, and other rows than those "
            "to label: name the file of the labels, or a new one"
        )
    write_atomically(path, content, overwrite=True)
