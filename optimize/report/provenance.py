"""Where figures come from, and what a reader has to know before any."""

from collections.abc import Mapping
from typing import Any

from data.shipped import is_constructed
from optimize.figures import counted

EMBEDDED = (
    "The embedded model is a small statistical judge, not a language model: it reads the same "
    "prompt, and is the baseline that a language model has to beat."
)
CONSTRUCTED = (
    "The starter set's labels are computed from known faults; no person gave them. Agreement "
    "with them says that the judge finds these faults, not that it agrees with people."
)


def notes(lm: str, data: Mapping[str, Any]) -> list[str]:
    """What a reader has to know before any figure."""
    constructed = is_constructed(str(data["sha256"]))
    embedded = lm.partition("-")[0] == "embedded"
    return [CONSTRUCTED] * constructed + [EMBEDDED] * embedded


def data_facts(data: Mapping[str, Any], unit: str = "outputs") -> list[tuple[str, str]]:
    """Which labels; what was labelled are `unit`."""
    systems = f"{counted(data['n_systems'], 'system')}, " if data["n_systems"] else ""
    number = counted(data["n_outputs"], unit.removesuffix("s"))
    size = f"{counted(data['n_documents'], 'document')}, {systems}{number}"
    return [("data", f"{data['name']}: {size}"), ("data sha256", str(data["sha256"]))]


def dollars(cost: float | None) -> str:
    if cost is None:
        return "unknown: no list price for this model"
    return "free" if cost == 0 else f"${cost:,.4f} at list price"
