"""From a drawing by matplotlib to one self-contained SVG with an accessible name.

Colours are handed to the page as CSS variables, so that one drawing serves light, dark and print.
"""

import io
import re
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Stand-ins that matplotlib draws with; the page's style sheet says what they look like.
INK, FAINT, ACCENT, SECOND = "#010203", "#040506", "#070809", "#0a0b0c"
VARIABLES = {
    INK: "var(--ink)",
    FAINT: "var(--faint)",
    ACCENT: "var(--accent)",
    SECOND: "var(--second)",
}
# Inches; the page shows it as wide as a phone and up to a third wider than a column of text needs.
WIDTH = 4.8


def single(draw: "Callable[[Axes], None]") -> "Callable[[Figure], None]":
    """A figure of one chart."""

    def whole(figure: "Figure") -> None:
        axes = figure.add_subplot()
        draw(axes)
        plain(axes)

    return whole


def plain(axes: "Axes") -> None:
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(FAINT)
    axes.tick_params(colors=INK)
    axes.tick_params(color=FAINT)
    axes.xaxis.label.set_color(INK)
    axes.yaxis.label.set_color(INK)


def shortened(name: str, most: int = 22) -> str:
    """A label that leaves room for the chart, and that matplotlib does not read as a formula."""
    cut = name if len(name) <= most else f"{name[: most - 1]}…"
    return _printable(cut).replace("$", r"\$")


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)


def _styled(tag: str) -> str:
    """A tag in the page's colours and letters."""
    for stand_in, variable in VARIABLES.items():
        tag = tag.replace(stand_in, variable)
    # Every drawing numbers its groups from 1; no two things on a page may have one id.
    tag = re.sub(r'<g id="[^"]*"', "<g", tag)
    tag = re.sub(r"font-family: [^;\"]*", "font-family: inherit", tag)
    return re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px", tag)


def svg(draw: "Callable[[Figure], None]", label: str, height: float, width: float = WIDTH) -> str:
    """Draw; `label` is what a screen reader says."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    label = _printable(label)
    style = {
        "svg.fonttype": "none",
        # Element ids come from the salt: unique on the page, equal on every run.
        "svg.hashsalt": label,
        "font.size": 9.5,
        "font.family": "sans-serif",
    }
    with mpl.rc_context(style), warnings.catch_warnings():  # type: ignore[arg-type]
        # The page's reader has fonts for names that matplotlib's own font lacks.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure = Figure(figsize=(width, height), layout="constrained")
        draw(figure)
        sheet = io.StringIO()
        figure.savefig(sheet, format="svg", transparent=True, metadata={"Date": None})
    drawing = sheet.getvalue()
    drawing = drawing[drawing.index("<svg") :]
    drawing = re.sub(r"<metadata>.*?</metadata>", "", drawing, flags=re.DOTALL)
    drawing = re.sub(r"<!--.*?-->", "", drawing, flags=re.DOTALL)
    # In tags alone: a system's name may read like any of this.
    drawing = re.sub(r"<[^>]*>", lambda tag: _styled(tag.group()), drawing)
    head = re.match(r"<svg[^>]*>", drawing)
    assert head is not None
    box = re.search(r'viewBox="[^"]*"', head.group())
    assert box is not None
    opened = (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'{box.group()} role="img" aria-label={quoteattr(label)}><title>{escape(label)}</title>'
    )
    return opened + drawing[head.end() :]
