"""What the name of a column says: a source, an output, a reference answer, or its words."""

import csv
import re
import shlex
from collections.abc import Collection, Iterable, Sequence
from functools import cache

from dspy_judges.column_names import name_key

# Usual names of what systems were given, the most specific first, and of what they wrote.
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
# Words that may stand beside either, as in `model_answer` or `User Input`.
_BESIDE = {
    *("user", "customer", "student", "model", "assistant", "bot", "chatbot", "agent", "llm", "ai"),
    *("system", "candidate", "final", "generated", "retrieved", "original", "text"),
}
# Names of reference answers, and words for them before an output's name.
_REFERENCES = frozenset({"reference", "expected", "groundtruth", "ideal", "referenz", "erwartet"})
_SHOULD_BE = {
    *("reference", "expected", "ideal", "gold", "golden", "correct", "true", "desired", "ground"),
    *("truth", "target", "soll"),
}
_TOKEN = re.compile(r"[A-ZÀ-Þ]?[a-zß-ÿ]+|[A-ZÀ-Þ]+(?![a-zß-ÿ])|\d+")


def tokens(name: str) -> tuple[str, ...]:
    """The words and numbers of a column's name, in small letters."""
    return tuple(token.casefold() for token in _TOKEN.findall(name))


@cache
def known_word(column: str) -> str:
    """The name of SOURCES or OUTPUTS that a column goes by, alone or as its own; else nothing."""
    words = [word for word in tokens(column) if word not in _BESIDE]
    keys = [name_key(column), *(words if len(words) == 1 else ())]
    return next(filter((*SOURCES, *OUTPUTS).__contains__, keys), "")


def is_known_text(column: str) -> bool:
    """Whether a column goes by a name that people use for what systems get or write."""
    return bool(known_word(column))


def is_output(column: str) -> bool:
    """Whether a column goes by a name of what systems write."""
    return known_word(column) in OUTPUTS


def is_usual_text(column: str) -> bool:
    """Whether a column goes by a name of what systems get, write, or should have written."""
    return is_known_text(column) or is_reference(column)


def is_reference(column: str) -> bool:
    """Whether a column goes by a name of what the answer should have been."""
    words = {*tokens(column)}
    others = words - _SHOULD_BE
    should_be = len(others) == 1 and others < words and others <= {*OUTPUTS}
    return name_key(column) in _REFERENCES or should_be


def source_name(texts: Iterable[str]) -> str | None:
    """Return the first of the texts' names that tells what systems were given."""
    by_key = {known_word(name): name for name in reversed([*texts])}
    return next((by_key[name] for name in SOURCES if name in by_key), None)


def only_text(texts: Iterable[str], required: Collection[str]) -> str | None:
    """The file's only text for a judge that reads one text, whatever the two are called.

    Texts with usual names come before others. None where there are several, or where one is a
    source by its name and the other an output.
    """
    names = [*([*filter(is_known_text, texts)] or texts), *required]
    if len(names) != 2 or len(required) != 1:
        return None
    source_or_output = [(known_word(n) in SOURCES) - (known_word(n) in OUTPUTS) for n in names]
    return names[0] if source_or_output[0] * source_or_output[1] >= 0 else None


def split_quoted(text: str) -> list[str]:
    """The parts between commas; a part that contains a comma stands in double quotes."""
    if '"' not in text and "," not in text:
        return [text]
    try:
        parts = next(csv.reader([text], skipinitialspace=True), [])
    except csv.Error:
        return [text]
    return [part.strip() for part in parts if part.strip()]


def map_flag(name: str, columns: Sequence[str]) -> str:
    """The flag that maps a name to these columns, as a shell takes it."""
    words = [f'"{column}"' if "," in column else column for column in columns]
    pair = f"{name}={','.join(words)}"
    return f"--map {shlex.quote(pair if pair.isprintable() else 'NAME=COLUMN')}"
