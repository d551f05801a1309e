"""Recognises columns of texts, reference answers, comments and ids by their names."""

import csv
import re
import shlex
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from functools import cache

_SEPARATORS = re.compile(r"[\s_-]+")
# Usual names of source texts, which systems were given. The most specific ones come first.
SOURCE_NAMES = (
    *("document", "context", "post", "query", "prompt", "article", "dialogue", "question"),
    *("instruction", "dokument", "artikel", "frage", "anfrage", "contexte", "documento"),
    *("artículo", "pregunta", "input", "inputs", "eingabe", "entrée", "entrada", "request"),
    *("usermessage", "conversation", "conversations", "messages", "chat", "transcript"),
    "sourcetext",
)
# Usual names of outputs, which systems wrote.
OUTPUT_NAMES = (
    *("summary", "response", "output", "answer", "reply", "completion", "outputs"),
    *("generation", "zusammenfassung", "antwort", "ausgabe", "résumé", "réponse", "sortie"),
    *("resumen", "respuesta", "salida", "assistantmessage", "botmessage"),
)
# Words that may stand beside the usual name of a text, as in `model_answer` or `User Input`.
_QUALIFIERS = {
    *("user", "customer", "student", "model", "assistant", "bot", "chatbot", "agent", "llm", "ai"),
    *("system", "candidate", "final", "generated", "retrieved", "original", "text", "source"),
}
# Usual names of reference answers.
_REFERENCE_NAMES = {"reference", "expected", "groundtruth", "ideal", "referenz", "erwartet"}
# Words that make the name of an output the name of a reference answer, as in `gold answer`.
_REFERENCE_WORDS = {
    *("reference", "expected", "ideal", "gold", "golden", "correct", "true", "desired", "ground"),
    *("truth", "target", "soll"),
}
# Matches words that name a column of people's comments on their labels. The pattern is compiled
# when it is first used, since a judge does not need it.
_COMMENT_WORDS = (
    r"(?:comment|note|critique|explanation|reason|feedback|remark|rationale|why|justification|"
    r"\w*(?:kommentar|begr(?:ü|ue)ndung|anmerkung|bemerkung|kritik|erkl(?:ä|ae)rung)|"
    r"erl(?:ä|ae)uterung|r(?:ü|ue)ckmeldung|hinweis|notiz|grund|warum|commentaire|remarque|"
    r"explication|observation|pourquoi|comentario|explicación|observacion|motivo)(?:e?s|e|en)?"
)
_NAME_WORD = re.compile(r"[A-ZÀ-Þ]?[a-zß-ÿ]+|[A-ZÀ-Þ]+(?![a-zß-ÿ])|\d+")
# Matches names such as `Fall-Nr.`, `Case number` and `Ticketnummer`.
_NUMBER_NAME = re.compile(r".+(?:number|nummer|[ _-]nr\.?)", re.IGNORECASE)


def name_key(column: str) -> str:
    """Return a column name for comparisons: `workerid` for `Worker ID` and `worker_id`."""
    return _SEPARATORS.sub("", column.casefold())


def name_words(name: str) -> tuple[str, ...]:
    """Split a column's name into its words and numbers, in lower case.

    A name without Latin letters and numbers is one word.
    """
    return tuple(word.casefold() for word in _NAME_WORD.findall(name) or [name])


def judge_name(text: str) -> str:
    """Convert a column's name to a judge's name: lower-case ASCII letters, `_` between words."""
    ascii_text = unicodedata.normalize("NFKD", text.casefold()).encode("ascii", "ignore").decode()
    return re.sub("[^a-z0-9]+", "_", ascii_text).strip("_")


@cache
def known_text_name(column: str) -> str:
    """Return the usual name of a source text or output that a column's name contains, else "".

    For `model_answer`, this is `answer`, because `model` is one of the `_QUALIFIERS`.
    """
    main_words = [word for word in name_words(column) if word not in _QUALIFIERS]
    possible_names = {name_key(column), *(main_words if len(main_words) == 1 else ())}
    return next(filter(possible_names.__contains__, (*SOURCE_NAMES, *OUTPUT_NAMES)), "")


def is_source_or_output(column: str) -> bool:
    """Return whether a column is named like a source text or an output, such as `article`."""
    return bool(known_text_name(column))


def is_output_name(column: str) -> bool:
    """Return whether a column is named like an output, such as `Model answer`."""
    return known_text_name(column) in OUTPUT_NAMES


def is_text_name(column: str) -> bool:
    """Return whether a column is named like a source text, an output or a reference answer."""
    return is_source_or_output(column) or is_reference_name(column)


def is_id_name(column: str) -> bool:
    """Return whether a column's name says that it holds ids, such as `seg_id` or `Case number`."""
    has_id_word = name_words(column)[-1] in ("id", "uid", "uuid", "guid")
    return has_id_word or _NUMBER_NAME.fullmatch(column.strip()) is not None


def is_reference_name(column: str) -> bool:
    """Return whether a column is named like a reference answer, such as `expected`."""
    if name_key(column) in _REFERENCE_NAMES:
        return True
    # In `gold answer`, `gold` is a word for references, and `answer` the name of an output.
    column_words = {*name_words(column)}
    other_words = column_words - _REFERENCE_WORDS
    return len(other_words) == 1 and other_words < column_words and other_words <= {*OUTPUT_NAMES}


def is_comment_name(column: str) -> bool:
    """Return whether a column is named like comments on labels, such as `critique`."""
    return any(re.fullmatch(_COMMENT_WORDS, word) for word in name_words(column))


def source_name(names: Iterable[str]) -> str | None:
    """Return the one of `names` that is first in SOURCE_NAMES; None if none of them is there."""
    known_names = [name for name in names if known_text_name(name) in SOURCE_NAMES]
    return min(known_names, key=lambda n: SOURCE_NAMES.index(known_text_name(n)), default=None)


def only_text_name(file_texts: Iterable[str], judge_texts: Collection[str]) -> str | None:
    """Return the name of the file's only text if a judge reads only one text, else None.

    If any of the file's texts is named like a source text or an output, all texts with other names
    are ignored. Also returns None if one of the two texts is a source text and the other an output.
    """
    text_names = [*filter(is_source_or_output, file_texts)] or [*file_texts]
    if len(text_names) != 1 or len(judge_texts) != 1:
        return None
    known_names = filter(is_source_or_output, (*text_names, *judge_texts))
    are_same_kind = len({*map(is_output_name, known_names)}) < 2
    return text_names[0] if are_same_kind else None


def split_at_commas(text: str) -> list[str]:
    """Split a text at its commas as CSV does, so that double quotes protect a comma."""
    try:
        fields = next(csv.reader([text], skipinitialspace=True), [])
    except csv.Error:
        return [text]
    return [field.strip() for field in fields if field.strip()]


def map_flag(name: str, columns: Sequence[str]) -> str:
    """Return the flag `--map NAME=COLUMN,...` that maps a name to columns, quoted for a shell."""
    quoted_columns = [f'"{column}"' if "," in column else column for column in columns]
    argument = f"{name}={','.join(quoted_columns)}"
    return f"--map {shlex.quote(argument if argument.isprintable() else 'NAME=COLUMN')}"
