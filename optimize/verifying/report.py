"""What optimize.verify draws beside its figures: a page, and a short table."""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from data.types import LabelledPairs, LabelledSet
from judges.engine.telling import visible
from optimize.report.findings import find
from optimize.report.markdown import verification_table
from optimize.report.verification import NOT_ASKED, PAID, render
from optimize.run.evidence import Evidence, labelled_by_id
from optimize.run.run_folder import write_text
from optimize.verifying.sources import Verified


def tell(
    result: Mapping[str, Any],
    verified: Verified,
    labelled: LabelledSet | LabelledPairs,
    scale: tuple[int, ...],
    flags: argparse.Namespace,
) -> None:
    """Write what --report and --markdown name."""
    evidence = Evidence(
        dimension=result["dimension"],
        split="these labels",
        level=result["level"],
        items=verified.items,
        said=verified.said,
        scale=scale,
        people=labelled_by_id(labelled, verified.items),
    )
    probes = verified.probes or (PAID if verified.lm else NOT_ASKED)
    if flags.report:
        page = render(result, evidence, probes, seed=flags.seed, lm=verified.lm)
        write_text(Path(flags.report), page)
    if flags.markdown:
        text = verification_table(result, find(evidence, probes, flags.seed))
        if flags.markdown == "-":
            sys.stdout.write(visible(text))
        else:
            write_text(Path(flags.markdown), text)
