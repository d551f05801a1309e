"""The pages that are written from the code, and the pictures, are what would be written now."""

import json
import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))
pictures, reference = import_module("pictures"), import_module("reference")
FILES: dict[str, Any] = dict(reference.FILES)


@pytest.mark.parametrize("path", FILES)
def test_a_page_of_the_reference_is_what_the_code_says(path: str) -> None:
    stored = (ROOT / "docs" / path).read_text(encoding="utf-8")
    assert stored == FILES[path](), "stale: run `python tools/reference.py`"


def test_the_pictures_are_what_the_figures_say() -> None:
    assert list(pictures.stale()) == [], "stale: run `python tools/pictures.py`"


def test_every_command_and_every_setting_has_its_line() -> None:
    commands, settings = FILES["reference/commands.md"](), FILES["reference/settings.md"]()
    for name, command in reference.COMMANDS.items():
        assert f"`dspy-judges {name}`" in commands
        assert f"`{command.as_module}`" in commands
    for name in reference.SETTINGS:
        assert f"| `--{name.replace('_', '-')}` | `{name}` |" in settings


@pytest.mark.parametrize("package", reference.PACKAGES)
def test_every_public_name_is_described(package: str) -> None:
    page = FILES["reference/python.md"]()
    for name in sys.modules[package].__all__:
        section = page.partition(f"### {package}.{name}\n")[2].partition("\n### ")[0]
        assert name in section.partition("```")[0] + section.partition("```python")[2], name


def test_the_page_on_frozen_judges_names_each_key_of_a_file() -> None:
    page = FILES["reference/judge_file.md"]()
    for golden in (ROOT / "tests" / "golden").glob("frozen_*.json"):
        for key in json.loads(golden.read_text(encoding="utf-8")):
            assert f"`{key}`" in page


def test_each_file_that_a_run_writes_is_on_the_page_of_files() -> None:
    page = (ROOT / "docs" / "reference" / "files.md").read_text(encoding="utf-8")
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "optimize").rglob("*.py"))
    written = set(re.findall(r'"(\w+\.jsonl?|report\.html)"', code))
    assert {"judge.json", "summary.json", "replies.jsonl", "report.html"} <= written
    assert {name for name in written if f"`{name}`" not in page} == set()
