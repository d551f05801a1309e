"""A candidate, an instruction with demonstrations, and which instructions may be tried at all."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from judges.prompt import Prompt, Reasoning, Value, encodable, reasoning_of, with_reasoning

LONGEST_INSTRUCTION = 1500
COPIED_WORDS = 8
_WORD = re.compile(r"\w+(?:['’]\w+)?")

Demo = Mapping[str, Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoSet:
    """Demonstrations with the ids and documents of their items; `kind` is how they were chosen."""

    demos: tuple[Demo, ...] = ()
    ids: tuple[str, ...] = ()
    kind: str = "none"
    documents: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """What may become the tuned judge; its scores on documents that it shows do not count.

    Those whose mistakes its instruction answers do count in the race: an instruction says too
    little of them to be fitted to them, and without them the race would have few to go by.
    `round` is the one that proposed the instruction; 0 where nobody did. `reasoning` is what it
    asks for before the answer (None: as the untuned judge does).
    """

    instruction: str
    demo_set: DemoSet = DemoSet()
    round: int = 0
    reasoning: Reasoning | None = None

    @property
    def documents(self) -> frozenset[str]:
        return self.demo_set.documents

    # Kept, since a thousand demonstrations take a while to name, and are asked for at every turn.
    @cached_property
    def id(self) -> str:
        """Names the prompt, whatever way led to it."""
        parts: list[object] = [self.instruction, [dict(demo) for demo in self.demo_set.demos]]
        if self.reasoning is not None:
            parts.append(self.reasoning)
        text = json.dumps(parts, sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def prompt(self, seed: Prompt) -> Prompt:
        """The untuned prompt with this candidate's parts.

        Reasons of another form than the demonstrations' are shown as not given.
        """
        prompt = replace(seed, instruction=self.instruction, demos=self.demo_set.demos)
        return with_reasoning(prompt, self.reasoning or reasoning_of(seed))


class TextGuard:
    """Finds instructions that copy the labelled texts: a run of eight words or more."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._runs: set[int] = set()
        for text in set(texts):
            self._runs.update(_runs(text))

    def copies(self, instruction: str) -> bool:
        return any(run in self._runs for run in _runs(instruction))


def fault(text: str, guard: TextGuard, known: Iterable[str]) -> str | None:
    """Why an instruction may not be tried; None if it may."""
    if not text:
        return "empty"
    if len(text) > LONGEST_INSTRUCTION:
        return f"{len(text)} characters long; {LONGEST_INSTRUCTION} are allowed"
    if text != encodable(text):
        return "holds a broken character"
    if guard.copies(text):
        return f"copies {COPIED_WORDS} words or more of the labelled texts"
    if _folded(text) in {_folded(instruction) for instruction in known}:
        return "known already"
    return None


def _folded(text: str) -> str:
    return " ".join(_words(text))


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


def _runs(text: str) -> Iterable[int]:
    words = _words(text)
    for start in range(len(words) - COPIED_WORDS + 1):
        run = " ".join(words[start : start + COPIED_WORDS])
        # A digest, since Python's own hash differs from process to process.
        yield int.from_bytes(hashlib.blake2b(run.encode(), digest_size=8).digest(), "big")
