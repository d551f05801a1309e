"""A small table as notebooks show it: every cell's text escaped."""

from collections.abc import Iterable, Sequence
from html import escape


def html_table(caption: str, rows: Iterable[Sequence[object]], head: Sequence[object] = ()) -> str:
    """A table with a caption, and a head where one is given; of long texts the beginning."""
    header = f"<thead>{_row('th', head)}</thead>" if head else ""
    body = "".join(_row("td", row) for row in rows)
    return f"<table><caption>{escape(caption)}</caption>{header}<tbody>{body}</tbody></table>"


def _row(tag: str, cells: Sequence[object]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(_short(str(cell)))}</{tag}>' for cell in cells)}</tr>"


def _short(text: str) -> str:
    return text if len(text) <= 300 else f"{text[:297]}..."
