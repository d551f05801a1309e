"""The base class of judges and panels: open the model, judge rows, and save the judge."""

import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from html import escape
from importlib import import_module
from itertools import chain, tee
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self, Unpack, cast

import msgspec

from judges import frozen
from judges.dimension import Kind, Subject
from judges.exchange import Judgements, Row
from judges.frames import as_pandas, make_series
from judges.frozen import AnyJudgeFile, Provenance, texts_digest, to_json_data
from judges.judgement import AnyJudgement
from judges.labels.cells import value_at
from judges.labels.conversations import cells_with_texts
from judges.prompt import Field, Prompt
from judges.protocol import EMBEDDED, Model, is_embedded
from judges.tables.atomic_write import write_atomically
from judges.text_columns import MissingColumnError, find_columns, match_columns

if TYPE_CHECKING:
    import pandas as pd

    from judges.client import Client, ModelOptions, Options

# Who chose a judge's model: nobody (it is the default), the judge's file, or the user.
LmSource = Literal["default", "file", "user"]
JudgeRowsFunction = Callable[[Iterable[Row]], Iterator[AnyJudgement]]


@dataclass(frozen=True, kw_only=True)
class BaseJudge(ABC):
    """The base class of `Judge` and `Panel`.

    Args:
        lm: The model that is asked; for a panel, its first model that is not the embedded model.
        provenance: How and on which labels the judge was tuned, as data for JSON; None if untuned.
        api_base: The address of the model's endpoint, which only the user can set.
        lm_source: Who chose the model. If nobody chose it, an LM set by `dspy.configure` is asked.
    """

    subject: Subject
    lm: str = EMBEDDED
    provenance: Mapping[str, object] | None = None
    api_base: str | None = field(default=None, compare=False, repr=False)
    lm_source: LmSource = field(default="default", compare=False, repr=False)

    @property
    @abstractmethod
    def single_judges(self) -> tuple["BaseJudge", ...]:
        """The judges with one prompt and one model each: the judge itself, or a panel's members."""

    @property
    def prompts(self) -> tuple[Prompt, ...]:
        """The prompts of all `single_judges`, in their order."""
        return tuple(chain.from_iterable(judge.prompts for judge in self.single_judges))

    @property
    def is_frozen(self) -> bool:
        """Whether the judge has its own sampling plan, like every judge loaded from a file."""
        return all(judge.is_frozen for judge in self.single_judges)

    @abstractmethod
    def judge_rows(self, rows: Iterable[Row], client: "Client", *, seed: int = 0) -> Judgements:
        """Yield the judgement of each row, in order; `client` sends the requests.

        A row that lacks a text is not sent, and its judgement is a failed judgement.
        """

    def clients(self, client: "Client") -> tuple["Client", ...]:
        """Return the clients that ask the judge's models; they share the budget of `client`."""
        return (client,)

    @abstractmethod
    def with_model(self, lm: str | None = None, api_base: str | None = None) -> Self:
        """Return a copy of the judge with another model, or with another address of its model."""

    @abstractmethod
    def freeze(self) -> AnyJudgeFile:
        """Return the content of the file that `save` writes."""

    @property
    def name(self) -> str:
        """The name of the dimension or comparison that is judged."""
        return self.subject.name

    @property
    def kind(self) -> Kind:
        """The kind of answer: "rating", "verdict" (one of two words) or "pairwise"."""
        return self.subject.kind

    @property
    def texts(self) -> tuple[str, ...]:
        """The names of the texts that the judge reads, in the order in which they are shown."""
        return self.subject.texts

    @property
    def questions(self) -> tuple[Field, ...]:
        """The fields of the judge's questions; empty for a panel, whose members ask them."""
        return ()

    @cached_property
    def provenance_record(self) -> Provenance:
        """How the judge was tuned, as a record; raises ValueError if `provenance` is malformed."""
        return msgspec.convert(to_json_data(self.provenance) or {}, Provenance)

    @property
    def uses_constructed_labels(self) -> bool:
        """Whether the judge was tuned on labels that were constructed, not given by people."""
        labels = self.provenance_record.tuning_labels
        is_tuned = not self.provenance_record.is_untuned
        return is_tuned and bool(labels and labels.is_constructed)

    @cached_property
    def tuning_digests(self) -> frozenset[str]:
        """Digests of the rows and documents on which the judge or one of its members was tuned."""
        digests: set[str] = set()
        for judge in (self, *self.single_judges):
            provenance = judge.provenance_record
            # An untuned judge may still have learned its threshold from the labels.
            if not provenance.is_untuned or getattr(judge, "threshold", 0.5) != 0.5:
                digests.update(provenance.tuned_row_digests)
        return frozenset(digests)

    def was_tuned_on(self, texts: Mapping[str, object]) -> bool:
        """Return whether the judge was tuned on a row with these texts."""
        text_strings = {name: str(text) for name, text in texts.items()}
        return bool(self.tuning_digests) and texts_digest(text_strings) in self.tuning_digests

    def _repr_html_(self) -> str:
        """Return HTML for a notebook; a click shows the instructions, questions and answers."""
        paragraphs = []
        for prompt in self.prompts:
            paragraphs.append(prompt.instruction)
            paragraphs += [f"{field.name}: {field.description}" for field in prompt.choices]
        details_html = escape("\n\n".join(paragraphs))
        return f"<details><summary>{escape(f'{self}')}</summary><pre>{details_html}</pre></details>"

    def check_destination(self) -> None:
        """Raise FatalModelError if a judge's file alone would decide where texts are sent."""
        from judges.client import check_model_of_file

        for judge in self.single_judges:
            if judge.lm_source == "file":
                tuned_endpoint = judge.provenance_record.endpoint
                check_model_of_file(judge.name, judge.lm, judge.api_base, tuned_endpoint)

    def __call__(self, **texts: str) -> AnyJudgement:
        """Judge one output, or one pair in both orders.

        Args:
            **texts: Each text that the judge reads (`judge.texts`), by its name.

        Returns:
            A Judgement, or a Preference for a pair. If there is no score, `failure` says why.

        Raises:
            TypeError: A text is missing, or is not one of `judge.texts`.
            FatalModelError: The model cannot be asked, for example because the key is wrong.

        Examples:
            >>> judge = judges.load("fluency")
            >>> judge(summary="The mill burnt down at night.").score
        """
        if texts.keys() != set(self.texts):
            given_names = ", ".join(texts) or "nothing"
            judge_phrase = f"the judge {self.name!r} reads {', '.join(self.texts)}"
            raise TypeError(f"{judge_phrase}; you gave {given_names}")
        with self.open_client() as client:
            (judgement,) = self.judge_rows([texts], client)
        return judgement

    def configured_model(self) -> Model | None:
        """Return the LM of `dspy.configure`; None if the judge names a model or no LM is set."""
        has_own_model = self.lm_source != "default" or self.lm != EMBEDDED or self.api_base
        if has_own_model or self.provenance is not None or "dspy" not in sys.modules:
            return None
        from judges.client import configured_lm, open_lm

        lm = configured_lm()
        return None if lm is None else open_lm(lm)[0]

    @contextmanager
    def open_client(
        self, *, keep_going: bool = True, **options: "Unpack[ModelOptions]"
    ) -> Iterator["Client"]:
        """Open the client that asks the judge's model; calls without options share a client.

        If `keep_going` is false, the run stops once almost all of its judgements have failed.
        """
        from judges.client import Session, shared_client

        self.check_destination()
        model = self.configured_model()
        if model is None and keep_going and not options:
            yield shared_client(self.lm, self.api_base)
            return
        model_by_name, lm, api_base = {}, self.lm, self.api_base
        if model is not None:
            model_by_name, lm, api_base = {model.name: model}, model.name, None
        options = {"api_base": api_base, **options}
        lms = [judge.lm for judge in self.single_judges]
        with Session(keep_going=keep_going, models=model_by_name, lms=lms, **options) as session:
            yield session.client(lm)

    @contextmanager
    def open(self, **options: "Unpack[Options]") -> Iterator[JudgeRowsFunction]:
        """Open the judge's model once for many calls; the options are those of `score`.

        Yields:
            A function from rows to judgements, for any thread. No row gets a score after the budget
            is spent.

        Examples:
            >>> with judge.open(lm="openai/gpt-4.1-mini", max_cost=2.0) as judge_rows:
            ...     first, second = judge_rows([{"summary": "..."}, {"summary": "..."}])
        """
        from judges.client import BudgetSpentError, read_options

        client_options, column_mapping = read_options(options, self.texts)
        seed = client_options.pop("seed", 0)
        lm, api_base = client_options.pop("lm", None), client_options.pop("api_base", None)
        judge = self.with_model(lm, api_base)
        if (self.provenance or {}).get("endpoint") == EMBEDDED and not is_embedded(judge.lm):
            n_demos = sum(len(prompt.demos) for prompt in self.prompts)
            warnings.warn(
                f"{self.name} was tuned for the embedded model: with {judge.lm} its measured "
                f"figures do not hold, and each request has its {n_demos} demonstrations",
                stacklevel=3,
            )

        @lru_cache(maxsize=256)  # almost all rows have the same keys
        def column_by_text(row_keys: tuple[str, ...]) -> dict[str, str]:
            return match_columns(self.subject, column_mapping, [dict.fromkeys(row_keys)])

        def judge_rows(rows: Iterable[Row]) -> Iterator[AnyJudgement]:
            text_rows, unjudged_rows = tee(
                _texts_in(cells, column_by_text(tuple(map(str, cells))))
                for cells in map(cells_with_texts, rows)
            )
            try:
                for judgement in judge.judge_rows(text_rows, client, seed=seed):
                    next(unjudged_rows)
                    yield judgement
            except BudgetSpentError as error:
                for _ in unjudged_rows:
                    yield self.subject.judgement_class.failed(f"not asked: {error}")

        with judge.open_client(**cast("ModelOptions", client_options)) as client:
            yield judge_rows

    def judge_all(self, rows: Iterable[Row], **options: "Unpack[Options]") -> Judgements:
        """Yield the judgement of each row, in order, with the rationale if the judge gives one.

        `rows` may be a generator: only a few rows are read ahead. A row's keys are named like the
        columns for `score`, which has the same options. `map` must name unusual columns, since no
        rows are inspected first. A row that lacks a text gets no score.
        """
        with self.open(**options) as judge_rows:
            yield from judge_rows(rows)

    def score(self, frame: "pd.DataFrame", **options: "Unpack[Options]") -> "pd.Series[float]":
        """Score every row of a DataFrame; a terminal or a notebook shows progress.

        Args:
            frame: A pandas DataFrame with one row for each output or pair; conversations are read
                as by `dspy-judges score`. For a polars DataFrame, the result is a polars Series,
                with nulls for failed judgements and without `attrs`.
            **options: The model and its limits (`lm`, `max_cost`, ...; see `ModelOptions`), `seed`,
                and `map`, a dict from each text's name to its column.

        Returns:
            A Series with the frame's index and NaN for failed judgements. Its name is the judge's
            name, or NAME_judge if the frame already has a column of that name. Ratings are on the
            judge's scale, verdicts in [0, 1]; a pairwise judge gives its margin in [-1, 1],
            positive for A. `attrs["n_failed"]` counts failed judgements, `attrs["failures"]` their
            reasons, and `attrs["tuned_on"]` has the index of rows that the judge was tuned on.

        Raises:
            MissingColumnError: The frame has no column for one of the texts.
            OptionError: An option has a wrong value, or `map` names no text of the judge.
            FatalModelError: The model cannot be asked, for example because the key is wrong.

        Examples:
            >>> judge = judges.load("relevance")
            >>> frame["relevance"] = judge.score(frame, lm="openai/gpt-4.1-mini", max_cost=2.0)
        """
        from judges.client import read_options

        judge_options, column_mapping = read_options(options, self.texts)
        pandas_frame = as_pandas(frame)
        column_names = [str(name) for name in pandas_frame.columns]
        frame_rows = pandas_frame.itertuples(index=False, name=None)
        text_rows = self.row_texts(column_names, frame_rows, column_mapping)
        judgements = self.judge_all(text_rows, **judge_options)
        series = make_series(self.name, pandas_frame, judgements)
        is_tuned_row = [self.was_tuned_on(texts) for texts in text_rows]
        if any(is_tuned_row):
            series.attrs["tuned_on"] = series.index[is_tuned_row].tolist()
        if frame is pandas_frame:
            return series
        return cast("pd.Series[float]", import_module("polars").from_pandas(series))

    def row_texts(
        self,
        column_names: Sequence[str],
        table_rows: Iterable[Sequence[object]],
        chosen_columns: Mapping[str, str],
    ) -> list[dict[str, object]]:
        """Return each row's texts; raises MissingColumnError if no column has one of the texts."""
        named_rows = (dict(zip(column_names, cells, strict=True)) for cells in table_rows)
        rows = [cells_with_texts(row) for row in named_rows]
        table = rows or [dict.fromkeys(column_names)]  # a table without rows has columns, too
        warn = partial(warnings.warn, stacklevel=4)
        column_by_text = find_columns(self.subject, chosen_columns, table, warn)
        for column in column_by_text.values():
            if column_names.count(column) > 1:
                raise MissingColumnError(f"two columns are called {column!r}; rename one")
        return [_texts_in(row, column_by_text) for row in rows]

    def save(self, path: Path | str, *, overwrite: bool = False) -> Path:
        """Freeze the judge into one JSON file, which is written completely or not at all.

        Returns:
            The path, which `judges.load` can read.

        Raises:
            FileExistsError: The file exists and `overwrite` is false; it is a JudgesError, too.
            FrozenJudgeError: The file cannot hold the judge, as when its texts contain an API key.
        """
        write_atomically(Path(path), self.dumps().encode("utf-8"), overwrite=overwrite)
        return Path(path)

    def dumps(self) -> str:
        """Return the JSON that `save` writes; raises FrozenJudgeError if a file cannot hold it."""
        return frozen.dumps(self.freeze())


def _texts_in(row: Row, column_by_text: Mapping[str, str]) -> dict[str, object]:
    return {name: value_at(row, column) for name, column in column_by_text.items()}
