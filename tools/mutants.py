"""Sample mutants of the statistics, the search and the reply parsing; print which the tests kill.

The operators are mutmut's (pip install mutmut coverage). Its own runner copies the whole project
and starts with every test, which takes hours here; this one imports libraries once, forks for every
mutant, and runs the tests that reach the changed line, quickest first. No file is written. Mutants
of sentences (strings with a space) and of what stands outside functions, but for numbers and
patterns, are left out: they are messages and type aliases.
"""

import argparse
import difflib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import random
import signal
import sys
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STATISTICS = [
    *(
        f"optimize/statistics/{name}.py"
        for name in (
            "bootstrap",
            "coefficients",
            "difference",
            "errors",
            "levels",
            "systems",
            "ties",
        )
    ),
    *(
        f"optimize/search/{name}.py"
        for name in ("objective", "gate", "race", "crossing", "decision")
    ),
    "optimize/human.py",
    "optimize/estimate.py",
    "optimize/agreement.py",
]
REPLIES = [
    f"judges/parsing/{name}.py"
    for name in ("choice", "parse", "probabilities", "rating", "recorded", "text")
]
TESTS = {
    "statistics": "agreement objective gate race crossing human estimate ties intervals "
    "system_intervals report_advice",
    "replies": "reply reply_by_hand reply_fuzz recorded scoring",
}
# Long simulations and measured times; the published figures on thousands of recorded replies.
SLOW = "cover_95_percent or shuffled_labels or random_sets or are_quick or published or hostile"
QUIET = ["-q", "-n", "0", "-p", "no:cacheprovider"]
QUIET += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]


def mutants(path: str) -> list[tuple]:
    """The module and the two nodes of each of its mutants."""
    import libcst as cst
    from mutmut.mutation.file_mutation import MutationVisitor
    from mutmut.mutation.mutators import mutation_operators
    from mutmut.mutation.pragma_handling import IgnoredCode

    visitor = MutationVisitor(mutation_operators, IgnoredCode(set(), set(), set()))
    module = cst.MetadataWrapper(cst.parse_module((ROOT / path).read_text())).visit(visitor)
    result = []
    for mutation in visitor.mutations:
        node = mutation.original_node
        text = node.value if isinstance(node, cst.SimpleString) else ""
        pattern = text.lower().startswith("r")
        if " " in text and not pattern:
            continue
        inside = mutation.contained_by_top_level_function is not None
        if inside or pattern or isinstance(node, cst.BaseNumber):
            result.append((path, module, node, mutation.mutated_node))
    return result


def written(module, node, mutated) -> tuple[int, str, str]:
    """A mutant's first changed line, its change, and its text."""
    text = module.deep_replace(node, mutated).code
    difference = difflib.unified_diff(module.code.splitlines(), text.splitlines(), n=0)
    _, _, place, *lines = difference
    return int(place.split()[1].lstrip("-").split(",")[0]), "\n".join(lines), text


class Finder(importlib.abc.MetaPathFinder):
    """Import one module from another text."""

    def __init__(self, path: str, text: str):
        self.name, self.path, self.text = path[:-3].replace("/", "."), str(ROOT / path), text

    def find_spec(self, name, path=None, target=None):
        if name != self.name:
            return None
        loader = importlib.machinery.SourceFileLoader(name, self.path)
        loader.get_code = lambda _: compile(self.text, self.path, "exec")
        return importlib.util.spec_from_file_location(name, self.path, loader=loader)


class Recorder:
    """A pytest plugin: each test's seconds and the lines it reaches; or which one failed."""

    def __init__(self, coverage=None, order=None):
        self.coverage, self.order = coverage, order
        self.seconds: dict[str, float] = {}
        self.failed: list[str] = []

    def pytest_collection_modifyitems(self, items):
        if self.order is not None:
            items[:] = sorted(
                (item for item in items if item.nodeid in self.order),
                key=lambda item: self.order[item.nodeid],
            )

    def pytest_runtest_logreport(self, report):
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_runtest_setup(self, item):
        if self.coverage:
            self.coverage.switch_context(item.nodeid)


def forked(work, limit: float):
    """What `work` returns, from a child process; None where it ended or ran out of time."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os.setsid()
        signal.alarm(int(limit) + 1)
        with Path(os.devnull).open("w") as nothing:
            os.dup2(nothing.fileno(), 1)
            os.dup2(nothing.fileno(), 2)
        result = work()
        with os.fdopen(writing, "w") as pipe:
            pipe.write(json.dumps(result))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else None


def baseline(paths: list[str], tests: list[str], skip: str) -> dict:
    """Which tests reach which lines, and how long each takes."""
    import coverage
    import pytest

    measured = coverage.Coverage(data_file=None, include=[str(ROOT / path) for path in paths])
    recorder = Recorder(measured)
    measured.start()
    pytest.main([*QUIET, "-k", f"not ({skip})" if skip else "", *tests], plugins=[recorder])
    measured.stop()
    data = measured.get_data()
    lines = {}
    for path in paths:
        reached = data.contexts_by_lineno(str(ROOT / path))
        lines[path] = {str(line): list(filter(None, names)) for line, names in reached.items()}
    passed = {name: took for name, took in recorder.seconds.items() if name not in recorder.failed}
    return {"seconds": passed, "failed": recorder.failed, "lines": lines}


def outcome(path: str, text: str, order: dict[str, float]) -> dict:
    """Whether a test fails on the mutant, and which."""
    import pytest

    sys.meta_path.insert(0, Finder(path, text))
    recorder = Recorder(order=order)
    files = sorted({name.split("::")[0] for name in order})
    code = int(pytest.main(["-x", *QUIET, *files], plugins=[recorder]))
    return {"killed": code != 0, "by": recorder.failed[:1]}


def main() -> int:
    """Sample, run, and print a line a mutant and a table of modules."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("group", choices=sorted(TESTS))
    parser.add_argument("--sample", type=int, default=110)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--skip", default=SLOW, help="tests to leave out (pytest -k)")
    parser.add_argument("--most", type=float, default=60, help="seconds of tests a mutant")
    parser.add_argument("--only", default="", help="numbers of mutants in the sample: 3,17,40")
    parser.add_argument(
        "--base", type=Path, help="keep here, as JSON, what tests reach which lines"
    )
    parser.add_argument("--out", type=Path, help="append each result here as a line of JSON")
    args = parser.parse_args()

    import dspy  # noqa: F401
    import hypothesis
    import scipy.stats  # noqa: F401

    hypothesis.settings.register_profile("mutants", database=None, deadline=None)
    hypothesis.settings.load_profile("mutants")
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    paths = STATISTICS if args.group == "statistics" else REPLIES
    pool = [mutant for path in paths for mutant in mutants(path)]
    sample = random.Random(args.seed).sample(pool, min(args.sample, len(pool)))
    tests = [f"tests/test_{name}.py" for name in TESTS[args.group].split()]
    tests = [test for test in tests if (ROOT / test).exists()]
    if args.base and args.base.exists():
        base = json.loads(args.base.read_text())
    else:
        base = forked(lambda: baseline(paths, tests, args.skip), 1800)
        if args.base:
            args.base.write_text(json.dumps(base))
    print(f"{len(pool)} mutants, {len(sample)} drawn; {len(base['seconds'])} tests", flush=True)
    if base["failed"]:
        print("left out, as they fail before anything is changed:", *base["failed"])
    counts, killed = Counter(), Counter()
    chosen = {int(number) for number in args.only.split(",") if number}
    for number, (path, *nodes) in enumerate(sample):
        if chosen and number not in chosen:
            continue
        line, change, text = written(*nodes)
        lines = base["lines"][path]
        names = set(lines.get(str(line)) or (name for some in lines.values() for name in some))
        order, total = {}, 0.0
        for name in sorted(names & base["seconds"].keys(), key=base["seconds"].get):
            total += base["seconds"][name]
            if total > args.most and order:
                break
            order[name] = base["seconds"][name]
        began = time.monotonic()
        limit = 30 + 8 * sum(order.values())
        result = forked(lambda p=path, t=text, o=order: outcome(p, t, o), limit) if order else {}
        if result is None:
            result = {"killed": True, "by": ["time or memory"]}
        dead = bool(result.get("killed"))
        counts[path] += 1
        killed[path] += dead
        entry = {"number": number, "path": path, "line": line, "killed": dead, "change": change}
        entry |= {"by": result.get("by"), "tests": len(order)}
        entry["seconds"] = round(time.monotonic() - began, 1)
        if args.out:
            with args.out.open("a") as file:
                file.write(json.dumps(entry) + "\n")
        if not dead:
            print(f"\n#{number} alive after {len(order)} tests: {path}:{line}\n{change}")
        print(".", end="", flush=True)
    print()
    for path in paths:
        print(f"{path:36} {counts[path]:4} mutants {killed[path]:4} killed")
    print(f"{'all':36} {counts.total():4} mutants {killed.total():4} killed")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
