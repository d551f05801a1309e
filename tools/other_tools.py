"""Run the test of other tools with each of them, in an environment of its own, and print figures.

    python tools/other_tools.py [deepeval] [inspect] [mlflow] [promptfoo] [--folder DIR]

Each is installed there by pip or npm (0.2 to 1.2 GB), and kept for the next time.
"""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
# What is installed before and after the project: Inspect wants a newer client than DSPy's.
PACKAGES = {
    "deepeval": (["deepeval"], []),
    "inspect": (["inspect-ai"], ["openai>=3.4"]),
    "mlflow": (["mlflow"], []),
    "promptfoo": ([], []),
}
TESTS = ["pytest", "hypothesis"]
QUIET = {"OMP_NUM_THREADS": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


def install(tool: str, folder: Path) -> tuple[Path, dict[str, str]]:
    """The interpreter that has the tool, and the variables that tell where it is."""
    if tool == "promptfoo":
        folder.mkdir(parents=True, exist_ok=True)
        program = folder / "node_modules" / ".bin" / "promptfoo"
        if not program.exists():
            command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "promptfoo"]
            subprocess.run(command, cwd=folder, check=True, stdout=sys.stderr)
        return Path(sys.executable), {"PROMPTFOO": str(program)}
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        first, last = PACKAGES[tool]
        pip = [str(python), "-m", "pip", "install", "--quiet"]
        for packages in (first, [*TESTS, str(ROOT)], last):
            if packages:
                subprocess.run([*pip, *packages], check=True, stdout=sys.stderr)
    return python, {"PYTHONPATH": str(ROOT)}


def run(tool: str, folder: Path) -> bool:
    """Print a line for each way to the tool; whether all tests passed."""
    python, variables = install(tool, folder / tool)
    test = ROOT / "tests" / "judges" / "test_other_tools.py"
    done = subprocess.run(
        [*(python, "-m", "pytest", "-q", "-rA", "-o", "filterwarnings=default"), test, "-k", tool],
        cwd=ROOT,
        env={**os.environ, **QUIET, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    for line in re.findall(r"^[\w, -]+: \d+ rows, plan .*$", done.stdout, re.MULTILINE):
        print(line)
    print(f"{tool}: {done.stdout.strip().splitlines()[-1]}", flush=True)
    if done.returncode:
        print(done.stdout + done.stderr, file=sys.stderr)
    return done.returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("tools", nargs="*", metavar="TOOL", help=", ".join(PACKAGES))
    parser.add_argument(
        "--folder", type=Path, default=Path.home() / ".cache" / "dspy-judges" / "other_tools"
    )
    args = parser.parse_args()
    if unknown := set(args.tools) - PACKAGES.keys():
        parser.error(f"no tool {', '.join(sorted(unknown))}; there are {', '.join(PACKAGES)}")
    passed = [run(tool, args.folder) for tool in args.tools or PACKAGES]
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
