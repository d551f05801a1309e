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
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Literal

import numpy as np

from judges.embedded.facets import FACET_NAMES, FloatArray, facet_weights
from judges.embedded.features import FACET_OF_FEATURE, FEATURE_SHARES, measure_features
from judges.embedded.learning import Regression, choice_probabilities, fit_regression, latent_score
from judges.prompt import END_HEADER, FIELD_HEADER, MAX_DEMOS, Field, FieldValue, Prompt
from judges.protocol import Completion, FatalModelError, Message, Reply, Sampling, Token

MODEL_NAME = "embedded-1"
MIN_PROBABILITY = 1e-9
# A facet is named as a reason only if it contributes more than this to the score.
MIN_CONTRIBUTION = 0.05
# The weights of a prompt's texts. The instruction counts most, since it is written for this judge.
INSTRUCTION_WEIGHT, DEFINITION_WEIGHT, ANCHORS_WEIGHT = 0.55, 0.3, 0.15
NOT_A_JUDGE_PROMPT = (
    "the embedded model is a small statistical model: it answers only judges' prompts, and cannot "
    "propose instructions; name a language model, as in --proposer-lm openai/gpt-4.1-mini"
)
DemoTexts = Mapping[str, str]


class EmbeddedModel:
    """A model that answers judges' prompts by measuring the facets of texts, without a network."""

    name = MODEL_NAME
    endpoint = "embedded"
    native_n = True
    has_logprobs: bool | None = True
    in_process = True

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        """Answer a judge's prompt; raises FatalModelError if the messages are no judge's prompt."""
        last_content = messages[-1]["content"]
        earlier_messages = [(message["role"], message["content"]) for message in messages[:-1]]
        prompt, judges, prompt_digest = _read_judges(*earlier_messages)
        features = judges[-1].roles.measure(read_texts(last_content))
        probabilities = []
        for judge in judges:
            score, contributions = judge.regression.predict(features)
            n_choices, is_pairwise = len(judge.choices), judge.is_pairwise
            probabilities.append(choice_probabilities(score, n_choices, is_pairwise=is_pairwise))
        # The last field is the answer, which the rationale explains.
        rationale = _write_rationale(contributions, is_pairwise=is_pairwise)
        seed_bytes = f"{prompt_digest} {sampling.seed} {last_content}".encode("utf-8", "replace")
        rng = random.Random(hashlib.blake2b(seed_bytes, digest_size=16).digest())
        replies = []
        for _ in range(max(1, sampling.n)):
            token_by_field = {
                judge.field_name: _draw_token(judge.choices, judge_probabilities, sampling, rng)
                for judge, judge_probabilities in zip(judges, probabilities, strict=True)
            }
            tokens = _reply_tokens(prompt.output_fields, token_by_field, rationale)
            text = "".join([token.text for token in tokens])
            replies.append(Reply(text=text, tokens=tuple(tokens) if sampling.top_logprobs else ()))
        return Completion(
            replies=tuple(replies),
            tokens_in=sum([len(message["content"]) for message in messages]) // 4 + 1,
            tokens_out=sum([len(reply.text) // 4 + 1 for reply in replies]),
            model=self.name,
        )

    async def close(self) -> None:
        """Do nothing, since no connection is open."""


_HEADER_PATTERN = re.compile(r"\[\[ ## (\w{1,64}) ## \]\][ \t]*\n?")
_SYSTEM_MESSAGE_PATTERN = re.compile(
    r"(?s)\AYou read:\n(?P<input>.*?)\n\nYou write:\n(?P<output>.*?)\n\nYour task:\n(?P<task>.*)\Z"
)
_FIELD_PATTERN = re.compile(
    r"(?m)^- (?P<name>\w+)(?: \((?P<choices>[^()\n]*)\))?: "
    r"(?P<description>.*(?:\n(?!- \w+(?: \(.*\))?: ).*)*)"
)
_REPLY_FORM_BEGINNINGS = ("\n\nReply with [[ ## ", "\n\nReply with the ")
_FIELD_ROLES: tuple[Literal["input"], Literal["output"]] = ("input", "output")


def read_prompt(system_content: str) -> Prompt | None:
    """Return the prompt in a judge's system message; None for any other system message."""
    if (match := _SYSTEM_MESSAGE_PATTERN.search(system_content)) is None:
        return None
    fields = [
        Field(
            name=field["name"],
            description=field["description"].strip(),
            role=role,
            choices=_read_choices(field["choices"]) if field["choices"] else None,
        )
        for role in _FIELD_ROLES
        for field in _FIELD_PATTERN.finditer(match[role])
    ]
    prompt = Prompt(instruction=match["task"].strip(), fields=tuple(fields))
    return prompt if prompt.input_fields and prompt.choices else None


def _read_choices(choices_text: str) -> tuple[FieldValue, ...]:
    choices = re.split(r", | or ", choices_text)
    return tuple(int(c) if re.fullmatch(r"-?\d{1,9}", c) else c for c in choices)


def read_texts(content: str) -> dict[str, str]:
    """Return the text of each field in a message, without the request for a form of the reply."""
    form_start = max(map(content.rfind, _REPLY_FORM_BEGINNINGS))
    if form_start >= 0:
        content = content[:form_start]
    names_and_texts = _HEADER_PATTERN.split(content)[1:]
    text_by_name: dict[str, str] = {}
    for name, text in zip(names_and_texts[::2], names_and_texts[1::2], strict=True):
        # A later header with the same name may be part of a text, so the first one counts.
        text_by_name.setdefault(name, text.strip())
    return text_by_name


def read_demos(prompt: Prompt, messages: Sequence[tuple[str, str]]) -> list[DemoTexts]:
    """Return the demonstrations that follow the system message; messages are (role, content)."""
    answer_name = prompt.output_fields[-1].name
    return [
        {**read_texts(request), **(read_texts(reply) or {answer_name: reply.strip()})}
        for (_, request), (_, reply) in zip(messages[1::2], messages[2::2], strict=False)
    ]


_SUMMARY_WORDS = re.compile(r"summar|headline|abstract|digest|highlights|tl_?dr|gist|minutes")
_TURN_WORDS = re.compile(
    r"quer(?:y|ies)|question|prompt|instruction|context|conversation|dialog|histor|turn|request"
    r"|asked|utterance|topic|premise|task"
)
_FACT_WORDS = re.compile(r"fact|knowledge|evidence|reference|ground|gold|background|persona|notes")


class TextRoles:
    """The names of the texts that a judge reads, by their roles.

    The `candidates` are the judged texts: the last text, or the last two for a pair. The candidates
    may summarise the `documents`, answer the conversation `turns`, or use facts in the `knowledge`.
    """

    def __init__(self, fields: Sequence[Field], *, is_pairwise: bool) -> None:
        descriptions = {field.name: f"{field.name} {field.description}".lower() for field in fields}
        text_names, n_candidates = [*descriptions], 2 if is_pairwise else 1
        self.candidates = text_names[-n_candidates:]
        self.documents, self.turns, self.knowledge = list[str](), list[str](), list[str]()
        is_summary = any(_SUMMARY_WORDS.search(descriptions[name]) for name in self.candidates)
        for name in text_names[:-n_candidates]:
            if _FACT_WORDS.search(name if is_summary else descriptions[name]):
                self.knowledge.append(name)
            elif not is_summary and _TURN_WORDS.search(descriptions[name]):
                self.turns.append(name)
            else:
                self.documents.append(name)

    def measure(self, text_by_name: Mapping[str, str]) -> FloatArray:
        """Return the features of the judged text, or their differences (A - B) for a pair."""
        sources = [
            "\n".join([text_by_name.get(name, "") for name in source_names]).strip()
            for source_names in (self.documents, self.turns, self.knowledge)
        ]
        candidates = [text_by_name.get(name, "") for name in self.candidates]
        return np.asarray(np.subtract.reduce([measure_features(t, *sources) for t in candidates]))


# Matches words such as "score" in "a score from 1 to 5", which name no facet.
_RATING_WORDS = re.compile(r"\b(?:rating|score|rate|judge|points?)(?= (?:of|from|for|between) \d)")


def prior_weights(prompt: Prompt, field: Field, roles: TextRoles) -> FloatArray:
    """Return each feature's weight before any learning, by what the prompt says about a field."""
    choice_regex = "|".join([re.escape(str(choice)) for choice in field.allowed_values])
    definition, *anchors = re.split(rf"(?:^|[(;]\s?)(?:{choice_regex}) = ", field.description)
    # The instruction does not describe the answers to a judge's additional questions.
    instruction = prompt.instruction if field is prompt.answer_field else ""
    # Names of the judged text, such as "response", are removed, since they name no facet.
    candidate_nouns = [re.sub("_[ab]$", "", name).replace("_", " ") for name in roles.candidates]
    noun_pattern = re.compile(rf"\b(?:{'|'.join(candidate_nouns)})(?:s|'s)?\b", re.IGNORECASE)
    weighted_texts = [
        (noun_pattern.sub(" ", _RATING_WORDS.sub(" ", instruction)), INSTRUCTION_WEIGHT),
        (noun_pattern.sub(" ", definition), DEFINITION_WEIGHT),
        (noun_pattern.sub(" ", "; ".join(anchors)), ANCHORS_WEIGHT),
    ]
    weights = facet_weights(weighted_texts, is_answer=bool(roles.turns))
    return np.asarray(weights[FACET_OF_FEATURE] * FEATURE_SHARES)


class EmbeddedJudge:
    """A judge that chooses the value of one output field, taught by the demonstrations.

    `choices` has the values to choose from, the worst first.
    """

    def __init__(self, prompt: Prompt, field: Field, demos: Sequence[DemoTexts]) -> None:
        choices = tuple(map(str, field.allowed_values))
        self.field_name = field.name
        self.choices = choices[::-1] if field.verdict_words else choices
        self.is_pairwise = field.is_pairwise and len(prompt.input_fields) > 1
        self.roles = TextRoles(prompt.input_fields, is_pairwise=self.is_pairwise)
        self.regression = Regression(prior_weights(prompt, field, self.roles))
        rated_demos = [demo for demo in demos if demo.get(field.name, "").strip() in choices]
        if rated_demos:
            # At most MAX_DEMOS are used, since learning takes cubic time in the number of demos.
            self._learn_from(rated_demos[:MAX_DEMOS])

    def _learn_from(self, demos: Sequence[DemoTexts]) -> None:
        source_names = self.roles.documents + self.roles.turns + self.roles.knowledge
        latent_scores: list[float] = []
        indices_by_source: dict[object, list[int]] = defaultdict(list)
        for index, demo in enumerate(demos):
            choice_index = self.choices.index(demo[self.field_name].strip())
            score = latent_score(choice_index, len(self.choices), is_pairwise=self.is_pairwise)
            latent_scores.append(score)
            # If the judge reads no source, each demonstration counts as having its own source.
            source_key = tuple([demo.get(name, "") for name in source_names]) or index
            indices_by_source[source_key].append(index)
        self.regression = fit_regression(
            self.regression.weights,
            np.array([self.roles.measure(demo) for demo in demos]),
            np.array(latent_scores),
            [*indices_by_source.values()],
            is_pairwise=self.is_pairwise,
        )


# The judges are cached, since a search alternates between prompts. Reading a prompt with hundreds
# of demonstrations takes as long as a thousand judgements.
@lru_cache(maxsize=12)
def _read_judges(*messages: tuple[str, str]) -> tuple[Prompt, list[EmbeddedJudge], str]:
    """Return the prompt, a judge for each field with choices, and a digest of the messages.

    Raises FatalModelError if the messages are no judge's prompt.
    """
    if not messages or (prompt := read_prompt(messages[0][1])) is None:
        raise FatalModelError(NOT_A_JUDGE_PROMPT)
    demos = read_demos(prompt, messages)
    judges = [EmbeddedJudge(prompt, field, demos) for field in prompt.choices]
    return prompt, judges, hashlib.blake2b(repr(messages).encode(), digest_size=16).hexdigest()


def _draw_token(
    choices: Sequence[str], probabilities: Sequence[float], sampling: Sampling, rng: random.Random
) -> Token:
    """Draw a choice (at temperature 0, the likeliest), and return it with log-probabilities."""
    max_probability = max(probabilities)
    temperature = 1.0 if sampling.temperature is None else sampling.temperature
    choice_index = probabilities.index(max_probability)
    if temperature > 1e-3:
        weights = [(p / max_probability) ** (1 / temperature) for p in probabilities]
        (choice_index,) = rng.choices(range(len(weights)), weights)
    sort_keys = -np.array(probabilities)
    sort_keys[choice_index] = -math.inf
    top_logprobs = {
        choices[i]: math.log(max(MIN_PROBABILITY, probabilities[i]))
        for i in np.argsort(sort_keys)[: sampling.top_logprobs]
    }
    return Token(choices[choice_index], top_logprobs)


def _reply_tokens(
    output_fields: Sequence[Field], token_by_field: Mapping[str, Token], rationale: str
) -> list[Token]:
    """Return the tokens of a reply: only the answer, or each field below its header."""
    if len(output_fields) == 1:
        return [*token_by_field.values()]
    tokens, pending_text = [], ""
    for field in output_fields:
        pending_text += f"{FIELD_HEADER.format(name=field.name)}\n"
        if field.name in token_by_field:
            tokens += [Token(pending_text, {}), token_by_field[field.name]]
            pending_text = "\n\n"
        else:
            pending_text += f"{rationale}\n\n"
    return [*tokens, Token(f"{pending_text}{END_HEADER}", {})]


def _write_rationale(contributions: FloatArray, *, is_pairwise: bool) -> str:
    """Return a reason in words: up to two qualities that raise the score, and two that lower it."""
    facet_totals = np.bincount(FACET_OF_FEATURE, weights=contributions)  # one for each facet
    ranking = np.argsort(-facet_totals, kind="stable")
    best_facets = [FACET_NAMES[i] for i in ranking[:2] if facet_totals[i] > MIN_CONTRIBUTION]
    worst_facets = [FACET_NAMES[i] for i in ranking[:-3:-1] if facet_totals[i] < -MIN_CONTRIBUTION]
    no_reasons = "nothing that stands out"
    reasons_for = ", ".join(best_facets) or no_reasons
    reasons_against = ", ".join(worst_facets) or no_reasons
    if is_pairwise:
        return f"For A: {reasons_for}. For B: {reasons_against}."
    return f"For: {reasons_for}. Against: {reasons_against}."
