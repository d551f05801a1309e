"""The base class of judges and panels, which judge rows and tables and are saved in one file."""

import sys
import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from importlib import import_module
from itertools import chain, tee
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack, cast

from dspy_judges.column_names import name_key
from dspy_judges.errors import JudgesError
from judges.dimension import Comparison, Kind, Subject, kind_of
from judges.exchange import failed_judgement
from judges.judgement import AnyJudgement
from judges.protocol import EMBEDDED, FatalModelError

if TYPE_CHECKING:
    import pandas as pd

    from judges.client import Client, ModelOptions, Options
    from judges.frozen import AnyFile, Provenance
    from judges.protocol import Model

# Who chose a judge's model: nobody (it is the default), the judge's file, or the user.
Origin = Literal["default", "file", "user"]
RowJudge = Callable[[Iterable[Mapping[str, object]]], Iterator[AnyJudgement]]


# Names that label files of pairs use for the text that both outputs answer, and for the two outputs
# (followed by _a and _b).
SHARED = ("prompt", "document", "post", "query")
CANDIDATES = ("response", "output")


class MissingColumnError(JudgesError, ValueError):
    """A table lacks a column for a text that the judge reads, or has two of the same name."""


class FailedJudgementWarning(UserWarning):
    """Some rows of a table got no score."""


@dataclass(frozen=True, kw_only=True)
class BaseJudge(ABC):
    """The base class of `Judge` and `Panel`.

    Args:
        subject: The dimension or comparison that is judged.
        lm: The name of the model that is asked. For a panel it is the model of the first member
            that does not use the embedded one.
        provenance: How and on which data the judge was tuned, as plain data; None for an untuned
            judge.
        api_base: The endpoint's address, which only the user can set.
        lm_from: Who chose the model: "default", "file" or "user". With "default", the LM of
            `dspy.configure` is asked if there is one.
    """

    subject: Subject
    lm: str = EMBEDDED
    provenance: Mapping[str, object] | None = None
    api_base: str | None = field(default=None, compare=False, repr=False)
    lm_from: Origin = field(default="default", compare=False, repr=False)

    @property
    @abstractmethod
    def parts(self) -> tuple["BaseJudge", ...]:
        """The judges that ask models: for a judge, itself; for a panel, its members."""

    @abstractmethod
    def judge_rows(
        self, rows: Iterable[Mapping[str, object]], client: "Client", *, seed: int = 0
    ) -> Generator[AnyJudgement, None, None]:
        """Yield the judgement of each row of texts, in order, through a client that is open.

        A row that lacks a text gets a failed judgement and is not sent. `seed` is the seed of the
        model's random draws.
        """

    @abstractmethod
    def with_model(self, lm: str | None = None, api_base: str | None = None) -> Self:
        """The same judge with a model or an endpoint that the user chooses."""

    @abstractmethod
    def freeze(self) -> "AnyFile":
        """The content of the file that `save` writes."""

    @property
    def name(self) -> str:
        """The name of the dimension or comparison that is judged."""
        return self.subject.name

    @property
    def kind(self) -> Kind:
        """The kind of answer: "rating", "verdict" (one of two words) or "pairwise"."""
        return kind_of(self.subject)

    @property
    def texts(self) -> tuple[str, ...]:
        """The names of the texts that the judge reads, in the order in which they are shown."""
        return self.subject.texts

    @property
    def constructed(self) -> bool:
        """Whether the judge was tuned on constructed labels, which no person gave."""
        data = self.origin.data
        return self.origin.shipped != "seed" and bool(data and data.constructed)

    @cached_property
    def origin(self) -> "Provenance":
        """What is read again from the provenance; ValueError if it is not of that form."""
        from msgspec import convert

        from judges.frozen import Provenance, plain_provenance

        return convert(plain_provenance(self.provenance) or {}, Provenance)

    def _repr_html_(self) -> str:
        """The `repr` for a notebook; it unfolds to the instructions, questions and answers."""
        prompts = [part.prompt for part in cast(Any, self.parts)]
        texts = (
            [p.instruction, *(f"{f.name}: {f.description}" for f in p.choices)] for p in prompts
        )
        text = "\n\n".join(chain.from_iterable(texts))
        return f"<details><summary>{escape(f'{self}')}</summary><pre>{escape(text)}</pre></details>"

    def check_origins(self) -> None:
        """Raise FatalModelError if a judge's file alone would decide where texts are sent.

        The file may come from a stranger. So the user has to choose in two cases: if the model's
        name could be an address, a path or a program, and if the judge was tuned at a private
        endpoint and would now be asked at a public one.
        """
        from judges.client import endpoint_of, is_allowed_in_file

        for judge in self.parts:
            if judge.lm_from != "file":
                continue
            if not is_allowed_in_file(judge.lm):
                raise FatalModelError(
                    f"{judge.name}: its file names the model {judge.lm[:200]!r}, which is not a "
                    "plain PROVIDER/NAME of a known provider; to ask it, name it yourself: "
                    "--lm MODEL (lm=...)"
                )
            tuned_at, endpoint = judge.origin.endpoint, endpoint_of(judge.lm)
            if tuned_at and not judge.api_base and tuned_at != endpoint:
                raise FatalModelError(
                    f"{judge.name}: it was made at {tuned_at[:200]!r}, and "
                    f"{endpoint or 'no address'} would be asked; give the address: --api-base URL, "
                    "or in Python with_model(api_base=...)"
                )

    def __call__(self, **texts: str) -> AnyJudgement:
        """Judge one output, or one pair in both orders.

        Args:
            **texts: Each text that the judge reads (`judge.texts`), by its name.

        Returns:
            A Judgement, or a Preference for a pair. If the model gives no usable answer, `failure`
            says why and `score` is NaN.

        Raises:
            TypeError: A text is missing, or the judge does not read a text of that name.
            FatalModelError: The model cannot be asked, because the key is wrong or the model does
                not exist.

        Example:
            >>> judge = judges.load("fluency")
            >>> judge(summary="The mill burnt down at night.").score
        """
        if texts.keys() != set(self.texts):
            names = ", ".join(texts) or "nothing"
            raise TypeError(
                f"the judge {self.name!r} reads {', '.join(self.texts)}; given: {names}"
            )
        with self.open_client() as client:
            (judgement,) = self.judge_rows([texts], client)
        return judgement

    def configured_model(self) -> "Model | None":
        """The model of `dspy.configure`; None if there is none or the judge has its own model."""
        is_named = self.lm_from != "default" or self.lm != EMBEDDED or self.api_base
        if is_named or self.provenance is not None or "dspy" not in sys.modules:
            return None
        from judges.client import open_lm
        from judges.client.dspy import configured_lm

        lm = configured_lm()
        return None if lm is None else open_lm(lm)[0]

    @contextmanager
    def open_client(
        self, *, keep_going: bool = True, **options: "Unpack[ModelOptions]"
    ) -> Iterator["Client"]:
        """Open the client that asks the judge's model.

        Without options this is the client that the whole process shares, which stays open. If
        `keep_going` is false, the run stops once almost all of its judgements have failed.
        """
        from judges.client import Session, shared_client

        self.check_origins()
        model = self.configured_model()
        if model is None and keep_going and not options:
            yield shared_client(self.lm, self.api_base)
            return
        models = {} if model is None else {model.name: model}
        options = {"api_base": None if models else self.api_base, **options}
        with Session(keep_going=keep_going, models=models, **options) as session:
            yield session.client(next(iter(models), self.lm))

    @contextmanager
    def open(self, **options: "Unpack[Options]") -> Iterator[RowJudge]:
        """Open the judge's model once for many calls.

        Args:
            **options: The same as for `score`.

        Yields:
            A function from rows to their judgements, which any thread may call. A row that the
            budget does not cover gets a failed judgement that says so.

        Example:
            >>> with judge.open(lm="openai/gpt-4.1-mini", max_cost=2.0) as judge_rows:
            ...     first, second = judge_rows([{"summary": "..."}, {"summary": "..."}])
        """
        from judges.client import BudgetSpentError, read_options
        from judges.labels.conversations import as_texts

        values, mapping = read_options(options)
        columns = {name: mapping.get(name, name) for name in self.texts}
        judge = self.with_model(values.pop("lm", None), values.pop("api_base", None))
        seed = values.pop("seed", 0)

        def judge_rows(rows: Iterable[Mapping[str, object]]) -> Iterator[AnyJudgement]:
            texts, remaining = tee(
                {name: row.get(column) for name, column in columns.items()}
                for row in map(as_texts, rows)
            )
            try:
                for judgement in judge.judge_rows(texts, client, seed=seed):
                    next(remaining)
                    yield judgement
            except BudgetSpentError as error:
                for _ in remaining:
                    yield failed_judgement(self.subject, f"not asked: {error}")

        with judge.open_client(**cast("ModelOptions", values)) as client:
            yield judge_rows

    def judge_all(
        self, rows: Iterable[Mapping[str, object]], **options: "Unpack[Options]"
    ) -> Iterator[AnyJudgement]:
        """Yield the judgement of each row, in order, with the rationale if the judge gives one.

        `rows` may be a generator: few rows are read ahead. The options are the same as for `score`.
        """
        with self.open(**options) as judge_rows:
            yield from judge_rows(rows)

    def score(self, frame: "pd.DataFrame", **options: "Unpack[Options]") -> "pd.Series[float]":
        """Score every row of a DataFrame; a terminal or a notebook shows progress.

        Args:
            frame: A DataFrame of pandas with one row for each output or pair. Columns are found by
                the names of `judge.texts`; conversations are read as `dspy-judges score` reads
                them. For a DataFrame of polars, the result is a Series of polars, with nulls for
                failures and without `attrs`.
            **options: The model and its limits (`lm`, `max_cost`, ...; see `ModelOptions`), `seed`,
                and `map`, from a text's name to its column.

        Returns:
            A Series with the frame's index and NaN for failed judgements. Its name is the judge's,
            or NAME_judge if the frame has a column of that name. Ratings are on the judge's scale,
            verdicts in [0, 1], and a pairwise judge gives its margin in [-1, 1], positive for A.
            `attrs["n_failed"]` counts the failures, and `attrs["failures"]` says how often each
            reason occurred. A FailedJudgementWarning gives the most frequent reason.

        Raises:
            MissingColumnError: One of the texts has no column.
            FatalModelError: The model cannot be asked, because the key is wrong or the model does
                not exist.

        Example:
            >>> judge = judges.load("relevance")
            >>> frame["relevance"] = judge.score(frame, lm="openai/gpt-4.1-mini", max_cost=2.0)
        """
        import pandas as pd

        from judges.client import read_options

        values, mapping = read_options(options)
        if not isinstance(frame, pd.DataFrame):
            library = type(frame).__module__.partition(".")[0]
            if library == "polars" and hasattr(frame, "to_pandas"):
                return import_module(library).from_pandas(self.score(frame.to_pandas(), **options))
            raise TypeError(
                f"score() takes a DataFrame of pandas or polars, not {library}'s "
                f"{type(frame).__name__}; convert it by to_pandas(), collect() or df(), or give "
                "rows to judge_all()"
            )
        from judges.terminal import Progress

        names, records = [*map(str, frame.columns)], frame.itertuples(index=False, name=None)
        rows = self.texts_of(names, records, mapping)
        scores, reasons = [], Counter[str]()
        with Progress(self.name, len(frame), sys.stderr, only_live=True) as progress:
            for judgement in self.judge_all(rows, **values):
                scores.append(judgement.score)
                progress.step(failed=judgement.failure is not None)
                if judgement.failure is not None:
                    reasons[judgement.failure] += 1
        # The frame may have people's labels under the judge's name, which an assignment of the
        # Series would replace.
        name = f"{self.name}_judge" if self.name in names else self.name
        series = pd.Series(scores, index=frame.index, name=name, dtype="float64")
        series.attrs.update(n_failed=reasons.total(), failures=dict(reasons.most_common(100)))
        if reasons:
            (reason, count), n = reasons.most_common(1)[0], reasons.total()
            message = f"{n} of {len(frame)} judgements failed; {count} of them: {reason}"
            warnings.warn(f"{self.name}: {message}", FailedJudgementWarning, stacklevel=2)
        return series

    def find_columns(
        self, available: Collection[str], mapping: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """The column that holds each text, by the text's name.

        This is the column that `mapping` gives, else the column with the text's own name. For a
        pair, the names that label files use are found as well (`prompt`, `response_a`, ...).

        Raises MissingColumnError if a text has no column.
        """
        mapping = mapping or {}
        columns: dict[str, str] = {}
        for name in self.texts:
            names = [mapping[name]] if name in mapping else [name, *_synonyms(self.subject, name)]
            if (column := _find_column(names, available)) is not None:
                columns[name] = column
        if missing := [name for name in self.texts if name not in columns]:
            names = [repr(mapping.get(name, name)) for name in missing]
            flags = " ".join(f"--map {name}=COLUMN" for name in missing)
            raise MissingColumnError(
                f"no column {' or '.join(names)}, which the judge {self.name!r} reads; columns: "
                f"{', '.join(sorted(available)) or 'none'}. Name yours, as in {flags} "
                f"or, in Python, map={dict.fromkeys(missing, 'COLUMN')}"
            )
        return columns

    def texts_of(
        self,
        names: Sequence[str],
        records: Iterable[Sequence[object]],
        mapping: Mapping[str, str] | None = None,
    ) -> list[dict[str, object]]:
        """The texts that the judge reads, from each record of a table; also from conversations.

        `names` are the table's columns, and `records` its rows. Raises MissingColumnError if a text
        has no column, or two columns of the same name.
        """
        from judges.labels.conversations import as_texts

        rows = [as_texts(dict(zip(names, record, strict=True))) for record in records]
        columns = self.find_columns({*names, *chain.from_iterable(rows)}, mapping)
        if duplicates := [name for name in columns.values() if names.count(name) > 1]:
            raise MissingColumnError(f"two columns are called {duplicates[0]!r}; rename one")
        return [{name: row.get(column) for name, column in columns.items()} for row in rows]

    def save(self, path: Path | str, *, overwrite: bool = False) -> Path:
        """Freeze the judge into one JSON file, which is written completely or not at all.

        Returns:
            The path, for `judges.load`.

        Raises:
            FileExistsError: The file exists and `overwrite` is false.
            FrozenJudgeError: The file cannot hold the judge, for example because its texts contain
                an API key.
        """
        from judges.tables.atomic_write import write_atomically  # judging does not need it

        write_atomically(Path(path), self.dumps().encode("utf-8"), overwrite=overwrite)
        return Path(path)

    def dumps(self) -> str:
        """The JSON text that `save` writes; raises FrozenJudgeError if it cannot hold the judge."""
        from judges import frozen

        return frozen.dumps(self.freeze())


def _find_column(names: Sequence[str], available: Collection[str]) -> str | None:
    """The column with one of these names, else the only one that differs in case or spaces."""
    keys = set(map(name_key, names))
    exact = [name for name in names if name in available]
    similar = [column for column in available if name_key(column) in keys]
    return exact[0] if exact else similar[0] if len(similar) == 1 else None


def _synonyms(subject: Subject, name: str) -> list[str]:
    if not isinstance(subject, Comparison):
        return []
    if name in subject.fields:
        return [f"{candidate}{name[-2:]}" for candidate in CANDIDATES]
    return list(SHARED) if len(subject.inputs) == 1 else []
