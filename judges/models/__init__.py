"""Where replies come from."""

from judges.models.opening import open_model
from judges.models.protocol import (
    Completion,
    LastingError,
    Message,
    Model,
    ModelError,
    PassingError,
    RefusedError,
    Reply,
    Sampling,
    Token,
)

__all__ = [
    "Completion",
    "LastingError",
    "Message",
    "Model",
    "ModelError",
    "PassingError",
    "RefusedError",
    "Reply",
    "Sampling",
    "Token",
    "open_model",
]
