"""Install the judges alone, and everything, as README says; judge by the first, and print sizes.

    python tools/judges_only.py [--folder DIR] [--alone]

Each install is a virtual environment of its own under DIR (a temporary folder without it). A size
is what the files take: the environment's, and its largest packages' (compiled Python included).
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PINNED = ["-c", str(ROOT / "constraints.txt")]
INSTALLS = {
    "judges alone": (
        [*PINNED, "-r", str(ROOT / "requirements-judges.txt")],
        ["--no-deps", str(ROOT)],
    ),
    "everything": ([*PINNED, str(ROOT)],),
}
ROWS = 'document,summary\n"The council met on Monday and closed the bridge.","A bridge closed."\n'
MB = 10**6


def install(name: str, folder: Path) -> Path:
    """The environment's folder, made where it is not there."""
    if not folder.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        for arguments in INSTALLS[name]:
            pip = [folder / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check"]
            subprocess.run([*pip, *arguments], check=True, stderr=subprocess.DEVNULL)
    return folder


def judge_a_table(environment: Path) -> None:
    """Score one row by the environment's own command, from CSV to JSONL."""
    rows = environment / "rows.csv"
    rows.write_text(ROWS)
    script = environment / "bin" / "dspy-judges"
    words = ["score", "relevance", "--data", rows, "--out", environment / "scored.jsonl"]
    subprocess.run([script, *words, "--quiet", "--force"], cwd=environment, check=True)


def size(path: Path) -> int:
    """The bytes of a file, or of all files under a folder."""
    files = path.rglob("*") if path.is_dir() else (path,)
    return sum(file.lstat().st_size for file in files if file.is_file())


def describe(name: str, environment: Path, largest: int) -> str:
    (packages,) = environment.glob("lib/python*/site-packages")
    sizes: dict[str, int] = {}
    for path in packages.iterdir():
        # numpy's own libraries lie beside it, in numpy.libs.
        package = path.name.removesuffix(".libs")
        sizes[package] = sizes.get(package, 0) + size(path)
    first = sorted(sizes, key=lambda package: -sizes[package])[:largest]
    parts = ", ".join(f"{package} {sizes[package] / MB:.0f}" for package in first)
    return f"{name}: {size(environment) / MB:.0f} MB; the largest: {parts}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, help="where the environments are kept")
    parser.add_argument("--alone", action="store_true", help="install the judges alone")
    parser.add_argument("--largest", type=int, default=8, help="how many packages are named")
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = flags.folder or Path(temporary)
        for name in ["judges alone"] if flags.alone else list(INSTALLS):
            environment = install(name, folder / name.replace(" ", "-"))
            judge_a_table(environment)
            print(describe(name, environment, flags.largest), flush=True)


if __name__ == "__main__":
    main()
