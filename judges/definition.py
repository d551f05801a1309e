"""The definition of a judge's dimension or comparison, in a user's FILE.yaml and in the catalogue.

docs/dimension.md describes the keys of a definition.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct, ValidationError, convert

from judges.dimension import MAX_RATINGS, Comparison, Dimension, DimensionError, Subject
from judges.prompt import A_OR_B, FieldValue, are_verdict_words
from judges.questions import Question

NonBlankText = Annotated[str, Meta(max_length=20_000, pattern=r"\S")]
Rating = Annotated[int, Meta(ge=-1000, le=1000)]


class _QuestionDefinition(Struct, kw_only=True, forbid_unknown_fields=True):
    text: str
    answers: list[str] = []
    anchors: dict[str, str] = {}


class Definition(Struct, kw_only=True, forbid_unknown_fields=True):
    """A definition as a file states it. Ratings are strings, as in YAML and in the keys of TOML.

    The method `subject` raises DimensionError if the values do not fit together.
    """

    name: str
    definition: NonBlankText
    inputs: dict[str, str] | list[str]
    scale: list[str] = []
    anchors: dict[str, str] = {}
    candidate: str | None = None
    instruction: NonBlankText | None = None
    source: str = ""
    questions: dict[str, str | _QuestionDefinition] = {}

    def subject(self) -> Subject:
        inputs, definition = self.inputs, self.definition.strip()
        if isinstance(inputs, list):
            inputs = {name: f"the {name}" for name in inputs}
        definition_phrase = definition.rstrip(".")
        arguments: dict[str, Any] = {
            "name": self.name,
            "definition": definition,
            "inputs": inputs,
            "source": self.source,
            "questions": self._questions(),
        }
        if self.candidate is not None:
            if self.scale or self.anchors:
                raise DimensionError("a definition with a candidate has no scale and no anchors")
            instruction = self.instruction or f"Decide between the two: {definition_phrase}."
            return Comparison(**arguments, instruction=instruction, candidate=self.candidate)
        verdict_words, anchors = self._words_and_anchors()
        task_phrase = "choose the rating that fits best; a higher rating means more of it"
        if verdict_words is not None:
            task_phrase = f"decide: {verdict_words[0]} or {verdict_words[1]}"
        instruction = self.instruction or (
            f"Judge the {self.name.replace('_', ' ')}: {definition_phrase}. Read closely what you "
            f"are given and {task_phrase}."
        )
        return Dimension(**arguments, instruction=instruction, anchors=anchors, words=verdict_words)

    def _questions(self) -> tuple[Question, ...]:
        questions, default_answers = [], A_OR_B if self.candidate else ("yes", "no")
        for name, question in self.questions.items():
            if isinstance(question, str):
                question = _QuestionDefinition(text=question)
            words = question.answers if _has_words(question.answers) else []
            ratings, anchors = _read_scale([] if words else question.answers, question.anchors)
            answers: Sequence[FieldValue] = words or ratings or default_answers
            questions.append(
                Question(name=name, text=question.text, answers=tuple(answers), anchors=anchors)
            )
        return tuple(questions)

    def _words_and_anchors(self) -> tuple[tuple[str, str] | None, dict[int, str]]:
        """Return a verdict's two words, the good one first, or None; and what earns each rating."""
        if _has_words([*self.scale, *self.anchors]):
            if not are_verdict_words(self.scale) or self.anchors.keys() - self.scale:
                raise DimensionError(
                    "the scale of a verdict is two words, the good one first, as in 'scale: [pass, "
                    "fail]', and anchors describe these words; the file has the scale "
                    f"{self.scale} and the anchors {[*self.anchors]}"
                )
            good_word, bad_word = self.scale
            anchors = {0: self.anchors.get(bad_word, ""), 1: self.anchors.get(good_word, "")}
            return (good_word, bad_word), anchors
        ratings, anchors = _read_scale(self.scale, self.anchors)
        if not 2 <= len(ratings) <= MAX_RATINGS or ratings != sorted(set(ratings)):
            allowed_scales = f"2 to {MAX_RATINGS} ascending ratings, as in 'scale: [1, 5]'"
            raise DimensionError(f"a scale has {allowed_scales}, not [{', '.join(self.scale)}]")
        if unknown_ratings := sorted(anchors.keys() - {*ratings}):
            raise DimensionError(f"the anchors {unknown_ratings} are not on the scale {ratings}")
        return None, {rating: anchors.get(rating, "") for rating in ratings}


def _has_words(answers: Iterable[str]) -> bool:
    return any(answer[:1].isalpha() for answer in answers)


def _parse_ratings(rating_texts: Iterable[str]) -> list[int]:
    try:
        return convert([*rating_texts], list[Rating], strict=False)
    except ValidationError:
        problem = f"ratings are whole numbers from -1000 to 1000, not {', '.join(rating_texts)}"
        raise DimensionError(problem) from None


def _read_scale(
    scale: Sequence[str], anchors: Mapping[str, str]
) -> tuple[list[int], dict[int, str]]:
    """Return the ratings and anchors of a scale; without a scale, the anchors give its range."""
    ratings, anchor_ratings = _parse_ratings(scale), _parse_ratings(anchors)
    if not ratings and anchors:
        ratings = sorted({min(anchor_ratings), max(anchor_ratings)})
    if len(ratings) == 2:
        ratings = [*range(ratings[0], ratings[1] + 1)]
    return ratings, dict(zip(anchor_ratings, anchors.values(), strict=True))


def make_dimension(
    name: str, answers: Sequence[int | str], texts: Sequence[str], definition: str = ""
) -> Subject:
    """Return a dimension for labels that have no definition.

    `answers` are two words, the good one first, or the lowest and the highest rating. `texts` are
    the names of the texts that the judge reads; the last text is judged.
    """
    subject_phrase = f'the {texts[-1].replace("_", " ")} on "{name.replace("_", " ")}"'
    task_phrase = f"decide how people would judge {subject_phrase}: {answers[0]} or {answers[1]}"
    return Definition(
        name=name,
        definition=definition or f"how people judge {subject_phrase}",
        inputs=[*texts],
        scale=[*map(str, answers)],
        instruction=None if definition else f"Read closely what you are given, and {task_phrase}.",
    ).subject()


def make_comparison(
    name: str, texts: Sequence[str], candidate: str, definition: str = ""
) -> Subject:
    """Return a comparison for labels that have no definition."""
    choice_phrase = f"which {candidate.replace('_', ' ')} people would prefer"
    meaning = definition or f'{choice_phrase} on "{name.replace("_", " ")}"'
    entry = Definition(name=name, definition=meaning, inputs=[*texts], candidate=candidate)
    return entry.subject()
