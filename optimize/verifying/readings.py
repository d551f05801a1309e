"""How far a figure from recorded replies hangs on the way they are read."""

from collections.abc import Callable, Sequence
from typing import Any, get_args

import numpy as np

from judges.parsing.recorded import Reading
from optimize.agreement import dataset_level, summary_level
from optimize.verifying.sources import Verified

OTHERS: tuple[Reading, ...] = tuple(one for one in get_args(Reading) if one != "strict")


def other_readings(
    verified: Verified, scale: Sequence[int], read: Callable[[Reading], Verified]
) -> list[dict[str, Any]]:
    """For each lenient reading: how many scores differ from the strict ones, and rho with it.

    Published tables were often made with such readings, which find a number in nearly any reply
    and sometimes a wrong one (judges/parsing/lenient.py). They know single digits only: other
    scales have none to compare with. Summary-level rho is there by both conventions, the published
    one ("left_out") to compare with such tables.
    """
    if min(scale) < 0 or max(scale) > 9:
        return []
    told = []
    for reading in OTHERS:
        other = read(reading)
        same = np.isclose(other.scores, verified.scores, equal_nan=True)
        documents = [item.document_id for item in other.items.items]
        human = other.items.human
        over = summary_level(other.scores, human, documents)
        published = summary_level(other.scores, human, documents, undefined="left_out")
        told.append(
            {
                "reading": reading,
                "n_different": int((~same).sum()),
                "dataset_level_spearman": _known(dataset_level(other.scores, human).value),
                "summary_level_spearman": _known(over.value),
                "n_documents": over.n_documents,
                "summary_level_spearman_left_out": _known(published.value),
                "n_documents_left_out": published.n_documents,
            }
        )
    return told


def reading_lines(readings: Sequence[dict[str, Any]]) -> list[str]:
    """One line a reading that makes a difference."""
    return [
        f"read as {one['reading']}, as in older tables, {one['n_different']} scores differ: "
        f"dataset-level rho {_shown(one['dataset_level_spearman'])}, summary-level rho "
        f"{_shown(one['summary_level_spearman'])} (n={one['n_documents']} documents), as most "
        f"published tables {_shown(one['summary_level_spearman_left_out'])} "
        f"(n={one['n_documents_left_out']})"
        for one in readings
        if one["n_different"]
    ]


def _known(value: float) -> float | None:
    return None if np.isnan(value) else value


def _shown(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.3f}"
