"""Gather what a run's report is drawn from while its models are still open, probes included."""

from pathlib import Path
from typing import TYPE_CHECKING

from judges.dimension import Dimension
from judges.engine.ledger import BudgetSpentError
from judges.judge import Judge
from judges.models.protocol import ModelError
from optimize.audits.probes import Probes, probe
from optimize.run.evidence import Evidence, labelled_by_id
from optimize.run.evidence_files import Recorded, Written, record
from optimize.run.models_asked import Asked
from optimize.search.bench import Bench
from optimize.search.candidates import Candidate, Instruction
from optimize.search.items import Items
from optimize.search.loop import Found

if TYPE_CHECKING:
    from optimize.run.course import Prepared

OPT_IN = "they cost calls to a paid model; add --probes to run them"


def gather(
    prepared: "Prepared",
    folder: Path,
    bench: Bench,
    found: Found,
    judge: Judge,
    asked: Asked,
    most_calls: int | None,
) -> None:
    """Write judgements.jsonl and evidence.json; both judges have been measured on test."""
    base = Candidate(instruction=Instruction(text=bench.seed.instruction))
    sides = {"seed": base, "tuned": found.tuned}
    splits = {"test": prepared.labels.test, "test_unseen_systems": prepared.labels.unseen}
    shown = {
        name: {
            split: _evidence(prepared, bench, one, split, items)
            for split, items in splits.items()
            if items is not None
        }
        for name, one in sides.items()
    }
    ships = "tuned" if found.choice.ship else "seed"
    candidate = Judge(
        subject=judge.subject, prompt=sides[ships].prompt(bench.seed), plan=asked.plan, lm=judge.lm
    )
    record(
        folder,
        Recorded(
            definition=prepared.subject.definition,
            prompts={name: Written.of(one.prompt(bench.seed)) for name, one in sides.items()},
            shown=shown,
            probes=_probes(prepared, candidate, asked, shown[ships]["test"], most_calls),
        ),
    )


def _evidence(
    prepared: "Prepared", bench: Bench, one: Candidate, split: str, items: Items
) -> Evidence:
    subject = prepared.subject
    return Evidence(
        dimension=subject.name,
        split=split,
        level=prepared.level,
        items=items,
        said=bench.said(one, items),
        scale=subject.scale if isinstance(subject, Dimension) else (),
        people=labelled_by_id(prepared.labels.labelled, items),
    )


def _probes(
    prepared: "Prepared", judge: Judge, asked: Asked, evidence: Evidence, most_calls: int | None
) -> Probes:
    settings = prepared.settings
    if asked.judge.model.endpoint != "embedded" and not settings.probes:
        return Probes(why=OPT_IN)
    try:
        return probe(judge, asked.judge, evidence, seed=settings.seed, most_calls=most_calls)
    except (ModelError, BudgetSpentError) as error:
        # They add to a report; what is known without them is worth keeping.
        return Probes(why=f"they could not be run to their end: {error}")
