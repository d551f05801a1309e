"""Clients that send requests to models, within one budget and with one store of the replies.

A run has one Session, which opens a Client for each model. All clients of a session have the same
Budget and Store. A Client has one Sender, and each call of its method `run` has one RequestQueue.
docs/DESIGN.md lists which of these objects owns which state.
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
