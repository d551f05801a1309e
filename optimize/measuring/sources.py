"""Where scores to verify come from: a judge that is asked, recorded replies, or plain numbers."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Unpack

from data.types import LabelError
from judges.client import ModelOptions
from judges.judge import Judge
from judges.judgement import AnyJudgement, Judgement, Verdict
from judges.recorded import judgement, read_pair_replies, read_replies, verdict
from optimize.injection import Probes, probe
from optimize.items import Items, Vector, read_scores, rows_to_judge, scores_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredItems:
    """Items that have a judgement, the scores (NaN: failed), and for pairs the verdicts."""

    items: Items
    scores: Vector
    judgements: tuple[AnyJudgement, ...] = ()
    # Of the judge that was asked: its attacked scores, and the model that answered.
    probes: Probes | None = None
    lm: str = ""
    # What the reply cache gave, if it was used.
    cache_note: str | None = None
    # Labelled outputs that the recording does not speak of, and records of no labelled output.
    n_unjudged: int = 0
    n_unknown: int = 0

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        return tuple(judgement for judgement in self.judgements if isinstance(judgement, Verdict))


def ask_judge(
    judge: Judge,
    items: Items,
    *,
    seed: int = 0,
    with_probes: bool = False,
    keep_going: bool = True,
    **options: Unpack[ModelOptions],
) -> ScoredItems:
    """Ask the judge's model, or the one named instead."""
    values: Any = dict(options)
    judge = judge.with_model(values.pop("lm", None), values.pop("api_base", None))
    with judge.open_client(keep_going=keep_going, **values) as client:
        rows = rows_to_judge(items)
        judgements = list(judge.judge_rows(rows, client, seed=seed))
        by_id = {
            item.id: judgement for item, judgement in zip(items.items, judgements, strict=True)
        }
        scored = replace(score_items(items, by_id), lm=judge.lm)
        if with_probes:
            probes = probe(judge, client, items, scored.scores, seed=seed)
            scored = replace(scored, probes=probes)
        return replace(scored, cache_note=client.cache.note if client.cache else None)


def from_replies(
    path: Path,
    items: Items,
    dimension: str,
    scale: tuple[int, ...],
    words: Mapping[str, Any],
) -> dict[str, ScoredItems]:
    """Any judge's raw replies, by prompt ("" where the file names none or one).

    Several replies in a record are averaged. `words` are what words count, as --values has them:
    they are ratings beside the numbers of the scale.
    """
    by_prompt = _by_prompt(path, dimension, read_replies(path, dimension=dimension))
    return {
        prompt: score_items(
            items,
            {
                record.id: judgement(record.replies, scale, values=words, names=(dimension,))
                for record in records
            },
        )
        for prompt, records in by_prompt.items()
    }


def from_pair_replies(
    path: Path, items: Items, dimension: str, words: Mapping[str, Any]
) -> dict[str, ScoredItems]:
    """The same for pairs, each asked in both orders; a reply that stands for a tie prefers none."""
    by_prompt = _by_prompt(path, dimension, read_pair_replies(path, dimension=dimension))
    return {
        prompt: score_items(items, {record.id: verdict(record, values=words) for record in records})
        for prompt, records in by_prompt.items()
    }


def only_prompt(path: Path, scored: Mapping[str, ScoredItems]) -> ScoredItems:
    """The scores of a file that holds replies to one prompt; raises LabelError."""
    if len(scored) > 1:
        raise LabelError(
            f"{path.name}: holds replies to several prompts ({', '.join(sorted(scored))}); "
            "compare takes each of them as a judge: dspy-judges compare --replies FILE"
        )
    return next(iter(scored.values()))


def from_scores(path: Path, items: Items, dimension: str) -> ScoredItems:
    """Read `{"id", "dimension", "score"}`; a null score is a failed judgement."""
    return from_numbers(read_scores(path, dimension), items)


def from_numbers(scores: Mapping[str, float], items: Items) -> ScoredItems:
    """Any judge's numbers by output id; NaN is a failed judgement."""
    judgements = {
        name: Judgement(score=score) if score == score else Judgement.failed("no score")
        for name, score in scores.items()
    }
    return score_items(items, judgements)


def _by_prompt(path: Path, dimension: str, records: Iterable[Any]) -> dict[str, list[Any]]:
    """The records on the dimension by prompt, "" where there is one; raises LabelError."""
    by_prompt: dict[str, list[Any]] = {}
    for record in records:
        if record.dimension in (None, dimension):
            by_prompt.setdefault(record.prompt or "", []).append(record)
    if not by_prompt:
        raise LabelError(f"{path.name}: no replies on {dimension!r}")
    for selected in by_prompt.values():
        name, count = Counter(record.id for record in selected).most_common(1)[0]
        if count > 1:
            raise LabelError(f"{path.name}: {name!r:.60} is recorded {count} times; give it once")
    return by_prompt if len(by_prompt) > 1 else {"": next(iter(by_prompt.values()))}


def score_items(items: Items, judgements: Mapping[str, Judgement | Verdict]) -> ScoredItems:
    """The items that have a judgement, with scores, and counts of those left out on each side."""
    items_judged = Items(tuple(item for item in items.items if item.id in judgements))
    if not len(items_judged):
        raise LabelError("no record's id is the id of a labelled output")
    selected = [judgements[item.id] for item in items_judged.items]
    return ScoredItems(
        items=items_judged,
        scores=scores_of(selected),
        judgements=tuple(selected),
        n_unjudged=len(items) - len(items_judged),
        n_unknown=len(judgements) - len(items_judged),
    )
