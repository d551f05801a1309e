"""Keep a definition made in code beside its run, as the YAML file that any command can read."""

from pathlib import Path
from typing import Any

from judges.define import read_subject
from judges.dimension import Comparison, DimensionError, Subject

FILE = "definition.yaml"


def write(subject: Subject, folder: Path) -> dict[str, str]:
    """Write it, and return the setting that names the file.

    Raises DimensionError where YAML cannot hold it, as with a scale of 1 and 5 and nothing between.
    """
    import yaml

    path = folder / FILE
    text = yaml.safe_dump(_form(subject), sort_keys=False, allow_unicode=True)
    path.write_text(text, encoding="utf-8")
    if read_subject(str(path)) != subject:
        path.unlink()
        raise DimensionError(
            f"{subject.name}: a YAML definition cannot say all of it; define it in a Python file "
            f"and name that, as in 'my_judges.py:{subject.name}'"
        )
    return _setting(subject, path)


def kept(subject: Subject, folder: Path) -> dict[str, str]:
    """The setting that names what `write` left there; DimensionError if it defines another."""
    path = folder / FILE
    if read_subject(str(path)) != subject:
        raise DimensionError(
            f"{path}: the run to resume judged another {subject.name!r}; start another run"
        )
    return _setting(subject, path)


def _setting(subject: Subject, path: Path) -> dict[str, str]:
    return {"pairwise" if isinstance(subject, Comparison) else "dimension": str(path)}


def _form(subject: Subject) -> dict[str, Any]:
    form = {
        "name": subject.name,
        "definition": subject.definition,
        "inputs": dict(subject.inputs),
        "instruction": subject.instruction,
    }
    if subject.source:
        form["source"] = subject.source
    if isinstance(subject, Comparison):
        return {"kind": "pairwise", **form, "candidate": subject.candidate}
    anchors = {rating: said for rating, said in subject.anchors.items() if said}
    return {**form, "scale": list(subject.scale), **({"anchors": anchors} if anchors else {})}
