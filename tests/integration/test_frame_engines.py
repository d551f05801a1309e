"""The examples for Polars and DuckDB on docs/scoring.md, with the real engines."""

from pathlib import Path

import pytest
from openai_server import OpenAIServer
from page_code import code_under, in_order, prepare

pytest.importorskip("polars")
pytest.importorskip("duckdb")
pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings("default")]


@pytest.mark.parametrize("place", [0, 1], ids=["polars", "duckdb"])
def test_a_frame_engine_gives_the_clients_judgements(
    openai_server: OpenAIServer, here: Path, place: int
) -> None:
    expected = prepare(openai_server)
    both = code_under("Polars and DuckDB")
    second = both.index("from itertools")
    exec(both[:second] if place == 0 else both[second:], {})
    assert in_order("scored.parquet") == expected
    assert set(openai_server.n_answered.values()) == {1}
