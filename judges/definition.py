"""The definition of a dimension or comparison, in a user's FILE.yaml and in the catalogue.

docs/dimension.md describes its entries.
"""

from collections.abc import Sequence
from typing import Annotated, Any, cast

from msgspec import Meta, Struct

from judges.dimension import MAX_RATINGS, Comparison, Dimension, DimensionError, Subject
from judges.prompt import LETTERS, Value, are_verdict_words
from judges.questions import Question

YAML_BOOLEAN_PROBLEM = 'YAML takes yes and no for truth values: write "yes", "no"'

Identifier = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]{0,63}\Z")]
NonBlankText = Annotated[str, Meta(max_length=20_000, pattern=r"\S")]
Rating = Annotated[int, Meta(ge=-1000, le=1000)]
_Digit = Annotated[int, Meta(ge=0, le=9)]


class _QuestionEntry(Struct, kw_only=True, forbid_unknown_fields=True):
    text: str
    answers: list[_Digit | bool | str] = []
    anchors: dict[_Digit, str] = {}

    def question(self, name: str, default_answers: tuple[Value, ...]) -> Question:
        if any(isinstance(answer, bool) for answer in self.answers):
            raise DimensionError(f"question {name!r}: {YAML_BOOLEAN_PROBLEM}")
        answers: Sequence[Value] = self.answers
        if not any(isinstance(answer, str) for answer in answers):
            answers = _all_ratings(cast(list[int], answers), sorted(self.anchors))
        answers = tuple(answers) or default_answers
        return Question(name=name, text=self.text, answers=answers, anchors=self.anchors)


class Definition(Struct, kw_only=True, forbid_unknown_fields=True):
    """The entries of a definition; `subject` raises DimensionError if these do not fit together."""

    name: Identifier
    definition: NonBlankText
    inputs: dict[Identifier, str] | list[Identifier]
    scale: list[Rating | bool | str] = []
    anchors: dict[Rating | bool | str, str] = {}
    candidate: Identifier | None = None
    instruction: NonBlankText | None = None
    source: str = ""
    questions: dict[str, str | _QuestionEntry] = {}

    def __post_init__(self) -> None:
        # The keys of TOML are strings, and so are those that a user puts in quotation marks.
        self.anchors = {
            int(answer) if str(answer).isdecimal() else answer: text
            for answer, text in self.anchors.items()
        }

    def subject(self) -> Subject:
        inputs, definition = self.inputs, self.definition.strip()
        definition_phrase = definition.rstrip(".")
        entries: dict[str, Any] = {
            "name": self.name,
            "definition": definition,
            "inputs": inputs if isinstance(inputs, dict) else {n: f"the {n}" for n in inputs},
            "source": self.source,
            "questions": self._questions(),
        }
        if self.candidate is not None:
            if self.scale or self.anchors:
                raise DimensionError("a comparison, which has a candidate, has no scale")
            instruction = self.instruction or f"Decide between the two: {definition_phrase}."
            return Comparison(**entries, instruction=instruction, candidate=self.candidate)
        if words := self._words():
            good_word, bad_word = words
            task = f"decide: {good_word} or {bad_word}."
            anchors = {0: self.anchors.get(bad_word, ""), 1: self.anchors.get(good_word, "")}
        else:
            task = "choose the rating that fits best; a higher rating means more of it."
            anchors = {rating: self.anchors.get(rating, "") for rating in self._ratings()}
        instruction = self.instruction or (
            f"Judge the {self.name.replace('_', ' ')}: {definition_phrase}. Read closely what you "
            f"are given and {task}"
        )
        return Dimension(**entries, instruction=instruction, anchors=anchors, words=words)

    def _questions(self) -> tuple[Question, ...]:
        default_answers = LETTERS if self.candidate else ("yes", "no")
        questions = []
        for name, entry in self.questions.items():
            entry = _QuestionEntry(text=entry) if isinstance(entry, str) else entry
            questions.append(entry.question(name, default_answers))
        return tuple(questions)

    def _words(self) -> tuple[str, str] | None:
        """Return the two words of a verdict, the good one first; None for a scale of numbers."""
        answers = (*self.scale, *self.anchors)
        if any(isinstance(answer, bool) for answer in answers):
            raise DimensionError(YAML_BOOLEAN_PROBLEM)
        if not any(isinstance(answer, str) for answer in answers):
            return None
        if not are_verdict_words(self.scale) or self.anchors.keys() - self.scale:
            raise DimensionError(
                f"a verdict is one of two words, the good one first, as in 'scale: [pass, fail]'; "
                f"anchors say what each word means; not {self.scale}, {[*self.anchors]}"
            )
        good_word, bad_word = map(str, self.scale)
        return good_word, bad_word

    def _ratings(self) -> Sequence[int]:
        """Return all ratings, ascending; two numbers in `scale` are the lowest and the highest."""
        anchor_ratings = sorted(map(int, self.anchors))
        scale = _all_ratings([*map(int, self.scale)], anchor_ratings)
        if not 2 <= len(scale) <= MAX_RATINGS or [*scale] != sorted(set(scale)):
            allowed_scales = f"2 to {MAX_RATINGS} ascending ratings, as in 'scale: [1, 5]'"
            raise DimensionError(f"a scale has {allowed_scales}, not {self.scale}")
        if unknown_ratings := sorted({*anchor_ratings} - set(scale)):
            raise DimensionError(f"the anchors {unknown_ratings} are not on the scale {[*scale]}")
        return scale


def _all_ratings(ratings: Sequence[int], anchors: Sequence[int]) -> Sequence[int]:
    """Return a scale's ratings: those given, or all between two ratings or the outer anchors."""
    ratings = ratings or sorted({*anchors[:1], *anchors[-1:]})
    return range(ratings[0], ratings[1] + 1) if len(ratings) == 2 else ratings


def make_dimension(
    name: str, answers: Sequence[int | str], texts: Sequence[str], definition: str = ""
) -> Dimension:
    """Return a dimension for labels without a definition of their own.

    `answers` are two words, the good one first, or the lowest and the highest rating. `texts` are
    the names of the texts that the judge reads; the last text is judged.
    """
    subject_phrase = f'the {texts[-1].replace("_", " ")} on "{name.replace("_", " ")}"'
    task_phrase = f"decide how people would judge {subject_phrase}: {answers[0]} or {answers[1]}"
    dimension = Definition(
        name=name,
        definition=definition or f"how people judge {subject_phrase}",
        inputs=[*texts],
        scale=[*answers],
        instruction=None if definition else f"Read closely what you are given, and {task_phrase}.",
    ).subject()
    assert isinstance(dimension, Dimension)
    return dimension


def make_comparison(
    name: str, texts: Sequence[str], candidate: str, definition: str = ""
) -> Comparison:
    """Return a comparison for labels without a definition of their own."""
    choice_phrase = f"which {candidate.replace('_', ' ')} people would prefer"
    definition = definition or f'{choice_phrase} on "{name.replace("_", " ")}"'
    comparison = Definition(
        name=name, definition=definition, inputs=[*texts], candidate=candidate
    ).subject()
    assert isinstance(comparison, Comparison)
    return comparison
