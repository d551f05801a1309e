"""Where replies come from."""

from judges.models.protocol import (
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
from judges.models.registry import open_model

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
