"""Tells from a column's name whether it holds a source text, an output or a reference answer."""

import csv
import re
import shlex
from collections.abc import Collection, Iterable, Sequence
from functools import cache

from dspy_judges.column_names import name_key

# Usual names of source texts (what systems were given), the most specific first, and of outputs
# (what systems wrote).
SOURCES = (
    *("document", "context", "post", "query", "prompt", "article", "dialogue", "question"),
    *("instruction", "dokument", "artikel", "frage", "anfrage", "contexte", "documento"),
    *("artículo", "pregunta", "input", "inputs", "eingabe", "entrée", "entrada", "request"),
    *("usermessage", "conversation", "conversations", "messages", "chat", "transcript"),
)
OUTPUTS = (
    *("summary", "response", "output", "answer", "reply", "completion", "outputs"),
    *("generation", "zusammenfassung", "antwort", "ausgabe", "résumé", "réponse", "sortie"),
    *("resumen", "respuesta", "salida", "assistantmessage", "botmessage"),
)
# Words that people add to these names, as in `model_answer` or `User Input`.
_QUALIFIERS = {
    *("user", "customer", "student", "model", "assistant", "bot", "chatbot", "agent", "llm", "ai"),
    *("system", "candidate", "final", "generated", "retrieved", "original", "text"),
}
# Names of reference answers, and words that make one of an output's name, as in `gold answer`.
_REFERENCES = frozenset({"reference", "expected", "groundtruth", "ideal", "referenz", "erwartet"})
_REFERENCE_WORDS = {
    *("reference", "expected", "ideal", "gold", "golden", "correct", "true", "desired", "ground"),
    *("truth", "target", "soll"),
}
_TOKEN = re.compile(r"[A-ZÀ-Þ]?[a-zß-ÿ]+|[A-ZÀ-Þ]+(?![a-zß-ÿ])|\d+")


def tokens(name: str) -> tuple[str, ...]:
    """Split a column's name into its words and numbers, in lower case."""
    return tuple(token.casefold() for token in _TOKEN.findall(name))


@cache
def usual_name(column: str) -> str:
    """Return the name in SOURCES or OUTPUTS that a column's name is or contains, or "".

    A name contains a usual name if its other words are all in `_QUALIFIERS`.
    """
    words = [word for word in tokens(column) if word not in _QUALIFIERS]
    keys = [name_key(column), *(words if len(words) == 1 else ())]
    return next(filter((*SOURCES, *OUTPUTS).__contains__, keys), "")


def is_source_or_output(column: str) -> bool:
    """Whether a column has a usual name of a source text or an output."""
    return bool(usual_name(column))


def is_output(column: str) -> bool:
    """Whether a column has a usual name of an output."""
    return usual_name(column) in OUTPUTS


def is_usual_text(column: str) -> bool:
    """Whether a column has a usual name of a source text, an output or a reference answer."""
    return is_source_or_output(column) or is_reference(column)


def is_reference(column: str) -> bool:
    """Whether a column has a usual name of a reference answer, the output that is expected."""
    words = {*tokens(column)}
    other_words = words - _REFERENCE_WORDS
    # For instance `gold answer`: a word for references, and the name of an output.
    is_qualified = len(other_words) == 1 and other_words < words and other_words <= {*OUTPUTS}
    return name_key(column) in _REFERENCES or is_qualified


def source_name(texts: Iterable[str]) -> str | None:
    """Return the name of the source text: the text whose usual name comes first in SOURCES."""
    by_usual_name = {usual_name(name): name for name in reversed([*texts])}
    return next((by_usual_name[name] for name in SOURCES if name in by_usual_name), None)


def only_text(texts: Iterable[str], required: Collection[str]) -> str | None:
    """Return the file's text for a judge that reads one text, if the file has only one text.

    The names in the file and in the judge (`required`) may differ. If any text of the file has a
    usual name, texts with other names do not count. Returns None if the file has several texts, the
    judge reads several, or one name is that of a source text and the other that of an output.
    """
    names = [*([*filter(is_source_or_output, texts)] or texts), *required]
    if len(names) != 2 or len(required) != 1:
        return None
    # 1 for the name of a source text, -1 for that of an output, 0 for any other name.
    signs = [(usual_name(n) in SOURCES) - (usual_name(n) in OUTPUTS) for n in names]
    return names[0] if signs[0] * signs[1] >= 0 else None


def split_at_commas(text: str) -> list[str]:
    """Split a text at its commas, as CSV does: double quotes enclose a part that has a comma."""
    if '"' not in text and "," not in text:
        return [text]
    try:
        parts = next(csv.reader([text], skipinitialspace=True), [])
    except csv.Error:
        return [text]
    return [part.strip() for part in parts if part.strip()]


def map_flag(name: str, columns: Sequence[str]) -> str:
    """Return the flag `--map NAME=COLUMN,...` for a name and its columns, quoted for a shell."""
    quoted = [f'"{column}"' if "," in column else column for column in columns]
    entry = f"{name}={','.join(quoted)}"
    return f"--map {shlex.quote(entry if entry.isprintable() else 'NAME=COLUMN')}"
