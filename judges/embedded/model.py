"""The embedded model: a small statistical judge that answers chat messages like a language model.

The model measures ten facets of a text by counting, for example, the words that the text shares
with its source. The words of the prompt determine the weight of each facet, and the prompt's
demonstrations adjust the weights. The model does not understand the text. The model is free and
deterministic, and works offline.
"""

import hashlib
import math
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np

from judges.embedded.facets import FACET_NAMES, FloatArray, facet_weights
from judges.embedded.features import FACET_OF_FEATURE, FEATURE_SHARES, measure_features
from judges.embedded.learning import Regression, choice_probabilities, fit_regression, latent_score
from judges.prompt import (
    END_HEADER,
    FIELD_HEADER,
    MAX_DEMOS,
    PAIR_ANSWERS,
    Field,
    FieldValue,
    Prompt,
    verdict_words_of,
)
from judges.protocol import Completion, FatalModelError, Message, Reply, Sampling, Token

MODEL_NAME = "embedded-1"
MIN_PROBABILITY = 1e-9
# The smallest contribution to a score for which a facet is named as a reason.
MIN_CONTRIBUTION = 0.05
# The weights of a prompt's texts. The instruction counts most, since it is written for this judge.
INSTRUCTION_WEIGHT, DEFINITION_WEIGHT, ANCHORS_WEIGHT = 0.55, 0.3, 0.15
NOT_A_JUDGE_PROMPT = (
    "the embedded model answers only the prompts of this project's judges and writes no text, so "
    "it cannot propose instructions: name a language model, as in --proposer-lm openai/gpt-4.1-mini"
)
DemoTexts = Mapping[str, str]


class EmbeddedModel:
    """A model that answers judges' prompts by measuring the facets of texts, without a network.

    The same prompt, texts and seed always lead to the same replies.
    """

    name = MODEL_NAME
    endpoint = "embedded"
    native_n = True
    has_logprobs: bool | None = True
    in_process = True

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        """Answer a judge's prompt, for any texts. Raises FatalModelError for any other prompt."""
        contents = [message["content"] for message in messages]
        prompt_messages = [(message["role"], message["content"]) for message in messages[:-1]]
        judge, digest = _read_judge(*prompt_messages)
        if judge is None:
            raise FatalModelError(NOT_A_JUDGE_PROMPT)
        features = judged_features(judge.roles, read_texts(contents[-1]))
        predictions = [_Prediction.of(each, features) for each in (*judge.questions, judge)]
        seed_bytes = f"{digest} {sampling.seed} {contents[-1]}".encode("utf-8", "replace")
        rng = random.Random(hashlib.blake2b(seed_bytes, digest_size=16).digest())
        replies = []
        for _ in range(max(1, sampling.n)):
            choices = [
                _draw_choice(each.probabilities, sampling.temperature, rng) for each in predictions
            ]
            replies.append(_write_reply(judge, predictions, choices, sampling.top_logprobs))
        return Completion(
            replies=tuple(replies),
            tokens_in=sum(map(len, contents)) // 4 + 1,
            tokens_out=sum([len(reply.text) // 4 + 1 for reply in replies]),
            model=self.name,
        )

    async def close(self) -> None:
        """Do nothing, since no connection is open."""


_HEADER = re.compile(r"\[\[ ## (\w{1,64}) ## \]\][ \t]*\n?")
_SYSTEM_MESSAGE = re.compile(
    r"\AYou read:\n(?P<input>.*?)\n\nYou write:\n(?P<output>.*?)\n\nYour task:\n(?P<task>.*)\Z",
    re.DOTALL,
)
_FIELD = re.compile(
    r"^- (?P<name>\w+)(?: \((?P<choices>[^()\n]*)\))?: "
    r"(?P<description>.*(?:\n(?!- \w+(?: \(.*\))?: ).*)*)",
    re.MULTILINE,
)
_REPLY_FORM_BEGINNINGS = ("\n\nReply with [[ ## ", "\n\nReply with the ")
_ROLES: tuple[Literal["input"], Literal["output"]] = ("input", "output")


def read_prompt(system: str) -> Prompt | None:
    """Return the prompt in a judge's system message; None for any other system message."""
    if (match := _SYSTEM_MESSAGE.search(system)) is None:
        return None
    fields = [
        Field(
            name=field["name"],
            description=field["description"].strip(),
            role=role,
            choices=_read_choices(field["choices"]) if field["choices"] else None,
        )
        for role in _ROLES
        for field in _FIELD.finditer(match[role])
    ]
    prompt = Prompt(instruction=match["task"].strip(), fields=tuple(fields))
    return prompt if prompt.input_fields and prompt.choice_fields else None


def _read_choices(choices: str) -> tuple[FieldValue, ...]:
    values = re.split(r", | or ", choices)
    return tuple(int(v) if re.fullmatch(r"-?\d{1,9}", v) else v for v in values)


def read_texts(content: str) -> dict[str, str]:
    """Return the text of each field in a message, without the sentence on the form of the reply."""
    end = max(map(content.rfind, _REPLY_FORM_BEGINNINGS))
    pieces = _HEADER.split(content[:end] if end >= 0 else content)
    # In reversed order, so that the first field with a name is kept: a later header with the same
    # name may be within a text.
    return {name: text.strip() for name, text in zip(pieces[-2::-2], pieces[::-2], strict=False)}


def read_demos(prompt: Prompt, messages: Sequence[tuple[str, str]]) -> list[DemoTexts]:
    """Return the demonstrations after the system message; a message is (role, content)."""
    answer = prompt.output_fields[-1].name
    return [
        {**read_texts(request), **(read_texts(reply) or {answer: reply.strip()})}
        for (_, request), (_, reply) in zip(messages[1::2], messages[2::2], strict=False)
    ]


class TextRoles(NamedTuple):
    """The names of the texts that a judge reads, by their roles.

    The `candidates` are judged or compared. Candidates were made from the `documents`, answer the
    `turns` and should use the `knowledge`.
    """

    candidates: tuple[str, ...]
    documents: tuple[str, ...]
    turns: tuple[str, ...]
    knowledge: tuple[str, ...]


_SUMMARY_WORDS = re.compile(r"summar|headline|abstract|digest|highlights|tl_?dr|gist|minutes")
_TURN_WORDS = re.compile(
    r"quer(?:y|ies)|question|prompt|instruction|context|conversation|dialog|histor|turn|request"
    r"|asked|utterance|topic|premise|task"
)
_KNOWLEDGE_WORDS = re.compile(
    r"fact|knowledge|evidence|reference|ground|gold|background|persona|notes"
)


def read_roles(fields: Sequence[Field], *, is_pairwise: bool) -> TextRoles:
    """Return the role of each text; the last text, or the last two of a pair, are candidates."""
    descriptions = {field.name: f"{field.name} {field.description}".lower() for field in fields}
    first_candidate = len(fields) - (2 if is_pairwise else 1)
    text_names = [*descriptions]
    candidates = text_names[first_candidate:]
    is_summary = any(_SUMMARY_WORDS.search(descriptions[name]) for name in candidates)
    documents, turns, knowledge = [], [], []
    for name in text_names[:first_candidate]:
        if _KNOWLEDGE_WORDS.search(name if is_summary else descriptions[name]):
            knowledge.append(name)
        elif not is_summary and _TURN_WORDS.search(descriptions[name]):
            turns.append(name)
        else:
            documents.append(name)
    return TextRoles(tuple(candidates), tuple(documents), tuple(turns), tuple(knowledge))


# Matches words such as "score" in "a score from 1 to 5", which name no facet.
_RATING_WORDS = re.compile(r"\b(?:rating|score|rate|judge|points?)(?= (?:of|from|for|between) \d)")


def prior_weights(prompt: Prompt, field: Field, roles: TextRoles) -> FloatArray:
    """Return the prior weight of each feature for an output field, by the words of the prompt.

    The instruction counts only for the judge's rating or choice, since it does not describe the
    answers to questions.
    """
    choices = "|".join([re.escape(str(choice)) for choice in field.allowed_values])
    definition, *anchors = re.split(rf"(?:^|[(;]\s?)(?:{choices}) = ", field.description)
    instruction = prompt.instruction if field is prompt.answer_field else ""
    # Names of the judged text, as in "the response", are removed, since they name no facet.
    nouns = [re.sub("_[ab]$", "", name).replace("_", " ") for name in roles.candidates]
    candidate_noun = re.compile(rf"\b(?:{'|'.join(nouns)})(?:s|'s)?\b", re.IGNORECASE)
    texts = [_RATING_WORDS.sub(" ", instruction), definition, "; ".join(anchors)]
    texts = [candidate_noun.sub(" ", text) for text in texts]
    text_weights = (INSTRUCTION_WEIGHT, DEFINITION_WEIGHT, ANCHORS_WEIGHT)
    weighted_texts = list(zip(texts, text_weights, strict=True))
    weights = facet_weights(weighted_texts, is_turn=bool(roles.turns))
    return np.asarray(weights[FACET_OF_FEATURE] * FEATURE_SHARES)


@dataclass(frozen=True, slots=True)
class EmbeddedJudge:
    """A judge made from a prompt: the prompt's output fields, and a regression.

    `answer` is the field that the regression predicts, and `choices` its values, the worst first.
    `questions` are the judges that answer the prompt's questions.
    """

    outputs: tuple[Field, ...]
    answer: Field
    choices: tuple[str, ...]
    is_pairwise: bool
    roles: TextRoles
    regression: Regression
    questions: tuple["EmbeddedJudge", ...] = ()


def judged_features(roles: TextRoles, texts: Mapping[str, str]) -> FloatArray:
    """Return the features of the judged text, or their differences (A - B) if two are compared."""
    sources = [
        "\n".join([texts.get(name, "") for name in source_names]).strip()
        for source_names in (roles.documents, roles.turns, roles.knowledge)
    ]
    features = [measure_features(texts.get(name, ""), *sources) for name in roles.candidates]
    return np.asarray(np.subtract.reduce(features))


def make_judge(prompt: Prompt, demos: Sequence[DemoTexts]) -> EmbeddedJudge:
    """Return the judge for a prompt, with weights by the prompt's words and demonstrations."""
    *questions, answer = [_make_field_judge(field, prompt, demos) for field in prompt.choice_fields]
    return replace(answer, questions=tuple(questions))


def _make_field_judge(answer: Field, prompt: Prompt, demos: Sequence[DemoTexts]) -> EmbeddedJudge:
    choices = tuple(map(str, answer.allowed_values))
    if verdict_words_of(answer.choices):
        choices = choices[::-1]  # the worst first, as in a scale
    is_pairwise = choices == PAIR_ANSWERS and len(prompt.input_fields) > 1
    roles = read_roles(prompt.input_fields, is_pairwise=is_pairwise)
    regression = Regression(prior_weights(prompt, answer, roles))
    rated_demos = [demo for demo in demos if demo.get(answer.name, "").strip() in choices]
    # The number of examples is limited, since the time to learn grows with the cube of the number.
    if examples := rated_demos[:MAX_DEMOS]:
        source_names = [*roles.documents, *roles.turns, *roles.knowledge]
        indices = [choices.index(demo[answer.name].strip()) for demo in examples]
        latent_scores = [
            latent_score(index, len(choices), is_pairwise=is_pairwise) for index in indices
        ]
        # Without a source, each example is one of its own.
        sources = [
            tuple([demo.get(name, "") for name in source_names]) or number
            for number, demo in enumerate(examples)
        ]
        features = np.array([judged_features(roles, demo) for demo in examples])
        regression = fit_regression(
            regression.weights, features, np.array(latent_scores), sources, is_pairwise=is_pairwise
        )
    return EmbeddedJudge(prompt.output_fields, answer, choices, is_pairwise, roles, regression)


# Cached, since a search alternates between prompts. Reading a prompt with hundreds of
# demonstrations takes as long as a thousand judgements.
@lru_cache(maxsize=12)
def _read_judge(*messages: tuple[str, str]) -> tuple[EmbeddedJudge | None, str]:
    """Return the judge for a prompt's messages (None for other messages), and their digest."""
    prompt = read_prompt(messages[0][1]) if messages else None
    judge = make_judge(prompt, read_demos(prompt, messages)) if prompt else None
    return judge, hashlib.blake2b(repr(messages).encode(), digest_size=16).hexdigest()


def _draw_choice(probs: Sequence[float], temperature: float | None, rng: random.Random) -> int:
    """Draw a choice's index by its probability; at temperature 0, return the likeliest index."""
    largest, temperature = max(probs), 1.0 if temperature is None else temperature
    if temperature <= 1e-3:
        return probs.index(largest)
    weights = [(p / largest) ** (1 / temperature) for p in probs]
    return rng.choices(range(len(probs)), weights)[0]


class _Prediction(NamedTuple):
    """A judge's result for a text: each feature's contribution and each choice's probability."""

    judge: EmbeddedJudge
    contributions: FloatArray
    probabilities: tuple[float, ...]

    @classmethod
    def of(cls, judge: EmbeddedJudge, features: FloatArray) -> "_Prediction":
        latent, contributions = judge.regression.predict(features)
        probs = choice_probabilities(latent, len(judge.choices), is_pairwise=judge.is_pairwise)
        return cls(judge, contributions, probs)

    def token(self, choice: int, n_logprobs: int) -> Token:
        """Return the token for a choice, with the log-probabilities of the likeliest choices."""
        probs = self.probabilities
        ranking = np.argsort(
            [-math.inf if index == choice else -p for index, p in enumerate(probs)]
        )
        top_logprobs = {
            self.judge.choices[index]: math.log(max(MIN_PROBABILITY, probs[index]))
            for index in ranking[:n_logprobs]
        }
        return Token(self.judge.choices[choice], top_logprobs)


def _write_reply(
    judge: EmbeddedJudge,
    predictions: Sequence[_Prediction],
    choices: Sequence[int],
    n_logprobs: int,
) -> Reply:
    """Return the reply with the drawn choices: only the answer, or each output below its header."""
    tokens_by_name = {
        prediction.judge.answer.name: prediction.token(choice, n_logprobs)
        for prediction, choice in zip(predictions, choices, strict=True)
    }
    if len(judge.outputs) == 1:
        tokens = [*tokens_by_name.values()]
    else:
        tokens, pending_text = [], ""
        for field in judge.outputs:
            pending_text += f"{FIELD_HEADER.format(name=field.name)}\n"
            if field.name in tokens_by_name:
                tokens += [Token(pending_text, {}), tokens_by_name[field.name]]
                pending_text = "\n\n"
            else:
                pending_text += f"{_write_rationale(judge, predictions[-1].contributions)}\n\n"
        tokens.append(Token(f"{pending_text}{END_HEADER}", {}))
    text = "".join([token.text for token in tokens])
    return Reply(text=text, tokens=tuple(tokens) if n_logprobs else ())


def _write_rationale(judge: EmbeddedJudge, contributions: FloatArray) -> str:
    """Return sentences that name at most two facets for the text (or for A), and two against it."""
    by_facet = np.bincount(FACET_OF_FEATURE, weights=contributions)
    ranking = np.argsort(-by_facet, kind="stable")
    sides = ("For A", "For B") if judge.is_pairwise else ("For", "Against")
    names_for = [FACET_NAMES[index] for index in ranking[:2] if by_facet[index] > MIN_CONTRIBUTION]
    names_against = [
        FACET_NAMES[index] for index in ranking[:-3:-1] if by_facet[index] < -MIN_CONTRIBUTION
    ]
    pairs = zip(sides, (", ".join(names_for), ", ".join(names_against)), strict=True)
    return " ".join([f"{side}: {names or 'nothing that stands out'}." for side, names in pairs])
