"""The catalogue: twelve judges from three publications, which `catalogue.toml` defines."""

import difflib
import tomllib
from pathlib import Path

from msgspec import convert

from judges.definition import Definition
from judges.dimension import RESERVED_QUESTION_NAMES, Dimension, Subject, UnknownDimensionError
from judges.questions import Question

_CATALOGUE = tomllib.loads(Path(__file__).with_name("catalogue.toml").read_text("utf-8"))
# The dimension or comparison of each catalogue judge, grouped by publication.
SUBJECT_BY_NAME: dict[str, Subject] = {
    name: convert({"name": name, **definition}, Definition).subject()
    for name, definition in _CATALOGUE.items()
}


def find_subject(name: str) -> Subject:
    """Return the subject of a catalogue judge; UnknownDimensionError suggests similar names."""
    if name in SUBJECT_BY_NAME:
        return SUBJECT_BY_NAME[name]
    similar_names = difflib.get_close_matches(name.lower(), SUBJECT_BY_NAME, n=3, cutoff=0.5)
    suggestion = ", ".join(similar_names or SUBJECT_BY_NAME)
    raise UnknownDimensionError(
        f"no judge {name!r} in the catalogue; did you mean {suggestion}? "
        "dspy-judges list shows all; a judge of your own is a file, FILE.yaml"
    )


def same_publication_questions(subject: Subject) -> tuple[Question, ...]:
    """Return the other dimensions of a catalogue judge's publication as questions, if any.

    They judge the same text as the subject, but may need texts that its judge does not read.
    """
    if SUBJECT_BY_NAME.get(subject.name) != subject:
        return ()
    return tuple(
        Question(name=other.name, text=other.definition, answers=other.scale, anchors=other.anchors)
        for other in SUBJECT_BY_NAME.values()
        if isinstance(other, Dimension)
        and (other.source, other.texts[-1]) == (subject.source, subject.texts[-1])
        and other != subject
    )


def candidate_questions(subject: Subject, max_questions: int) -> tuple[Question, ...]:
    """Return the questions that tuning may add to a judge, at most `max_questions`.

    A question is left out if an earlier question or a text has its name.
    """
    questions: dict[str, Question] = {}
    for question in (*same_publication_questions(subject), *subject.questions):
        if question.name not in RESERVED_QUESTION_NAMES.union(subject.texts):
            questions.setdefault(question.name, question)
    return tuple(questions.values())[:max_questions]
