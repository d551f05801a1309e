"""What a run comes to: the final table, the summary, and the judge that ships."""

import platform
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from data.shipped import is_constructed
from judges.engine.ledger import Ledger
from judges.judge import Judge
from optimize.run import run_folder
from optimize.run.labels import Labels
from optimize.run.models_asked import Asked
from optimize.run.prepare import Prepared
from optimize.run.table import Cell, Scores, accuracy, gain, row
from optimize.search.bench import Bench, Budget
from optimize.search.candidates import Candidate, Instruction
from optimize.search.decision import affordable
from optimize.search.gate import Choice
from optimize.search.items import Items
from optimize.search.loop import Found
from optimize.search.objective import Level

PACKAGES = ("dspy-judges", "dspy", "numpy", "scipy", "gepa", "optuna")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Both judges on every split."""

    seed: Mapping[str, Scores | None]
    tuned: Mapping[str, Scores | None]
    seed_row: Mapping[str, Cell | None]
    tuned_row: Mapping[str, Cell | None]
    gain: Cell


def measure_finally(
    bench: Bench,
    found: Found,
    labels: Labels,
    level: Level,
    seed: int,
    dev: Items | None = None,
    *,
    test: bool = True,
) -> Measured:
    """Score both judges on test, once, after the choice; on dev, where the choice was made.

    There a judge that shows dev's labels is stood in for by versions that do not show them.
    `dev` says on which part of dev, where not on what both have been scored on. Without `test`
    only what is known already is told, and no model is asked.
    """
    base = Candidate(instruction=Instruction(text=bench.seed.instruction))
    crossing = found.crossing
    if dev is None:
        dev = crossing.known(bench, found.tuned, bench.known(base, labels.dev))
    if not len(dev) and test:
        both = list({one.id: one for one in (base, found.tuned)}.values())
        dev = affordable(bench, crossing, both, labels.dev, level)
    splits: dict[str, Items | None] = {
        "dev": dev or None,
        "test": labels.test if test else None,
        "test_unseen_systems": labels.unseen if test else None,
    }
    bench.budget = Budget(
        sum(
            crossing.cost(bench, one, part)
            for one in (base, found.tuned)
            for part in splits.values()
            if part
        )
    )
    sides = [
        {
            name: Scores(items=part, scores=crossing.scores(bench, one, part)) if part else None
            for name, part in splits.items()
        }
        for one in (base, found.tuned)
    ]
    ours, theirs = sides[0]["test"], sides[1]["test"]
    return Measured(
        seed=sides[0],
        tuned=sides[1],
        seed_row=row(sides[0], level, seed),
        tuned_row=row(sides[1], level, seed),
        gain=gain(theirs, ours, level, seed) if ours and theirs else {},
    )


def without_tuned(found: Found, seed: Candidate) -> Found:
    """The seed in the place of a tuned judge that the budget did not reach to measure on test."""
    why = (
        "the budget ended before the tuned judge had been measured on test, so the seed is kept; a "
        f"larger one and --resume go on from there (before that: {found.choice.why})"
    )
    return replace(found, tuned=seed, choice=Choice(best=None, ship=False, why=why))


def summarize(
    prepared: Prepared,
    folder: Path,
    asked: Asked,
    found: Found,
    measured: Measured,
    seconds: float,
) -> dict[str, Any]:
    """What summary.json holds. Calls, tokens and dollars are of the whole run, over all resumes.

    `cost_usd` holds an estimate for requests whose answer never came; where there were any,
    `cost_unconfirmed_usd` says how much of it.
    """
    settings = prepared.settings
    judged, proposed = asked.judge.ledger, asked.proposer.ledger
    whole: dict[str, Any] = {
        "dimension": prepared.subject.name,
        "lm": settings.lm,
        "optimizer": settings.optimizer,
        "seed": settings.seed,
        "level": prepared.level,
        "data": prepared.labels.counts(),
        "seed_judge": dict(measured.seed_row),
        "tuned_judge": dict(measured.tuned_row),
        "gain": {"test": measured.gain},
        "shipped": "tuned" if found.choice.ship else "seed",
        "why": found.choice.why,
        "stand_ins": found.crossing.stand_ins(found.tuned),
        "lm_calls": judged.calls,
        "proposer_calls": proposed.calls,
        "tokens": {
            "in": judged.tokens_in + proposed.tokens_in,
            "out": judged.tokens_out + proposed.tokens_out,
        },
        **_costs(judged, proposed),
        "seconds": round(seconds, 1),
    }
    sides = {"seed_judge": measured.seed["test"], "tuned_judge": measured.tuned["test"]}
    if prepared.settings.pairwise:
        whole["accuracy"] = {name: accuracy(one) for name, one in sides.items() if one}
    return whole


def _costs(*ledgers: Ledger) -> dict[str, float | None]:
    """Dollars at list price; None where the price of a model that was asked is unknown."""
    asked = [one for one in ledgers if one.calls]
    known = [one.cost for one in asked if one.cost is not None]
    if len(known) < len(asked):
        return {"cost_usd": None}
    likely = sum(one.cost_likely or 0.0 for one in asked)
    unconfirmed = likely - sum(known)
    costs: dict[str, float | None] = {"cost_usd": round(likely, 6)}
    return costs | ({"cost_unconfirmed_usd": round(unconfirmed, 6)} if unconfirmed > 0 else {})


def freeze_shipped(
    prepared: Prepared,
    judge: Judge,
    asked: Asked,
    found: Found,
    whole: Mapping[str, Any],
    folder: Path,
) -> Judge:
    """The judge to freeze: the tuned one where the gate allowed it, else the seed."""
    chosen = found.tuned.prompt(judge.prompt) if found.choice.ship else judge.prompt
    settings, labels = prepared.settings, prepared.labels
    provenance = {
        "data": {
            "name": labels.name,
            "sha256": labels.sha256,
            "constructed": is_constructed(labels.sha256),
        },
        "split": {"by": labels.split["by"], "sha256": labels.split["sha256"]},
        "model": asked.judge.model.name,
        "endpoint": asked.judge.model.endpoint,
        "proposer": asked.proposer.model.name,
        "optimizer": settings.optimizer,
        "seed": settings.seed,
        "level": prepared.level,
        "shipped": whole["shipped"],
        "why": whole["why"],
        "candidates_tried": found.n_tried,
        "budget": {
            "lm_calls": whole["lm_calls"],
            "proposer_calls": whole["proposer_calls"],
            "cost_usd": whole["cost_usd"],
        },
        "seed_judge": whole["seed_judge"],
        "tuned_judge": whole["tuned_judge"],
        "gain": whole["gain"],
        "versions": {"python": platform.python_version(), **_versions()},
        "started": run_folder.started(folder),
    }
    return replace(judge, prompt=chosen, plan=asked.plan, provenance=provenance)


def _versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
