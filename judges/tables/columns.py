"""Which column of a table holds which text a judge reads."""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from judges.dimension import Comparison

if TYPE_CHECKING:
    from judges.judge import Judge

# Words that label files use for what both sides of a pair were given, and for the two sides.
SHARED = ("prompt", "document", "post", "query")
SIDES = ("response", "output")


class MissingColumnError(ValueError):
    """A table lacks a text that the judge reads; the message says which, and the way out."""


def find_columns(
    judge: "Judge", available: Collection[str], mapping: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Text name -> column; raises MissingColumnError.

    `mapping` goes from text name to column and beats everything. A pair's texts may also stand
    under the names of labelled pairs (`prompt`, `response_a`, `response_b`).
    """
    mapping = mapping or {}
    found = {}
    for name in judge.texts:
        wanted = [mapping[name]] if name in mapping else [name, *_other_names(judge, name)]
        column = next((column for column in wanted if column in available), None)
        if column is None:
            raise MissingColumnError(
                f"no column {wanted[0]!r}, which the judge {judge.name!r} reads; columns: "
                f"{', '.join(sorted(available)) or 'none'}. Name yours, as in --map {name}=COLUMN"
            )
        found[name] = column
    return found


def _other_names(judge: "Judge", name: str) -> list[str]:
    subject = judge.subject
    if not isinstance(subject, Comparison):
        return []
    if name in subject.fields:
        return [f"{side}{name[-2:]}" for side in SIDES]
    return list(SHARED) if len(subject.inputs) == 1 else []
