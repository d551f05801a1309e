"""What a run keeps for its report: every judgement on test, both prompts, and the probes."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from data.tables.read import read_json_lines
from data.tables.text import read_json_file
from data.types import LabelledOutput, LabelledPair
from judges.dimension import Dimension
from judges.inference.budget import BudgetSpentError
from judges.judge import Judge
from judges.judgement import Judgement, Verdict
from judges.prompt import Prompt
from judges.protocol import ModelError, is_embedded
from optimize.injection import NOT_ASKED_FOR, Probes, probe
from optimize.items import Item, Items
from optimize.run.judged_split import (
    LONGEST_KIND,
    AnyJudgement,
    AnyLabelled,
    JudgedSplit,
    labelled_by_id,
)
from optimize.run.labels import PreparedRun
from optimize.run.models import RunModels
from optimize.run.run_folder import RunFolderError, as_json, write_json, write_text
from optimize.search.candidates import Candidate
from optimize.search.evaluator import Evaluator
from optimize.search.finalists import SearchResult

JUDGEMENTS = "judgements.jsonl"
EVIDENCE = "evidence.json"
JUDGES = ("seed", "tuned")


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptParts:
    """A judge's instruction and demonstrations."""

    instruction: str
    demos: tuple[Mapping[str, Any], ...]

    @classmethod
    def of(cls, prompt: Prompt) -> "PromptParts":
        return cls(instruction=prompt.instruction, demos=prompt.demos)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvidence:
    """`judged[judge][split]` for "seed" and "tuned", both prompts, the definition, the probes."""

    definition: str
    prompts: Mapping[str, PromptParts]
    judged: Mapping[str, Mapping[str, JudgedSplit]]
    probes: Probes


def record_evidence(
    prepared: PreparedRun,
    folder: Path,
    evaluator: Evaluator,
    found: SearchResult,
    judge: Judge,
    asked: RunModels,
    most_calls: int | None,
) -> None:
    """Write judgements.jsonl and evidence.json; both judges have been measured on test.

    The models are still open: a free one (or any, with `probes`) is probed for injections.
    """
    base = Candidate(instruction=evaluator.seed.instruction)
    candidates = {"seed": base, "tuned": found.tuned}
    splits = {"test": prepared.labels.test, "test_unseen_systems": prepared.labels.unseen}
    subject = prepared.subject
    judged = {
        name: {
            split: JudgedSplit(
                dimension=subject.name,
                split=split,
                level=prepared.level,
                items=items,
                judgements=evaluator.judgements(candidate, items),
                scale=subject.scale if isinstance(subject, Dimension) else (),
                labelled=labelled_by_id(prepared.labels.labelled, items),
            )
            for split, items in splits.items()
            if items is not None
        }
        for name, candidate in candidates.items()
    }
    shipped = "tuned" if found.choice.ship else "seed"
    shipped_judge = Judge(
        subject=judge.subject,
        prompt=candidates[shipped].prompt(evaluator.seed),
        plan=asked.plan,
        lm=judge.lm,
    )
    evidence = RunEvidence(
        definition=subject.definition,
        prompts={
            name: PromptParts.of(candidate.prompt(evaluator.seed))
            for name, candidate in candidates.items()
        },
        judged=judged,
        probes=_probe(prepared, shipped_judge, asked, judged[shipped]["test"], most_calls),
    )
    write_evidence(folder, evidence)


def _probe(
    prepared: PreparedRun, judge: Judge, asked: RunModels, test: JudgedSplit, most_calls: int | None
) -> Probes:
    settings = prepared.settings
    if not is_embedded(asked.judge.model.endpoint) and not settings.probes:
        return NOT_ASKED_FOR
    try:
        return probe(
            judge,
            asked.judge,
            test.items,
            test.scores,
            seed=settings.seed,
            most_calls=most_calls,
        )
    except (ModelError, BudgetSpentError) as error:
        # They add to a report; what is known without them is worth keeping.
        return Probes(why=f"they could not be run to their end: {error}")


def write_evidence(folder: Path, evidence: RunEvidence) -> None:
    """Write judgements.jsonl, one line an output, and evidence.json, the rest."""
    seed, tuned = (evidence.judged[name] for name in JUDGES)
    lines = [as_json(line) for split in seed for line in _lines(seed[split], tuned[split])]
    write_text(folder / JUDGEMENTS, "".join(line + "\n" for line in lines))
    first = next(iter(seed.values()))
    rest = {
        "dimension": first.dimension,
        "definition": evidence.definition,
        "level": first.level,
        "scale": list(first.scale),
        "splits": list(seed),
        "prompts": {name: asdict(prompt) for name, prompt in evidence.prompts.items()},
        "probes": evidence.probes.to_json(),
    }
    write_json(folder / EVIDENCE, rest)


def read_evidence(folder: Path) -> RunEvidence:
    """Read them back; raises RunFolderError where they are missing or damaged."""
    try:
        rest = read_json_file(folder / EVIDENCE)
        rows = [row.cells for row in read_json_lines(folder / JUDGEMENTS)]
        return RunEvidence(
            definition=rest["definition"],
            prompts={
                name: PromptParts(instruction=prompt["instruction"], demos=tuple(prompt["demos"]))
                for name, prompt in rest["prompts"].items()
            },
            judged={
                judge: {split: _judged_split(rest, rows, judge, split) for split in rest["splits"]}
                for judge in JUDGES
            },
            probes=Probes.from_json(rest["probes"]),
        )
    except FileNotFoundError as error:
        raise RunFolderError(
            f"{folder}: holds no {Path(error.filename).name}; a run folder has one once its run "
            "has ended"
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise RunFolderError(
            f"{folder}: {EVIDENCE} or {JUDGEMENTS} is damaged ({error!r})"
        ) from error


def _lines(seed: JudgedSplit, tuned: JudgedSplit) -> list[dict[str, Any]]:
    labelled: Sequence[AnyLabelled | None] = seed.labelled or [None] * len(seed.items)
    return [
        {
            "id": item.id,
            "split": seed.split,
            "document_id": item.document_id,
            "system": item.system,
            "texts": dict(item.texts),
            "human": item.human,
            **_label_fields(item, label),
            "seed": _judgement_fields(by_seed),
            "tuned": _judgement_fields(by_tuned),
        }
        for item, label, by_seed, by_tuned in zip(
            seed.items.items, labelled, seed.judgements, tuned.judgements, strict=True
        )
    ]


def _label_fields(item: Item, label: AnyLabelled | None) -> dict[str, Any]:
    if isinstance(label, LabelledPair):
        return {
            "votes": list(label.votes),
            "responses": [label.response_a, label.response_b],
            "systems": [label.system_a, label.system_b],
        }
    if label is None:
        return {}
    short = {
        name: text
        for name, text in label.texts.items()
        if name not in item.texts and len(text) <= LONGEST_KIND
    }
    return {
        "labels": short,
        "ratings": {name: list(ratings) for name, ratings in label.ratings.items()},
        "annotators": {name: list(names) for name, names in label.annotators.items()},
    }


def _judgement_fields(judgement: AnyJudgement) -> dict[str, Any]:
    """What is known of a judgement; a NaN and a None are left out."""
    return {
        name: value
        for name, value in asdict(judgement).items()
        if value is not None and not (isinstance(value, float) and math.isnan(value))
    }


def _judged_split(
    rest: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], judge: str, split: str
) -> JudgedSplit:
    rows = [row for row in rows if row["split"] == split]
    labelled = [_labelled(row) for row in rows]
    return JudgedSplit(
        dimension=rest["dimension"],
        split=split,
        level=rest["level"],
        scale=tuple(rest["scale"]),
        items=Items(tuple(_item(row) for row in rows)),
        judgements=tuple(_judgement(row[judge], pair="votes" in row) for row in rows),
        labelled=tuple(label for label in labelled if label is not None),
    )


def _item(row: Mapping[str, Any]) -> Item:
    return Item(
        id=row["id"],
        document_id=row["document_id"],
        system=row["system"],
        texts=row["texts"],
        human=float(row["human"]),
    )


def _labelled(row: Mapping[str, Any]) -> AnyLabelled | None:
    if "votes" in row:
        return LabelledPair(
            id=row["id"],
            document_id=row["document_id"],
            texts={},
            response_a=row["responses"][0],
            response_b=row["responses"][1],
            system_a=row["systems"][0],
            system_b=row["systems"][1],
            votes=tuple(row["votes"]),
        )
    if "ratings" not in row:
        return None
    return LabelledOutput(
        id=row["id"],
        document_id=row["document_id"],
        system=row["system"],
        texts={**row["labels"], **row["texts"]},
        ratings={name: tuple(ratings) for name, ratings in row["ratings"].items()},
        annotators={name: tuple(names) for name, names in row["annotators"].items()},
    )


def _judgement(fields: Mapping[str, Any], *, pair: bool) -> AnyJudgement:
    if pair:
        return Verdict(**{"margin": math.nan, **fields})
    fields = {"score": math.nan, **fields}
    if "distribution" in fields:
        # JSON's keys are strings.
        fields["distribution"] = {int(rating): p for rating, p in fields["distribution"].items()}
    return Judgement(**fields)
