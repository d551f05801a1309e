"""Load a judge from a catalogue name, a frozen judge's file, a run folder, or a YAML definition.

A definition describes a dimension or a comparison of the user's own (docs/dimension.md).
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct, convert

from judges import frozen
from judges.catalog import JUDGES, find_subject
from judges.dimension import MAX_RATINGS, Comparison, Dimension, DimensionError, Subject
from judges.frozen import FrozenJudgeError, Identifier, JudgeFile, NonBlankText, Rating, one_line
from judges.judge import Judge
from judges.panel import AnyJudge, Panel, PanelError
from judges.prompt import LETTERS, Value, are_verdict_words
from judges.questions import Question

DEFINITION_ENDINGS = (".yaml", ".yml")
YAML_BOOLEAN_PROBLEM = 'YAML takes yes and no for truth values: write "yes", "no"'


def load(
    judge: str | os.PathLike[str], *, lm: str | None = None, api_base: str | None = None
) -> AnyJudge:
    """Load a judge or a panel.

    Args:
        judge: A catalogue name, the path of a frozen judge or of a run folder, or FILE.yaml with a
            definition. If a catalogue name is also the name of a folder, the catalogue judge is
            loaded; write "./name" for the folder.
        lm: The model to ask (see `Judge.with_model`). Default: the judge's or the embedded model.
        api_base: The address of an OpenAI-compatible server. Default: the provider's address.

    Returns:
        A Judge, or a Panel for a panel's file.

    Raises:
        UnknownDimensionError: The catalogue has no judge of that name.
        FrozenJudgeError: The file is not a frozen judge, or was changed by hand.
        DimensionError: The definition cannot be used.
        PanelError: `lm` is given for a panel.

    Example:
        >>> judges.load("relevance", lm="openai/gpt-4.1-mini")
        >>> judges.load("runs/relevance-001")
    """
    source = os.fspath(judge)
    path = Path(source)
    loaded_judge: AnyJudge
    if source.lower().endswith(DEFINITION_ENDINGS):
        loaded_judge = Judge.of(read_subject(source))
    elif not source or source in JUDGES or _looks_like_name(path):
        loaded_judge = Judge.of(find_subject(source))
    else:
        path = path / "judge.json" if path.is_dir() else path
        file = frozen.load(path)
        try:
            loaded_judge = (
                Judge.from_file(file) if isinstance(file, JudgeFile) else Panel.from_file(file)
            )
        except PanelError as error:
            raise FrozenJudgeError(f"{path}: {error}") from error
    return loaded_judge.with_model(lm, api_base)


def _looks_like_name(path: Path) -> bool:
    """Return whether no such path exists and it looks like a judge's name, perhaps misspelt."""
    return not (path.exists() or path.suffix or len(path.parts) > 1)


def read_subject(name_or_path: str) -> Subject:
    """Return the dimension or comparison of a catalogue name, or of the definition in FILE.yaml.

    Raises:
        UnknownDimensionError: The catalogue has no subject of that name.
        DimensionError: The definition cannot be read, or cannot be used.
    """
    if not name_or_path.lower().endswith(DEFINITION_ENDINGS):
        return find_subject(name_or_path)
    # Imported late, since only YAML files need it.
    from judges.tables.text import read_yaml_file

    try:
        subject = convert(read_yaml_file(Path(name_or_path)), _Definition).subject()
        Judge.of(subject, questions=subject.questions)  # raises an error if two names clash
        return subject
    except OSError as error:
        raise DimensionError(f"{name_or_path}: {error.strerror}") from error
    except ValueError as error:
        raise DimensionError(f"{name_or_path}: {one_line(error)}") from error


_Digit = Annotated[int, Meta(ge=0, le=9)]


class _QuestionEntry(Struct, kw_only=True, forbid_unknown_fields=True):
    text: str
    answers: list[_Digit | bool | str] = []
    anchors: dict[_Digit, str] = {}

    def question(self, name: str, default_answers: tuple[Value, ...]) -> Question:
        if any(isinstance(answer, bool) for answer in self.answers):
            raise DimensionError(f"question {name!r}: {YAML_BOOLEAN_PROBLEM}")
        answers: list[Value] = [*self.answers]
        ratings = [answer for answer in self.answers if not isinstance(answer, str)]
        if len(ratings) == len(answers):
            answers = [*_all_ratings(ratings, sorted(self.anchors))]
        return Question(
            name=name,
            text=self.text,
            answers=tuple(answers) or default_answers,
            anchors=self.anchors,
        )


class _Definition(Struct, kw_only=True, forbid_unknown_fields=True):
    name: Identifier
    definition: NonBlankText
    inputs: dict[Identifier, str] | list[Identifier]
    scale: list[Rating | bool | str] = []
    anchors: dict[Rating | bool | str, str] = {}
    candidate: Identifier | None = None
    instruction: NonBlankText | None = None
    source: str = ""
    questions: dict[str, str | _QuestionEntry] = {}

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
        words = self._words()
        rating_task = "choose the rating that fits best; a higher rating means more of it."
        instruction = self.instruction or (
            f"Judge the {self.name.replace('_', ' ')}: {definition_phrase}. Read closely what you "
            f"are given and {f'decide: {words[0]} or {words[1]}.' if words else rating_task}"
        )
        label_by_rating = dict(enumerate(words[::-1])) if words else {r: r for r in self._ratings()}
        anchors = {
            rating: self.anchors.get(answer, "") for rating, answer in label_by_rating.items()
        }
        return Dimension(**entries, instruction=instruction, anchors=anchors, words=words)

    def _questions(self) -> tuple[Question, ...]:
        default_answers = LETTERS if self.candidate else ("yes", "no")
        return tuple(
            (_QuestionEntry(text=question) if isinstance(question, str) else question).question(
                name, default_answers
            )
            for name, question in self.questions.items()
        )

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

    def _ratings(self) -> list[int]:
        """Return all ratings, ascending; two numbers in `scale` are the lowest and the highest."""
        anchor_ratings = sorted(map(int, self.anchors))
        scale = _all_ratings([*map(int, self.scale)], anchor_ratings)
        if not 2 <= len(scale) <= MAX_RATINGS or scale != sorted(set(scale)):
            allowed_scales = f"2 to {MAX_RATINGS} ascending ratings, as in 'scale: [1, 5]'"
            raise DimensionError(f"a scale has {allowed_scales}, not {self.scale}")
        if unknown_ratings := sorted({*anchor_ratings} - set(scale)):
            raise DimensionError(f"the anchors {unknown_ratings} are not on the scale {scale}")
        return scale


def _all_ratings(ratings: list[int], anchors: list[int]) -> list[int]:
    """Return a scale's ratings: those given, or all between two ratings or the outer anchors."""
    end_ratings = ratings or sorted({*anchors[:1], *anchors[-1:]})
    return list(range(end_ratings[0], end_ratings[1] + 1)) if len(end_ratings) == 2 else end_ratings


def make_dimension(
    name: str, answers: Sequence[int | str], texts: Sequence[str], definition: str = ""
) -> Dimension:
    """Return a dimension from its name and maybe a definition, for labels without a YAML file.

    `answers` are two words, the good one first, or the lowest and the highest rating. `texts` are
    the names of the texts that the judge reads; the last text is judged.
    """
    subject_phrase = f'the {texts[-1].replace("_", " ")} on "{name.replace("_", " ")}"'
    task_phrase = (
        f"Read closely what you are given, and decide how people would judge {subject_phrase}: "
    )
    dimension = _Definition(
        name=name,
        definition=definition or f"how people judge {subject_phrase}",
        inputs=[*texts],
        scale=[*answers],
        instruction=None if definition else f"{task_phrase}{answers[0]} or {answers[1]}.",
    ).subject()
    assert isinstance(dimension, Dimension)
    return dimension


def make_comparison(
    name: str, texts: Sequence[str], candidate: str, definition: str = ""
) -> Comparison:
    """Return a comparison from its name and maybe a definition, for labels without a YAML file."""
    choice_phrase = f"which {candidate.replace('_', ' ')} people would prefer"
    definition = definition or f'{choice_phrase} on "{name.replace("_", " ")}"'
    comparison = _Definition(
        name=name, definition=definition, inputs=[*texts], candidate=candidate
    ).subject()
    assert isinstance(comparison, Comparison)
    return comparison
