"""What a terminal shows of a run and of a verification: the answer first, then its figures."""

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from optimize.answer import (
    next_steps,
    run_answer,
    verification_answer,
    warnings,
)
from optimize.figures import (
    ORDERS,
    SPLITS,
    WIDTH,
    cells_to_show,
    interval_text,
    many_failed,
    number_text,
    quotable_line,
)

HELD_OUT = ("test", "test_unseen_systems")


def scorecard(summary: Mapping[str, Any], folder: str) -> str:
    """The lines for stdout: the answer, both judges' figures on test, the verdict, the cost."""
    data, paired = summary["data"], "accuracy" in summary
    unit = "pairs" if paired else "outputs"
    about = (
        f"{summary['dimension']} judged by {summary['lm']}, {data['name']}: "
        f"{data['n_documents']} documents, {data['n_outputs']} {unit}"
    )
    next_step = next_steps(summary, paired=paired)[0].replace("`", "")
    lines = [
        *_wrapped(about),
        "",
        *_failures(summary, unit),
        *(
            line
            for text in (*run_answer(summary, paired=paired), f"Next: {next_step}")
            for line in _wrapped(text)
        ),
        "",
        *_split_rows(summary),
        *_wrapped(summary["why"]),
        *_tuned_file(summary, folder),
        _cost(summary),
    ]
    return "\n".join([*lines, f"{folder}/report.html"] if folder else lines)


def _cost(summary: Mapping[str, Any]) -> str:
    """Calls, dollars and time of the whole run."""
    cost, cached = summary["cost_usd"], summary.get("cached_calls", 0)
    dollars = "cost unknown" if cost is None else f"${cost:.4f}" if cost + cached else "free"
    from_cache = f"{cached:,} from the reply cache, " if cached else ""
    return (
        f"{summary['lm_calls']:,} judge calls, {summary['proposer_calls']:,} proposals, "
        f"{from_cache}{dollars}, {summary['seconds']:.0f} s"
    )


def _tuned_file(summary: Mapping[str, Any], folder: str) -> list[str]:
    """Where the tuned judge is that did not ship, and the command that uses it."""
    if not folder or "tuned_file" not in summary:
        return []
    path = f"{folder}/{summary['tuned_file']}"
    return [
        "The tuned judge scores rows by this command; --ship tuned ships it:",
        f"  dspy-judges score {path} --data FILE --out FILE",
    ]


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH)


def _failures(summary: Mapping[str, Any], unit: str) -> list[str]:
    """Where either judge gave no score to more than a few, but what the answer says of it."""
    lines = []
    for judge, name in (("seed", "untuned"), ("tuned", "tuned")):
        for split in HELD_OUT:
            cell = summary[f"{judge}_judge"].get(split)
            if not cell or (judge, split) == (summary["shipped"], "test"):
                continue
            number = cell["n_outputs"] + cell["n_failed"]
            if sentence := many_failed(cell["n_failed"], number, unit):
                lines += _wrapped(f"The {name} judge on {SPLITS[split]}: {sentence}")
    return lines


def _split_rows(summary: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each held-out split: the untuned judge's figure, the tuned one's and n."""
    if summary["gain"]["test"] is None:
        return
    level = f"{summary['level']}-level rho"
    yield f"{level:<19}{'untuned judge':<22}{'tuned judge':<22}documents"
    for split in HELD_OUT:
        seed, tuned = summary["seed_judge"][split], summary["tuned_judge"][split]
        if seed is None or tuned is None:
            continue
        counts = {
            word: max(seed[name], tuned[name])
            for name, word in (("n_undefined", "undefined"), ("n_failed", "failed"))
        }
        missing = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
        row = f"{SPLITS[split]:<19}{_figure(seed):<22}{_figure(tuned):<22}{seed['n_documents']}"
        yield row + (f" ({missing})" if missing else "")


def _figure(cell: Mapping[str, Any]) -> str:
    if cell["value"] is None:
        return "undefined"
    ends = "no interval" if cell["low"] is None else f"{cell['low']:.3f}, {cell['high']:.3f}"
    return f"{cell['value']:.3f} [{ends}]"


def correlation_lines(result: Mapping[str, Any]) -> list[str]:
    """A verification: the answer, then one quotable line a figure.

    Those are by the primary convention, then by the published one where it is another figure.
    """
    name, data, cells = result["dimension"], result["data"], result["correlations"]
    is_paired = "accuracy" in result
    unit = "pairs" if is_paired else "outputs"
    lines = [
        f"{result['judge']} on {data['name']}: {data['n_outputs']} {unit}, "
        f"{data['n_documents']} documents",
        "",
        *(
            line
            for text in (*verification_answer(result), *warnings(result))
            for line in _wrapped(text)
        ),
        "",
    ]
    if is_paired:
        lines += accuracy_lines(result)
    return lines + [
        quotable_line(name, cell, unit=unit, n_systems=data["n_systems"])
        for cell in cells_to_show(cells)
    ]


def accuracy_lines(result: Mapping[str, Any]) -> list[str]:
    """Pairs: the primary accuracy with all its counts, then what each order alone reaches."""
    name = result["dimension"]
    ends = interval_text(result["accuracy_low"], result["accuracy_high"])
    lines = [
        f"{name} accuracy, both orders together {number_text(result['accuracy'])} {ends} "
        f"n={result['n_decided']} decided pairs of {result['n_pairs']}, "
        f"{result['n_documents']} documents ({result['n_ties']} ties by the judge, half right; "
        f"{result['n_failed']} failed)"
    ]
    for key, label in ORDERS.items():
        if result.get(key) is not None:
            lines.append(f"{name} {label} {result[key]:.3f}")
    return lines
