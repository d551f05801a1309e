"""The embedded model: a small statistical judge behind the chat protocol, not a language model.

It measures some twenty facets of a text by counting (words shared with the source, order, faults of
form), weighs them by the words of the prompt, and updates the weights by the prompt's demos. It
understands nothing; it is free, offline and deterministic.
"""

import hashlib
import random
from collections.abc import Sequence

from judges.models.embedded.cache import Kept
from judges.models.embedded.judge import Judge, make_judge
from judges.models.embedded.lessons import read_fenced, read_lessons
from judges.models.embedded.propose import propose
from judges.models.embedded.prose import NOTHING, describe
from judges.models.embedded.remarks import comparison, rationale
from judges.models.embedded.replies import alternatives, choose, write
from judges.models.embedded.request import Demo, Task, read_demos, read_task, read_texts
from judges.models.protocol import Completion, Message, Reply, Sampling

NAME = "embedded-1"
# A search goes to and fro between prompts with hundreds of demos; to read one anew takes as long as
# a hundred judgements.
MOST_DEMO_CHARACTERS = 32_000_000

Opening = tuple[tuple[str, str], ...]


class EmbeddedModel:
    """Answers judges' prompts without any network, from counted facets; same seed, same replies."""

    name = NAME
    endpoint = "embedded"
    native_n = True
    has_logprobs: bool | None = True
    in_process = True

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self._judges: Kept[Opening, tuple[Task, Judge | None, int]] = Kept(
            _read_opening,
            MOST_DEMO_CHARACTERS,
            lambda opening: _size(opening) + 20_000,
        )

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        """Answer at once: nothing here waits."""
        return self.reply(messages, sampling)

    async def close(self) -> None:
        """Nothing is open."""

    def reply(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        """Answer one prompt; never raises on any text."""
        opening = tuple((message["role"], message["content"]) for message in messages[:-1])
        last = messages[-1]["content"]
        task, judge, size = self._judges(opening)
        rng = self._rng(opening, last, sampling)
        if judge is not None:
            replies = self._judged(task, judge, last, sampling, rng)
        else:
            replies = [_written(task, last, sampling, rng) for _ in range(max(1, sampling.n))]
        return Completion(
            replies=tuple(replies),
            tokens_in=(size + len(last)) // 4 + 1,
            tokens_out=sum(len(reply.text) // 4 + 1 for reply in replies),
            model=self.name,
        )

    def _judged(
        self, task: Task, judge: Judge, last: str, sampling: Sampling, rng: random.Random
    ) -> list[Reply]:
        texts = read_texts(task, last)
        opinion = judge.opinion(texts)
        field = task.choice
        assert field is not None
        assert field.choices is not None
        values = {other.name: "" for other in task.writes}
        if len(task.writes) > 1:
            if opinion.compares:
                remark = comparison(opinion, _word(judge.roles.candidates[0]))
            else:
                remark = rationale(opinion, (judge.roles.candidates or ("text",))[0])
            values = {other.name: remark for other in task.writes}
        replies = []
        for _ in range(max(1, sampling.n)):
            place = choose(opinion.probabilities, sampling.temperature, rng)
            values[field.name] = str(field.choices[place])
            top = (
                alternatives(field.choices, opinion.probabilities, sampling.top_logprobs, place)
                if sampling.top_logprobs
                else {}
            )
            replies.append(write(task, values, field.name, top))
        return replies

    def _rng(self, opening: Opening, last: str, sampling: Sampling) -> random.Random:
        """Chance that depends on the seeds and the whole prompt alone; none is needed at 0."""
        if sampling.temperature is not None and sampling.temperature <= 0:
            return _UNUSED
        hashed = hashlib.blake2b(f"{self.seed} {sampling.seed}".encode(), digest_size=8)
        for _, content in (*opening, ("user", last)):
            hashed.update(content.encode("utf-8", "replace"))
        return random.Random(int.from_bytes(hashed.digest(), "big"))


# At temperature 0 nothing is drawn but wording, which may be the same each time.
_UNUSED = random.Random(0)


def _written(task: Task, last: str, sampling: Sampling, rng: random.Random) -> Reply:
    """Fields of free text: instructions are proposed, others get a plain sentence."""
    heat = 1.0 if sampling.temperature is None else sampling.temperature
    rng = random.Random(0) if rng is _UNUSED else rng
    if not task.writes:
        if "```" in last:
            return Reply(text=f"```\n{propose(read_fenced(last), rng, heat)}\n```")
        return Reply(text=NOTHING)
    texts = read_texts(task, last)
    values = {}
    for field in task.writes:
        if "instruction" in field.name:
            values[field.name] = propose(read_lessons(texts), rng, heat)
        else:
            values[field.name] = describe(field, task, texts)
    return write(task, values, None, {})


def _size(opening: Opening) -> int:
    return sum(len(content) for _, content in opening)


def _read_opening(opening: Opening) -> tuple[Task, Judge | None, int]:
    """What is asked, how to judge it, and how long all of that was."""
    system = opening[0][1] if opening and opening[0][0] == "system" else ""
    task = read_task(system)
    if task.choice is None:
        return task, None, _size(opening)
    messages = [Message(role=role, content=content) for role, content in opening]  # type: ignore[typeddict-item]
    demos: list[Demo] = read_demos(task, [*messages, Message(role="user", content="")])
    return task, make_judge(task, demos), _size(opening)


def _word(candidate: str) -> str:
    return candidate.rsplit("_", 1)[0].replace("_", " ")
