"""The examples for Ray on docs/scoring.md, with the real engine."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from openai_server import OpenAIServer
from page_code import code_under, in_order, prepare

ray = pytest.importorskip("ray")
pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings("default")]


@pytest.fixture(autouse=True)
def cluster(openai_server: OpenAIServer, here: Path) -> Iterator[None]:
    """Ray on this machine, whose workers know the server."""
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def test_the_callable_gives_the_clients_judgements_on_two_cores(
    openai_server: OpenAIServer,
) -> None:
    expected = prepare(openai_server)
    exec(code_under("Many machines: Ray"), {})
    assert in_order("scored") == expected
    assert set(openai_server.n_answered.values()) == {1}


def test_a_processor_asks_by_our_requests_and_reads_our_judgements(
    openai_server: OpenAIServer,
) -> None:
    expected = prepare(openai_server)
    exec(code_under("Ray's processors for language models"), {})
    lines = [line for file in Path("scored").iterdir() for line in file.read_text().splitlines()]
    judged = sorted(map(json.loads, lines), key=lambda each: each["id"])
    assert [{name: each[name] for name in expected[0]} for each in judged] == expected
    assert set(openai_server.n_answered.values()) == {1}
