"""python -m judges: what it prints, writes, refuses, and how it ends."""

import csv
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from openai_server import OpenAIServer
from scripted_model import Scripted, rating_of

import judges
from judges.__main__ import main
from judges.catalog import names
from judges.catalog.summeval import FLUENCY
from judges.judge import Judge
from judges.models.protocol import Completion, LastingError, Message, Sampling
from judges.sampling import SamplingPlan

GOLDEN = Path(__file__).parent / "golden"
ONE = SamplingPlan(kind="one")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder, with a table of 6 rows in it."""
    monkeypatch.chdir(tmp_path)
    rows = [{"id": str(i), "document": f"d{i}", "summary": f"s{i}"} for i in range(6)]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    Path("in.jsonl").write_text(lines, encoding="utf-8")
    with Path("in.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return tmp_path


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    model = Scripted()
    monkeypatch.setattr("judges.engine.session.open_named", lambda lm, api_base=None: model)
    return model


@pytest.fixture
def pairs() -> str:
    rows = [
        {"id": i, "prompt": f"p{i // 2}", "response_a": "good", "response_b": f"bad{'!' * i}"}
        for i in range(6)
    ]
    Path("pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return "pairs.jsonl"


def lines_of(path: str) -> list[dict]:
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


def wanted(name: str, i: int) -> float:
    judge = judges.load(name)
    texts = {text: f"{text[0]}{i}" for text in judge.texts}
    return float(rating_of(judge.prompt.messages(texts)[-1]["content"]))


def test_list_is_a_table_of_the_catalogue(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["name", "kind", "texts", "scale", "source"]
    assert [line.split()[0] for line in lines[1:]] == list(names())
    assert main(["list", "--json"]) == 0
    listed = {entry["name"]: entry for entry in json.loads(capsys.readouterr().out)}
    assert listed["fluency"]["texts"] == ["summary"]
    assert listed["tldr_concise"]["texts"] == ["post", "summary_a", "summary_b"]


@pytest.mark.parametrize(("columns", "shown"), [(80, "SummEval, G-Eval"), (120, "2303.16634)")])
def test_list_takes_the_terminals_width_and_no_more(
    columns: int, shown: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].endswith(shown)
    assert max(map(len, lines)) <= columns


@pytest.mark.parametrize("name", names())
def test_show_prints_the_messages(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", name]) == 0
    shown = capsys.readouterr().out
    for message in judges.load(name).prompt.template():
        assert message["content"] in shown


def test_score_writes_each_row_and_its_judgements(
    scripted: Scripted, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["score", "relevance", "fluency", "--data", "in.jsonl", "--out", "o.jsonl"]) == 0
    out, err = capsys.readouterr()
    for i, (row, read) in enumerate(zip(lines_of("o.jsonl"), lines_of("in.jsonl"), strict=True)):
        judgements = row.pop("judgements")
        assert row == read
        assert list(judgements) == ["relevance", "fluency"]
        for name, judgement in judgements.items():
            assert list(judgement) == ["score", "rating", "distribution", "rationale", "failure"]
            assert judgement["score"] == judgement["rating"] == wanted(name, i)
    means = [sum(wanted(name, i) for i in range(6)) / 6 for name in ("relevance", "fluency")]
    assert out.splitlines() == [
        f"relevance  mean {means[0]:.3f}  n=6 (0 failed)",
        f"fluency    mean {means[1]:.3f}  n=6 (0 failed)",
    ]
    assert "estimate: 12 requests" in err
    assert "judging: 6/6 rows" in err


@pytest.mark.parametrize("form", ["csv", "tsv", "parquet"])
def test_flat_tables_get_two_columns_a_judge(scripted: Scripted, form: str) -> None:
    assert main(["score", "relevance", "--data", "in.csv", "--out", f"o.{form}"]) == 0
    if form == "parquet":
        table = pq.read_table("o.parquet").to_pydict()
        scores, failures = table["relevance"], table["relevance_failure"]
        assert failures == [None] * 6
    else:
        with Path(f"o.{form}").open(newline="") as file:
            read = list(csv.DictReader(file, delimiter="," if form == "csv" else "\t"))
        assert list(read[0]) == ["id", "document", "summary", "relevance", "relevance_failure"]
        scores = [float(row["relevance"]) for row in read]
    assert scores == [wanted("relevance", i) for i in range(6)]


def test_failures_are_empty_counted_and_told(
    scripted: Scripted, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"summary": "s0"}, {"summary": ""}, {"text": "x"}, {"summary": "garble"}]
    Path("in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(["score", "fluency", "--data", "in.jsonl", "--out", "o.jsonl", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)["judges"]["fluency"]
    assert (result["n"], result["n_failed"]) == (1, 3)
    failures = [row["judgements"]["fluency"]["failure"] for row in lines_of("o.jsonl")]
    assert failures[:3] == [None, "summary is empty", "no summary"]
    assert "no idea" in failures[3]
    assert [row["judgements"]["fluency"]["score"] for row in lines_of("o.jsonl")][1:] == [None] * 3


def test_nothing_scored_is_a_failure(
    scripted: Scripted, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("in.jsonl").write_text('{"summary": "garble"}\n')
    assert main(["score", "fluency", "--data", "in.jsonl", "--out", "o.jsonl"]) == 1
    assert "no row got a score; the first reason" in capsys.readouterr().err
    assert len(lines_of("o.jsonl")) == 1


def test_scores_of_an_earlier_run_are_kept_beside_the_new(scripted: Scripted) -> None:
    assert main(["score", "relevance", "--data", "in.jsonl", "--out", "a.jsonl"]) == 0
    assert main(["score", "fluency", "--data", "a.jsonl", "--out", "b.jsonl"]) == 0
    assert list(lines_of("b.jsonl")[0]["judgements"]) == ["relevance", "fluency"]


def test_compare_writes_verdicts_and_a_win_rate(
    scripted: Scripted, pairs: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", "tldr_concise", "--data", pairs, "--out", "v.jsonl", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["win_rate_a"], result["n"], result["n_ties"], result["n_failed"]) == (1, 6, 0, 0)
    assert (result["flip_rate"], result["position_bias"]) == (0, 0)
    for row in lines_of("v.jsonl"):
        assert row["verdict"] == {
            "preferred": "A",
            "order_ab": "A",
            "order_ba": "A",
            "comparison": "Good it is.",
            "failure": None,
        }


def test_compare_in_random_order_records_it_and_repeats_it(scripted: Scripted, pairs: str) -> None:
    ask = ["compare", "tldr_concise", "--data", pairs, "--order", "random", "--seed", "5"]
    assert main([*ask, "--out", "a.csv"]) == 0
    assert main([*ask, "--out", "b.csv"]) == 0
    assert Path("a.csv").read_text() == Path("b.csv").read_text()
    with Path("a.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert all((row["verdict_order_ab"] == "") != (row["verdict_order_ba"] == "") for row in rows)


def test_compare_prints_one_quotable_line(
    scripted: Scripted, pairs: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", "tldr_concise", "--data", pairs, "--out", "v.jsonl"]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first == "tldr_concise win rate of A 1.000 [1.000, 1.000] n=6 pairs (0 ties, 0 failed)"


def test_a_dry_run_estimates_and_sends_nothing(
    scripted: Scripted, capsys: pytest.CaptureFixture[str]
) -> None:
    ask = ["score", "relevance", "--data", "in.jsonl", "--dry-run", "--lm", "openai/gpt-4.1-mini"]
    assert main([*ask, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["requests"] == 6
    assert 0 < result["cost_usd"] < result["cost_usd_by_model"]["openai/gpt-4.1"]
    assert main([*ask, "--samples", "20"]) == 0
    shown = capsys.readouterr().out
    assert "openai/gpt-4.1-mini" in shown
    assert "(chosen)" in shown
    assert not scripted.asked
    assert sorted(path.name for path in Path().iterdir()) == ["in.csv", "in.jsonl"]


def test_frozen_files_folders_and_definitions_are_judges(scripted: Scripted) -> None:
    Judge(subject=FLUENCY, prompt=FLUENCY.prompt(), plan=ONE).save("judge.json")
    Path("run").mkdir()
    Judge(subject=FLUENCY, prompt=FLUENCY.prompt(), plan=ONE).save("run/judge.json")
    Path("my.yaml").write_text("{name: mine, definition: d, inputs: [summary], scale: [1, 5]}")
    for number, judge in enumerate(["judge.json", "run", "my.yaml"]):
        assert main(["score", judge, "--data", "in.csv", "--out", f"{number}.csv"]) == 0
    assert Path("0.csv").read_text() == Path("1.csv").read_text()
    assert Path("2.csv").read_text().startswith("id,document,summary,mine,mine_failure\n")


PROVENANCE = {
    "data": {"name": "labels.jsonl", "sha256": "0123456789ab" + "0" * 52},
    "optimizer": "rank",
    "seed": 7,
    "shipped": "tuned",
    "tuned_judge": {
        "test": {
            "coefficient": "spearman",
            "level": "summary",
            "value": 0.41,
            "low": 0.3,
            "high": 0.5,
            "n_documents": 20,
        },
        "test_unseen_systems": None,
    },
}


def test_show_tells_where_a_frozen_judge_comes_from(capsys: pytest.CaptureFixture[str]) -> None:
    Judge(subject=FLUENCY, prompt=FLUENCY.prompt(), plan=ONE, provenance=PROVENANCE).save("j.json")
    assert main(["show", "j.json"]) == 0
    shown = capsys.readouterr().out
    assert "frozen for embedded, plan one" in shown
    assert "tuned judge of optimizer rank, seed 7, on labels.jsonl" in shown
    assert (
        "tuned judge on test: summary-level spearman 0.410 [0.300, 0.500] n=20 documents" in shown
    )


def test_another_model_than_the_frozen_ones_is_noted(
    scripted: Scripted, capsys: pytest.CaptureFixture[str]
) -> None:
    Judge(subject=FLUENCY, prompt=FLUENCY.prompt(), plan=ONE).save("j.json")
    ask = ["score", "j.json", "--data", "in.csv", "--out"]
    assert main([*ask, "a.csv"]) == 0
    assert "note:" not in capsys.readouterr().err
    assert main([*ask, "b.csv", "--lm", "openai/x"]) == 0
    assert "note: fluency was frozen for embedded" in capsys.readouterr().err
    assert main([*ask, "c.csv", "--rationale"]) == 2


def test_map_and_prefix_name_columns(scripted: Scripted) -> None:
    Path("in.csv").write_text("text,fluency\ns0,4\n")
    ask = ["score", "fluency", "--data", "in.csv", "--map", "summary=text", "--out", "o.csv"]
    assert main(ask) == 1
    assert main([*ask, "--prefix", "judge_"]) == 0
    score = int(wanted("fluency", 0))
    assert Path("o.csv").read_text() == (
        f"text,fluency,judge_fluency,judge_fluency_failure\ns0,4,{score}.0,\n"
    )


def test_flags_beat_the_config_which_beats_defaults(
    scripted: Scripted, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("c.yaml").write_text("data: in.jsonl\nlm: openai/gpt-5\ndry-run: true\nsamples: 2\n")
    ask = ["score", "relevance", "--data", "in.csv", "--config", "c.yaml"]
    assert main([*ask, "--lm", "openai/gpt-4.1"]) == 0
    assert "openai/gpt-4.1 " in capsys.readouterr().out
    Path("c.yaml").write_text("colour: red\n")
    assert main(ask) == 2
    assert "c.yaml: no flag --colour" in capsys.readouterr().err


FAILING = {
    "an unknown judge": (["nope", "--data", "in.csv", "--out", "o.csv"], 2, "no judge 'nope'"),
    "a missing file": (["fluency", "--data", "x.csv", "--out", "o.csv"], 1, "x.csv: No such file"),
    "a missing column": (
        ["fluency", "--data", "in.csv", "--out", "o.csv", "--map", "summary=x"],
        1,
        "no column 'x', which the judge 'fluency' reads; columns: document, id, summary",
    ),
    "an unknown text to map": (
        ["fluency", "--data", "in.csv", "--out", "o.csv", "--map", "sumary=x"],
        2,
        "--map sumary: no such text; they are summary",
    ),
    "a format not known": (["fluency", "--data", "in.csv", "--out", "o.xls"], 1, "one of .jsonl"),
    "no output": (["fluency", "--data", "in.csv"], 2, "--out FILE is needed"),
    "output over input": (["fluency", "--data", "in.csv", "--out", "./in.csv"], 2, "--data itself"),
    "an output that is there": (
        ["fluency", "--data", "in.csv", "--out", "in.jsonl"],
        1,
        "in.jsonl exists already; --force writes over it",
    ),
    "no folder for the output": (
        ["fluency", "--data", "in.csv", "--out", "x/o.csv"],
        1,
        "folder x",
    ),
    "a pairwise judge to score": (
        ["tldr_concise", "--data", "in.csv", "--out", "o.csv"],
        2,
        "use: python -m judges compare",
    ),
    "a judge twice": (
        ["fluency", "fluency", "--data", "in.csv", "--out", "o.csv"],
        2,
        "two judges",
    ),
    "two plans": (
        ["fluency", "--data", "in.csv", "--out", "o.csv", "--weighted", "--samples", "3"],
        2,
        "two plans, mean and weighted",
    ),
    "twenty times the same reply": (
        ["fluency", "--data", "in.csv", "--out", "o.csv", "--samples", "3", "--temperature", "0"],
        2,
        "draws the same reply every time",
    ),
    "a plan that the model cannot follow": (
        ["fluency", "--data", "in.csv", "--out", "o.csv", "--weighted"],
        1,
        "gives no log-probabilities, which the plan 'weighted' needs",
    ),
    "a price not known": (
        ["fluency", "--data", "in.csv", "--out", "o.csv", "--lm", "openai/own", "--max-cost", "1"],
        1,
        "max_cost needs the model's price",
    ),
    "a folder as a judge": ([".", "--data", "in.csv", "--out", "o.csv"], 1, "holds no judge.json"),
}


@pytest.mark.parametrize(("ask", "code", "why"), FAILING.values(), ids=FAILING)
def test_what_cannot_be_done_is_one_line_and_writes_nothing(
    scripted: Scripted, ask: list[str], code: int, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path.name: path.read_bytes() for path in Path().iterdir()}
    assert main(["score", *ask]) == code
    out, err = capsys.readouterr()
    assert out == ""
    *progress, line = err.splitlines()
    assert line.startswith("judges: ")
    assert why in line
    assert not any("Traceback" in said for said in progress)
    assert not scripted.asked
    left = {path.name: path.read_bytes() for path in Path().iterdir()}
    assert {name: left[name] for name in before} == before
    assert left.keys() - before.keys() <= {"o.csv.replies.jsonl"}


def test_a_bad_row_stops_before_anything_is_sent(
    scripted: Scripted, capsys: pytest.CaptureFixture[str]
) -> None:
    with Path("in.jsonl").open("a") as file:
        file.write("{not json\n")
    assert main(["score", "fluency", "--data", "in.jsonl", "--out", "o.jsonl"]) == 1
    assert "in.jsonl, line 7: not JSON" in capsys.readouterr().err
    assert not scripted.asked


@pytest.mark.parametrize("ask", [["score", "fluency"], ["nope"], [], ["score", "--lm"]])
def test_wrong_usage_ends_with_two_and_one_line(
    ask: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(ask)
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.startswith("python -m judges")
    assert said.endswith("(--help lists the flags)\n")


def test_a_spent_budget_ends_resumably_and_pays_nothing_twice(
    scripted: Scripted, capsys: pytest.CaptureFixture[str]
) -> None:
    ask = ["score", "relevance", "--data", "in.csv", "--out", "o.csv", "--lm", "openai/x"]
    assert main([*ask, "--max-calls", "4", "--concurrency", "1"]) == 1
    said = capsys.readouterr().err.splitlines()[-1]
    assert "budget of 4 calls is spent" in said
    assert "run the same with --resume" in said
    assert not Path("o.csv").exists()
    assert main(ask) == 1
    assert "left of an unfinished run: --resume goes on" in capsys.readouterr().err
    assert main([*ask, "--resume"]) == 0
    assert len(scripted.asked) == 6
    assert main([*ask, "--force"]) == 0
    assert len(scripted.asked) == 6
    assert not Path("o.csv.partial").exists()


def test_an_interrupted_run_ends_with_130_and_resumes_to_the_same(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Interrupted(Scripted):
        async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
            if len(self.asked) == 3:
                raise KeyboardInterrupt
            return await super().complete(messages, sampling)

        in_process = True

    async def at_once(seconds: float) -> None:
        """A model in this process does not wait."""

    monkeypatch.setattr("scripted_model.asyncio.sleep", at_once)
    models = [Interrupted(), Scripted()]
    monkeypatch.setattr("judges.engine.session.open_named", lambda lm, api_base=None: models[0])
    ask = ["score", "relevance", "--data", "in.csv", "--lm", "openai/x"]
    assert main([*ask, "--out", "o.csv"]) == 130
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("judges: interrupted: 3 of 6 rows are in o.csv.partial")
    models.pop(0)
    assert main([*ask, "--out", "o.csv", "--resume"]) == 0
    assert len(models[0].asked) == 3
    assert main([*ask, "--out", "whole.csv"]) == 0
    assert Path("o.csv").read_text() == Path("whole.csv").read_text()


def test_a_wrong_key_is_one_line_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Locked(Scripted):
        async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
            raise LastingError("401: wrong key")

    monkeypatch.setattr("judges.engine.session.open_named", lambda lm, api_base=None: Locked())
    assert main(["score", "fluency", "--data", "in.csv", "--out", "o.csv", "--lm", "openai/x"]) == 1
    assert capsys.readouterr().err.splitlines()[-1] == "judges: 401: wrong key"
    assert not Path("o.csv.partial").exists()


def test_verbose_shows_where_an_error_arose(
    scripted: Scripted, capsys: pytest.CaptureFixture[str]
) -> None:
    ask = ["score", "fluency", "--data", "x.csv", "--out", "o.csv"]
    assert main([*ask, "--verbose"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_scoring_over_http_keeps_the_key_out_of_every_file(
    openai_server: OpenAIServer, capsys: pytest.CaptureFixture[str]
) -> None:
    ask = ["score", "coherence", "--data", "in.jsonl", "--out", "o.jsonl", "--verbose", "--json"]
    assert main([*ask, "--lm", "openai/judge-1", "--rationale"]) == 0
    out, err = capsys.readouterr()
    result = json.loads(out)
    assert (result["lm_calls"], result["judges"]["coherence"]["n"]) == (6, 6)
    written = "".join(path.read_text(encoding="utf-8") for path in Path().iterdir())
    assert "sk-local" not in written + out + err
    assert lines_of("o.jsonl")[0]["judgements"]["coherence"]["rationale"] == "It is what it is."
    assert main(["journal", "o.jsonl.replies.jsonl", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["n_requests"] == 6


def test_batch_files_score_in_three_steps(
    openai_server: OpenAIServer, capsys: pytest.CaptureFixture[str]
) -> None:
    ask = ["score", "coherence", "fluency", "--data", "in.csv", "--lm", "openai/judge-1"]
    assert main([*ask, "--out", "live.csv"]) == 0
    live = len(openai_server.log)
    batched = [*ask, "--out", "o.csv", "--batch-api"]
    assert main([*batched, "collect"]) == 1
    assert "no batches there; submit first" in capsys.readouterr().err
    assert main([*batched, "submit"]) == 0
    assert "of 12 requests" in capsys.readouterr().out
    assert not Path("o.csv").exists()
    assert main([*batched, "status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["requests"] == 12
    assert main([*batched, "collect"]) == 0
    assert Path("o.csv").read_text() == Path("live.csv").read_text()
    assert not [seen for seen in openai_server.log[live:] if "chat" in seen.path]


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (["--lm", "openai/judge-1", "--max-calls", "5"], "6 requests are more than --max-calls 5"),
        (["--lm", "openai/own", "--max-cost", "1"], "the batch's price is unknown"),
        (["--lm", "embedded"], "embedded: batch files need an OpenAI-compatible model"),
    ],
)
def test_a_batch_that_may_not_be_is_refused_before_anything_is_sent(
    openai_server: OpenAIServer, flags: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ask = ["score", "fluency", "--data", "in.csv", "--out", "o.csv", "--batch-api", "submit"]
    assert main([*ask, *flags]) in {1, 2}
    assert why in capsys.readouterr().err
    assert not openai_server.log


@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_ray_writes_what_a_local_run_writes(capsys: pytest.CaptureFixture[str]) -> None:
    ray = pytest.importorskip("ray", reason="ray is an extra and not installed")
    ask = ["score", "relevance", "--data", "in.jsonl", "--out"]
    assert main([*ask, "local.jsonl"]) == 0
    try:
        assert main([*ask, "ray.jsonl", "--engine", "ray", "--workers", "1"]) == 0
    finally:
        ray.shutdown()
    assert Path("ray.jsonl").read_text() == Path("local.jsonl").read_text()


def test_export_prints_writes_and_refuses(capsys: pytest.CaptureFixture[str]) -> None:
    Judge(subject=FLUENCY, prompt=FLUENCY.prompt(), plan=ONE, lm="openai/x").save("judge.json")
    assert main(["export", "judge.json", "--to", "messages"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["messages"] == FLUENCY.prompt().template()
    assert err.startswith("note: ")
    assert main(["export", "judge.json", "--to", "mlflow", "--out", "fluency.py"]) == 0
    assert main(["export", "judge.json", "--to", "mlflow", "--out", "fluency.py"]) == 1
    assert "fluency.py exists already" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["", "list", "show", "score", "compare", "export", "journal"])
def test_help_is_readable_at_80_columns(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as ended:
        main([*command.split(), "--help"])
    assert ended.value.code == 0
    assert max(len(line) for line in capsys.readouterr().out.splitlines()) <= 80


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="argparse lays help out otherwise there")
@pytest.mark.parametrize("command", ["score", "compare"])
def test_help_is_what_was_reviewed(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main([command, "--help"])
    golden = (GOLDEN / f"judges_{command}_help.txt").read_text(encoding="utf-8")
    assert capsys.readouterr().out == golden


def test_a_reader_that_leaves_early_is_no_error() -> None:
    command = f"{sys.executable} -m judges list | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.splitlines()[1:] == ["0"]
    assert done.stderr == ""


def test_listing_starts_without_what_it_does_not_need() -> None:
    script = (
        "import sys\nfrom judges.__main__ import main\nmain(['list'])\n"
        "heavy = {'dspy', 'pandas', 'scipy', 'litellm', 'openai', 'datasets', 'aiohttp'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
