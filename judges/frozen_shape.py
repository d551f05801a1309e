"""The shape of a frozen judge's file: which keys, of which types, within which bounds."""

import re

from judges import schema
from judges.dimension import NAME

FORMAT = "dspy-judges frozen judge"
VERSION = 1

_WORD = schema.text(64, pattern=NAME)
_LONG = schema.text(1_000_000, empty=True)
_SHORT = schema.text(20_000, empty=True)
_RATING = schema.whole(-1000, 1000)
_VALUE = schema.either(_RATING, _LONG)
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
_FIELD = schema.keys(
    {
        "name": _WORD,
        "description": _SHORT,
        "role": schema.one_of("input", "output"),
        "choices": _CHOICES,
    }
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
                {"role": schema.one_of("system", "user", "assistant"), "content": _LONG},
            ),
            least=2,
            most=402,
        ),
        "program": schema.keys(
            {
                "instructions": schema.text(200_000),
                "demos": schema.list_of(schema.named(_VALUE, name=_WORD, most=40), most=200),
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
        "provenance": schema.either(
            schema.nothing, schema.named(schema.free(depth=8, most=2000), name=_WORD, most=100)
        ),
        "digest": schema.text(71, pattern=re.compile(r"sha256:[0-9a-f]{64}")),
    }
)
