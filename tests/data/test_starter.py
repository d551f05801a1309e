"""The starter set says what it is, is what is built, and rates what was done to each summary."""

import json

from starter.documents import STARTER
from starter_set import Row, files, main


def _rows(name: str) -> list[Row]:
    lines = (STARTER / name).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


OUTPUTS, PAIRS = _rows("outputs.jsonl"), _rows("pairs.jsonl")


def test_the_readme_says_first_that_no_person_gave_these_ratings():
    first = (STARTER / "README.md").read_text(encoding="utf-8").splitlines()[0]
    assert "constructed" in first
    assert "no person" in first


def test_the_shipped_files_are_what_is_built(capsys):
    for path, content in files().items():
        assert path.read_text(encoding="utf-8") == content
    assert main([]) == 0
    assert capsys.readouterr().out.count("as built") == 3


# Five points weigh 5 4 3 2 1 of 15. The first three: 12/15 = .8, which earns all four.
