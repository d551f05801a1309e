"""The starter set says that no person gave its labels."""

from pathlib import Path

README = Path(__file__).parents[2] / "data" / "starter" / "README.md"


def test_the_readme_says_first_that_no_person_gave_these_ratings() -> None:
    first = README.read_text(encoding="utf-8").splitlines()[0]
    assert "constructed" in first
    assert "no person" in first
