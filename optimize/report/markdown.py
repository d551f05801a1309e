"""The short table for a repository's README."""

from collections.abc import Mapping, Sequence
from typing import Any

from data.readers import is_constructed
from optimize.figures import (
    CHOSEN_ON_DEV,
    counted,
    interval_of,
    many_failed,
    shown,
    with_interval,
)
from optimize.report.agreement_sections import SPLITS, by_convention, convention_of, sentence
from optimize.report.judge_sections import CONSTRUCTED
from optimize.report.measures import Measures
from optimize.report.run_report import FinishedRun, headline
from optimize.report.verification_report import judge_name, main_cell

# Markdown's own marks, so that a name stays a name.
MARKS = str.maketrans({mark: f"\\{mark}" for mark in "\\`*_{}[]<>#|!~"} | {"\n": " ", "\r": " "})


def run_table(run: FinishedRun) -> str:
    """Seed and tuned judge on each split, and one line on where it comes from."""
    summary, data, pairs = run.summary, run.summary["data"], run.pairs()
    rows = []
    for split in next(iter(pairs.values()), {}):
        both = [pairs[judge][split].accuracy for judge in ("seed", "tuned")]
        shares = [with_interval(accuracy.value, accuracy.interval) for accuracy in both]
        rows.append((f"{SPLITS[split]}, accuracy", *shares, f"{both[0].n_documents:,}"))
    for split, title in SPLITS.items():
        seed, tuned = summary["seed_judge"].get(split), summary["tuned_judge"].get(split)
        if seed and tuned:
            rows.append((title, _figure(seed), _figure(tuned), f"{seed['n_documents']:,}"))
    rho = f"{summary['level']}-level rho{' of margins' if pairs else ''}"
    stand_ins = sentence(summary.get("stand_ins"))
    lines = [
        f"**{_text(summary['dimension'])}** judged by `{_code(summary['lm'])}`. "
        f"{headline(summary)}",
        "",
        *_table((rho, "seed", "tuned", "documents"), rows),
        "",
        f"{sentence(CHOSEN_ON_DEV)}\n",
        *([f"{_text(stand_ins)}\n"] if stand_ins else []),
        *([f"{CONSTRUCTED}\n"] if is_constructed(str(data["sha256"])) else []),
        *_people(run.measures),
        f"{_text(data['name'])}: {data['n_documents']:,} documents, "
        f"{data['n_outputs']:,} {run.unit}, sha256 `{_code(str(data['sha256'])[:12])}`; "
        f"{summary['optimizer']} search, seed "
        f"{summary['seed']}; intervals are 95 %, over documents.",
    ]
    return "\n".join(lines) + "\n"


def verification_table(result: Mapping[str, Any], measures: Measures | None = None) -> str:
    """Each level and coefficient, both conventions where they differ; of pairs accuracy first."""
    data, cell = result["data"], main_cell(result)
    pairs = measures.pairs if measures else None
    unit = "pairs" if pairs else "outputs"
    lead = f"{cell['level']}-level rho {_figure(cell)}"
    rows = []
    if pairs is not None:
        share = with_interval(pairs.accuracy.value, pairs.accuracy.interval)
        counts = (f"{pairs.accuracy.n_documents:,}", "", f"{pairs.rate.n_failed:,}")
        rows.append(("accuracy, both orders", share, *counts))
        lead = f"accuracy {share} on {pairs.accuracy.n_decided:,} decided pairs, {lead} of margins"
    for row in by_convention(result["correlations"]):
        # Only where they differ are there two conventions to tell apart.
        convention = f" ({convention_of(row)})" if convention_of(row) and row["n_undefined"] else ""
        rows.append(
            (
                f"{row['level']}-level {row['coefficient']}{convention}",
                _figure(row),
                f"{row['n_documents']:,}",
                f"{row['n_undefined']:,}",
                f"{row['n_failed']:,}",
            )
        )
    failed = many_failed(cell["n_failed"], data["n_outputs"], unit)
    lines = [
        f"**{_text(result['dimension'])}**: `{_code(judge_name(result))}` against people, {lead}.",
        *([failed] if failed else []),
        "",
        *_table(("figure", "value", "documents", "undefined", "failed"), rows),
        "",
        *(_people(measures) if measures else []),
        f"{_text(data['name'])}: {data['n_documents']:,} documents, {data['n_outputs']:,} "
        f"{unit}, sha256 `{_code(str(data['sha256'])[:12])}`; intervals are 95 %, over documents.",
    ]
    return "\n".join(lines) + "\n"


def _people(measures: Measures) -> list[str]:
    ceiling = measures.people.ceiling
    if ceiling is None or ceiling.share != ceiling.share:
        return []
    return [
        f"Share of the human ceiling: {with_interval(ceiling.share, ceiling.share_interval)} "
        f"(annotators {ceiling.human:.3f}, judge {shown(ceiling.judge)}, "
        f"n={counted(ceiling.n_documents, 'document')}).",
        "",
    ]


def _figure(cell: Mapping[str, Any]) -> str:
    return f"{shown(cell['value'])} {interval_of(cell['low'], cell['high'])}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [
        f"| {' | '.join(head)} |",
        f"|{'---|' * len(head)}",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]


def _text(name: str) -> str:
    return str(name).translate(MARKS)


def _code(name: str) -> str:
    return " ".join(name.replace("`", "'").split())
