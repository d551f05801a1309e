"""Where replies come from."""

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
