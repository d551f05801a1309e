"""The embedded model: a small statistical judge behind the chat protocol, not a language model.

It measures ten facets of a text by counting (words shared with the source, order, faults of form),
weighs them by the words of the prompt, and updates the weights by the prompt's demonstrations. It
understands nothing; it is free, offline and deterministic.
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

from judges.embedded.facets import FACET_OF, NAMES, SHARES, Vector, emphases, measure
from judges.embedded.learning import Regression, latent_of, learn, probabilities
from judges.prompt import END, HEADER, LETTERS, MAX_DEMOS, Field, Prompt, Value, words_of
from judges.protocol import Completion, FatalModelError, Message, Reply, Sampling, Token

NAME = "embedded-1"
MIN_PROBABILITY = 1e-9
# A facet that contributes less to a score decided nothing.
MIN_CONTRIBUTION = 0.05
# The instruction is what a user or an optimizer writes for this judge, so it counts most.
INSTRUCTION, DEFINITION, ANCHORS = 0.55, 0.3, 0.15
WRITES_NO_TEXT = (
    "the embedded model answers the prompts of this project's judges alone and writes no text, so "
    "it can propose no instruction: name a language model, as in --proposer-lm openai/gpt-4.1-mini"
)
Demo = Mapping[str, str]


class EmbeddedModel:
    """Answers judges' prompts from measured facets, without a network; a seed fixes the replies."""

    name = NAME
    endpoint = "embedded"
    native_n = True
    has_logprobs: bool | None = True
    in_process = True

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        """Answer at once: nothing here waits."""
        return self.reply(messages, sampling)

    async def close(self) -> None:
        """Nothing is open."""

    def reply(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        """Answer a judge's prompt, whatever its texts; FatalModelError for any other prompt."""
        contents = [message["content"] for message in messages]
        judge, digest = _read_judge(*[(one["role"], one["content"]) for one in messages[:-1]])
        if judge is None:
            raise FatalModelError(WRITES_NO_TEXT)
        parts = measure_all(judge.roles, read_texts(contents[-1]))
        opinions = [_Opinion.of(each, parts) for each in (*judge.questions, judge)]
        seed = f"{digest} {sampling.seed} {contents[-1]}".encode("utf-8", "replace")
        rng = random.Random(hashlib.blake2b(seed, digest_size=16).digest())
        replies = []
        for _ in range(max(1, sampling.n)):
            choices = [_draw(each.chances, sampling.temperature, rng) for each in opinions]
            replies.append(_write(judge, opinions, choices, sampling.top_logprobs))
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
_REMINDERS = ("\n\nReply with [[ ## ", "\n\nReply with the ")
_ROLES: tuple[Literal["input"], Literal["output"]] = ("input", "output")


def read_task(system: str) -> Prompt | None:
    """Read a judge's system message; None for any other."""
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
    """The values of "1, 2 or 3"."""
    values = re.split(r", | or ", choices)
    return tuple(int(v) if re.fullmatch(r"-?\d{1,9}", v) else v for v in values)


def read_texts(content: str) -> dict[str, str]:
    """The first text of each field in a message, without the reminder at its end."""
    end = max(map(content.rfind, _REMINDERS))
    parts = _HEADER.split(content[:end] if end >= 0 else content)
    # A header within a text does not replace an earlier one.
    return {name: text.strip() for name, text in zip(parts[-2::-2], parts[::-2], strict=False)}


def read_demos(prompt: Prompt, messages: Sequence[tuple[str, str]]) -> list[Demo]:
    """The demonstrations after the system message, from pairs of role and content."""
    answer = prompt.outputs[-1].name
    return [
        {**read_texts(request), **(read_texts(reply) or {answer: reply.strip()})}
        for (_, request), (_, reply) in zip(messages[1::2], messages[2::2], strict=False)
    ]


class Roles(NamedTuple):
    """The names of the texts by their role.

    candidates: the text under judgement, or the two that are compared. documents: what it was made
    from. turns: what it answers (a query, a dialogue). knowledge: facts to use.
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
    """The role of each text by its name and description; the candidates come last."""
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
    """The prior weight of each part, by instruction, definition and anchors.

    The instruction is about the answer, and a question is about something else.
    """
    choices = "|".join([re.escape(str(choice)) for choice in field.options])
    definition, *anchors = re.split(rf"(?:^|[(;]\s?)(?:{choices}) = ", field.description)
    instruction = prompt.instruction if field is prompt.answer else ""
    # The name of the text itself, as in "the response", is no quality.
    names = [re.sub("_[ab]$", "", name).replace("_", " ") for name in roles.candidates]
    own_name = re.compile(rf"\b(?:{'|'.join(names)})(?:s|'s)?\b", re.IGNORECASE)
    texts = [_RATINGS.sub(" ", instruction), definition, "; ".join(anchors)]
    requests = [own_name.sub(" ", text) for text in texts]
    parts = zip(requests, (INSTRUCTION, DEFINITION, ANCHORS), strict=True)
    weights = emphases(list(parts), is_talk=bool(roles.turns))
    return np.asarray(weights[FACET_OF] * SHARES)


@dataclass(frozen=True, slots=True)
class EmbeddedJudge:
    """A prompt made ready for any texts: its fields, and the regression that judges.

    `questions` are the judges of the same texts by the other fields that have choices.
    """

    outputs: tuple[Field, ...]
    answer: Field
    choices: tuple[str, ...]
    compares: bool
    roles: Roles
    regression: Regression
    questions: tuple["EmbeddedJudge", ...] = ()

    def judge(self, texts: Mapping[str, str]) -> tuple[float, Vector]:
        """The latent score (of two texts the difference), and the share of each part in it."""
        return self.regression.judge(measure_all(self.roles, texts))


def measure_all(roles: Roles, texts: Mapping[str, str]) -> Vector:
    """The parts of the text under judgement; of two texts the first's less the second's."""
    sources = [
        "\n".join([texts.get(name, "") for name in names]).strip()
        for names in (roles.documents, roles.turns, roles.knowledge)
    ]
    rows = [measure(texts.get(name, ""), *sources) for name in roles.candidates]
    return rows[0] - rows[1] if len(rows) > 1 else rows[0]


def make_judge(prompt: Prompt, demos: Sequence[Demo]) -> EmbeddedJudge:
    """The judge of a prompt, with weights by its words and its demonstrations."""
    *questions, answer = [_judge_of(field, prompt, demos) for field in prompt.choices]
    return replace(answer, questions=tuple(questions))


def _judge_of(answer: Field, prompt: Prompt, demos: Sequence[Demo]) -> EmbeddedJudge:
    choices = tuple(map(str, answer.options))
    if words_of(answer.choices):
        choices = choices[::-1]  # the worst first, as ratings stand
    compares = choices == LETTERS and len(prompt.inputs) > 1
    roles = read_roles(prompt.inputs, compares=compares)
    regression = Regression(prior_weights(prompt, answer, roles))
    answers = [(demo, demo.get(answer.name, "").strip()) for demo in demos]
    examples = [(demo, choices.index(value)) for demo, value in answers if value in choices]
    # The time of learning grows with the cube of their number.
    if examples := examples[:MAX_DEMOS]:
        sources = [field.name for field in prompt.inputs if field.name not in roles.candidates]
        regression = learn(
            regression.weights,
            np.array([measure_all(roles, demo) for demo, _ in examples]),
            np.array([latent_of(at, len(choices), compares=compares) for _, at in examples]),
            [
                tuple([demo.get(name, "") for name in sources]) if sources else index
                for index, (demo, _) in enumerate(examples)
            ],
            compares=compares,
        )
    return EmbeddedJudge(prompt.outputs, answer, choices, compares, roles, regression)


# Cached, since a search alternates between prompts with hundreds of demonstrations, and reading one
# takes as long as a thousand judgements.
@lru_cache(maxsize=12)
def _read_judge(*messages: tuple[str, str]) -> tuple[EmbeddedJudge | None, str]:
    """The judge of all messages but the last, None if they are no judge's, and their digest."""
    prompt = read_task(messages[0][1]) if messages else None
    judge = make_judge(prompt, read_demos(prompt, messages)) if prompt else None
    return judge, hashlib.blake2b(repr(messages).encode(), digest_size=16).hexdigest()


def _draw(chances: Sequence[float], temperature: float | None, rng: random.Random) -> int:
    """Draw an index by probabilities at a temperature; at 0 the first likeliest one."""
    likeliest = max(chances)
    if temperature is not None and temperature <= 1e-3:
        return chances.index(likeliest)
    weights = [(chance / likeliest) ** (1 / (temperature or 1.0)) for chance in chances]
    return rng.choices(range(len(chances)), weights)[0]


class _Opinion(NamedTuple):
    """What a judge holds of a text: the share of each part, and the chance of each choice."""

    judge: EmbeddedJudge
    shares: Vector
    chances: tuple[float, ...]

    @classmethod
    def of(cls, judge: EmbeddedJudge, parts: Vector) -> "_Opinion":
        latent, shares = judge.regression.judge(parts)
        return cls(
            judge, shares, probabilities(latent, len(judge.choices), compares=judge.compares)
        )

    def token(self, choice: int, n_top: int) -> Token:
        """The token of a choice, with the log-probabilities of the likeliest ones and its own."""
        chances = self.chances
        order = np.argsort([-math.inf if n == choice else -p for n, p in enumerate(chances)])
        top = {
            self.judge.choices[index]: math.log(max(MIN_PROBABILITY, chances[index]))
            for index in order[:n_top]
        }
        return Token(self.judge.choices[choice], top)


def _write(
    judge: EmbeddedJudge, opinions: Sequence[_Opinion], choices: Sequence[int], n_top: int
) -> Reply:
    """The reply: the choice alone, or each output under its header, with log-probabilities."""
    tokens_by_name = {
        opinion.judge.answer.name: opinion.token(choice, n_top)
        for opinion, choice in zip(opinions, choices, strict=True)
    }
    if len(judge.outputs) == 1:
        tokens = [*tokens_by_name.values()]
    else:
        tokens, before = [], ""
        for field in judge.outputs:
            before += f"{HEADER.format(name=field.name)}\n"
            if field.name in tokens_by_name:
                tokens += [Token(before, {}), tokens_by_name[field.name]]
                before = "\n\n"
            else:
                before += f"{_reason(judge, opinions[-1].shares)}\n\n"
        tokens.append(Token(f"{before}{END}", {}))
    text = "".join([token.text for token in tokens])
    return Reply(text=text, tokens=tuple(tokens) if n_top else ())


def _reason(judge: EmbeddedJudge, shares: Vector) -> str:
    """The two facets that speak most for the text (or the first one), and two most against."""
    by_facet = np.bincount(FACET_OF, weights=shares)
    order = np.argsort(-by_facet, kind="stable")
    sides = ("For A", "For B") if judge.compares else ("For", "Against")
    good = [NAMES[index] for index in order[:2] if by_facet[index] > MIN_CONTRIBUTION]
    bad = [NAMES[index] for index in order[:-3:-1] if by_facet[index] < -MIN_CONTRIBUTION]
    pairs = zip(sides, (", ".join(good), ", ".join(bad)), strict=True)
    return " ".join([f"{side}: {names or 'nothing that stands out'}." for side, names in pairs])
