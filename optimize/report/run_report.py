"""The report of a run, drawn from its folder alone: no model is asked anything."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from data.tables.formats import read_json_lines
from data.types import LabelError, LabelledOutput
from optimize.answer import CONSTRUCTED, has_constructed_labels, run_answer, warnings
from optimize.figures import (
    CHOSEN_ON_DEV,
    SPLITS,
    cell_by_convention,
    cost_text,
    cost_unit,
    finalist_name,
    number_text,
    trade,
)
from optimize.items import read_annotations
from optimize.measuring.measure import all_correlations
from optimize.report import charts, leaderboard_report
from optimize.report.advice import advice
from optimize.report.measures import Measures, PairMeasures, measure_pairs, measure_split
from optimize.report.page import Section, page, render_template, section
from optimize.report.panel_report import panel_page
from optimize.report.sections import (
    cut_text,
    data_facts,
    judge_sections,
    notes,
    quotable_lines,
    scorecard,
    sentence,
    shares_picture,
)
from optimize.run import run_folder
from optimize.run.evidence import JUDGES, JudgedSplit, PromptParts, RunEvidence, read_evidence
from optimize.run.plain_figures import plain_figures
from optimize.run.run_folder import RunFolderError

MAX_DEMOS = 20
# The pages of what several judges made, by the `command` of summary.json, and what that is.
PAGES = {"optimize.panel": panel_page, "optimize.compare": leaderboard_report.render}
KINDS = {panel_page: "a panel", leaderboard_report.render: "a comparison"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRun:
    """A run as its folder holds it; `judged` and `measures` are the shipped judge's on test."""

    summary: Mapping[str, Any]
    config: Mapping[str, Any]
    provenance: Mapping[str, Any]
    trials: list[Mapping[str, Any]]
    evidence: RunEvidence
    judged: JudgedSplit
    measures: Measures
    # The file of annotators' ratings that the report was given beside the folder.
    annotations: str = ""

    @property
    def cell(self) -> Mapping[str, Any]:
        """The shipped judge's rho on test."""
        cell: Mapping[str, Any] = self.summary[f"{self.summary['shipped']}_judge"]["test"]
        return cell

    @property
    def unit(self) -> str:
        """What was judged."""
        return "pairs" if self.judged.verdicts else "outputs"

    def pairs(self) -> dict[str, dict[str, PairMeasures]]:
        """How either pairwise judge chose on every split that was kept; empty for outputs."""
        if not self.judged.verdicts:
            return {}
        return {
            judge: {split: measure_pairs(judged) for split, judged in splits.items()}
            for judge, splits in self.evidence.judged.items()
        }


def write_report(folder: Path, annotations: Path | None = None) -> Path:
    """Write report.html from what the folder holds, whole or not at all.

    `annotations` is a long file of every annotator's ratings, for labels that hold means only.
    Raises as `read_run`, and for a panel that is untuned.
    """
    path = folder / run_folder.REPORT
    summary = run_folder.read_object(folder / run_folder.SUMMARY)
    draw = PAGES.get(str(summary.get("command")))
    if draw is None:
        run_folder.write_text(path, render(read_run(folder, annotations)))
        return path
    if draw is panel_page and "composition" not in summary:
        raise RunFolderError(
            f"{folder}: holds an untuned panel, of which nothing was measured; optimize.panel with "
            "--data reports"
        )
    if annotations is not None:
        what = KINDS[draw]
        raise RunFolderError(f"{folder}: holds {what}, whose report takes no --annotations")
    run_folder.write_text(path, draw(summary))
    return path


def write_report_at_end(folder: Path) -> None:
    """The report of a run that has just ended; RunFolderError where it cannot be drawn."""
    try:
        write_report(folder)
    except OSError:
        raise
    except Exception as error:  # whatever it is, the run has its judge
        raise RunFolderError(
            f"{folder / run_folder.REPORT} could not be drawn ({type(error).__name__}: {error}); "
            f"{run_folder.JUDGE} and {run_folder.SUMMARY} are whole: "
            f"python -m optimize.report {folder} draws it again"
        ) from error


def read_run(folder: Path, annotations: Path | None = None) -> FinishedRun:
    """Read a finished run.

    Raises RunFolderError where the folder holds none, and LabelError where `annotations` cannot be
    read or rate no output of the run.
    """
    summary = run_folder.read_object(folder / run_folder.SUMMARY)
    if draw := PAGES.get(str(summary.get("command"))):
        raise RunFolderError(f"{folder}: holds {KINDS[draw]}, of which there is no short table")
    evidence = read_evidence(folder)
    if annotations is not None:
        evidence = _with_annotations(evidence, annotations)
    judged = evidence.judged[summary["shipped"]]["test"]
    # From the evidence: folders of earlier releases lack them, and annotators may have come since.
    judge = run_folder.read_object(folder / run_folder.JUDGE)
    summary = {**summary, **plain_figures(evidence, summary["shipped"])}
    return FinishedRun(
        summary=summary,
        config=run_folder.read_object(folder / run_folder.CONFIG),
        provenance=judge.get("provenance") or {},
        trials=_read_trials(folder / run_folder.TRIALS),
        evidence=evidence,
        judged=judged,
        measures=measure_split(judged, evidence.probes, summary["seed"]),
        annotations=annotations.name if annotations else "",
    )


def render(run: FinishedRun) -> str:
    """The whole page."""
    summary, data = run.summary, run.summary["data"]
    correlations = all_correlations(
        run.judged.scores,
        run.judged.items,
        summary["seed"],
        level=run.judged.level,
        pairs=bool(run.judged.verdicts),
    )
    cells = [cell_by_convention(correlation) for correlation in correlations]
    systems = f"{data['n_systems']:,} systems, " if data["n_systems"] else ""
    seed_prompt, tuned_prompt = (run.evidence.prompts[name] for name in JUDGES)
    paired = bool(run.judged.verdicts)
    return page(
        title=f"{summary['dimension']} judged by {summary['lm']}",
        about=f"{data['name']}: {data['n_documents']:,} documents, {systems}"
        f"{data['n_outputs']:,} {run.unit}. {summary['optimizer']} search, seed {summary['seed']}.",
        answer=run_answer(summary, paired=paired),
        warnings=warnings(summary),
        picture=shares_picture(_shares(run), summary),
        steps=advice(run.judged, run.measures, run.cell, summary),
        notes=notes(summary["lm"]),
        quotable=quotable_lines(
            summary["dimension"], run.cell, cells, run.measures, len(run.judged.items.systems)
        ),
        sections=[
            scorecard(summary, run.pairs()),
            *judge_sections(
                run.judged,
                run.measures,
                cells,
                seed=summary["seed"],
                of=f"the {summary['shipped']} judge on test",
            ),
            _prompts(seed_prompt, tuned_prompt),
            _search(run.trials, summary),
            _provenance(run),
        ],
    )


def _shares(run: FinishedRun) -> dict[str, Mapping[str, Any]]:
    """Either judge's share of pairs on each split, the one that ships first."""
    order, shipped = run.summary["order"], run.summary["shipped"]
    same = run.evidence.prompts["seed"] == run.evidence.prompts["tuned"]
    judges = [shipped] if same else sorted(JUDGES, key=lambda judge: judge != shipped)
    names = {"test": " judge", "test_unseen_systems": " on unseen systems"}
    return {
        f"{judge}{names[split]}": order[split][f"{judge}_judge"]
        for split in order
        for judge in judges
    }


def run_table(run: FinishedRun) -> str:
    """Markdown: seed and tuned judge on each split, and one line on where it comes from."""
    summary = run.summary
    return render_template(
        "run.md",
        summary=summary,
        data=summary["data"],
        answer=" ".join(run_answer(summary, paired=bool(run.judged.verdicts))),
        splits={name: title for name, title in SPLITS.items() if summary["seed_judge"].get(name)},
        pairs=run.pairs(),
        unit=run.unit,
        chosen_on_dev=sentence(CHOSEN_ON_DEV),
        stand_ins=sentence(summary.get("stand_ins")),
        constructed=CONSTRUCTED if has_constructed_labels(summary) else "",
        ceiling=run.measures.annotator_agreement.ceiling,
    )


def _prompts(seed: PromptParts, tuned: PromptParts) -> Section:
    """The tuned prompt against the seed's: the instruction word by word, the demonstrations."""
    return section(
        "Seed and tuned prompt",
        "prompts.html",
        seed=seed,
        tuned=tuned,
        demos=[
            {name: cut_text(str(value)) for name, value in demo.items()}
            for demo in tuned.demos[:MAX_DEMOS]
        ],
    )


def _search(trials: Sequence[Mapping[str, Any]], summary: Mapping[str, Any]) -> Section:
    """Every raced trial's gain over the seed, by calls spent; the rejected are counted.

    Where calls cost money, the finalists with what they cost to use.
    """
    rows = summary.get("finalists", [])
    unit, cost_title = cost_unit(rows)
    raced, stock = (
        [
            trial
            for trial in trials
            if trial.get("stage") == stage and isinstance(trial.get(key), int | float)
        ]
        for stage, key in (("race", "gain"), ("stock", "value"))
    )
    rejected = [trial for trial in trials if trial.get("stage") == "rejected"]
    reasons = Counter(str(trial["why"]) for trial in rejected if trial.get("why"))
    points, key = (raced, "gain") if raced else (stock, "value")
    chart = None
    if len(points) > 1:
        seed = 0.0 if raced else float(stock[0]["value"])
        calls = [int(trial["calls"]) for trial in points]
        chart = charts.search_path(
            calls, [float(trial[key]) for trial in points], seed, summary["dimension"]
        )
    return section(
        "The search",
        "search.html",
        n_trials=len(points),
        n_rejected=len(rejected),
        reasons=reasons.most_common(1),
        raced=bool(raced),
        chart=chart,
        finalists=[_finalist_cells(row, unit) for row in rows],
        cost_title=cost_title,
        trade=sentence(trade(rows)),
    )


def _finalist_cells(row: Mapping[str, Any], unit: str) -> tuple[str, ...]:
    gain, error = (
        "" if row["is_seed"] or row[key] is None else f"{row[key]:{sign}.3f}"
        for key, sign in (("gain", "+"), ("gain_error", ""))
    )
    name = finalist_name(row) + (" *" if row["shipped"] else "")
    return name, number_text(row["dev"]), gain, error, cost_text(row[unit], unit)


def _provenance(run: FinishedRun) -> Section:
    """Where the figures come from, and what they cost."""
    versions = run.provenance.get("versions", {})
    return section(
        "Provenance and cost",
        "run_provenance.html",
        data=data_facts(run.summary["data"], run.unit),
        summary=run.summary,
        settings=run.config.get("settings", {}),
        provenance=run.provenance,
        split=run.provenance.get("split", {}),
        annotations=run.annotations,
        n_attacked=sum(map(len, run.evidence.probes.attacked.values())),
        started=str(run.config.get("started") or "unknown"),
        versions=", ".join(f"{name} {version}" for name, version in versions.items()),
    )


def _with_annotations(evidence: RunEvidence, path: Path) -> RunEvidence:
    """The same evidence with the ratings of a long file beside it; rho stays what it was."""
    splits = [judged for by_split in evidence.judged.values() for judged in by_split.values()]
    if splits[0].verdicts:
        raise LabelError(f"{path}: this run judged pairs, which have votes and no ratings")
    dimension = splits[0].dimension
    rated = read_annotations(path, dimension)
    if not rated.keys() & {output.id for judged in splits for output in judged.outputs}:
        raise LabelError(
            f"{path}: none of its {len(rated):,} ids is that of an output this run was tested on"
        )

    def annotated(judged: JudgedSplit) -> JudgedSplit:
        """The split with the annotators' ratings in place of those of its labels."""
        outputs = [
            replace(
                output,
                ratings={**output.ratings, dimension: tuple(rated[output.id].values())},
                annotators={**output.annotators, dimension: tuple(rated[output.id])},
            )
            if isinstance(output, LabelledOutput) and output.id in rated
            else output
            for output in judged.labelled
        ]
        return replace(judged, labelled=tuple(outputs))

    return replace(
        evidence,
        judged={
            judge: {split: annotated(judged) for split, judged in by_split.items()}
            for judge, by_split in evidence.judged.items()
        },
    )


def _read_trials(path: Path) -> list[Mapping[str, Any]]:
    """The run's trials in order; [] without a file."""
    if not path.exists():
        return []
    try:
        return [row.cells for row in read_json_lines(path)]
    except ValueError as error:
        raise RunFolderError(f"{path}: is no JSON, a line each ({error})") from error
