"""Where scores to verify come from: a judge that is asked, recorded replies, or plain numbers."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from data.types import LabelError, LabelledPairs, LabelledSet
from judges.inference.runner import Runner
from judges.judge import Judge
from judges.judgement import Judgement, Verdict
from judges.parsing.recorded import Reading, judgement, read_pair_replies, read_replies, verdict
from optimize.annotations import read_scores
from optimize.audits.injection import Probes, probe
from optimize.items import Item, Items, Vector
from optimize.run.judged_split import AnyJudgement
from optimize.statistics.bootstrap import stream


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredItems:
    """Items that have a judgement, the scores (NaN: failed), and for pairs the verdicts."""

    items: Items
    scores: Vector
    said: tuple[AnyJudgement, ...] = ()
    # Of the judge that was asked: its attacked scores, and the model that answered.
    probes: Probes | None = None
    lm: str = ""
    # Labelled outputs that the recording does not speak of, and records of no labelled output.
    n_unjudged: int = 0
    n_unknown: int = 0

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        return tuple(one for one in self.said if isinstance(one, Verdict))


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """How a model is asked."""

    lm: str | None = None
    api_base: str | None = None
    max_calls: int | None = None
    max_cost: float | None = None
    concurrency: int = 64
    seed: int = 0
    journal: Path | None = None
    probe: bool = False
    keep_going: bool = True


def bare_items(labelled: LabelledSet | LabelledPairs, dimension: str) -> Items:
    """The labelled outputs without texts: enough to compare recorded scores with people's."""
    if isinstance(labelled, LabelledPairs):
        return Items(
            tuple(
                Item(
                    id=pair.id,
                    document_id=pair.document_id,
                    system=None,
                    texts={},
                    human=pair.margin,
                )
                for pair in labelled.pairs
            )
        )
    return Items(
        tuple(
            Item(
                id=output.id,
                document_id=output.document_id,
                system=output.system,
                texts={},
                human=output.rating(dimension),
            )
            for output in labelled.outputs
            if output.ratings.get(dimension)
        )
    )


def asked(judge: Judge, items: Items, asking: Asking) -> ScoredItems:
    """Ask the judge's model, or the one named instead."""
    with _runner(judge, asking) as runner:
        rows = (item.texts for item in items.items)
        said = list(judge.judge_rows(rows, runner, seed=asking.seed))
        by_id = {item.id: one for item, one in zip(items.items, said, strict=True)}
        verified = replace(_verified(items, by_id), lm=asking.lm or judge.lm)
        if not asking.probe:
            return verified
        probes = probe(
            judge,
            runner,
            [item.texts for item in items.items],
            verified.scores,
            [item.document_id for item in items.items],
            seed=asking.seed,
            rng=stream(asking.seed, "probes"),
        )
        return replace(verified, probes=probes)


@contextmanager
def _runner(judge: Judge, asking: Asking) -> Iterator[Runner]:
    from judges.inference.session import open_runner

    lm, api_base = judge.model_to_ask(asking.lm, asking.api_base)
    with open_runner(
        lm,
        api_base=api_base,
        max_calls=asking.max_calls,
        max_cost=asking.max_cost,
        concurrency=asking.concurrency,
        journal=asking.journal,
        keep_going=asking.keep_going,
    ) as runner:
        yield runner


def from_replies(
    path: Path,
    items: Items,
    dimension: str,
    scale: tuple[int, ...],
    *,
    prompt: str | None = None,
    letters: Mapping[str, int] | None = None,
    reading: Reading = "strict",
) -> ScoredItems:
    """Parse any judge's raw replies; several in a record are averaged."""
    records = _of_prompt(
        path, dimension, prompt, read_replies(path, dimension=dimension, prompt=prompt)
    )
    said = {
        one.id: judgement(one.replies, scale, letters=letters, reading=reading, names=(dimension,))
        for one in records
    }
    return _verified(items, said)


def from_pair_replies(
    path: Path, items: Items, dimension: str, prompt: str | None, tie: str | None = None
) -> ScoredItems:
    """The same for pairs, each asked in both orders; a reply of `tie` prefers neither."""
    records = _of_prompt(
        path, dimension, prompt, read_pair_replies(path, dimension=dimension, prompt=prompt)
    )
    return _verified(items, {one.id: verdict(one, tie=tie) for one in records})


def from_scores(path: Path, items: Items, dimension: str) -> ScoredItems:
    """Read `{"id", "dimension", "score"}`; a null score is a failed judgement."""
    return from_numbers(read_scores(path, dimension), items)


def from_numbers(scores: Mapping[str, float], items: Items) -> ScoredItems:
    """Any judge's numbers by output id; NaN is a failed judgement."""
    said = {
        name: Judgement(score=score) if score == score else Judgement.failed("no score")
        for name, score in scores.items()
    }
    return _verified(items, said)


def _of_prompt(path: Path, dimension: str, prompt: str | None, records: Iterable[Any]) -> list[Any]:
    """Those on the dimension, of one prompt; a file that mixes several has to be told which."""
    mine = [one for one in records if one.dimension in (None, dimension)]
    prompts = sorted({one.prompt for one in mine if one.prompt is not None})
    if prompt is None and len(prompts) > 1:
        raise LabelError(f"{path.name}: replies to {', '.join(prompts)}: pick one with --prompt")
    if prompt is not None:
        mine = [one for one in mine if one.prompt == prompt]
    if not mine:
        of = f" to prompt {prompt!r}" if prompt else ""
        raise LabelError(f"{path.name}: no replies on {dimension!r}{of}")
    return mine


def _verified(items: Items, said: Mapping[str, Judgement | Verdict]) -> ScoredItems:
    judged = Items(tuple(item for item in items.items if item.id in said))
    if not len(judged):
        raise LabelError("no record's id is the id of a labelled output")
    mine = [said[item.id] for item in judged.items]
    return ScoredItems(
        items=judged,
        scores=np.array([one.margin if isinstance(one, Verdict) else one.score for one in mine]),
        said=tuple(mine),
        n_unjudged=len(items) - len(judged),
        n_unknown=len(said) - len(judged),
    )
