"""Judges with another prompt."""

from dataclasses import replace
from typing import Any

from judges import Judge


def reprompt(judge: Judge, **changes: Any) -> Judge:
    """The judge with another `instruction` or other `demos`."""
    return replace(judge, prompt=replace(judge.prompt, **changes))
