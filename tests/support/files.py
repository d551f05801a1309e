"""Files in the working folder: JSON Lines, CSV and workbooks; and what readers refuse."""

import json
import zipfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from openpyxl import Workbook

import data


def write_jsonl(path: Path | str, rows: Iterable[object]) -> str:
    """Write the rows, and return the path as a command takes it."""
    Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def read_jsonl(path: Path | str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


def file_of(content: str | bytes, name: str = "labels.csv") -> Path:
    """Write a file into the working folder."""
    Path(name).write_bytes(content.encode() if isinstance(content, str) else content)
    return Path(name)


def csv_of(*rows: Iterable[object], delimiter: str = ",") -> str:
    """Rows as CSV with every cell quoted."""
    lines = ([f'"{str(cell).replace(chr(34), chr(34) * 2)}"' for cell in row] for row in rows)
    return "".join(f"{delimiter.join(cells)}\r\n" for cells in lines)


def workbook(*rows: Sequence[object], name: str = "labels.xlsx", merge: str = "") -> Path:
    """Write a workbook of one sheet, with cells merged if told."""
    book = Workbook()
    for row in rows:
        book.active.append(row)
    if merge:
        book.active.merge_cells(merge)
    book.save(name)
    return Path(name)


def edit(path: Path, old: bytes, new: bytes, part: str = "worksheets/sheet1.xml") -> Path:
    """The workbook with the XML of one of its parts edited, packed small."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    parts[f"xl/{part}"] = parts[f"xl/{part}"].replace(old, new)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, raw in parts.items():
            archive.writestr(name, raw)
    return path


def refusal(source: Any, *, read: Callable[..., object] = data.read_labels, **how: Any) -> str:
    """The one line in which a reader refuses a source."""
    with pytest.raises(data.LabelError) as error:
        read(source, **how)
    message = str(error.value)
    assert message.isprintable(), "one line, and nothing that steers a terminal"
    assert message.startswith(str(source) if isinstance(source, Path) else "")
    return message
