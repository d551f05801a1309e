"""Where replies come from."""

import warnings

from judges.models.registry import open_model
from judges.protocol import (
    Completion,
    FatalModelError,
    Message,
    Model,
    ModelError,
    RefusedError,
    Reply,
    Sampling,
    Token,
    TransientError,
)

__all__ = [
    "Completion",
    "FatalModelError",
    "Message",
    "Model",
    "ModelError",
    "RefusedError",
    "Reply",
    "Sampling",
    "Token",
    "TransientError",
    "open_model",
]

_RENAMED = {"LastingError": "FatalModelError", "PassingError": "TransientError"}


def __getattr__(name: str) -> object:
    if name not in _RENAMED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(f"judges.models.{name} is now {_RENAMED[name]}", DeprecationWarning, stacklevel=2)
    return globals()[_RENAMED[name]]
