"""What asks a model. Everything outside this folder imports these names alone."""

from typing import TYPE_CHECKING

from dspy_judges.lazy import lazy_names

if TYPE_CHECKING:
    from judges.client.budget import Account, Budget, BudgetSpentError, Spending
    from judges.client.client import (
        Client,
        FailingRunError,
        FailureMonitor,
        Request,
        Response,
        answers_in_process,
    )
    from judges.client.dialect import is_reasoning
    from judges.client.keys import KEY_FOR_NAME, Redactor, holds_secret
    from judges.client.open import check_name, open_model
    from judges.client.prices import (
        CHARACTERS_PER_TOKEN,
        Price,
        estimate_tokens,
        find_price,
        price_of,
        read_price,
    )
    from judges.client.protocol import (
        EMBEDDED,
        OPENAI,
        Completion,
        FatalModelError,
        Message,
        Model,
        ModelError,
        Reply,
        Sampling,
        Token,
        is_embedded,
    )
    from judges.client.providers import endpoint_of, gives_n_replies
    from judges.client.session import (
        ModelOptions,
        Options,
        Session,
        check_options,
        open_client,
        pop_map,
        shared_client,
    )
    from judges.client.store import Store

__all__ = [
    "CHARACTERS_PER_TOKEN",
    "EMBEDDED",
    "KEY_FOR_NAME",
    "OPENAI",
    "Account",
    "Budget",
    "BudgetSpentError",
    "Client",
    "Completion",
    "FailingRunError",
    "FailureMonitor",
    "FatalModelError",
    "Message",
    "Model",
    "ModelError",
    "ModelOptions",
    "Options",
    "Price",
    "Redactor",
    "Reply",
    "Request",
    "Response",
    "Sampling",
    "Session",
    "Spending",
    "Store",
    "Token",
    "answers_in_process",
    "check_name",
    "check_options",
    "endpoint_of",
    "estimate_tokens",
    "find_price",
    "gives_n_replies",
    "holds_secret",
    "is_embedded",
    "is_reasoning",
    "open_client",
    "open_model",
    "pop_map",
    "price_of",
    "read_price",
    "shared_client",
]

_HOMES = {
    "judges.client.budget": "Account Budget BudgetSpentError Spending",
    "judges.client.client": (
        "Client FailingRunError FailureMonitor Request Response answers_in_process "
    ),
    "judges.client.dialect": "is_reasoning",
    "judges.client.keys": "KEY_FOR_NAME Redactor holds_secret",
    "judges.client.open": "check_name open_model",
    "judges.client.prices": (
        "CHARACTERS_PER_TOKEN Price estimate_tokens find_price price_of read_price "
    ),
    "judges.client.protocol": (
        "EMBEDDED OPENAI Completion FatalModelError Message Model "
        "ModelError Reply Sampling Token is_embedded "
    ),
    "judges.client.providers": "endpoint_of gives_n_replies",
    "judges.client.session": (
        "ModelOptions Options Session check_options open_client pop_map shared_client "
    ),
    "judges.client.store": "Store",
}
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
