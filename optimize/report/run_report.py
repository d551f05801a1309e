"""The report of a run, drawn at its end from what was measured: no model is asked anything."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from optimize.answer import WORDS, run_answer, warnings
from optimize.figures import cell_by_convention
from optimize.measuring.measure import all_correlations
from optimize.measuring.people import people_figures
from optimize.report.advice import advice
from optimize.report.measures import PairMeasures, measure_pairs, measure_split
from optimize.report.page import Picture, Section, page, section
from optimize.report.sections import (
    cut_text,
    data_facts,
    judge_sections,
    notes,
    quotable_lines,
    results,
    shares_picture,
)
from optimize.run import folder as run_folder
from optimize.run.evidence import JUDGES, RunEvidence
from optimize.run.folder import RunFolderError

MAX_DEMOS = 5


def write_report_at_end(folder: Path, draw: Callable[[], str]) -> None:
    """Write report.html; RunFolderError where it cannot be drawn."""
    try:
        run_folder.write_text(folder / run_folder.REPORT, draw())
    except OSError:
        raise
    except Exception as error:  # whatever it is, the run has its judge
        raise RunFolderError(
            f"{folder / run_folder.REPORT} could not be drawn ({type(error).__name__}: {error}); "
            f"{run_folder.JUDGE} and {run_folder.SUMMARY} are whole. The same command "
            "again draws it, and asks nothing again"
        ) from error


def render(
    summary: Mapping[str, Any],
    evidence: RunEvidence,
    config: Mapping[str, Any],
    provenance: Mapping[str, Any],
) -> str:
    """The whole page of a run, from its summary.json, config.json and its judge's provenance."""
    data, shipped = summary["data"], summary["shipped"]
    judged = evidence.judged[shipped]["test"]
    measures = measure_split(judged, evidence.probes, summary["seed"])
    paired = bool(judged.verdicts)
    correlations = all_correlations(
        judged.scores, judged.items, summary["seed"], level=judged.level, pairs=paired
    )
    cells = [cell_by_convention(correlation) for correlation in correlations]
    people = people_figures(judged, summary["seed"])
    cell = summary[f"{shipped}_judge"]["test"]
    unit = "pairs" if paired else "outputs"
    return page(
        title=f"{summary['dimension']} judged by {summary['lm']}",
        about=f"{data_facts(data, unit)[0][1]}. {summary['optimizer']} search, seed "
        f"{summary['seed']}.",
        answer=run_answer(summary, paired=paired),
        warnings=warnings(summary),
        picture=_picture(summary, evidence),
        steps=advice(judged, measures, cell, summary, people=people),
        notes=notes(summary["lm"]),
        quotable=quotable_lines(
            summary["dimension"], cell, cells, measures, len(judged.items.systems)
        ),
        sections=[
            results(summary, _pairs(evidence) if paired else {}),
            *judge_sections(
                judged,
                measures,
                cells,
                people,
                seed=summary["seed"],
                of=f"the {WORDS[shipped]} judge on test",
            ),
            _prompts(evidence),
            _provenance(summary, evidence, config, provenance, unit),
        ],
    )


def _picture(summary: Mapping[str, Any], evidence: RunEvidence) -> Picture | None:
    """Either judge's share of pairs on each split, the one that ships first."""
    order, shipped = summary["order"], summary["shipped"]
    same = evidence.prompts["seed"] == evidence.prompts["tuned"]
    judges = [shipped] if same else sorted(JUDGES, key=lambda judge: judge != shipped)
    names = {"test": " judge", "test_unseen_systems": ", unseen systems"}
    shares = {
        f"{WORDS[judge]}{names[split]}": order[split][f"{judge}_judge"]
        for split in order
        for judge in judges
    }
    return shares_picture(shares, summary)


def _pairs(evidence: RunEvidence) -> dict[str, dict[str, PairMeasures]]:
    """How either pairwise judge chose on every split."""
    return {
        judge: {split: measure_pairs(judged) for split, judged in splits.items()}
        for judge, splits in evidence.judged.items()
    }


def _prompts(evidence: RunEvidence) -> Section:
    """The tuned prompt against the untuned one: instruction and demonstrations."""
    seed, tuned = (evidence.prompts[name] for name in JUDGES)
    return section(
        "Prompt",
        "prompts.html",
        seed=seed,
        tuned=tuned,
        demos=[
            {name: cut_text(str(value)) for name, value in demo.items()}
            for demo in tuned.demos[:MAX_DEMOS]
        ],
    )


def _provenance(
    summary: Mapping[str, Any],
    evidence: RunEvidence,
    config: Mapping[str, Any],
    provenance: Mapping[str, Any],
    unit: str,
) -> Section:
    """Where the figures come from, and what they cost."""
    versions = provenance.get("versions", {})
    return section(
        "Provenance and cost",
        "run_provenance.html",
        data=data_facts(summary["data"], unit),
        summary=summary,
        settings=config.get("settings", {}),
        provenance=provenance,
        split=provenance.get("split", {}),
        n_attacked=sum(map(len, evidence.probes.attacked.values())),
        started=str(provenance.get("started", "unknown")),
        versions=", ".join(f"{name} {version}" for name, version in versions.items()),
    )
