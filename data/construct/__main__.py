"""The command that builds, checks and describes the starter set."""

import argparse
import sys
from collections.abc import Sequence

from data.construct.build import files


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m data.construct",
        description="Check that the starter set's files are what its documents and faults make.",
    )
    parser.add_argument("--write", action="store_true", help="write the files instead")
    parser.add_argument("--describe", action="store_true", help="print counts and distributions")
    chosen = parser.parse_args(arguments)
    if chosen.describe:
        from data.construct.describe import describe  # scipy, which nothing else here needs

        print(describe())
        return 0
    return _write() if chosen.write else _check()


def _write() -> int:
    for path, content in files().items():
        path.write_text(content, encoding="utf-8", newline="\n")
        print(f"{path}: {content.count(chr(10))} lines")
    return 0


def _check() -> int:
    for path, content in files().items():
        if not path.exists() or path.read_text(encoding="utf-8") != content:
            print(f"{path} is not what is built; --write writes it anew", file=sys.stderr)
            return 1
        print(f"{path}: as built")
    return 0


if __name__ == "__main__":
    sys.exit(main())
