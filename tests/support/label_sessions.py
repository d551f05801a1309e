"""Sessions of the label page on six outputs of three documents, or on six pairs."""

from pathlib import Path
from typing import Any

from judges import definition
from optimize.label_page.session import Click, LabelSession

TEXTS = ["document", "summary"]
N = 6
# Every output begins with a text that must not become a part of the page.
MARKUP = "<script>alert('x')</script> &amp; {{nonce}}"
SUBJECTS: dict[str, Any] = {
    "rating": definition.make_dimension("helpful", (1, 5), TEXTS, "<i>It helps.</i>"),
    "pairwise": definition.make_comparison("better", ["document"], "response"),
}


def session_in(folder: Path, kind: str = "rating", **more: Any) -> LabelSession:
    """A session whose label file is in this folder."""
    rows = [{"id": f"o{i}", "group": f"d{i // 2}", "document": f"Text {i // 2}."} for i in range(N)]
    fields = {"summary": "summary"}
    if kind == "pairwise":
        fields = {"A": "response_a", "B": "response_b"}
    for i, row in enumerate(rows):
        row |= {field: f"{MARKUP} {name} {i}." for name, field in fields.items()}
        row |= {"system": f"s{i % 2}", "dimension": "helpful"} if kind == "rating" else {}
    about: Any = {"rows": rows, "text_fields": TEXTS[:1], "output_fields": fields, **more}
    return LabelSession(subject=SUBJECTS[kind], path=folder / "labels.jsonl", **about)


def label(session: LabelSession, who: str, value: Any, item: int | None = None, **more: Any) -> Any:
    """Label an item, by default the one that this annotator is shown; return the next state."""
    if item is None:
        item = session.state(who)["item"]["item"]
    return session.label(Click(annotator=who, item=item, value=value, **more))
