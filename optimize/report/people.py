"""The judge among the annotators: the human ceiling, its share, and who is out of line."""

from optimize.figures import shown, with_interval
from optimize.human import Ceiling
from optimize.report import page
from optimize.report.comparisons import bars
from optimize.report.findings import People
from optimize.statistics.bootstrap import Interval


def ceiling(people: People, name: str) -> list[str]:
    """Bars, the share, alpha, the alternative-annotator test, and a row an annotator."""
    found = people.ceiling
    if found is None:
        why = people.why or "the labels hold no annotators"
        return [
            page.paragraph(
                f"The human ceiling is unknown: {why}. With every annotator's ratings, among the "
                "labels as annotations or in a long file (--annotations FILE), the report says how "
                "well people agree with each other, and so how far a judge can get."
            )
        ]
    parts = [page.paragraph(sentence(found))]
    drawn = {
        label: (value, ends(interval))
        for label, value, interval in (
            ("people, one against the rest", found.human, found.human_interval),
            ("judge, against the same rest", found.judge, found.judge_interval),
        )
        if value == value
    }
    if drawn:
        label = f"{found.level}-level Spearman's rho"
        told = (
            "Each annotator in turn against the mean of the others, and the judge against that "
            "same mean. It is noisier than everybody's, so either rho is lower than it would be "
            "against all."
        )
        parts.append(page.figure(bars(drawn, label, name), told))
    parts.append(_annotators(people, found))
    parts.append(_more(people))
    return parts


def sentence(found: Ceiling) -> str:
    """The headline beside rho."""
    if found.share != found.share:
        return (
            f"Annotators do not agree with each other here (rho {shown(found.human)}), so there is "
            "no ceiling to reach."
        )
    between = found.share_interval
    around = f" [{between.low:.0%}, {between.high:.0%}]" if between else ""
    return (
        f"The judge reaches {found.share:.0%}{around} of the human ceiling: an annotator agrees "
        f"with the others at rho {shown(found.human)}, the judge at {shown(found.judge)} "
        f"({found.level}-level, n={found.n_outputs:,} outputs)."
    )


def ends(interval: Interval | None) -> tuple[float, float] | None:
    return (interval.low, interval.high) if interval else None


def _annotators(people: People, found: Ceiling) -> str:
    rows = [
        (
            people.annotators[one.annotator],
            shown(one.value),
            shown(one.judge),
            f"{one.bias:+.2f}",
            f"{one.n_outputs:,}",
            "yes" if one.outlying else "no",
        )
        for one in found.left_out
    ]
    head = (
        "left out",
        "rho with the rest",
        "judge's rho",
        "rates higher by",
        "outputs",
        "outlying",
    )
    told = "Outlying: agrees less with the others than the rest do, by more than chance."
    return page.table(head, rows, told)


def _more(people: People) -> str:
    said = []
    if people.alpha == people.alpha:
        said.append(f"Krippendorff's alpha (interval) {people.alpha:.3f}.")
    test = people.test
    if test is not None and test.annotators:
        verdict = "may" if test.passed else "may not"
        won = sum(one.won for one in test.annotators)
        said.append(
            f"By the alternative-annotator test the judge {verdict} stand in for one of these "
            f"annotators: in how often it is as near to the others as they are, it falls short of "
            f"{won} of {len(test.annotators)} by less than {test.epsilon:g} (it is so on "
            f"{test.advantage_probability:.1%} of the outputs on average)."
        )
    return page.paragraph(" ".join(said), "soft") if said else ""


def share(people: People) -> str | None:
    """The share of the ceiling with its interval; None where unknown."""
    found = people.ceiling
    if found is None or found.share != found.share:
        return None
    return with_interval(found.share, found.share_interval)
