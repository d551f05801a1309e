"""From a path to a table, by the path's ending."""

from pathlib import Path

from data.arrow_tables import is_dataset, read_dataset, read_parquet
from data.csv_tables import read_csv, read_tsv
from data.json_tables import read_json, read_jsonl
from data.problems import Problems
from data.tables import Table, no_rows

READERS = {
    ".jsonl": read_jsonl,
    ".ndjson": read_jsonl,
    ".json": read_json,
    ".csv": read_csv,
    ".tsv": read_tsv,
    ".parquet": read_parquet,
    ".pq": read_parquet,
}


def open_table(path: str | Path, problems: Problems) -> Table | None:
    """Read a file's rows; None where there is nothing to read, and `problems` says why."""
    table = _read(str(path), problems)
    if table is not None:
        problems.unit = table.unit
        if not table.rows and not problems.found:
            no_rows(problems)
    return table if table is not None and table.rows else None


def _read(path: str, problems: Problems) -> Table | None:
    if is_dataset(path):
        problems.unit = "row"
        return read_dataset(path, problems)
    file = Path(path)
    reader = READERS.get(file.suffix.lower())
    if not file.exists():
        problems.add("no-file", "does not exist", "check the path")
    elif not file.is_file():
        problems.add("no-file", "is no regular file", "give a file")
    elif reader is None:
        formats = ", ".join(READERS)
        problems.add("no-format", "is of no format known here", f"give one of {formats}")
    else:
        try:
            return reader(file, problems)
        except OSError as error:
            problems.add("unreadable", f"cannot be read ({error.strerror})", "check its permission")
    return None
