"""The judge among the annotators: the human ceiling, its share, and who is out of line."""

from optimize.figures import counted, interval_of, shown
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
    if found.human != found.human:
        return [*parts, _more(people)]
    drawn = {
        label: (value, ends(interval))
        for label, value, interval in (
            ("people, one against the rest", found.human, found.human_interval),
            ("judge, against the same rest", found.judge, found.judge_interval),
        )
        if value == value
    }
    label = f"{found.level}-level Spearman's rho"
    told = (
        "Each annotator in turn against the mean of the others, and the judge against that "
        "same mean. It is noisier than everybody's, so either rho is lower than it would be "
        "against all."
    )
    if found.level == "summary":
        told += (
            " Documents that the others rate alike are left out; one that the annotator (or the "
            "judge) rates alike counts 0."
        )
    parts.append(page.figure(bars(drawn, label, name), told))
    parts.append(_annotators(people, found))
    parts.append(_more(people))
    return parts


def sentence(found: Ceiling) -> str:
    """The headline beside rho: the share, or why there is none."""
    n = f"{found.level}-level, n={_documents(found)}"
    if found.human != found.human:
        return f"The human ceiling is withheld: {found.why}."
    agree = f"an annotator agrees with the others at rho {shown(found.human)}"
    if found.share != found.share:
        around = interval_of(*(ends(found.human_interval) or (None, None)))
        return (
            f"There is no share of the human ceiling to give: {found.why} ({agree} {around}, the "
            f"judge at {shown(found.judge)}; {n})."
        )
    between = found.share_interval
    around = f" [{between.low:.0%}, {between.high:.0%}]" if between else ""
    return (
        f"The judge reaches {found.share:.0%}{around} of the human ceiling: {agree}, the judge at "
        f"{shown(found.judge)} ({n})."
    )


def _documents(found: Ceiling) -> str:
    """How many documents the ceiling rests on, and in how many people have a rho at all."""
    told = counted(found.n_documents, "document")
    if found.n_defined < found.n_documents:
        told += f", {found.n_defined:,} of them with a rho among people, the others count 0"
    return told


def tiles(people: People) -> list[tuple[str, str, str]]:
    """The share as a figure to see first; nothing where it is withheld."""
    found = people.ceiling
    if found is None or found.share_interval is None:
        return []
    between = found.share_interval
    n = counted(found.n_documents, "document")
    return [
        (
            "share of the human ceiling",
            f"{found.share:.0%}",
            f"[{between.low:.0%}, {between.high:.0%}], n={n}",
        )
    ]


def share_of_ceiling(people: People) -> str:
    """The share with its interval, in words; empty where it is withheld."""
    found = people.ceiling
    if found is None or found.share_interval is None:
        return ""
    between = found.share_interval
    return f"{found.share:.0%} [{between.low:.0%}, {between.high:.0%}]"


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
            f"{one.n_documents:,}",
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
        "documents",
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
