"""Parse raw replies strictly: exactly one score or choice, or a failed judgement."""

from collections.abc import Sequence

from judges.prompt import Field, Value


def parse_fields(reply: str, outputs: Sequence[Field]) -> dict[str, Value]:
    """Read every output field off a reply; raises NoScoreError."""
    raise NotImplementedError
