"""The short table for a repository's README."""

from collections.abc import Mapping, Sequence
from typing import Any

from data.shipped import is_constructed
from optimize.agreement import PRIMARY
from optimize.figures import (
    CHOSEN_ON_DEV,
    CONVENTIONS,
    counted,
    interval_of,
    many_failed,
    shown,
    with_interval,
)
from optimize.report.findings import Findings
from optimize.report.origins import CONSTRUCTED
from optimize.report.run_report import Run, headline
from optimize.report.scores import SPLITS, stand_ins
from optimize.report.verification import main_cell, named

# Markdown's own marks, so that a name stays a name.
MARKS = str.maketrans({mark: f"\\{mark}" for mark in "\\`*_{}[]<>#|!~"} | {"\n": " ", "\r": " "})


def run_table(run: Run) -> str:
    """Seed and tuned judge on each split, and one line on where it comes from."""
    summary, data = run.summary, run.summary["data"]
    rows, known = [], run.pairs()
    for name in next(iter(known.values()), {}):
        sides = [known[judge][name] for judge in ("seed", "tuned")]
        shares = [with_interval(one.accuracy, one.accuracy_interval) for one in sides]
        rows.append((f"{SPLITS[name]}, accuracy", *shares, f"{sides[0].n_documents:,}"))
    for name, said in SPLITS.items():
        seed, tuned = summary["seed_judge"].get(name), summary["tuned_judge"].get(name)
        if seed and tuned:
            rows.append((said, _figure(seed), _figure(tuned), f"{seed['n_documents']:,}"))
    rho = f"{summary['level']}-level rho{' of margins' if known else ''}"
    lines = [
        f"**{_text(summary['dimension'])}** judged by `{_code(summary['lm'])}`. "
        f"{headline(summary)}",
        "",
        *_table((rho, "seed", "tuned", "documents"), rows),
        "",
        f"{CHOSEN_ON_DEV[0].upper()}{CHOSEN_ON_DEV[1:]}.\n",
        *(f"{_text(said)}\n" for said in stand_ins(summary)),
        *([f"{CONSTRUCTED}\n"] if is_constructed(str(data["sha256"])) else []),
        *_people(run.found),
        f"{_text(data['name'])}: {data['n_documents']:,} documents, "
        f"{data['n_outputs']:,} {run.unit}, sha256 `{_code(str(data['sha256'])[:12])}`; "
        f"{summary['optimizer']} search, seed "
        f"{summary['seed']}; intervals are 95 %, over documents.",
    ]
    return "\n".join(lines) + "\n"


def verification_table(result: Mapping[str, Any], found: Findings | None = None) -> str:
    """Each level and coefficient, both conventions where they differ; of pairs accuracy first."""
    data = result["data"]
    rows, paired = [], found.pairs if found else None
    if paired is not None:
        share = with_interval(paired.accuracy, paired.accuracy_interval)
        failed = f"{paired.rate.n_failed:,}"
        rows.append(("accuracy, both orders", share, f"{paired.n_documents:,}", "", failed))
    for cell in result["correlations"]:
        twice = cell["level"] == "summary" and cell["n_undefined"]
        if cell["undefined"] == "zero" or (cell["undefined"] != PRIMARY and not twice):
            continue
        how = f" ({CONVENTIONS[cell['undefined']]})" if twice else ""
        rows.append(
            (
                f"{cell['level']}-level {cell['coefficient']}{how}",
                _figure(cell),
                f"{cell['n_documents']:,}",
                f"{cell['n_undefined']:,}",
                f"{cell['n_failed']:,}",
            )
        )
    head = ("figure", "value", "documents", "undefined", "failed")
    cell = main_cell(result)
    lead = f"{cell['level']}-level rho {_figure(cell)}"
    failed = many_failed(cell["n_failed"], data["n_outputs"], "pairs" if paired else "outputs")
    if paired is not None:
        lead = f"accuracy {share} on {paired.n_decided:,} decided pairs, {lead} of margins"
    lines = [
        f"**{_text(result['dimension'])}**: `{_code(named(result))}` against people, {lead}.",
        *([failed] if failed else []),
        "",
        *_table(head, rows),
        "",
        *(_people(found) if found else []),
        f"{_text(data['name'])}: {data['n_documents']:,} documents, {data['n_outputs']:,} "
        f"{'pairs' if paired else 'outputs'}, "
        f"sha256 `{_code(str(data['sha256'])[:12])}`; intervals are 95 %, over documents.",
    ]
    return "\n".join(lines) + "\n"


def _people(found: Findings) -> list[str]:
    ceiling = found.people.ceiling
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
