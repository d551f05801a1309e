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
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np

from judges.client.protocol import Completion, FatalModelError, Message, Reply, Sampling, Token
from judges.embedded.facets import FACET_OF, FACETS, SHARES, Vector, emphases, measure
from judges.embedded.learning import Learned, latent_of, learn, probabilities
from judges.prompt import END, HEADER, MAX_DEMOS, Field, Value, neutralise

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
_PHRASES = tuple(FACETS.values())


class EmbeddedModel:
    """Answers judges' prompts without any network, from counted facets; same seed, same replies."""

    name = NAME
    endpoint = "embedded"
    native_n = True
    has_logprobs: bool | None = True
    in_process = True

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        """Answer at once: nothing here waits."""
        return self.reply(messages, sampling)

    async def close(self) -> None:
        """Nothing is open."""

    def reply(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        """Answer a judge's prompt, whatever its texts; FatalModelError for any other prompt."""
        *first, last = [(message["role"], message["content"]) for message in messages]
        prefix, content = _read_prefix(*first), last[1]
        if prefix.judge is None:
            raise FatalModelError(WRITES_NO_TEXT)
        digest = prefix.digest.copy()
        digest.update(f"{self.seed} {sampling.seed} {content}".encode("utf-8", "replace"))
        replies = _judge(
            prefix.judge, content, sampling, random.Random(int.from_bytes(digest.digest(), "big"))
        )
        return Completion(
            replies=tuple(replies),
            tokens_in=(prefix.characters + len(content)) // 4 + 1,
            tokens_out=sum([len(reply.text) // 4 + 1 for reply in replies]),
            model=self.name,
        )


@dataclass(frozen=True, slots=True)
class Task:
    """What a system message asks for."""

    inputs: tuple[Field, ...] = ()
    outputs: tuple[Field, ...] = ()
    instruction: str = ""

    @property
    def choice(self) -> Field | None:
        """The field that holds the score: the last with choices."""
        return next((field for field in reversed(self.outputs) if field.choices), None)

    @property
    def choices(self) -> tuple[Value, ...]:
        return (self.choice.choices if self.choice else None) or ()

    @property
    def compares(self) -> bool:
        """Whether the choice is between two texts: two letters or words, and texts to compare."""
        numbers = any(isinstance(choice, int) for choice in self.choices)
        return len(self.choices) == 2 and not numbers and len(self.inputs) > 1


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


def read_task(system: str) -> Task:
    """Read a judge's system message; of any other, a task without fields."""
    match = _SYSTEM.search(system)
    if match is None:
        return Task()
    inputs, outputs = (
        tuple(
            Field(
                name=field["name"],
                description=field["description"].strip(),
                role=role,
                choices=_read_choices(field["choices"] or ""),
            )
            for field in _FIELD.finditer(match[role])
        )
        for role in _ROLES
    )
    return Task(inputs, outputs, match["task"].strip())


def _read_choices(choices: str) -> tuple[Value, ...] | None:
    """The values of "1, 2 or 3"."""
    if not choices:
        return None
    words = re.split(r", | or ", choices)
    return tuple(int(word) if re.fullmatch(r"-?\d{1,9}", word) else word for word in words)


def read_texts(content: str) -> dict[str, str]:
    """Cut a user message into its texts by field, without the reminder at its end."""
    end = max(map(content.rfind, _REMINDERS))
    return _sections(content[:end] if end >= 0 else content)


def read_demos(task: Task, messages: Sequence[tuple[str, str]]) -> list[Demo]:
    """The worked examples that follow the system message, from pairs of role and content."""
    demos: list[Demo] = []
    pairs = zip(messages[1::2], messages[2::2], strict=False)
    for (first_role, request), (second_role, answer) in pairs:
        if (first_role, second_role) == ("user", "assistant"):
            values = _sections(answer) or {task.outputs[-1].name: answer.strip()}
            demos.append({**read_texts(request), **values})
    return demos


def _sections(body: str) -> dict[str, str]:
    """The text under each header, by field name; the first where a header is repeated."""
    headers = list(_HEADER.finditer(body))
    ends = [*[header.start() for header in headers[1:]], len(body)]
    sections: dict[str, str] = {}
    for header, end in zip(headers, ends, strict=False):
        sections.setdefault(header[1], body[header.end() : end].strip())
    return sections


@dataclass(frozen=True, slots=True)
class Roles:
    """Names of the texts by what they are.

    candidates: the judged text, or the two that are compared. documents: what it was made from.
    turns: what it answers (a query, a dialogue so far). knowledge: facts given to use.
    """

    candidates: tuple[str, ...]
    documents: tuple[str, ...]
    turns: tuple[str, ...]
    knowledge: tuple[str, ...]


_JUDGED = re.compile(
    r"\bto (?:be )?(?:judge|rate|score|evaluate|assess|grade)|\b(?:judged|rated)\b"
)
_CANDIDATE = re.compile(
    r"summar(?:y|ies|isation|ization)|respon|answer|output|repl(?:y|ies)|translation|candidate"
    r"|generated|completion|hypothesis|headline|caption|rewrit|paraphrase|essay|story|argument"
)
# "the text that was summarized" names the source, not the summary.
_SOURCE_TEXT = re.compile(r"that (?:was|were|is) |\bsource\b|summari[sz]ed\b|replied to")
_CONDENSED = re.compile(r"summar|headline|abstract|digest|highlights|tl_?dr|gist|minutes")
_TURNS = re.compile(
    r"quer(?:y|ies)|question|prompt|instruction|context|conversation|dialog|histor|turn|request"
    r"|asked|utterance|topic|premise|task"
)
_KNOWLEDGE = re.compile(r"fact|knowledge|evidence|reference|ground|gold|background|persona|notes")
_SIDE = re.compile(r"(?:^|_)(?:a|1|one|first|left)$|(?:^|_)(?:b|2|two|second|right)$")


def read_roles(fields: Sequence[Field], *, compares: bool) -> Roles:
    """Tell by names and descriptions which text is judged; of one text alone, it is that."""
    candidates: tuple[str, ...] = ()
    if compares:
        sides = [field.name for field in fields if _SIDE.search(field.name.lower())]
        candidates = tuple((sides if len(sides) >= 2 else [field.name for field in fields])[-2:])
    elif fields:
        candidates = (max(reversed(fields), key=_candidacy).name,)
    is_summary = any(_CONDENSED.search(_words(f)) for f in fields if f.name in candidates)
    documents, turns, knowledge = [], [], []
    for field in fields:
        if field.name in candidates:
            continue
        name, words = field.name.lower(), _words(field)
        if _KNOWLEDGE.search(name) or (_KNOWLEDGE.search(words) and not is_summary):
            knowledge.append(field.name)
        elif not is_summary and _TURNS.search(words):
            turns.append(field.name)
        else:
            documents.append(field.name)
    return Roles(candidates, tuple(documents), tuple(turns), tuple(knowledge))


def _words(field: Field) -> str:
    return f"{field.name} {field.description}".lower().replace("_", " ")


def _candidacy(field: Field) -> int:
    """How much a field looks like the judged text."""
    name, description = field.name.lower(), field.description.lower()
    judged = _SOURCE_TEXT.search(description) is None
    return (
        4 * (judged and bool(_JUDGED.search(description)))
        + 3 * bool(_CANDIDATE.search(name))
        + (judged and bool(_CANDIDATE.search(description)))
        - 2 * bool(_TURNS.search(name) or _KNOWLEDGE.search(name))
    )


_ANCHOR = re.compile(r"(?:^|[(;]\s?)-?\d+ = ")
_RATINGS = re.compile(r"\b(?:rating|score|rate|judge|points?)(?= (?:of|from|for|between) \d)")


def prior_weights(task: Task, roles: Roles) -> Vector:
    """The weight of each facet's parts, by the words of instruction, definition and anchors."""
    definition, anchors = task.choice.description if task.choice else "", ""
    if start := _ANCHOR.search(definition):
        anchors = _ANCHOR.sub("; ", definition[start.start() :])
        definition = definition[: start.start()]
    # The word for what is judged, as in "the response", names no quality.
    names = [
        name.rpartition("_")[0] or name if task.compares else name.replace("_", " ")
        for name in roles.candidates
    ]
    own_name = re.compile(rf"\b(?:{'|'.join(map(re.escape, names)) or '$'})(?:s|'s)?\b", re.I)
    texts = [_RATINGS.sub(" ", task.instruction), definition, anchors]
    asked = [own_name.sub(" ", text) for text in texts]
    parts = zip(asked, (INSTRUCTION, DEFINITION, ANCHORS), strict=True)
    weights = emphases(list(parts), is_talk=bool(roles.turns))
    return np.asarray(weights[FACET_OF] * SHARES)


@dataclass(frozen=True, slots=True)
class EmbeddedJudge:
    """A task made ready for any texts."""

    task: Task
    roles: Roles
    learned: Learned

    def judge(self, texts: Mapping[str, str]) -> tuple[float, Vector]:
        """The latent score, of two texts how far the first is better; each facet's share in it."""
        latent, shares = self.learned.judge(measure_all(self.roles, texts))
        by_facet: Vector = np.bincount(FACET_OF, weights=shares).astype(np.float64)
        return latent, by_facet


def measure_all(roles: Roles, texts: Mapping[str, str]) -> Vector:
    """The parts of the judged text, of two the first's less the second's."""
    sources = [
        "\n".join([texts.get(name, "") for name in names]).strip()
        for names in (roles.documents, roles.turns, roles.knowledge)
    ]
    rows = [measure(texts.get(name, ""), *sources) for name in roles.candidates]
    return rows[0] - rows[1] if len(rows) > 1 else rows[0]


def make_judge(task: Task, demos: Sequence[Demo]) -> EmbeddedJudge:
    """Weigh the facets by the words of a task that has a choice, and by its demonstrations."""
    assert task.choice is not None
    roles = read_roles(task.inputs, compares=task.compares)
    prior = prior_weights(task, roles)
    choices = [str(choice) for choice in task.choices]
    answers = [(demo, demo.get(task.choice.name, "").strip()) for demo in demos]
    examples = [(demo, choices.index(answer)) for demo, answer in answers if answer in choices]
    if not examples:
        return EmbeddedJudge(task, roles, Learned(prior))
    if len(examples) > MAX_DEMOS:
        # Learning takes the cube of their number: some, taken evenly.
        examples = [examples[n * len(examples) // MAX_DEMOS] for n in range(MAX_DEMOS)]
    shared = [field.name for field in task.inputs if field.name not in roles.candidates]
    learned = learn(
        prior,
        np.array([measure_all(roles, demo) for demo, _ in examples]),
        np.array([latent_of(at, len(choices), compares=task.compares) for _, at in examples]),
        [
            tuple([demo.get(name, "") for name in shared]) if shared else index
            for index, (demo, _) in enumerate(examples)
        ],
        compares=task.compares,
    )
    return EmbeddedJudge(task, roles, learned)


class Prefix(NamedTuple):
    """All messages but the last: how to judge by them, if they ask it; their digest and size."""

    judge: EmbeddedJudge | None
    digest: Any
    characters: int


# A search goes to and fro between prompts with hundreds of demonstrations; to read one anew takes
# as long as a thousand judgements.
@lru_cache(maxsize=12)
def _read_prefix(*messages: tuple[str, str]) -> Prefix:
    task = read_task(messages[0][1]) if messages and messages[0][0] == "system" else Task()
    judge = None
    if task.choice and task.inputs:
        judge = make_judge(task, read_demos(task, messages))
    contents = "\0".join([content for _, content in messages])
    digest = hashlib.blake2b(contents.encode("utf-8", "replace"), digest_size=16)
    return Prefix(judge, digest, len(contents))


def _judge(
    judge: EmbeddedJudge, content: str, sampling: Sampling, rng: random.Random
) -> list[Reply]:
    """Choices drawn by their probabilities; other fields tell why."""
    task, choice = judge.task, judge.task.choice
    assert choice is not None
    latent, shares = judge.judge(read_texts(content))
    chances = probabilities(latent, len(task.choices), compares=task.compares)
    reason = ""
    if len(task.outputs) > 1:
        name = judge.roles.candidates[0]
        reason = _comparison(latent, shares, name) if task.compares else _rationale(shares, name)
    heat = 1.0 if sampling.temperature is None else sampling.temperature
    replies = []
    for _ in range(max(1, sampling.n)):
        chosen = _draw(chances, heat, rng)
        top = _top_logprobs(task.choices, chances, sampling.top_logprobs, chosen)
        replies.append(_reply(task, choice, str(task.choices[chosen]), reason, top))
    return replies


def _draw(chances: Sequence[float], heat: float, rng: random.Random) -> int:
    """Draw an index by its probability, sharpened or flattened; at heat 0 the first likeliest."""
    if heat <= 1e-3:
        return max(range(len(chances)), key=lambda index: (chances[index], -index))
    logs = [math.log(max(MIN_PROBABILITY, chance)) / heat for chance in chances]
    largest = max(logs)
    return rng.choices(range(len(logs)), [math.exp(log - largest) for log in logs])[0]


def _top_logprobs(
    choices: Sequence[Value], chances: Sequence[float], n: int, chosen: int
) -> dict[str, float]:
    """At most n choices with their log-probabilities: the chosen one and the likeliest."""
    order = sorted(range(len(choices)), key=lambda index: (index != chosen, -chances[index]))
    return {
        str(choices[index]): math.log(max(MIN_PROBABILITY, chances[index])) for index in order[:n]
    }


def _reply(task: Task, choice: Field, value: str, reason: str, top: Mapping[str, float]) -> Reply:
    """The choice alone, or each output under its header; its token carries its alternatives."""
    before, after = "", ""
    if len(task.outputs) > 1:
        fields = [(HEADER.format(name=field.name), field is choice) for field in task.outputs]
        blocks = [f"{header}\n{'' if own else neutralise(reason)}" for header, own in fields]
        index = [own for _, own in fields].index(True)
        before = "\n\n".join(blocks[: index + 1])
        after = "".join([f"\n\n{block}" for block in [*blocks[index + 1 :], END]])
    text = before + value + after
    if not top:
        return Reply(text=text)
    tokens = (Token(before, {}), Token(value, dict(top)), Token(after, {}))
    return Reply(text=text, tokens=tuple([token for token in tokens if token.text]))


def _rationale(shares: Vector, name: str) -> str:
    """What speaks for and against the one text."""
    good, bad = _strongest(shares)
    subject = f"The {name.replace('_', ' ')}"
    praise = " and ".join([_PHRASES[index].asks for index in good])
    blame = " and ".join([_PHRASES[index].weakness for index in bad])
    if praise and blame:
        return f"{subject} {praise}, but it {blame}."
    return f"{subject} {praise or blame or 'is ordinary in every respect'}."


def _comparison(latent: float, shares: Vector, name: str) -> str:
    """Which of the two is preferred, and by what; the same whichever stands first."""
    better, worse = ("A", "B") if latent >= 0 else ("B", "A")
    good, bad = _strongest(shares if latent >= 0 else -shares)
    word = name.rpartition("_")[0].replace("_", " ") or name
    if not good and not bad:
        return f"{word.capitalize()} A and {word} B are alike in every respect."
    praise = " and ".join([_PHRASES[index].strength for index in good])
    though = f", though {word} {worse} {_PHRASES[bad[0]].strength}" if bad else ""
    return f"{word.capitalize()} {better} {praise or 'is slightly better on the whole'}{though}."


def _strongest(shares: Vector) -> tuple[list[int], list[int]]:
    """The two facets that speak most for, and the two most against."""
    order = [int(index) for index in np.argsort(-shares, kind="stable")]
    good = [index for index in order[:2] if shares[index] > MIN_CONTRIBUTION]
    bad = [index for index in order[::-1][:2] if shares[index] < -MIN_CONTRIBUTION]
    return good, bad
