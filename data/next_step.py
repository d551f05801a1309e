"""What to do with a file that was checked: the command that tunes on it, and the judge it needs."""

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from statistics import median
from typing import NamedTuple

from data.columns import OUTPUTS, SOURCES, is_known_text, only_text
from data.flags import map_flags, scale_flags, values_flags
from data.types import LabelledSet
from data.values import USUAL_SCALES, Scale, Values
from dspy_judges.commands import catalogue_texts

# As judges have it, which labels know nothing of.
_MAX_NAME = 40
_BRACKETED = re.compile(r"[\[(]([^\[\]()]*[^\W\d][^\[\]()]*)[\])]\s*\Z")
# No judge reads them: who was asked, and when.
_ASKED = re.compile(r"[^@\s]+@[^@\s]+\.\w+|\d{1,4}[-./]\d{1,2}[-./]\d{1,4}(?:[T ].*)?")


class NextStep(NamedTuple):
    """The words of the command that tunes; `definition` are lines of YAML to write before, if any.

    `note` says why, and what the definition is called.
    """

    command: Sequence[str]
    note: str = ""
    definition: Sequence[str] = ()


def next_step(
    labelled: LabelledSet,
    file: str,
    *,
    dimension: str,
    mapping: Mapping[str, str | Sequence[str]],
    values: Values,
    scale: Scale | None,
    annotations: str | None = None,
) -> NextStep:
    """How to go on to a judge of this dimension of a set's."""
    name, mapping = slug(dimension), dict(mapping)
    if name != dimension:
        in_column = dimension in labelled.reading.ratings
        mapping = {
            name if known == dimension else known: columns for known, columns in mapping.items()
        }
        mapping.setdefault(name, dimension if in_column else f"ratings.{dimension}")
    texts = _judged_texts(labelled)
    wanted = catalogue_texts(name)
    note, definition = "", []
    if wanted is None:
        names = {_text_name(text): text for text in texts}
        for text_name, text in names.items():
            if text_name != text:
                mapping.setdefault(text_name, labelled.reading.texts[text])
        inputs = ", ".join(f"{text}: what it is" for text in names)
        low, high = scale or _usual_scale(labelled, dimension)
        definition = [
            f"name: {name}",
            f"definition: what {name.replace('_', ' ')} means",
            f"inputs: {{{inputs}}}",
            f"scale: [{low:g}, {high:g}]",
        ]
        note = (
            f"no judge of the catalogue is called {name}: write {name}.yaml, with words of your own"
        )
    elif only_text(texts, wanted) is None:
        missing = [text for text in wanted if text not in texts]
        for text, column in _columns_for(missing, labelled, texts).items():
            mapping.setdefault(text, column)
            note = f"the catalogue's {name} reads {' and '.join(wanted)}"
    spec = f"{name}.yaml" if definition else name
    words = ["python", "-m", "optimize", "--dimension", spec]
    if annotations:
        words = ["python", "-m", "optimize.verify", spec, "--annotations", annotations]
    words += ["--data", file, *map_flags(mapping), *values_flags(values)]
    words += scale_flags({"*": scale} if scale else None)
    return NextStep(words, note, definition)


def slug(name: str) -> str:
    """The name as judges may be called: of a question, what stands in brackets at its end."""
    if (bracketed := _BRACKETED.search(name)) is not None and name[-1:] == "]":
        name = bracketed[1]
    name = re.sub(r"\([^()]*\)", " ", name)
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().casefold()
    words = re.sub(r"[^a-z0-9]+", "_", plain).strip("_")
    if len(words) > _MAX_NAME:
        words = words[:_MAX_NAME].rpartition("_")[0] or words[:_MAX_NAME]
    words = words.lstrip("0123456789_")
    return words or "quality"


def _text_name(text: str) -> str:
    name = slug(text)
    reserved = name in ("rating", "rationale", "fields", "config", "self", "instructions")
    return f"{name}_text" if reserved else name


def _judged_texts(labelled: LabelledSet) -> list[str]:
    """The texts that a judge may read: neither e-mail addresses and dates nor mere labels."""
    return [
        name
        for name in labelled.reading.texts
        if is_known_text(name)
        or any(
            len(text) > _MAX_NAME or text.count(" ") > 1
            for output in labelled.outputs
            if not _ASKED.fullmatch(text := output.texts.get(name, "").strip())
        )
    ] or [*labelled.reading.texts]


def _columns_for(
    missing: Sequence[str], labelled: LabelledSet, texts: Collection[str]
) -> dict[str, str]:
    """Which columns may hold texts under other names: the longest what systems were given."""
    free = [text for text in texts if not is_known_text(text)]
    lengths = {
        text: median(len(output.texts.get(text, "")) for output in labelled.outputs)
        for text in free
    }
    by_length = sorted(free, key=lambda text: -lengths[text])
    sources = [name for name in missing if name in SOURCES]
    outputs = [name for name in missing if name in OUTPUTS]
    columns = dict(zip([*sources, *outputs], by_length, strict=False))
    return {name: labelled.reading.texts[text] for name, text in columns.items()}


def _usual_scale(labelled: LabelledSet, dimension: str) -> Scale:
    """The narrowest usual scale that a dimension's ratings are on."""
    ratings = [
        rating for output in labelled.outputs for rating in output.ratings.get(dimension, ())
    ]
    low, high = min(ratings), max(ratings)
    fitting = (scale for scale in USUAL_SCALES if scale[0] <= low and high <= scale[1])
    return next(fitting, (low // 1, -(-high // 1)))
