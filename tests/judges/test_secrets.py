"""What is shown of addresses and errors, and what is not: keys."""

import random
import string
import time

import pytest

from judges.models.endpoint import EndpointModel
from judges.models.redaction import Redactor, environment, without_secrets
from judges.protocol import Completion, FatalModelError, Reply

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
    assert "secret" not in repr(EndpointModel("m", api_base=url))
    assert "secret" not in repr(EndpointModel("m", api_base=url.replace("me:secret@", "")))


def test_a_user_in_an_address_and_a_key_beside_it_are_refused() -> None:
    """Both want the same header, and no request could be sent."""
    with pytest.raises(FatalModelError, match="leave the other out") as caught:
        EndpointModel("m", api_base="https://me:secret@host/v1", api_key=KEY)
    assert "me:secret" not in str(caught.value)


# Made up, each in a provider's own form.
FORMS = [
    "sk-4f9c2b7e1d6a80354f9c2b7e1d6a8035",
    "sk-proj-a8Kq2Zx7Lm4Vt9Rb3Nc6_Xw5Hd1Jf0",
    "sk-ant-api03-Zq8Kd2Lx7Mv4Tn9Rb3Nc6Xw5Hd1Jf0",
    "sk-or-v1-0f3a9c2b7e1d6a80354f9c2b7e1d6a80",
    "gsk_aK4dQ9zX2wL7pT1nV5bR",
    "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",
    "ghp_aK4dQ9zX2wL7pT1nV5bR8cY3mS6gH",
    "AIzaSyA4dQ9zX2wL7pT1nV5bR8cY3mS6gH0jE",
    "AKIAQ4D9ZX2WL7PT1NV5",
    "Bearer q7Zk2Xw9Lp4Tn8Vb",
    "bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
]
PROSE = [
    "Bearer certificates were sold in Basel in 2024.",
    "The bearer acknowledges responsibility-for-everything.",
    "sk-learn-compatible-estimators-and-transformers",
    "sk-learn-compatible-estimators-v2-2024-01-02",
    "pk-based-authentication-mechanisms are old",
    "hf_transformers_for_summarization_tasks",
    "github_pat_documentation_for_beginners",
    "risk-adjusted-returns-over-twenty-years, task-oriented-dialogue-systems-2024",
    "r8-engine-with-a-quattro-drive-train",
    "See https://medium.com/@someone/article?page=2 and mail me@example.org.",
    "SK-II facial treatment essence, sk-SK.UTF-8",
]


@pytest.mark.parametrize("key", FORMS)
def test_what_looks_like_a_key_is_blotted_out(key: str) -> None:
    assert Redactor().redact(f"bad key {key}") == "bad key [key]"
    assert Redactor().holds(f"a text with {key} in it")


def test_a_key_that_a_provider_masked_is_blotted_out() -> None:
    assert Redactor().redact("bad key sk-abc***6789") == "bad key [key]"


@pytest.mark.parametrize("text", PROSE)
def test_prose_is_no_key(text: str) -> None:
    assert not Redactor([KEY]).holds(text)
    assert Redactor([KEY]).redact(text) == text


def test_random_keys_are_known_and_joined_words_are_not() -> None:
    """Of 4,000 drawn keys at most 1 in 200 is missed; of 4,000 joined words none is taken."""
    rng = random.Random(0)
    letters = string.ascii_letters + string.digits
    words = [
        "learn",
        "compatible",
        "model",
        "score",
        "judge",
        "the",
        "of",
        "2024",
        "v2",
        "API",
        "GPU",
    ]
    secrets = Redactor()
    missed = taken = 0
    for _ in range(4_000):
        alphabet = rng.choice([letters, "0123456789abcdef", letters + "-_"])
        key = "".join(rng.choices(alphabet, k=rng.randint(32, 64)))
        missed += not secrets.holds(f"sk-{key}")
        joined = "-".join(rng.choices(words, k=rng.randint(3, 8)))
        taken += secrets.holds(f"sk-{joined}")
    assert missed <= 20
    assert taken == 0


@pytest.mark.parametrize(
    "value", ["relevance", "not-needed", "PLACEHOLDER", "Local Server", "EMPTY", "x"]
)
def test_a_word_under_a_keys_name_is_not_struck_from_texts(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_KEY", value)
    text = f"The {value} of it, and {value}."
    assert Redactor([value]).remove_keys(text) == text


def test_an_address_under_a_keys_name_gives_its_own_secrets() -> None:
    held = environment({"DB_TOKEN": "https://me:pa55word99@host/v1?key=q7Zk2Xw9Lp4Tn8Vb"})
    assert {"pa55word99", "q7Zk2Xw9Lp4Tn8Vb"} <= set(held)
    assert not [one for one in held if "host" in one]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("no host http://me:secret@host/v1 there", "no host http://[key]@host/v1 there"),
        ("GET http://h/v1?api-key=abc&x=1 failed", "GET http://h/v1?[key]&x=1 failed"),
        ("GET http://h/v1?page=2&token=abc failed", "GET http://h/v1?page=2&[key] failed"),
    ],
)
def test_a_secret_inside_an_address_is_blotted_out(text: str, shown: str) -> None:
    assert Redactor().redact(text) == shown


def test_a_key_given_in_code_is_in_use() -> None:
    given = "given0in1code2and3nowhere4else"
    EndpointModel("m", api_base="http://127.0.0.1:9/v1", api_key=given)
    assert Redactor().holds(f"it says {given}.")


@pytest.mark.parametrize(
    "unit", ["sk-", "?key", "?sig-", "eyJaaaaaaaaaaaaaaaaa-", "&api-key-", "://a", "bearer "]
)
def test_an_errors_text_is_searched_in_a_time_that_grows_with_its_length(unit: str) -> None:
    """Some 50 s each at this length where a repeat is tried from every place to the text's end."""
    text = unit * (100_000 // len(unit))
    began = time.process_time()
    Redactor().redact(text)
    assert time.process_time() - began < 4


def test_a_password_is_struck_in_the_form_of_its_header_and_from_why_a_reply_ended() -> None:
    # base64 of "me:pa/55word99xyz", as `printf me:pa/55word99xyz | base64` prints it.
    header = "bWU6cGEvNTV3b3JkOTl4eXo"
    secrets = Redactor(url="http://me:pa%2F55word99xyz@host/v1")
    assert header not in secrets.redact(f"bad Authorization: Basic {header}=")
    reply = Reply(text=f"4, Basic {header}=", finish_reason=KEY)
    answer = Completion(replies=(reply,), tokens_in=1, tokens_out=1, model="m")
    cleaned = Redactor([KEY, header]).clean(answer).replies[0]
    assert header not in cleaned.text
    assert KEY not in cleaned.finish_reason
    assert header not in secrets.clean(answer).replies[0].text
