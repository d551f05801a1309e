"""What a judge and a panel share: they judge rows and tables, and freeze into one file."""

import sys
import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
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
    from judges.frozen import AnyFile
    from judges.protocol import Model

# Who named a judge's model: nobody, the file that it was read from, or its user.
Origin = Literal["default", "file", "user"]
RowJudge = Callable[[Iterable[Mapping[str, object]]], Iterator[AnyJudgement]]


# Names in label files for the text that both sides of a pair answer, and for the two sides.
SHARED = ("prompt", "document", "post", "query")
CANDIDATES = ("response", "output")


class MissingColumnError(JudgesError, ValueError):
    """A table has no column for a text that the judge reads."""


class FailedJudgementWarning(UserWarning):
    """Some rows of a table got no score."""


@dataclass(frozen=True, kw_only=True)
class BaseJudge(ABC):
    """What `Judge` and `Panel` have in common.

    Args:
        subject: The dimension or comparison that is judged.
        lm: The model that is asked; of a panel, the first that is not the embedded one.
        provenance: Where a tuned judge comes from, as plain data; None for an untuned one.
        api_base: The endpoint's address, which only the user names.
        lm_from: Who named the model. By default the LM of `dspy.configure` is asked, if any.
    """

    subject: Subject
    lm: str = EMBEDDED
    provenance: Mapping[str, object] | None = None
    api_base: str | None = field(default=None, compare=False, repr=False)
    lm_from: Origin = field(default="default", compare=False, repr=False)

    @property
    @abstractmethod
    def parts(self) -> tuple["BaseJudge", ...]:
        """The judges that each ask a model: the judge itself, or a panel's members."""

    @abstractmethod
    def judge_rows(
        self, rows: Iterable[Mapping[str, object]], client: "Client", *, seed: int = 0
    ) -> Generator[AnyJudgement, None, None]:
        """Judge rows of texts in their order, streaming, with an open client.

        A row that lacks a text is a failed judgement and is not sent. `seed` is the model's.
        """

    @abstractmethod
    def with_model(self, lm: str | None = None, api_base: str | None = None) -> Self:
        """The same judge with another model or endpoint, as its user names them."""

    @abstractmethod
    def freeze(self) -> "AnyFile":
        """The content of its file."""

    @property
    def name(self) -> str:
        """The name of its dimension or comparison."""
        return self.subject.name

    @property
    def kind(self) -> Kind:
        """Whether it gives a "rating", a "verdict" of two words, or is "pairwise"."""
        return kind_of(self.subject)

    @property
    def texts(self) -> tuple[str, ...]:
        """The names of the texts it reads, in the order shown."""
        return self.subject.texts

    @property
    def constructed(self) -> bool:
        """Whether it was tuned on constructed labels, which no person gave."""
        provenance: Mapping[str, Any] = self.provenance or {}
        is_tuned = provenance.get("shipped") != "seed"
        return is_tuned and bool((provenance.get("data") or {}).get("constructed"))

    def _repr_html_(self) -> str:
        """Its line in a notebook, and the instruction and questions of each part to unfold."""
        prompts = [part.prompt for part in cast(Any, self.parts)]
        texts = (
            [p.instruction, *(f"{f.name}: {f.description}" for f in p.choices)] for p in prompts
        )
        text = "\n\n".join(chain.from_iterable(texts))
        return f"<details><summary>{escape(f'{self}')}</summary><pre>{escape(text)}</pre></details>"

    def check_origins(self) -> None:
        """Raise FatalModelError where a file, maybe a stranger's, makes a dangerous choice alone.

        Two choices are the user's own: a model whose name may be an address, a path or a program,
        and the public endpoint for a judge that was made at a private one.
        """
        from judges.client import endpoint_of, is_plain

        for judge in self.parts:
            if judge.lm_from != "file":
                continue
            if not is_plain(judge.lm):
                raise FatalModelError(
                    f"{judge.name}: its file names the model {judge.lm[:200]!r}, which is not a "
                    "plain PROVIDER/NAME of a known provider; to ask it, name it yourself: "
                    "--lm MODEL (lm=...)"
                )
            made_at, endpoint = (judge.provenance or {}).get("endpoint"), endpoint_of(judge.lm)
            if made_at and not judge.api_base and made_at != endpoint:
                raise FatalModelError(
                    f"{judge.name}: it was made at {str(made_at)[:200]!r}, and "
                    f"{endpoint or 'no address'} would be asked; say where: --api-base URL, or in "
                    "Python with_model(api_base=...)"
                )

    def __call__(self, **texts: str) -> AnyJudgement:
        """Judge one output, or one pair in both orders.

        Args:
            **texts: Each text that the judge reads (`judge.texts`), by its name.

        Returns:
            A Judgement, or a Preference for a pair. Where the model gives no usable answer, its
            `failure` says why and its score is NaN.

        Raises:
            TypeError: A text is missing, or one is not among those that the judge reads.
            FatalModelError: The model cannot be asked: a wrong key, or no such model.

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
        """The model of `dspy.configure`, which is asked unless the judge names one."""
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
        """Open the client that asks its model.

        Without options this is the client that the whole process shares, which stays open. With
        `keep_going` false a run ends once almost all of its judgements fail.
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
        """Open its model once for many calls.

        Args:
            **options: As for `score`.

        Yields:
            A function from rows to their judgements, which any thread may call. Rows that the
            budget has no room for are failed judgements that say so.

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
        """Yield the judgement of each row, in order, with its rationale where it has one.

        `rows` may be a generator: few rows are read ahead. The options are those of `score`.
        """
        with self.open(**options) as judge_rows:
            yield from judge_rows(rows)

    def score(self, frame: "pd.DataFrame", **options: "Unpack[Options]") -> "pd.Series[float]":
        """Score every row of a DataFrame; a terminal or a notebook shows progress.

        Args:
            frame: A row for each output or pair. Columns are found by the names of `judge.texts`;
                conversations are read as `dspy-judges score` reads them. It may be a DataFrame of
                polars, which gets a Series of polars, with nulls and without `attrs`.
            **options: The model and its limits (`lm`, `max_cost`, ...; see `ModelOptions`), `seed`,
                and `map`, from a text's name to its column.

        Returns:
            A Series with the frame's index, NaN where a judgement failed. It has the judge's name,
            or NAME_judge if the frame has a column of that name. Ratings are on the judge's scale,
            verdicts in [0, 1], and a pairwise judge gives its margin in [-1, 1], positive for A.
            `attrs["n_failed"]` counts the failures, and `attrs["failures"]` says how often each
            reason occurred. A FailedJudgementWarning names the commonest one.

        Raises:
            MissingColumnError: No column holds one of the texts.
            FatalModelError: The model cannot be asked: a wrong key, or no such model.

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
        # People's labels may have the judge's name, and with_columns would replace them.
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

        It is the column that `mapping` names, else the one of the text's own name. Texts of a pair
        may have the names of labelled pairs, too (`prompt`, `response_a`, ...).

        Raises MissingColumnError.
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
        """The texts that it reads in each record of a table, also in conversations.

        Raises MissingColumnError.
        """
        from judges.labels.conversations import as_texts

        rows = [as_texts(dict(zip(names, record, strict=True))) for record in records]
        columns = self.find_columns({*names, *chain.from_iterable(rows)}, mapping)
        if double := [name for name in columns.values() if names.count(name) > 1]:
            raise MissingColumnError(f"two columns are called {double[0]!r}; rename one")
        return [{name: row.get(column) for name, column in columns.items()} for row in rows]

    def save(self, path: Path | str, *, overwrite: bool = False) -> Path:
        """Freeze the judge into one JSON file, written whole or not at all.

        Returns:
            The path, for `judges.load`.

        Raises:
            FileExistsError: The file exists and `overwrite` is false.
            FrozenJudgeError: The file cannot hold the judge, as where its texts contain a key.
        """
        from judges.tables.atomic_write import write_atomically  # which judging does without

        write_atomically(Path(path), self.dumps().encode("utf-8"), overwrite=overwrite)
        return Path(path)

    def dumps(self) -> str:
        """The JSON text that `save` writes; raises FrozenJudgeError."""
        from judges import frozen

        return frozen.dumps(self.freeze())


def _find_column(names: Sequence[str], available: Collection[str]) -> str | None:
    """The column of one of these names, else the only one that differs in case and blanks alone."""
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
