"""Read Parquet files and Hugging Face data sets, both of which are Arrow tables."""

import hashlib
import json
import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from data.problems import Problems, listed, shown
from data.tables import Row, Table, gather, source_name

if TYPE_CHECKING:
    import datasets
    import pyarrow

_BATCH = 1000
HUB = "hf:"
HUB_NAME = re.compile(r"\w[\w.-]*/\w[\w.-]*")


def read_parquet(path: Path, problems: Problems) -> Table:
    """Read a Parquet file; its hash is that of its bytes."""
    import pyarrow.parquet

    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(2**20):
            digest.update(block)
    columns: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    try:
        with pyarrow.parquet.ParquetFile(path) as parquet:
            columns, rows = gather(_rows(parquet.iter_batches(batch_size=_BATCH)))
    except (pyarrow.ArrowException, OSError) as error:
        what = f"cannot be read as Parquet ({_first_line(error)})"
        problems.add("bad-parquet", what, "write it anew, for instance with DataFrame.to_parquet")
    return _table(source_name(path), problems, digest.hexdigest(), columns, rows)


def read_dataset(path: str, problems: Problems) -> Table:
    """Read a folder made by `Dataset.save_to_disk`, or `hf:owner/name`; `:split` picks a split.

    The hash is that of the rows, since the files depend on the library's version.
    """
    found = _load(path, problems)
    columns: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    if found is not None:
        # As Arrow, since nothing here needs the pictures or sounds that iterating would decode.
        columns, rows = gather(_rows(found.with_format("arrow").iter(batch_size=_BATCH)))
    digest = hashlib.sha256()
    for row in rows:
        digest.update(json.dumps(row.cells, sort_keys=True, default=str).encode() + b"\n")
    return _table(source_name(path), problems, digest.hexdigest(), columns, rows)


def is_dataset(path: str) -> bool:
    """Whether a path names a Hugging Face data set: on the hub, or a folder."""
    return path.startswith(HUB) or Path(_at(path)[0]).is_dir()


def _at(path: str) -> tuple[str, str | None]:
    """Take the split off a path, unless what looks like one belongs to a folder's name."""
    name, colon, split = path.removeprefix(HUB).rpartition(":")
    if colon and split.replace("_", "").replace("-", "").isalnum() and not Path(path).exists():
        return name, split
    return path.removeprefix(HUB), None


def _load(path: str, problems: Problems) -> "datasets.Dataset | None":
    import datasets
    import httpx
    from huggingface_hub.errors import HfHubHTTPError

    name, split = _at(path)
    if path.startswith(HUB) and (not HUB_NAME.fullmatch(name) or Path(name).exists()):
        # The library would take another name for an address, a folder or a reader of any files.
        what = "is no data set of the hub" if not Path(name).exists() else "is a file or a folder"
        problems.add("bad-dataset", what, f"write {HUB}owner/name, or the folder's own path")
        return None
    try:
        if path.startswith(HUB):
            with _quiet():
                found = datasets.load_dataset(name)
        else:
            found = datasets.load_from_disk(name)
    except (
        OSError,
        ValueError,
        datasets.exceptions.DatasetsError,
        HfHubHTTPError,
        httpx.HTTPError,
    ) as error:
        what = f"cannot be loaded ({type(error).__name__}: {_first_line(error)})"
        way_out = "give a folder made by Dataset.save_to_disk, or hf:owner/name"
        problems.add("bad-dataset", what, way_out)
        return None
    return _split(found, split, problems)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the library's word on each of its own retries."""
    logger = logging.getLogger("huggingface_hub")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _split(
    found: "datasets.Dataset | datasets.DatasetDict", split: str | None, problems: Problems
) -> "datasets.Dataset | None":
    if not isinstance(found, Mapping):
        if split is None:
            return found
        problems.add("no-split", f"has no splits, so none is {split!r}", "leave the split out")
        return None
    names = sorted(str(name) for name in found)
    if split is None and len(names) == 1:
        split = names[0]
    if split in found:
        return found[split]
    asked = "none is named" if split is None else f"none is {split!r}"
    way_out = f"add one to its name, as in {problems.file.partition(':')[0]}:{names[0]}"
    if problems.file.startswith(HUB):
        way_out = "add one to its name, as in hf:owner/name:" + names[0]
    problems.add("no-split", f"has the splits {listed(names)}, and {asked}", way_out)
    return None


def _rows(batches: "Iterable[pyarrow.Table | pyarrow.RecordBatch]") -> Iterator[Row]:
    number = 0
    for batch in batches:
        for cells in batch.to_pylist(maps_as_pydicts="lossy"):
            number += 1
            yield Row(number, cells)


def _table(
    name: str, problems: Problems, sha256: str, columns: tuple[str, ...], rows: tuple[Row, ...]
) -> Table:
    return Table(
        name=name,
        file=problems.file,
        sha256=sha256,
        typed=True,
        unit="row",
        columns=columns,
        rows=rows,
    )


def _first_line(error: Exception) -> str:
    line = (str(error).splitlines() or [""])[0]
    return line if len(line) <= 100 and line.isprintable() else shown(line)
