"""What a run hands to its report: every judgement on test, both prompts, and the probes."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from judges.prompt import Prompt
from optimize.figures import judgement_rows
from optimize.injection import Probes
from optimize.measuring.scored import Scored
from optimize.run.run_folder import write_text
from optimize.search.trial_log import as_json

JUDGEMENTS = "judgements.jsonl"
JUDGES = ("seed", "tuned")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvidence:
    """`judged[judge][split]` for "seed" and "tuned", both prompts, and the probes."""

    prompts: Mapping[str, Prompt]
    judged: Mapping[str, Mapping[str, Scored]]
    probes: Probes


def write_judgements(folder: Path, evidence: RunEvidence) -> None:
    """Write judgements.jsonl: a line an output, with both judges' scores beside people's."""
    rows = [
        row
        for split, scored in evidence.judged["seed"].items()
        for row in judgement_rows(
            scored.items.items,
            {judge: by_split[split].judgements for judge, by_split in evidence.judged.items()},
            split,
        )
    ]
    write_text(folder / JUDGEMENTS, "".join(as_json(row) + "\n" for row in rows))
