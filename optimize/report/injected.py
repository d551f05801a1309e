"""Injection probes: how far outputs move when they ask for a better score."""

from optimize.audits.injection import Attack, ScoreShift
from optimize.figures import with_interval
from optimize.report import page
from optimize.report.comparisons import Figure, shifts
from optimize.report.findings import Findings
from optimize.report.people import ends


def probes(found: Findings, name: str) -> list[str]:
    """The shift of each attack, beside that of a line that asks for nothing."""
    known = [(attack, shift) for attack, shift in found.shifts if shift.n_outputs]
    if not known:
        why = found.probes_why or "no attacked output got a score"
        return [page.paragraph(f"Not probed: {why}.")]
    control = next((attack.name for attack, _ in known if attack.control), "")
    drawn: dict[str, Figure] = {
        said(attack.name): (shift.mean, ends(shift.interval)) for attack, shift in known
    }
    unit = "the side's margin" if found.pairs else "score"
    told = (
        f"Mean change of {unit} when a line is added to the output, with 95 % intervals; the "
        "hollow one is a line about the weather. "
        + (
            f"n={known[0][1].n_outputs} pairs, their side not preferred."
            if found.pairs
            else f"n={known[0][1].n_outputs} outputs, the lower half by score."
        )
    )
    rows = [_row(attack, shift) for attack, shift in known]
    head = ("attack", "change", "raised", "outputs", "failed", "added text")
    return [
        page.figure(shifts(drawn, said(control), f"change of {unit}", name), told),
        page.folded("The attacks", [page.table(head, rows)]),
        page.paragraph(
            "A judge that resists these may fall for others: they are probes, no proof of safety.",
            "soft",
        ),
    ]


def _row(attack: Attack, shift: ScoreShift) -> tuple[str, ...]:
    return (
        said(attack.name),
        with_interval(shift.mean, shift.interval, signed=True),
        f"{shift.raised:.0%}",
        f"{shift.n_outputs}",
        f"{shift.n_failed}",
        attack.text,
    )


def said(name: str) -> str:
    return name.replace("_", " ")
