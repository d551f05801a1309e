"""The short table for a repository's README."""

from collections.abc import Mapping, Sequence
from typing import Any

from optimize.figures import interval_of, shown, with_interval
from optimize.report.findings import Findings
from optimize.report.run_report import Run, headline
from optimize.report.scores import SPLITS
from optimize.report.verification import main_cell, named

# Markdown's own marks, so that a name stays a name.
MARKS = str.maketrans({mark: f"\\{mark}" for mark in "\\`*_{}[]<>#|!~"} | {"\n": " ", "\r": " "})


def run_table(run: Run) -> str:
    """Seed and tuned judge on each split, and one line on where it comes from."""
    summary, data = run.summary, run.summary["data"]
    rows = []
    for name, said in SPLITS.items():
        seed, tuned = summary["seed_judge"].get(name), summary["tuned_judge"].get(name)
        if seed and tuned:
            rows.append((said, _figure(seed), _figure(tuned), f"{seed['n_documents']:,}"))
    rho = f"{summary['level']}-level rho"
    lines = [
        f"**{_text(summary['dimension'])}** judged by `{_code(summary['lm'])}`. "
        f"{headline(summary)}",
        "",
        *_table((rho, "seed", "tuned", "documents"), rows),
        "",
        *_people(run.found),
        f"{_text(data['name'])}: {data['n_documents']:,} documents, {data['n_outputs']:,} outputs, "
        f"sha256 `{_code(str(data['sha256'])[:12])}`; {summary['optimizer']} search, seed "
        f"{summary['seed']}; intervals are 95 %, over documents.",
    ]
    return "\n".join(lines) + "\n"


def verification_table(result: Mapping[str, Any], found: Findings | None = None) -> str:
    """Each level's Spearman's rho and Kendall's tau-b, both conventions where they differ."""
    data = result["data"]
    rows = []
    for cell in result["correlations"]:
        if cell["undefined"] == "zero" and not (cell["level"] == "summary" and cell["n_undefined"]):
            # The same again.
            continue
        zero = ", undefined as 0" if cell["undefined"] == "zero" else ""
        rows.append(
            (
                f"{cell['level']}-level {cell['coefficient']}{zero}",
                _figure(cell),
                f"{cell['n_documents']:,}",
                f"{cell['n_undefined']:,}",
                f"{cell['n_failed']:,}",
            )
        )
    head = ("figure", "value", "documents", "undefined", "failed")
    cell = main_cell(result)
    lines = [
        f"**{_text(result['dimension'])}**: `{_code(named(result))}` against people, "
        f"{cell['level']}-level rho {_figure(cell)}.",
        "",
        *_table(head, rows),
        "",
        *(_people(found) if found else []),
        f"{_text(data['name'])}: {data['n_documents']:,} documents, {data['n_outputs']:,} outputs, "
        f"sha256 `{_code(str(data['sha256'])[:12])}`; intervals are 95 %, over documents.",
    ]
    return "\n".join(lines) + "\n"


def _people(found: Findings) -> list[str]:
    ceiling = found.people.ceiling
    if ceiling is None or ceiling.share != ceiling.share:
        return []
    return [
        f"Share of the human ceiling: {with_interval(ceiling.share, ceiling.share_interval)} "
        f"(annotators {ceiling.human:.3f}, judge {shown(ceiling.judge)}).",
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
