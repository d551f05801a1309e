"""Words that a report's reader may not know, explained where they first stand; no script needed.

A term is a button that opens its explanation (HTML's own popover), by mouse, touch and keyboard.
All of them stand in a list at the end of the page, too, for print and for older browsers.
"""

import re
from importlib import resources

from markupsafe import Markup, escape

_WORDS = resources.files("optimize.report").joinpath("templates/words.txt")
# Each term as it stands in a sentence, and its meaning.
GLOSSARY = dict(
    line.split(": ", maxsplit=1) for line in _WORDS.read_text(encoding="utf-8").splitlines()
)
_TERMS = "|".join(sorted(map(re.escape, GLOSSARY), key=len, reverse=True))
_PATTERN = re.compile(rf"(\(?)(?<!\w)({_TERMS})(?!\w)([.,;:)]*)")


def anchor(term: str) -> str:
    """The id of the term's explanation."""
    return "word-" + "-".join(re.findall(r"[a-z0-9]+", term))


def explained(sentence: str, seen: list[str]) -> Markup:
    """The sentence with each term that is not in `seen` yet made a button; `seen` grows."""
    pieces, end = [], 0
    for match in _PATTERN.finditer(sentence):
        before, term, after = match.groups()
        if term in seen:
            continue
        seen.append(term)
        pieces.append(escape(sentence[end : match.start()]))
        button = term_button(term)
        # A button is a box of its own, from which a bracket or a full stop must not be parted.
        glued = Markup('<span class="glued">{}{}{}</span>').format(before, button, after)
        pieces.append(glued if before or after else button)
        end = match.end()
    return Markup("").join([*pieces, escape(sentence[end:])])


def term_button(term: str) -> Markup:
    """A term of the glossary that opens its explanation."""
    return Markup('<button class="term" popovertarget="{}">{}</button>').format(anchor(term), term)
