"""The report of a run, drawn from its folder alone: no model is asked anything."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from optimize.figures import interval_of, one_line, shown
from optimize.report import changes, origins, page, scores
from optimize.report.advice import advice
from optimize.report.findings import Findings, find
from optimize.report.judge_parts import judge_parts
from optimize.report.people import share
from optimize.run import evidence_files, run_folder
from optimize.run.evidence import Evidence
from optimize.run.evidence_files import Recorded
from optimize.run.run_folder import RunFolderError

SIDES = {"seed": "seed_judge", "tuned": "tuned_judge"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A finished run as its folder holds it; `evidence` and `found` are the shipped judge's."""

    folder: Path
    summary: Mapping[str, Any]
    config: Mapping[str, Any]
    provenance: Mapping[str, Any]
    trials: list[Mapping[str, Any]]
    recorded: Recorded
    evidence: Evidence
    found: Findings

    @property
    def cell(self) -> Mapping[str, Any]:
        """The shipped judge's figure on test."""
        cell: Mapping[str, Any] = self.summary[SIDES[self.summary["shipped"]]]["test"]
        return cell


def read_run(folder: Path) -> Run:
    """Raises RunFolderError where the folder holds no finished run."""
    summary = _json(folder / run_folder.SUMMARY)
    recorded = evidence_files.read(folder)
    evidence = recorded.shown[summary["shipped"]]["test"]
    return Run(
        folder=folder,
        summary=summary,
        config=_json(folder / run_folder.CONFIG),
        provenance=_json(folder / run_folder.JUDGE).get("provenance") or {},
        trials=_trials(folder / run_folder.TRIALS),
        recorded=recorded,
        evidence=evidence,
        found=find(evidence, recorded.probes, summary["seed"]),
    )


def render(run: Run) -> str:
    """The whole page."""
    summary = run.summary
    parts = [
        *_head(run),
        page.section(
            "What to do next", [page.listed(advice(run.evidence, run.found, run.cell, summary))]
        ),
        page.section("Scorecard", scores.scorecard(summary)),
        *judge_parts(
            run.evidence,
            run.found,
            seed=summary["seed"],
            of=f"the {summary['shipped']} judge on test",
        ),
        page.section(
            "Seed and tuned prompt",
            changes.prompts(run.recorded.prompts["seed"], run.recorded.prompts["tuned"]),
        ),
        page.section("The search", changes.path(run.trials, summary["dimension"])),
        page.section(
            "Provenance and cost",
            [origins.run_facts(summary, run.config, run.provenance, run.recorded.probes)],
        ),
    ]
    return page.page(title(summary), parts)


def title(summary: Mapping[str, Any]) -> str:
    return f"{summary['dimension']} judged by {summary['lm']}"


def headline(summary: Mapping[str, Any]) -> str:
    """The verdict in one sentence."""
    gain = summary["gain"]["test"]
    if summary["shipped"] == "seed":
        return "The seed judge ships: dev does not vouch for a gain by tuning."
    if gain.get("value") is None:
        return "The tuned judge ships; its gain on test is undefined."
    around = interval_of(gain["low"], gain["high"])
    return f"The tuned judge ships: {gain['value']:+.3f} {around} on the seed's rho on test."


def _head(run: Run) -> list[str]:
    summary, data = run.summary, run.summary["data"]
    systems = f"{data['n_systems']:,} systems, " if data["n_systems"] else ""
    return [
        page.heading(title(summary), 1),
        page.paragraph(
            f"{data['name']}: {data['n_documents']:,} documents, {systems}"
            f"{data['n_outputs']:,} outputs. {summary['optimizer']} search, seed "
            f"{summary['seed']}.",
            "soft",
        ),
        page.verdict(
            headline(summary),
            one_line(summary["dimension"], run.cell),
            f"On dev: {summary['why']}.",
        ),
        page.tiles(_tiles(run)),
        *origins.notes(summary["lm"], data["name"]),
        page.contents(),
    ]


def _tiles(run: Run) -> list[tuple[str, str, str]]:
    summary, cell = run.summary, run.cell
    gain = summary["gain"]["test"]
    unseen = summary[SIDES[summary["shipped"]]].get("test_unseen_systems")
    tiles = [_tile("rho on test", cell)]
    if unseen:
        tiles.append(_tile("on unseen systems", unseen))
    if run.recorded.prompts["seed"] != run.recorded.prompts["tuned"]:
        tiles.append(
            (
                "tuned less seed, on test",
                "undefined" if gain.get("value") is None else f"{gain['value']:+.3f}",
                interval_of(gain.get("low"), gain.get("high")),
            )
        )
    ceiling = run.found.people.ceiling
    if share(run.found.people) is not None and ceiling is not None:
        around = ceiling.share_interval
        between = f"[{around.low:.0%}, {around.high:.0%}]" if around else "no interval"
        tiles.append(("share of the human ceiling", f"{ceiling.share:.0%}", between))
    if run.found.pairs is not None:
        pairs = run.found.pairs
        around = pairs.accuracy_interval
        tiles.append(
            (
                "accuracy on test",
                shown(pairs.accuracy),
                interval_of(around.low, around.high) if around else "no interval",
            )
        )
    return tiles


def _tile(name: str, cell: Mapping[str, Any]) -> tuple[str, str, str]:
    return name, shown(cell["value"]), interval_of(cell["low"], cell["high"])


def _json(path: Path) -> Mapping[str, Any]:
    try:
        read: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise RunFolderError(
            f"{path.parent}: holds no {path.name}; a run folder has one once its run has ended"
        ) from error
    except ValueError as error:
        raise RunFolderError(f"{path}: is no JSON ({error})") from error
    return read


def _trials(path: Path) -> list[Mapping[str, Any]]:
    if not path.exists():
        return []
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]
