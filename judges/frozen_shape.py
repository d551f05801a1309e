"""The shape of a frozen judge's file: which keys, of which types, within which bounds."""

import re

from judges import schema
from judges.dimension import NAME
from judges.prompt import MOST_DEMOS

FORMAT = "dspy-judges frozen judge"
VERSION = 1

_WORD = schema.text(64, pattern=NAME)
MESSAGE_TEXT = schema.text(1_000_000, empty=True)
_SHORT = schema.text(20_000, empty=True)
_RATING = schema.whole(-1000, 1000)
DEMO_VALUE = schema.either(_RATING, MESSAGE_TEXT)
_DESCRIBED = schema.keys({"name": _WORD, "description": _SHORT})
_ANCHOR = schema.keys({"rating": _RATING, "meaning": _SHORT})
_SUBJECT = {
    "name": _WORD,
    "definition": schema.text(20_000),
    "inputs": schema.list_of(_DESCRIBED, least=1, most=32),
    "instruction": schema.text(200_000),
    "source": _SHORT,
}
SUBJECTS = {
    "rating": schema.keys({**_SUBJECT, "anchors": schema.list_of(_ANCHOR, least=2, most=1001)}),
    "pairwise": schema.keys({**_SUBJECT, "candidate": _WORD}),
}
_CHOICES = schema.either(
    schema.nothing, schema.list_of(schema.either(_RATING, schema.text(64)), least=2, most=1001)
)
_DEMO = schema.named(DEMO_VALUE, name=_WORD, most=40)
_FIELD = schema.keys(
    {
        "name": _WORD,
        "description": _SHORT,
        "role": schema.one_of("input", "output"),
        "choices": _CHOICES,
    }
)
_HASH = schema.text(64, pattern=re.compile(r"[0-9a-f]{64}"))
_FREE = schema.free(depth=8, most=2000)
_NAMED = schema.text(1000)
# Where a judge came from: what is known has its type, what a later release adds is plain data.
_PROVENANCE = schema.keys(
    {},
    {
        "data": schema.keys(
            {"name": _NAMED, "sha256": _HASH},
            {"constructed": schema.one_of(True, False)},
            others=_FREE,
        ),
        "split": schema.keys({"sha256": _HASH}, others=_FREE),
        "optimizer": _NAMED,
        "seed": schema.whole(-(2**63), 2**63),
        "shipped": schema.one_of("tuned", "seed"),
        "budget": schema.named(_FREE, name=_WORD, most=50),
        "versions": schema.named(_NAMED, name=_NAMED, most=100),
        "seed_judge": schema.named(_FREE, name=_WORD, most=20),
        "tuned_judge": schema.named(_FREE, name=_WORD, most=20),
    },
    others=_FREE,
)
DOCUMENT = schema.keys(
    {
        "format": schema.one_of(FORMAT),
        "version": schema.one_of(VERSION),
        "kind": schema.one_of("rating", "pairwise"),
        "name": _WORD,
        "subject": schema.free(depth=4, most=1001),
        "texts": schema.list_of(_WORD, least=1, most=34),
        "scale": schema.either(schema.nothing, schema.list_of(_RATING, least=2, most=1001)),
        "messages": schema.list_of(
            schema.keys(
                {"role": schema.one_of("system", "user", "assistant"), "content": MESSAGE_TEXT},
            ),
            least=2,
            most=2 + 2 * MOST_DEMOS,
        ),
        "program": schema.keys(
            {
                "instructions": schema.text(200_000),
                "demos": schema.list_of(_DEMO, most=MOST_DEMOS),
                "fields": schema.list_of(_FIELD, least=2, most=40),
            }
        ),
        "sampling": schema.keys(
            {
                "kind": schema.one_of("one", "mean", "weighted"),
                "samples": schema.whole(1, 1000),
                "temperature": schema.either(schema.nothing, schema.number(0, 10)),
            }
        ),
        "lm": schema.text(300, pattern=re.compile(r"[^\s\x00-\x1f]+(?: [^\s\x00-\x1f]+)*")),
        "provenance": schema.either(schema.nothing, _PROVENANCE),
        "digest": schema.text(71, pattern=re.compile(r"sha256:[0-9a-f]{64}")),
    }
)
