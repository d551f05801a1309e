"""The sections on one judge and one split, which runs and verifications share."""

from collections.abc import Mapping, Sequence
from typing import Any

from optimize.report import audits, injected, outputs, page, pairs, people, pictures, scores
from optimize.report.findings import Findings
from optimize.run.judged_split import JudgedSplit
from optimize.verifying.correlations import correlations
from optimize.verifying.sources import Verified


def judge_parts(
    evidence: JudgedSplit,
    found: Findings,
    *,
    seed: int,
    of: str,
    cells: Sequence[Mapping[str, Any]] | None = None,
) -> list[str]:
    """From the comparison with people to all levels; `of` says which judge and which split.

    `cells` are all its correlations, where they are known already.
    """
    name = evidence.dimension
    soft = page.paragraph(f"All of this is {of}.", "soft")
    first = (
        page.section("Pairs", [soft, *pairs.pairs(found.pairs, evidence)])
        if found.pairs is not None
        else page.section("People among themselves", people.ceiling(found.people, name))
    )
    parts = [
        first,
        page.section("Judge and people", [soft, *pictures.pictures(evidence, seed)]),
        page.section("Worst disagreements", outputs.worst(evidence)),
        page.section("Failed judgements", outputs.failed(evidence)),
    ]
    if found.pairs is None:
        parts.append(page.section("Audits", audits.audits(found)))
    parts.append(page.section("Injection probes", injected.probes(found, name)))
    if cells is None:
        verified = Verified(items=evidence.items, scores=evidence.scores, said=evidence.judgements)
        cells = correlations(verified, seed, evidence.level)
    n_systems, unit = len(evidence.items.systems), "pairs" if found.pairs else "outputs"
    levels = [soft, scores.all_levels(cells, n_systems, unit), *scores.accuracy(found)]
    title = "All levels" if found.pairs is None else "All coefficients"
    return [*parts, page.section(title, levels)]
