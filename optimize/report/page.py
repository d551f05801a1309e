"""A self-contained HTML page from this package's templates: text is escaped, no request leaves it.

There is no script on the page, and no font or image from elsewhere.
"""

import difflib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from jinja2.ext import Extension
from markupsafe import Markup, escape

from judges.terminal import visible
from optimize.figures import CONVENTIONS, counted, interval_text, number_text, with_interval
from optimize.statistics.levels import PRIMARY

# Names up to so long stay on one line; beyond so long they are sentences.
MAX_NAME_LENGTH, MIN_SENTENCE_LENGTH = 22, 40
# A longer word of a command may be wider than a telephone.
MAX_UNBROKEN = 28


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of the page, folded until it is opened."""

    title: str
    html: Markup

    @property
    def anchor(self) -> str:
        return "-".join(re.findall(r"[a-z0-9]+", self.title.lower()))


@dataclass(frozen=True, slots=True)
class Picture:
    """The one drawing that a reader sees first, and what it shows."""

    svg: str
    caption: str


def section(title: str, template: str, **values: Any) -> Section:
    """A section drawn from its own template."""
    # Markup, because the template has escaped its values.
    return Section(title=title, html=Markup(render_template(template, **values)))


def page(
    *,
    title: str,
    about: str,
    answer: Sequence[str],
    warnings: Sequence[str],
    picture: Picture | None,
    steps: Sequence[str],
    notes: Sequence[str],
    quotable: Sequence[str],
    sections: Sequence[Section],
) -> str:
    """Render a whole page: the answer, warnings, one picture and what to do; the rest folded."""
    return render_template(
        "page.html",
        title=title,
        about=about,
        answer=answer,
        warnings=warnings,
        picture=picture,
        steps=steps,
        notes=notes,
        quotable=quotable,
        sections=sections,
    )


def column_kinds(rows: Sequence[Sequence[str]], n_columns: int) -> list[str]:
    """How each column is set: numbers to the right, names on one line, sentences not too narrow."""
    return [_kind(index, [row[index] for row in rows]) for index in range(n_columns)]


def _kind(index: int, cells: Sequence[str]) -> str:
    """The CSS class of a column, by its index (the first is never a number) and its cells."""
    if index > 0 and all(map(_is_numeric, cells)):
        return "number"
    longest = max(map(len, cells), default=0)
    return (
        "short" if longest <= MAX_NAME_LENGTH else "long" if longest > MIN_SENTENCE_LENGTH else ""
    )


def _is_numeric(cell: str) -> bool:
    return cell in ("", "undefined", "no interval") or cell[0] in "-+−0123456789.[–"


def backticks_as_code(sentence: str) -> Markup:
    """What stands between backticks is code; a lone backtick stays."""
    pieces = sentence.split("`")
    if len(pieces) % 2 == 0:
        return escape(sentence)
    return Markup("").join(
        Markup("<code>{}</code>").format(Markup(" ").join(map(_unbroken, piece.split(" "))))
        if index % 2
        else escape(piece)
        for index, piece in enumerate(pieces)
    )


def _unbroken(word: str) -> Markup:
    """A flag in one piece: a browser would end a line after its hyphens."""
    is_flag = word.startswith("-") and len(word) <= MAX_UNBROKEN
    return Markup('<span class="glued">{}</span>').format(word) if is_flag else escape(word)


def word_difference(before: str, after: str) -> Markup:
    """Word by word: what was deleted from `before` and inserted to make `after`."""
    old, new = before.split(" "), after.split(" ")
    pieces: list[Markup] = []
    for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(
        None, old, new, autojunk=False
    ).get_opcodes():
        deleted, inserted = " ".join(old[i1:i2]), " ".join(new[j1:j2])
        if tag == "equal":
            pieces.append(escape(deleted))
            continue
        if deleted:
            pieces.append(Markup("<del>{}</del>").format(deleted))
        if inserted:
            pieces.append(Markup("<ins>{}</ins>").format(inserted))
    return Markup(" ").join(pieces)


def cell_columns(cell: Mapping[str, Any]) -> tuple[str, ...]:
    """A correlation's value, interval and counts, as tables have them."""
    counts = ("n_outputs", "n_documents", "n_undefined", "n_failed")
    return (
        number_text(cell["value"]),
        interval_text(cell["low"], cell["high"]),
        *(f"{cell[name]:,}" for name in counts),
    )


class _OneLine(Extension):
    """Templates are broken into lines for their readers; the page's sentences are not."""

    def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:
        return re.sub(r"\s*\n\s*", " ", source)


def render_template(template: str, **values: Any) -> str:
    # Labels and replies may be a stranger's: what turns letters round or hides them is written out.
    return visible(_environment().get_template(template).render(values)).strip() + "\n"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("optimize.report"),
        autoescape=True,
        undefined=StrictUndefined,
        extensions=[_OneLine, "jinja2.ext.do"],
        trim_blocks=True,
    )
    environment.filters |= {
        "backticks_as_code": backticks_as_code,
        "cell_columns": cell_columns,
        "column_kinds": column_kinds,
        "counted": counted,
        "interval": lambda ends: interval_text(ends.low, ends.high) if ends else "no interval",
        "number": format,
        "one_line": lambda text: Markup(" ").join(text.split()),
        "number_text": number_text,
        "thousands": lambda number: f"{number:,}",
        "with_interval": with_interval,
        "with_ends": lambda value, low, high: (
            "undefined" if math.isnan(value) else f"{number_text(value)} {interval_text(low, high)}"
        ),
        "word_difference": word_difference,
    }
    environment.tests["missing"] = lambda value: value is None or math.isnan(value)
    environment.globals["primary_convention"] = CONVENTIONS[PRIMARY]
    return environment
