"""What a terminal shows of a run and of a verification: the answer first, then its figures."""

import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from optimize.answer import (
    next_steps,
    order_sentence,
    people_sentences,
    run_answer,
    short_scale_warning,
    short_warnings,
    verification_step,
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
    yield f"{level:<18}{'untuned judge':<24}{'tuned judge':<24}documents"
    for split in HELD_OUT:
        seed, tuned = summary["seed_judge"][split], summary["tuned_judge"][split]
        if seed is None or tuned is None:
            continue
        counts = {
            word: max(seed[name], tuned[name])
            for name, word in (("n_undefined", "undefined"), ("n_failed", "failed"))
        }
        missing = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
        row = f"{SPLITS[split]:<18}{_figure(seed):<24}{_figure(tuned):<24}{seed['n_documents']}"
        yield row + (f" ({missing})" if missing else "")


def _figure(cell: Mapping[str, Any]) -> str:
    if cell["value"] is None:
        return "undefined"
    ends = "no interval" if cell["low"] is None else f"{cell['low']:.3f}, {cell['high']:.3f}"
    return f"{cell['value']:.3f} [{ends}]"


def verification_lines(
    result: Mapping[str, Any], *, everything: bool = False, page: str | None = None
) -> list[str]:
    """A verification in at most twelve lines; `everything` adds every level and coefficient.

    `page` is the file that shows its errors, where one was asked for.
    """
    data, cell, is_paired = result["data"], result["correlations"][0], "accuracy" in result
    unit = "pairs" if is_paired else "outputs"
    failed = f", {cell['n_failed']:,} failed" if cell["n_failed"] else ""
    source = f"{Path(str(result['judge'])).name} on {data['name']}"
    counts = f"{data['n_outputs']:,} {unit}, {data['n_documents']:,} documents{failed}"
    lines = [
        *_wrapped(f"{source}: {counts}"),
        *(line for text in short_warnings(result) for line in _wrapped(text)),
        *_wrapped(_headline(result)),
        *_published(result),
        *_wrapped(order_sentence(result)),
        *(line for text in people_sentences(result.get("people")) for line in _wrapped(text)),
        *_wrapped(short_scale_warning(result)),
        *_wrapped(f"Its errors: {page}" if page else f"Next: {verification_step(result)}"),
    ]
    if everything:
        lines += ["", *(accuracy_lines(result) if is_paired else [])]
        lines += [
            quotable_line(result["dimension"], cell, unit=unit, n_systems=data["n_systems"])
            for cell in cells_to_show(result["correlations"])
        ]
    return lines


def _headline(result: Mapping[str, Any]) -> str:
    """The one figure that the judge is known by, with its interval and n."""
    name, cell = result["dimension"], result["correlations"][0]
    if "accuracy" in result:
        ends = interval_text(result["accuracy_low"], result["accuracy_high"])
        return (
            f"{name} accuracy {number_text(result['accuracy'])} {ends} "
            f"n={result['n_decided']:,} of {result['n_pairs']:,} pairs that people decided"
        )
    n_systems = result["data"]["n_systems"]
    systems = f"{n_systems:,} systems, " if cell["level"] == "system" else ""
    return (
        f"{name} {cell['level']}-level rho {number_text(cell['value'])} "
        f"{interval_text(cell['low'], cell['high'])} n={systems}{cell['n_documents']:,} documents"
    )


def _published(result: Mapping[str, Any]) -> list[str]:
    """The published convention's figure, where undefined documents make it another one."""
    first = result["correlations"][0]
    if first["level"] != "summary" or not first["n_zero"]:
        return []
    cell = next(
        cell
        for cell in result["correlations"]
        if (cell["level"], cell["coefficient"], cell["undefined"])
        == ("summary", "spearman", "left_out")
    )
    ends = interval_text(cell["low"], cell["high"])
    return [
        f"as most published tables count: {number_text(cell['value'])} {ends} "
        f"n={cell['n_documents']:,} documents"
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
