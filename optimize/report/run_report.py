"""The report of a run, drawn from its folder alone: no model is asked anything."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data.lines import read_json_file, read_lines
from judges.tables.rows import decode_json
from optimize.agreement import PRIMARY, summary_level
from optimize.figures import interval_of, many_failed, one_line
from optimize.report import changes, origins, page, pairs, people, scores
from optimize.report.advice import advice
from optimize.report.annotators import annotated
from optimize.report.findings import Findings, Pairs, find, of_pairs
from optimize.report.judge_parts import judge_parts
from optimize.run import run_folder
from optimize.run.judged_split import JudgedSplit
from optimize.run.record_evidence import RunEvidence, read_evidence
from optimize.run.run_folder import RunFolderError
from optimize.run.table import cell_by_convention
from optimize.search.chance import stream

SIDES = {"seed": "seed_judge", "tuned": "tuned_judge"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A finished run as its folder holds it; `evidence` and `found` are the shipped judge's."""

    folder: Path
    summary: Mapping[str, Any]
    config: Mapping[str, Any]
    provenance: Mapping[str, Any]
    trials: list[Mapping[str, Any]]
    recorded: RunEvidence
    evidence: JudgedSplit
    found: Findings
    # The file of annotators' ratings that the report was given beside the folder.
    annotations: str = ""

    @property
    def cell(self) -> Mapping[str, Any]:
        """The shipped judge's figure on test."""
        cell: Mapping[str, Any] = self.summary[SIDES[self.summary["shipped"]]]["test"]
        return cell

    @property
    def unit(self) -> str:
        """What was judged."""
        return "pairs" if self.evidence.verdicts else "outputs"

    def pairs(self) -> dict[str, dict[str, Pairs]]:
        """How either pairwise judge chose on every split that was kept; empty for outputs."""
        if not self.evidence.verdicts:
            return {}
        return {
            judge: {split: of_pairs(one) for split, one in splits.items()}
            for judge, splits in self.recorded.judged.items()
        }


def read_run(folder: Path, annotations: Path | None = None) -> Run:
    """Raises RunFolderError where the folder holds no finished run, LabelError as `annotated`."""
    summary = _json(folder / run_folder.SUMMARY)
    recorded = read_evidence(folder)
    if annotations is not None:
        recorded = annotated(recorded, annotations)
    evidence = recorded.judged[summary["shipped"]]["test"]
    return Run(
        folder=folder,
        summary=summary,
        config=_json(folder / run_folder.CONFIG),
        provenance=_json(folder / run_folder.JUDGE).get("provenance") or {},
        trials=_trials(folder / run_folder.TRIALS),
        recorded=recorded,
        evidence=evidence,
        found=find(evidence, recorded.probes, summary["seed"]),
        annotations=annotations.name if annotations else "",
    )


def render(run: Run) -> str:
    """The whole page."""
    summary = run.summary
    parts = [
        *_head(run),
        page.section(
            "What to do next", [page.listed(advice(run.evidence, run.found, run.cell, summary))]
        ),
        page.section(
            "Scorecard",
            [
                *scores.pair_accuracy(run.pairs()),
                *scores.scorecard(summary, pairs=bool(run.evidence.verdicts)),
            ],
        ),
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
            [
                origins.run_facts(
                    summary,
                    run.config,
                    run.provenance,
                    run.recorded.probes,
                    unit=run.unit,
                    annotations=run.annotations,
                )
            ],
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
    rho = f"{summary['level']}-level rho"
    side = "above" if gain["value"] >= 0 else "below"
    told = (
        f"The tuned judge ships: on test its {rho} is {abs(gain['value']):.3f} {side} the seed's "
        f"(difference {around})."
    )
    if gain["low"] is not None and gain["low"] <= 0:
        told += " Test alone does not confirm the gain: its interval reaches 0."
    return told


def _head(run: Run) -> list[str]:
    summary, data = run.summary, run.summary["data"]
    systems = f"{data['n_systems']:,} systems, " if data["n_systems"] else ""
    return [
        page.heading(title(summary), 1),
        page.paragraph(
            f"{data['name']}: {data['n_documents']:,} documents, {systems}"
            f"{data['n_outputs']:,} {run.unit}. {summary['optimizer']} search, seed "
            f"{summary['seed']}.",
            "soft",
        ),
        page.verdict(
            _failed(run) + headline(summary),
            _quotable(run),
            f"The choice: {summary['why']}.",
        ),
        page.tiles(_tiles(run)),
        *origins.notes(summary["lm"], data),
        page.contents(),
    ]


def _failed(run: Run) -> str:
    """What leads where the shipped judge failed on more than a few test outputs."""
    number = run.cell["n_outputs"] + run.cell["n_failed"]
    told = many_failed(run.cell["n_failed"], number, run.unit)
    return f"{told} " if told else ""


def _quotable(run: Run) -> list[str]:
    name = run.summary["dimension"]
    n_systems = len(run.evidence.items.systems)
    lines = [one_line(name, {**run.cell, "undefined": PRIMARY}, unit=run.unit, n_systems=n_systems)]
    if run.found.pairs:
        return [pairs.quotable(name, run.found.pairs), *lines]
    if run.cell["level"] == "summary" and run.cell["n_undefined"]:
        one = run.evidence
        rng = stream(run.summary["seed"], "interval", "test")
        published = summary_level(
            one.scores, one.human, one.documents, undefined="left_out", rng=rng
        )
        lines.append(one_line(name, cell_by_convention(published), unit=run.unit))
    return lines


def _tiles(run: Run) -> list[tuple[str, str, str]]:
    summary, cell = run.summary, run.cell
    gain = summary["gain"]["test"]
    unseen = summary[SIDES[summary["shipped"]]].get("test_unseen_systems")
    if run.found.pairs is not None:
        tiles = pairs.tiles(run.found.pairs, cell, " on test")
    else:
        tiles = [scores.tile(f"{summary['level']}-level rho on test", cell)]
    if unseen:
        tiles.append(scores.tile("rho on unseen systems", unseen))
    if run.recorded.prompts["seed"] != run.recorded.prompts["tuned"]:
        tiles.append(
            (
                "tuned less seed, rho on test",
                "undefined" if gain.get("value") is None else f"{gain['value']:+.3f}",
                interval_of(gain.get("low"), gain.get("high")),
            )
        )
    return [*tiles, *people.tiles(run.found.people)]


def _json(path: Path) -> Mapping[str, Any]:
    try:
        read: Mapping[str, Any] = read_json_file(path)
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
    try:
        return [decode_json(line) for _, line in read_lines(path) if line.strip()]
    except ValueError as error:
        raise RunFolderError(f"{path}: is no JSON, a line each ({error})") from error
