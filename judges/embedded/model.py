"""The embedded model: a small statistical judge that answers chat messages like a language model.

It measures ten facets of a text by counting, for example the words shared with the source. The
words of the prompt give each facet a weight, and the prompt's demonstrations update the weights. It
does not understand the text; it is free, offline and deterministic.
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

from judges.embedded.facets import FACET_OF, NAMES, PART_SHARES, Vector, facet_weights, measure
from judges.embedded.learning import Regression, latent_of, learn, probabilities
from judges.prompt import END_HEADER, HEADER, LETTERS, MAX_DEMOS, Field, Prompt, Value, words_of
from judges.protocol import Completion, FatalModelError, Message, Reply, Sampling, Token

NAME = "embedded-1"
MIN_PROBABILITY = 1e-9
# A facet that contributes less than this to a score is not named as a reason.
MIN_CONTRIBUTION = 0.05
# The weights of the parts of a prompt. The instruction counts most, since a user or an optimizer
# writes it for this judge.
INSTRUCTION, DEFINITION, ANCHORS = 0.55, 0.3, 0.15
WRITES_NO_TEXT = (
    "the embedded model answers only the prompts of this project's judges and writes no text, so "
    "it cannot propose instructions: name a language model, as in --proposer-lm openai/gpt-4.1-mini"
)
Demo = Mapping[str, str]


class EmbeddedModel:
    """A model that answers judges' prompts from measured facets, without a network.

    The same prompt, texts and seed always give the same replies.
    """

    name = NAME
    endpoint = "embedded"
    native_n = True
    has_logprobs: bool | None = True
    in_process = True

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        """Answer one request at once."""
        return self.reply(messages, sampling)

    async def close(self) -> None:
        """Do nothing, since no connection is open."""

    def reply(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        """Answer a judge's prompt, whatever its texts; FatalModelError for any other prompt."""
        contents = [message["content"] for message in messages]
        pairs = [(message["role"], message["content"]) for message in messages[:-1]]
        judge, digest = _read_judge(*pairs)
        if judge is None:
            raise FatalModelError(WRITES_NO_TEXT)
        parts = measure_all(judge.roles, read_texts(contents[-1]))
        opinions = [_Opinion.of(each, parts) for each in (*judge.questions, judge)]
        seed = f"{digest} {sampling.seed} {contents[-1]}".encode("utf-8", "replace")
        rng = random.Random(hashlib.blake2b(seed, digest_size=16).digest())
        replies = []
        for _ in range(max(1, sampling.n)):
            choices = [_draw(each.probabilities, sampling.temperature, rng) for each in opinions]
            replies.append(_write_reply(judge, opinions, choices, sampling.top_logprobs))
        return Completion(
            replies=tuple(replies),
            tokens_in=sum(map(len, contents)) // 4 + 1,
            tokens_out=sum([len(reply.text) // 4 + 1 for reply in replies]),
            model=self.name,
        )


_HEADER = re.compile(r"\[\[ ## (\w{1,64}) ## \]\][ \t]*\n?")
_SYSTEM = re.compile(
    r"\AYou read:\n(?P<input>.*?)\n\nYou write:\n(?P<output>.*?)\n\nYour task:\n(?P<task>.*)\Z",
    re.DOTALL,
)
_FIELD = re.compile(
    r"^- (?P<name>\w+)(?: \((?P<choices>[^()\n]*)\))?: "
    r"(?P<description>.*(?:\n(?!- \w+(?: \(.*\))?: ).*)*)",
    re.MULTILINE,
)
_REPLY_FORMS = ("\n\nReply with [[ ## ", "\n\nReply with the ")
_ROLES: tuple[Literal["input"], Literal["output"]] = ("input", "output")


def read_prompt(system: str) -> Prompt | None:
    """The prompt in a judge's system message; None for any other text."""
    match = _SYSTEM.search(system)
    fields = [
        Field(
            name=field["name"],
            description=field["description"].strip(),
            role=role,
            choices=_read_choices(field["choices"]) if field["choices"] else None,
        )
        for role in _ROLES
        for field in _FIELD.finditer(match[role] if match else "")
    ]
    roles = {field.role for field in fields if field.role == "input" or field.choices}
    if match is None or len(roles) < 2:
        return None
    return Prompt(instruction=match["task"].strip(), fields=tuple(fields))


def _read_choices(choices: str) -> tuple[Value, ...]:
    """The choices in a text such as "1, 2 or 3"."""
    values = re.split(r", | or ", choices)
    return tuple(int(v) if re.fullmatch(r"-?\d{1,9}", v) else v for v in values)


def read_texts(content: str) -> dict[str, str]:
    """The text of each field in a message, without the sentence on the reply's form at its end."""
    end = max(map(content.rfind, _REPLY_FORMS))
    parts = _HEADER.split(content[:end] if end >= 0 else content)
    # Later fields come first, so that a header within a text does not replace an earlier field.
    return {name: text.strip() for name, text in zip(parts[-2::-2], parts[::-2], strict=False)}


def read_demos(prompt: Prompt, messages: Sequence[tuple[str, str]]) -> list[Demo]:
    """The demonstrations after the system message; each message is a pair of role and content."""
    answer = prompt.outputs[-1].name
    return [
        {**read_texts(request), **(read_texts(reply) or {answer: reply.strip()})}
        for (_, request), (_, reply) in zip(messages[1::2], messages[2::2], strict=False)
    ]


class Roles(NamedTuple):
    """The names of the texts that a judge reads, by their role.

    candidates: the text that is judged, or the two that are compared. documents: the texts that it
    was made from. turns: the query or dialogue that it answers. knowledge: the facts that it should
    use.
    """

    candidates: tuple[str, ...]
    documents: tuple[str, ...]
    turns: tuple[str, ...]
    knowledge: tuple[str, ...]


_CONDENSED = re.compile(r"summar|headline|abstract|digest|highlights|tl_?dr|gist|minutes")
_TURNS = re.compile(
    r"quer(?:y|ies)|question|prompt|instruction|context|conversation|dialog|histor|turn|request"
    r"|asked|utterance|topic|premise|task"
)
_KNOWLEDGE = re.compile(r"fact|knowledge|evidence|reference|ground|gold|background|persona|notes")


def read_roles(fields: Sequence[Field], *, compares: bool) -> Roles:
    """The role of each text, by its name and description; the candidates are the last texts."""
    labels = {field.name: f"{field.name} {field.description}".lower() for field in fields}
    names = list(labels)
    candidates = names[-2 if compares else -1 :]
    is_summary = any(_CONDENSED.search(labels[name]) for name in candidates)
    documents, turns, knowledge = [], [], []
    for name in names:
        if name in candidates:
            continue
        if _KNOWLEDGE.search(name if is_summary else labels[name]):
            knowledge.append(name)
        elif not is_summary and _TURNS.search(labels[name]):
            turns.append(name)
        else:
            documents.append(name)
    return Roles(tuple(candidates), tuple(documents), tuple(turns), tuple(knowledge))


_RATINGS = re.compile(r"\b(?:rating|score|rate|judge|points?)(?= (?:of|from|for|between) \d)")


def prior_weights(prompt: Prompt, field: Field, roles: Roles) -> Vector:
    """The prior weight of each part for an output field, from instruction, definition and anchors.

    The instruction counts only for the judge's answer, since a question asks for something else.
    """
    choices = "|".join([re.escape(str(choice)) for choice in field.options])
    definition, *anchors = re.split(rf"(?:^|[(;]\s?)(?:{choices}) = ", field.description)
    instruction = prompt.instruction if field is prompt.answer else ""
    # Names of the judged text, as in "the response", are removed, since they name no quality.
    names = [re.sub("_[ab]$", "", name).replace("_", " ") for name in roles.candidates]
    candidate_name = re.compile(rf"\b(?:{'|'.join(names)})(?:s|'s)?\b", re.IGNORECASE)
    texts = [_RATINGS.sub(" ", instruction), definition, "; ".join(anchors)]
    texts = [candidate_name.sub(" ", text) for text in texts]
    weighted_texts = zip(texts, (INSTRUCTION, DEFINITION, ANCHORS), strict=True)
    weights = facet_weights(list(weighted_texts), is_talk=bool(roles.turns))
    return np.asarray(weights[FACET_OF] * PART_SHARES)


@dataclass(frozen=True, slots=True)
class EmbeddedJudge:
    """A prompt that is ready to judge texts: its output fields, and a regression for the answer.

    `choices` are the possible answers as texts, the worst first. `questions` are the judges for the
    prompt's questions.
    """

    outputs: tuple[Field, ...]
    answer: Field
    choices: tuple[str, ...]
    compares: bool
    roles: Roles
    regression: Regression
    questions: tuple["EmbeddedJudge", ...] = ()

    def judge(self, texts: Mapping[str, str]) -> tuple[float, Vector]:
        """The latent score, or the difference for two texts, and each part's contribution to it."""
        return self.regression.judge(measure_all(self.roles, texts))


def measure_all(roles: Roles, texts: Mapping[str, str]) -> Vector:
    """The parts of the judged text; for two texts, those of the first minus those of the second."""
    sources = [
        "\n".join([texts.get(name, "") for name in names]).strip()
        for names in (roles.documents, roles.turns, roles.knowledge)
    ]
    parts = [measure(texts.get(name, ""), *sources) for name in roles.candidates]
    return parts[0] - parts[1] if len(parts) > 1 else parts[0]


def make_judge(prompt: Prompt, demos: Sequence[Demo]) -> EmbeddedJudge:
    """The judge for a prompt, with weights from its words and its demonstrations."""
    *questions, answer = [_make_field_judge(field, prompt, demos) for field in prompt.choices]
    return replace(answer, questions=tuple(questions))


def _make_field_judge(answer: Field, prompt: Prompt, demos: Sequence[Demo]) -> EmbeddedJudge:
    choices = tuple(map(str, answer.options))
    if words_of(answer.choices):
        choices = choices[::-1]  # the worst first, as in a scale
    compares = choices == LETTERS and len(prompt.inputs) > 1
    roles = read_roles(prompt.inputs, compares=compares)
    regression = Regression(prior_weights(prompt, answer, roles))
    answers = [(demo, demo.get(answer.name, "").strip()) for demo in demos]
    examples = [(demo, choices.index(value)) for demo, value in answers if value in choices]
    # Their number is limited, since the time of learning grows with its cube.
    if examples := examples[:MAX_DEMOS]:
        sources = [field.name for field in prompt.inputs if field.name not in roles.candidates]
        regression = learn(
            regression.weights,
            np.array([measure_all(roles, demo) for demo, _ in examples]),
            np.array(
                [latent_of(choice, len(choices), compares=compares) for _, choice in examples]
            ),
            [
                tuple([demo.get(name, "") for name in sources]) if sources else index
                for index, (demo, _) in enumerate(examples)
            ],
            compares=compares,
        )
    return EmbeddedJudge(prompt.outputs, answer, choices, compares, roles, regression)


# Cached, since a search alternates between prompts with hundreds of demonstrations. Reading such a
# prompt takes as long as a thousand judgements.
@lru_cache(maxsize=12)
def _read_judge(*messages: tuple[str, str]) -> tuple[EmbeddedJudge | None, str]:
    """The judge for a prompt's messages, without the last one, and a digest of the messages.

    The judge is None if the messages are not those of a judge.
    """
    prompt = read_prompt(messages[0][1]) if messages else None
    judge = make_judge(prompt, read_demos(prompt, messages)) if prompt else None
    return judge, hashlib.blake2b(repr(messages).encode(), digest_size=16).hexdigest()


def _draw(probs: Sequence[float], temperature: float | None, rng: random.Random) -> int:
    """Draw an index by its probability at a temperature; at 0 it is the first most likely one."""
    largest = max(probs)
    if temperature is not None and temperature <= 1e-3:
        return probs.index(largest)
    weights = [(p / largest) ** (1 / (temperature or 1.0)) for p in probs]
    return rng.choices(range(len(probs)), weights)[0]


class _Opinion(NamedTuple):
    """A judge's result for a text: each part's contribution, and the probability of each choice."""

    judge: EmbeddedJudge
    contributions: Vector
    probabilities: tuple[float, ...]

    @classmethod
    def of(cls, judge: EmbeddedJudge, parts: Vector) -> "_Opinion":
        latent, contributions = judge.regression.judge(parts)
        probs = probabilities(latent, len(judge.choices), compares=judge.compares)
        return cls(judge, contributions, probs)

    def token(self, choice: int, n_top: int) -> Token:
        """The token of a choice, with the log-probabilities of the most likely ones and its own."""
        probs = self.probabilities
        order = np.argsort([-math.inf if n == choice else -p for n, p in enumerate(probs)])
        top = {
            self.judge.choices[index]: math.log(max(MIN_PROBABILITY, probs[index]))
            for index in order[:n_top]
        }
        return Token(self.judge.choices[choice], top)


def _write_reply(
    judge: EmbeddedJudge, opinions: Sequence[_Opinion], choices: Sequence[int], n_top: int
) -> Reply:
    """The reply with the given choices: the answer alone, or each output under its header."""
    tokens_by_name = {
        opinion.judge.answer.name: opinion.token(choice, n_top)
        for opinion, choice in zip(opinions, choices, strict=True)
    }
    if len(judge.outputs) == 1:
        tokens = [*tokens_by_name.values()]
    else:
        tokens, pending_text = [], ""
        for field in judge.outputs:
            pending_text += f"{HEADER.format(name=field.name)}\n"
            if field.name in tokens_by_name:
                tokens += [Token(pending_text, {}), tokens_by_name[field.name]]
                pending_text = "\n\n"
            else:
                pending_text += f"{_rationale(judge, opinions[-1].contributions)}\n\n"
        tokens.append(Token(f"{pending_text}{END_HEADER}", {}))
    text = "".join([token.text for token in tokens])
    return Reply(text=text, tokens=tuple(tokens) if n_top else ())


def _rationale(judge: EmbeddedJudge, contributions: Vector) -> str:
    """A text that names up to two facets for the text (or for A), and two against it (for B)."""
    by_facet = np.bincount(FACET_OF, weights=contributions)
    order = np.argsort(-by_facet, kind="stable")
    sides = ("For A", "For B") if judge.compares else ("For", "Against")
    names_for = [NAMES[index] for index in order[:2] if by_facet[index] > MIN_CONTRIBUTION]
    names_against = [NAMES[index] for index in order[:-3:-1] if by_facet[index] < -MIN_CONTRIBUTION]
    pairs = zip(sides, (", ".join(names_for), ", ".join(names_against)), strict=True)
    return " ".join([f"{side}: {names or 'nothing that stands out'}." for side, names in pairs])
