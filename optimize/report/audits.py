"""What else moves the judge's scores, and how it uses its scale."""

from optimize.audits.preferences import Discriminant, Preference
from optimize.audits.scale_use import ScaleUse, SelfConsistency
from optimize.figures import interval_of, shown
from optimize.report import page
from optimize.report.findings import Findings

# Scores so many and so different are as good as continuous.
MANY = 50


def audits(found: Findings) -> list[str]:
    """Every audit that the data allow."""
    parts = [
        *_preferences(found),
        *_use(found),
        *_errors(found),
        *_consistency(found.consistency),
        *_dimensions(found.dimensions),
    ]
    return parts or [page.paragraph("The data allow no audit: there is too little to compare.")]


def _preferences(found: Findings) -> list[str]:
    rows = [_preference(name, one) for name, one in found.kinds.items()]
    if found.length is not None:
        rows.insert(0, _preference("length in characters", found.length))
    rows = [row for row in rows if row is not None]
    if not rows:
        return []
    head = ("feature", "judge's rho", "people's rho", "difference", "95 % interval", "")
    one = next(one for one in (found.length, *found.kinds.values()) if one is not None)
    told = (
        f"{one.level.capitalize()}-level Spearman's rho of scores and of ratings with a feature of "
        f"the outputs (n={one.n_documents:,} documents, {one.n_outputs:,} outputs). A difference "
        "above 0 says that the judge favours it beyond what people do."
    )
    return [page.table(head, [row for row in rows if row], told)]


def _preference(name: str, one: Preference) -> tuple[str, ...] | None:
    if one.value != one.value:
        return None
    interval = one.interval
    verdict = "no clear preference"
    if interval is not None and interval.low > 0:
        verdict = "favours it"
    elif interval is not None and interval.high < 0:
        verdict = "disfavours it"
    around = interval_of(interval.low, interval.high) if interval else "no interval"
    return name, shown(one.judge), shown(one.human), f"{one.value:+.3f}", around, verdict


def _use(found: Findings) -> list[str]:
    if found.use is None or not found.use.n_outputs:
        return []
    rows = [("judge", *_numbers(found.use))]
    if found.people_use is not None:
        rows.append(("people", *_numbers(found.people_use)))
    head = ("who", "at the top", "at the bottom", "tied within documents", "levels used")
    told = (
        f"Use of the scale (n={found.use.n_outputs:,} outputs). Ties cost rank agreement. Levels "
        "used: so many scores, each given equally often, would be as spread out."
    )
    return [page.table(head, rows, told)]


def _numbers(use: ScaleUse) -> tuple[str, ...]:
    tied = f"{use.tied:.0%}" if use.tied == use.tied else "no pairs"
    levels = f"{use.levels_used:.1f}" if use.levels_used <= MANY else f"over {MANY}"
    return f"{use.at_top:.0%}", f"{use.at_bottom:.0%}", tied, levels


def _errors(found: Findings) -> list[str]:
    one = found.errors
    if one is None or not one.n_outputs:
        return []
    side = "higher" if one.bias > 0 else "lower"
    bias = f"{abs(one.bias):.2f} {side} than" if abs(one.bias) >= 0.005 else "as high as"
    # No minus before a kappa of 0.
    kappa = f"; quadratic-weighted kappa {round(one.kappa, 3) + 0.0:.3f}"
    kappa = kappa if one.kappa == one.kappa else ""
    return [
        page.paragraph(
            f"As numbers on the scale: the judge's scores are {bias} people's on average, and "
            f"{one.mean_absolute_error:.2f} away from them{kappa} "
            f"(n={one.n_outputs:,} outputs)."
        )
    ]


def _consistency(found: SelfConsistency | None) -> list[str]:
    if found is None or found.reliability != found.reliability:
        return []
    return [
        page.paragraph(
            f"Asked {found.n_samples:.0f} times, the judge agrees with itself: one reply's "
            f"reliability is {found.reliability:.3f}, that of the mean {found.of_mean:.3f} "
            f"(n={found.n_outputs:,} outputs; standard deviation within one {found.spread:.2f})."
        )
    ]


def _dimensions(found: Discriminant | None) -> list[str]:
    if found is None:
        return []
    own = found.judges[0]
    rows = [
        (name, shown(float(value)), shown(float(among)))
        for name, value, among in zip(
            found.people, found.values[0], found.among_people[0], strict=True
        )
    ]
    head = ("people's dimension", "judge's rho with it", f"people's own {own} with it")
    told = (
        f"Does the judge measure {own}, or quality at large? {found.level.capitalize()}-level "
        f"Spearman's rho (n={found.n_documents:,} documents, {found.n_outputs:,} outputs)."
    )
    verdict = (
        f"The judge agrees more with people on another dimension than on {own}, by more than "
        "chance: it may measure overall quality."
        if found.halo
        else f"No dimension has clearly more of the judge's agreement than {own}."
    )
    return [page.table(head, rows, told), page.paragraph(verdict)]
