"""The catalogue of twelve judges from three publications, defined in `catalogue.toml`."""

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
    """Return what the catalogue judge of this name rates, or raise UnknownDimensionError."""
    if name in SUBJECT_BY_NAME:
        return SUBJECT_BY_NAME[name]
    similar_names = difflib.get_close_matches(name.lower(), SUBJECT_BY_NAME, n=3, cutoff=0.5)
    suggestion = f"; did you mean {', '.join(similar_names)}?" if similar_names else ";"
    advice = "dspy-judges list shows all; a judge of your own is a run folder or FILE.yaml"
    raise UnknownDimensionError(f"no judge {name!r} in the catalogue{suggestion} {advice}")


def candidate_questions(subject: Subject, max_questions: int) -> tuple[Question, ...]:
    """Return the questions that tuning may add to a judge, at most `max_questions`.

    For a catalogue judge, the first questions are the other dimensions that its publication defines
    for the same output; they may need texts that the judge does not read. The questions in the
    judge's definition follow. A question is left out if an earlier question or a text has its name.
    """
    questions: list[Question] = []
    is_in_catalogue = SUBJECT_BY_NAME.get(subject.name) == subject
    for other in SUBJECT_BY_NAME.values() if is_in_catalogue else ():
        has_same_output = (other.source, other.texts[-1]) == (subject.source, subject.texts[-1])
        if isinstance(other, Dimension) and has_same_output and other != subject:
            name, text, anchors = other.name, other.definition, other.anchors
            questions.append(Question(name=name, text=text, answers=other.scale, anchors=anchors))
    question_by_name: dict[str, Question] = {}
    for question in (*questions, *subject.questions):
        if question.name not in RESERVED_QUESTION_NAMES.union(subject.texts):
            question_by_name.setdefault(question.name, question)
    return tuple(question_by_name.values())[:max_questions]
