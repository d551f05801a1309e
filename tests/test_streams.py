"""Streams that end early, are full or lack letters: none of them decides what a command does."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
from processes import TIMEOUT, run_python

COMMANDS = {
    "check": (["check", "labels.jsonl"], 0, None),
    "verify": (
        ["verify", "relevance", "--data", "labels.jsonl", "--min-spearman", "0.99"],
        3,
        None,
    ),
    "tune": (
        ["tune", "--dimension", "relevance", "--data", "labels.jsonl", "--out", "run"],
        0,
        "run/summary.json",
    ),
}


@pytest.fixture(scope="module")
def labels() -> str:
    """Twelve documents, too few for an interval: a gate is undecided."""
    draw, rows = random.Random(0), []
    words = ["river", "rose", "night", "people", "left", "homes", "before", "roads", "closed"]
    for number in range(48):
        document = " ".join(random.Random(number // 4).choices(words, k=40))
        row = {"id": str(number), "document": document, "system": "abcd"[number % 4]}
        rows.append(
            {**row, "summary": " ".join(draw.choices(words, k=9)), "relevance": number % 5 + 1}
        )
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.mark.parametrize(("name", "n_read"), [*((name, 0) for name in COMMANDS), ("check", 150)])
def test_a_reader_that_leaves_decides_neither_the_work_nor_its_exit_code(
    name: str, n_read: int, labels: str, tmp_path: Path
) -> None:
    words, code, made = COMMANDS[name]
    (tmp_path / "labels.jsonl").write_text(labels)
    running = subprocess.Popen(
        [sys.executable, "-m", "dspy_judges", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        bufsize=0,
        cwd=tmp_path,
    )
    assert running.stdout is not None
    said = running.stdout.read(n_read)
    running.stdout.close()
    assert running.wait(TIMEOUT) == code, said
    assert made is None or (tmp_path / made).exists()


def test_help_goes_nowhere_without_a_trace() -> None:
    command = f"{sys.executable} -m dspy_judges --help | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("0\n", "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("words", [("--help",), ("check", "starter", "--json")])
def test_a_result_that_cannot_be_written_is_a_failure_of_one_line(words: tuple[str, ...]) -> None:
    script = "import sys; from dspy_judges.__main__ import main; sys.exit(main(sys.argv[1:]))"
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", script, *words], stdout=full, stderr=subprocess.PIPE, text=True
        )
    expected = "dspy-judges: stdout: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, expected)


def test_what_an_encoding_lacks_is_escaped_as_in_json(tmp_path: Path) -> None:
    (tmp_path / "kind.yaml").write_text(
        "name: kind\ndefinition: 答え 😀\ninputs: [answer]\nscale: [1, 2]\nanchors: {}\n", "utf-8"
    )
    ascii_only = {"PYTHONIOENCODING": "ascii"}
    done = run_python("-m", "dspy_judges", "show", "kind.yaml", cwd=tmp_path, env=ascii_only)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("kind: \\u7b54\\u3048 \\ud83d\\ude00\n")


def test_a_working_folder_that_is_gone_is_one_line(tmp_path: Path) -> None:
    script = f"mkdir gone && cd gone && rmdir ../gone && {sys.executable} -m dspy_judges list"
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True)
    expected = "dspy-judges: the working folder is gone; change to one that exists\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", expected)
