"""The catalogue: twelve judges from three publications, which `catalogue.toml` defines."""

import difflib
import tomllib
from pathlib import Path

from msgspec import convert

from judges.definition import Definition
from judges.dimension import RESERVED_QUESTION_NAMES, Dimension, Subject, UnknownDimensionError
from judges.questions import Question

_DEFINITIONS = tomllib.loads(Path(__file__).with_name("catalogue.toml").read_text("utf-8"))
JUDGES: dict[str, Subject] = {
    name: convert({"name": name, **entries}, Definition).subject()
    for name, entries in _DEFINITIONS.items()
}


def names() -> tuple[str, ...]:
    """Return the names of all catalogue judges, grouped by publication."""
    return tuple(JUDGES)


def find_subject(name: str) -> Subject:
    """Return the subject of that name; UnknownDimensionError suggests similar names."""
    if name in JUDGES:
        return JUDGES[name]
    similar_names = difflib.get_close_matches(name.lower(), JUDGES, n=3, cutoff=0.5)
    raise UnknownDimensionError(
        f"no judge {name!r} in the catalogue; did you mean {', '.join(similar_names or JUDGES)}? "
        "dspy-judges list shows all; a judge of your own is a file, FILE.yaml"
    )


def same_publication_questions(subject: Subject) -> tuple[Question, ...]:
    """Return the other dimensions of the subject's publication, as questions for its judge.

    All these dimensions judge the same text as the subject. A question may need a text that the
    judge does not read; tuning learns from people's labels how much the answers to each question
    are worth. A comparison, and a subject that the user defined, get no such questions.
    """
    if JUDGES.get(subject.name) != subject:
        return ()
    return tuple(
        Question(name=other.name, text=other.definition, answers=other.scale, anchors=other.anchors)
        for other in JUDGES.values()
        if isinstance(other, Dimension)
        and (other.source, other.texts[-1]) == (subject.source, subject.texts[-1])
        and other != subject
    )


def candidate_questions(subject: Subject, max_questions: int) -> tuple[Question, ...]:
    """Return the questions that tuning may add to a judge, at most `max_questions`.

    First come the other dimensions (see `same_publication_questions`), then the questions in the
    definition. A question is left out if an earlier one or the prompt uses its name.
    """
    questions: dict[str, Question] = {}
    for question in (*same_publication_questions(subject), *subject.questions):
        if question.name not in RESERVED_QUESTION_NAMES.union(subject.texts):
            questions.setdefault(question.name, question)
    return tuple(questions.values())[:max_questions]
