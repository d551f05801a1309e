"""What is shown of addresses and errors, and what is not: keys."""

import pytest

from judges.models.endpoint import EndpointModel
from judges.models.secrets import Secrets, without_secrets

KEY = "sk-planted-0123456789abcdef"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://me:secret@host:8/v1?api-key=secret#x", "https://host:8/v1"),
        ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1"),
    ],
)
def test_an_address_is_shown_without_what_may_be_secret(url: str, shown: str) -> None:
    assert without_secrets(url) == shown
    assert "secret" not in repr(EndpointModel("m", api_base=url, api_key=KEY))
    assert KEY not in repr(EndpointModel("m", api_base=url, api_key=KEY))


@pytest.mark.parametrize("said", [f"bad key {KEY}", "bad key sk-abc***6789", "Bearer abc.def"])
def test_what_looks_like_a_key_is_blotted_out(said: str) -> None:
    assert Secrets([KEY]).blot(said).endswith("[key]")
