"""The examples on docs/engines.md with the real engines: Polars, DuckDB, Ray and local Spark."""

import sys
from typing import Any

import pytest
from page_code import code_under, in_order, prepare

pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings("default")]


@pytest.fixture
def expected(openai_server, here):
    """The client's judgements of the page's rows."""
    return prepare(openai_server)


@pytest.fixture
def cluster(expected):
    """Ray on this machine, whose workers know the server."""
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.mark.parametrize("engine", ["polars", "duckdb"])
def test_a_frame_engine_gives_the_clients_judgements(openai_server, expected, engine):
    pytest.importorskip(engine)
    first, second = code_under("Polars and DuckDB").split("from itertools", 1)
    exec(first if engine == "polars" else f"from itertools{second}", {})
    assert in_order("scored.parquet") == expected
    assert set(openai_server.n_answered.values()) == {1}


@pytest.mark.usefixtures("cluster")
def test_rays_callable_gives_our_scores(openai_server, expected):
    exec(code_under("Many machines: Ray"), {})
    assert in_order("scored") == expected
    assert set(openai_server.n_answered.values()) == {1}


def test_spark_gives_the_clients_judgements(openai_server, expected, monkeypatch):
    pytest.importorskip("pyspark")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    names: dict[str, Any] = {}
    try:
        exec(code_under("Spark"), names)
        assert in_order("scored") == expected
        assert set(openai_server.n_answered.values()) == {1}
        judge_batch, schema = names["judge_batch"], names["schema"]
        by_pandas = names["rows"].mapInPandas(lambda batches: map(judge_batch, batches), schema)
        by_pandas.write.parquet("by_pandas")
        assert in_order("by_pandas") == expected
    finally:
        names["spark"].stop()
