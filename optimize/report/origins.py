"""Where the figures come from: data, split, models, versions, and what it cost."""

from collections.abc import Mapping
from typing import Any

from data.shipped import is_constructed
from optimize.audits.injection import Probes
from optimize.figures import counted
from optimize.report import page

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
    said = []
    if is_constructed(str(data["sha256"])):
        said.append(CONSTRUCTED)
    if lm.partition("-")[0] == "embedded":
        said.append(EMBEDDED)
    return [page.paragraph(one, "soft") for one in said]


def run_facts(
    summary: Mapping[str, Any],
    config: Mapping[str, Any],
    provenance: Mapping[str, Any],
    probes: Probes,
    *,
    unit: str,
    annotations: str,
) -> str:
    """Provenance and cost of a run; `annotations` is the file of ratings given to its report."""
    data, settings = summary["data"], config.get("settings", {})
    split = provenance.get("split", {})
    versions = provenance.get("versions", {})
    probed = sum(map(len, probes.attacked.values()))
    attacked = f" (with {probed:,} attacked outputs)" if probed else ""
    pairs = [
        *data_facts(data, unit),
        ("annotators' ratings", annotations),
        ("split", f"by {_by(split.get('by'))}, sha256 {split.get('sha256', 'unknown')}"),
        ("judge's model", _named(summary["lm"], provenance.get("model"))),
        ("endpoint", str(provenance.get("endpoint") or "unknown")),
        ("proposer", str(settings.get("proposer_lm") or summary["lm"])),
        ("optimizer", f"{summary['optimizer']}, seed {summary['seed']}"),
        ("candidates tried", f"{provenance.get('candidates_tried', 'unknown')}"),
        (
            "calls",
            f"{summary['lm_calls']:,} judging{attacked}, {summary['proposer_calls']:,} proposing",
        ),
        ("tokens", f"{summary['tokens']['in']:,} in, {summary['tokens']['out']:,} out"),
        ("cost", cost(summary["cost_usd"])),
        ("time", f"{summary['seconds']:,.0f} s"),
        ("started", str(config.get("started") or "unknown")),
        ("versions", ", ".join(f"{name} {version}" for name, version in versions.items())),
    ]
    return page.facts([(name, value) for name, value in pairs if value])


def data_facts(data: Mapping[str, Any], unit: str = "outputs") -> list[tuple[str, str]]:
    """What was labelled are `unit`."""
    systems = f"{counted(data['n_systems'], 'system')}, " if data["n_systems"] else ""
    of = counted(data["n_outputs"], unit.removesuffix("s"))
    size = f"{counted(data['n_documents'], 'document')}, {systems}{of}"
    return [("data", f"{data['name']}: {size}"), ("data sha256", str(data["sha256"]))]


def cost(dollars: float | None) -> str:
    if dollars is None:
        return "unknown: no list price for this model"
    return "free" if dollars == 0 else f"${dollars:,.4f} at list price"


def _by(split: object) -> str:
    return "document and system" if split == "both" else str(split or "unknown")


def _named(asked: str, answered: object) -> str:
    return f"{asked} ({answered})" if answered and answered != asked else asked
