"""A judge's misses as texts: the outputs, people's labels, the judge's verdicts, and reasons."""

from collections.abc import Sequence
from dataclasses import dataclass

from judges.tables.problems import count_text
from optimize.measuring.misses import Miss, MissKind, rows_by_miss_kind
from optimize.measuring.scored import ScoredItems
from optimize.measuring.swap import MAX_CHANGED_ROWS, SwapResult

# Upper bound on the characters of a text.
MAX_TEXT = 1500
SUREST_FIRST, WORST_FIRST = "The judge's surest verdicts come first.", "The worst come first."
KIND_TITLES: dict[MissKind, tuple[str, str]] = {
    "false pass": ("False passes", f"People fail them and the judge passes them. {SUREST_FIRST}"),
    "false alarm": ("False alarms", f"People pass them and the judge fails them. {SUREST_FIRST}"),
    "too high": ("Too high", f"The judge ranks them far higher than people do. {WORST_FIRST}"),
    "too low": ("Too low", f"The judge ranks them far lower than people do. {WORST_FIRST}"),
    "wrong side": ("Wrong side", f"The judge does not prefer the side of people. {WORST_FIRST}"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MissGroup:
    """The misses of one kind, worst first, for a page."""

    title: str
    caption: str
    misses: Sequence[Miss]


def miss_groups(scored_items: ScoredItems) -> list[MissGroup]:
    """Return the misses of a judge by kind, the worst of each kind first."""
    groups = []
    for kind, rows in rows_by_miss_kind(scored_items).items():
        kind_title, caption = KIND_TITLES[kind]
        count = count_text(len(rows), "pair" if scored_items.is_pairwise else "output")
        misses = [Miss.from_row(scored_items, kind, row) for row in rows]
        caption = caption if rows else ""
        groups.append(MissGroup(title=f"{kind_title}: {count}", caption=caption, misses=misses))
    return groups


def changed_rows_group(result: SwapResult) -> MissGroup:
    """Return the rows on which two judges differ, the largest change first."""
    units = f"{result.comparison.scorecard.unit}s"
    return MissGroup(
        title=f"Changes: {result.n_changed:,}",
        caption=f"The {units} on which the judges differ, old → new; {MAX_CHANGED_ROWS} at most.",
        misses=[row.change for row in result.changed_rows],
    )


def cut_text(text: str, max_characters: int = MAX_TEXT) -> str:
    """Return the beginning of a text, with the number of characters that were cut off."""
    n_more = len(text) - max_characters
    return text if n_more <= 0 else f"{text[:max_characters]} … ({n_more:,} more characters)"
