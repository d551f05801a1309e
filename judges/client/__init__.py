"""Clients that send requests to models, within one budget and with one store of the replies.

Requests are sent on one event loop, in a thread of its own. A caller's thread starts requests and
takes the responses. Each piece of state that changes has one owner:

    state                            owner                changed by          guarded by
    ------------------------------------------------------------------------------------------------
    event loop and its thread        event_loop           any thread          _loop_lock
    requests sent, cost, set aside   Budget, Account      any thread          Budget.lock
    rows of the database             Store                any thread          Store._lock
    started requests of a run        RequestQueue         caller              one thread changes it
    number of finished requests      RequestQueue         loop                one thread changes it
    in flight, spent budget of a run RunState             loop; caller stops  a flag is only set
    tokens and failures of responses Client               caller of `run`     one thread changes it
    requests with the same key       Client               loop                one thread changes it
    limit of requests in flight      Sender, Throttle     loop                one thread changes it
    answers and failures in a row    Sender               loop                one thread changes it
    parts that a model refuses       RequestFormat        loop                one thread changes it
    open models, shared clients      open, session        any thread          dict.setdefault
    keys to redact                   keys                 any thread          set.update

A run has one Session, which opens a Client for each model. All clients of a session have the same
Budget and Store. A Client has one Sender, and each call of `run` has a RequestQueue of its own.
"""

from typing import TYPE_CHECKING

from dspy_judges.lazy import lazy_names

if TYPE_CHECKING:
    from judges.client.budget import Account as Account
    from judges.client.budget import Budget as Budget
    from judges.client.budget import BudgetSpentError as BudgetSpentError
    from judges.client.budget import Counts as Counts
    from judges.client.budget import Spending as Spending
    from judges.client.client import Client as Client
    from judges.client.client import answers_in_process as answers_in_process
    from judges.client.keys import KEY_IN_NAME_PROBLEM as KEY_IN_NAME_PROBLEM
    from judges.client.keys import Redactor as Redactor
    from judges.client.keys import endpoint_digest as endpoint_digest
    from judges.client.keys import endpoint_of as endpoint_of
    from judges.client.keys import gives_n_replies as gives_n_replies
    from judges.client.keys import url_has_secret as url_has_secret
    from judges.client.open import add_provider as add_provider
    from judges.client.open import check_model_name as check_model_name
    from judges.client.open import check_model_of_file as check_model_of_file
    from judges.client.open import configured_lm as configured_lm
    from judges.client.open import is_allowed_in_file as is_allowed_in_file
    from judges.client.open import open_lm as open_lm
    from judges.client.open import open_model as open_model
    from judges.client.prices import CHARACTERS_PER_TOKEN as CHARACTERS_PER_TOKEN
    from judges.client.prices import Price as Price
    from judges.client.prices import choose_price as choose_price
    from judges.client.prices import estimate_tokens as estimate_tokens
    from judges.client.prices import find_price as find_price
    from judges.client.prices import price_of as price_of
    from judges.client.prices import read_price as read_price
    from judges.client.request_queue import FailureMonitor as FailureMonitor
    from judges.client.session import ModelOptions as ModelOptions
    from judges.client.session import Options as Options
    from judges.client.session import Session as Session
    from judges.client.session import read_options as read_options
    from judges.client.session import shared_client as shared_client
    from judges.client.store import Store as Store
    from judges.protocol import Request as Request

__getattr__, __dir__ = lazy_names(__name__)
