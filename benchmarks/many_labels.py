"""How long a run takes, and how much memory, as its labels grow.

    python benchmarks/many_labels.py [--outputs 1600 6400 25600] [--dimension relevance] [--json]

SummEval's documents are drawn again and again, each time with some of their sentences left out, so
that no two are the same; the ratings stay. Every size is tuned to its end by a process of its own,
with the embedded model and the default limits.
"""

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SUMMEVAL = Path(__file__).parents[2] / "shared" / "data" / "summeval" / "summeval.jsonl"
KEPT = 0.8  # of a document's sentences


def write_labels(path: Path, n_outputs: int, rng: random.Random) -> None:
    """Whole documents, with all their outputs, until there are at least so many."""
    documents: dict[str, list[dict[str, object]]] = {}
    for line in SUMMEVAL.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        documents.setdefault(row["group"], []).append(row)
    written, copy = 0, 0
    with path.open("w", encoding="utf-8") as file:
        while written < n_outputs:
            for name, rows in documents.items():
                text = _thinned(str(rows[0]["document"]), rng) if copy else rows[0]["document"]
                for row in rows:
                    new = {"group": f"{name}-{copy}", "id": f"{row['id']}-{copy}", "document": text}
                    file.write(json.dumps({**row, **new}) + "\n")
                written += len(rows)
                if written >= n_outputs:
                    return
            copy += 1


def _thinned(document: str, rng: random.Random) -> str:
    sentences = document.split(". ")
    return ". ".join(sentence for sentence in sentences if rng.random() < KEPT) or document


def measure(n_outputs: int, dimension: str, folder: Path) -> dict[str, object]:
    """Tune in a process of its own, and say what that took."""
    labels = folder / f"labels-{n_outputs}.jsonl"
    write_labels(labels, n_outputs, random.Random(n_outputs))
    out = folder / f"run-{n_outputs}"
    command = [
        sys.executable, "-m", "optimize", "--dimension", dimension, "--data", str(labels),
        "--out", str(out), "--json",
    ]  # fmt: skip
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    output, complaints = process.communicate()
    seconds = time.monotonic() - began
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    if process.returncode:
        return {"n_outputs": n_outputs, "seconds": seconds, "failed": complaints.splitlines()[-1]}
    summary = json.loads(output)
    trials = [json.loads(line) for line in (out / "trials.jsonl").read_text().splitlines()]
    return {
        "n_outputs": summary["data"]["n_outputs"],
        "n_documents": summary["data"]["n_documents"],
        "seconds": round(seconds, 1),
        "cpu_seconds": round(processor, 1),
        "peak_mb": round(used.ru_maxrss / 1024),
        "judgements": summary["lm_calls"],
        "raced": sum(trial["stage"] == "race" for trial in trials),
        "shipped": summary["shipped"],
        "gain": summary["gain"]["test"]["value"],
        "judge_mb": round((out / "judge.json").stat().st_size / 1e6, 2),
        "files": [name for name in FILES if (out / name).exists()],
    }


COLUMNS = (
    "outputs", "documents", "s", "CPU s", "peak MB", "judgements", "raced", "ships", "gain",
    "judge MB",
)  # fmt: skip
FILES = ("judge.json", "summary.json", "report.html")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--outputs", type=int, nargs="+", default=[1600, 6400, 25600])
    parser.add_argument("--dimension", default="relevance")
    parser.add_argument("--json", action="store_true", help="print JSON lines")
    flags = parser.parse_args()
    if not SUMMEVAL.exists():
        sys.exit(f"{SUMMEVAL} is not there: the labels are drawn from it")
    if not flags.json:
        print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
    with tempfile.TemporaryDirectory() as scratch:
        # The largest last: peak memory is that of the largest process so far.
        for n_outputs in sorted(flags.outputs):
            figures = measure(n_outputs, flags.dimension, Path(scratch))
            if flags.json:
                print(json.dumps(figures), flush=True)
            else:
                cells = [str(value) for name, value in figures.items() if name != "files"]
                print(f"| {' | '.join(cells)} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
