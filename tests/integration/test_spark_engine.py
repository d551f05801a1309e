"""The example for Spark on docs/scoring.md, with the real engine in local mode."""

import sys
from pathlib import Path
from typing import Any

import pytest
from openai_server import OpenAIServer
from page_code import code_under, in_order, prepare

pytest.importorskip("pyspark")
pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings("default")]


def test_spark_gives_the_clients_judgements_by_arrow_and_by_pandas(
    openai_server: OpenAIServer, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    expected = prepare(openai_server)
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
