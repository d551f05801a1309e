"""What a run comes to: the final table, the summary, and the judge that ships."""

import platform
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from data.shipped import is_constructed
from judges.engine.contents import Contents, describe
from judges.engine.prices import find_price
from judges.judge import Judge
from optimize.run import run_folder
from optimize.run.labels import Labels
from optimize.run.table import Cell, Scores, accuracy, gain, row
from optimize.search.bench import Bench, Budget
from optimize.search.candidates import Candidate, Instruction
from optimize.search.decision import affordable
from optimize.search.items import Items
from optimize.search.loop import Found
from optimize.search.objective import Level

if TYPE_CHECKING:
    from optimize.run.course import Prepared
    from optimize.run.models_asked import Asked

PACKAGES = ("dspy-judges", "dspy", "numpy", "scipy", "gepa", "optuna")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Both judges on every split."""

    seed: Mapping[str, Scores | None]
    tuned: Mapping[str, Scores | None]
    seed_row: Mapping[str, Cell | None]
    tuned_row: Mapping[str, Cell | None]
    gain: Cell


def measure(
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


def summary(
    prepared: "Prepared",
    folder: Path,
    asked: "Asked",
    found: Found,
    measured: Measured,
    seconds: float,
) -> dict[str, Any]:
    """What summary.json holds. Calls and tokens are the journals', so a resumed run counts all."""
    settings = prepared.settings
    judged, proposed = (
        describe(folder / file) for file in (run_folder.REPLIES, run_folder.PROPOSALS)
    )
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
        "lm_calls": judged.n_requests,
        "proposer_calls": proposed.n_requests,
        "tokens": {
            "in": judged.tokens_in + proposed.tokens_in,
            "out": judged.tokens_out + proposed.tokens_out,
        },
        "cost_usd": _cost(settings.lm, settings.proposer_lm, judged, proposed),
        "seconds": round(seconds, 1),
    }
    sides = {"seed_judge": measured.seed["test"], "tuned_judge": measured.tuned["test"]}
    if prepared.settings.pairwise:
        whole["accuracy"] = {name: accuracy(one) for name, one in sides.items() if one}
    return whole


def _cost(lm: str, proposer_lm: str | None, judged: Contents, proposed: Contents) -> float | None:
    """Dollars at list price; None where a price is unknown."""
    total = 0.0
    for name, used in ((lm, judged), (proposer_lm or lm, proposed)):
        price = find_price(name)
        if price is None and used.n_requests:
            return None
        total += price.cost(used.tokens_in, used.tokens_out) if price else 0.0
    return round(total, 6)


def shipped(
    prepared: "Prepared",
    judge: Judge,
    asked: "Asked",
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


def write_report(folder: Path) -> None:
    """Draw report.html from what the folder holds; RunFolderError where it cannot be drawn."""
    # Drawing takes matplotlib, which a run that fails early need not load.
    from optimize.report.writing import write

    try:
        write(folder)
    except OSError:
        raise
    except Exception as error:  # whatever it is, the run has its judge
        raise run_folder.RunFolderError(
            f"{folder / run_folder.REPORT} could not be drawn ({type(error).__name__}: {error}); "
            f"{run_folder.JUDGE} and {run_folder.SUMMARY} are whole: "
            f"python -m optimize.report {folder} draws it again"
        ) from error
