"""A panel: several judges that are used as one, while each asks its own model.

A panel's score is the weighted mean of its members' scores, after each score is mapped to the
panel's scale by a straight line, `intercept + slope * score`. `dspy-judges panel` learns the lines
and the weights.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import tee
from typing import TYPE_CHECKING, Self, cast

from msgspec.structs import asdict

from dspy_judges.errors import JudgesError
from judges.base_judge import BaseJudge
from judges.dimension import Comparison, Subject, check_prompt
from judges.exchange import Judgements, Row, zip_judgements
from judges.frozen import MemberEntry, PanelFile, SubjectEntry, to_json_data
from judges.judge import Judge
from judges.judgement import AnyJudgement, Judgement, Preference
from judges.protocol import EMBEDDED, is_embedded

if TYPE_CHECKING:
    from judges.client import Client

MAX_MEMBERS, MAX_FAILURE_LENGTH = 64, 300


class PanelError(JudgesError, ValueError):
    """Judges cannot be joined in a panel, or a model was given for a panel as a whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A judge in a panel; `intercept + slope * score` is its score on the panel's scale.

    Args:
        name: The member's name, which is unique within the panel.
        weight: The member's weight in the mean, above 0 and at most 1e6.
        judge: The judge, which cannot be a panel itself.
        slope: What the score is multiplied by, above 0 and at most 1e9; at most 1 for a comparison.
        intercept: What is added to `slope * score`, from -1e9 to 1e9; 0 for a comparison.
    """

    name: str
    weight: float
    judge: Judge
    slope: float = 1.0
    intercept: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Panel(BaseJudge):
    """Several judges used as one; its score is the weighted mean of the members' scores.

    `Panel.join` makes a panel. A panel of comparisons averages its members' margins, for each
    order and over both orders. If a member gives no score, the panel's judgement has failed. `lm`
    is the model of the first member that does not use the embedded model.

    Raises:
        PanelError: The members do not fit each other or the panel's subject.

    Examples:
        >>> members = [
        ...     Member(name="a", weight=2.0, judge=judges.load("relevance")),
        ...     Member(name="b", weight=1.0, judge=judges.load("relevance", lm="openai/gpt-4.1")),
        ... ]
        >>> panel = Panel.join(members[0].judge.subject, members)
    """

    members: tuple[Member, ...]

    def __post_init__(self) -> None:
        check_prompt(self.subject, self.subject.prompt())  # raises an error if names clash
        member_names = [member.name for member in self.members]
        if not 1 <= len(member_names) <= MAX_MEMBERS or len(set(member_names)) < len(member_names):
            raise PanelError(
                f"{self.name}: a panel has 1 to {MAX_MEMBERS} members with different names; this "
                f"one has {len(member_names)}: {', '.join(member_names)[:200]}"
            )
        for member in self.members:
            if problem := _member_problem(self.subject, member):
                raise PanelError(f"member {member.name} {problem}")

    @classmethod
    def join(
        cls,
        subject: Subject,
        members: Sequence[Member],
        *,
        provenance: Mapping[str, object] | None = None,
    ) -> "Panel":
        """Return the panel of these members, which reads every text that one of them reads.

        Raises PanelError if a member is a panel itself or does not fit the subject.
        """
        inputs: dict[str, str] = {}
        for member in members:
            if not isinstance(member.judge, Judge):
                problem = f"member {member.name} is {member.judge!r:.60}, not a Judge"
                raise PanelError(f"{problem}; join the members of a panel, not the panel")
            inputs |= member.judge.subject.inputs
        # The subject's own texts stand last, since the last text is judged.
        inputs = {name: text for name, text in inputs.items() if name not in subject.inputs}
        lms = (member.judge.lm for member in members)
        return cls(
            subject=replace(subject, inputs={**inputs, **subject.inputs}),
            lm=next((lm for lm in lms if not is_embedded(lm)), EMBEDDED),
            lm_source="user",
            # A member's slope and intercept hold only for the plan with which they were learned.
            members=tuple(
                replace(member, judge=member.judge.with_plan(member.judge.resolved_plan()))
                for member in members
            ),
            provenance=provenance,
        )

    def __repr__(self) -> str:
        """Return a short description on one line, with the members' weights."""
        weights = ", ".join(f"{member.name} {member.weight:.3g}" for member in self.members)
        return f"Panel({self.name!r}, {self.kind}, reads {', '.join(self.texts)}, of {weights})"

    @property
    def single_judges(self) -> tuple[Judge, ...]:
        return tuple(member.judge for member in self.members)

    def with_model(self, lm: str | None = None, api_base: str | None = None) -> Self:
        """Return a copy of the panel in which members with models openai/NAME ask another endpoint.

        Raises PanelError if `lm` is given: each weight was learned with the member's own model.
        """
        if lm is not None:
            lm_names = ", ".join(dict.fromkeys(judge.lm for judge in self.single_judges))
            raise PanelError(
                f"{self.name} is a panel, and its weights hold for the models that its members "
                f"ask, {lm_names}: leave the model out"
            )

        def new_api_base(lm: str) -> str | None:
            return api_base if lm.startswith("openai/") else None

        members = tuple(
            replace(member, judge=member.judge.with_model(api_base=new_api_base(member.judge.lm)))
            for member in self.members
        )
        return replace(self, members=members, api_base=new_api_base(self.lm) or self.api_base)

    def judge_rows(self, rows: Iterable[Row], client: "Client", *, seed: int = 0) -> Judgements:
        """Yield the judgement of each row; the requests of all members are sent together."""
        rows, *row_copies = tee(rows, len(self.members) + 1)
        judgement_streams = [
            judge.judge_rows(row_copy, self._client_of(judge, client), seed=seed)
            for judge, row_copy in zip(self.single_judges, row_copies, strict=True)
        ]
        with closing(zip_judgements(judgement_streams)) as judgements_of_rows:
            for _, judgements in zip(rows, judgements_of_rows, strict=False):
                yield self.combine(judgements)

    def combine(self, judgements: Sequence[AnyJudgement]) -> AnyJudgement:
        """Return the panel's judgement; `judgements` has the judgement of each member, in order."""
        score_by_name, failures = {}, []
        for member, judgement in zip(self.members, judgements, strict=True):
            score_by_name[member.name] = judgement.score
            if math.isnan(judgement.score):
                failures.append(f"member {member.name}: {judgement.failure or 'no score'}")
        if failures:
            reason = "; ".join(failures)[:MAX_FAILURE_LENGTH]
            return self.subject.judgement_class.failed(reason)
        # The panel has the rationale of the member with the largest weight that gives one.
        indexes_by_weight = sorted(range(len(judgements)), key=lambda i: -self.members[i].weight)
        rationale = next(filter(None, (judgements[i].rationale for i in indexes_by_weight)), None)
        if self.subject.is_pairwise:
            preferences = cast(Sequence[Preference], judgements)
            margin_ab = self._weighted_mean([preference.margin_ab for preference in preferences])
            margin_ba = self._weighted_mean([preference.margin_ba for preference in preferences])
            preference = Preference.from_orders(margin_ab, margin_ba, rationale)
            return replace(preference, members=score_by_name)
        score = self._weighted_mean([*score_by_name.values()])
        if self.kind == "verdict":  # a member's line may map its score out of [0, 1]
            score = min(max(score, 0.0), 1.0)
        member_judgements = cast(Sequence[Judgement], judgements)
        return Judgement(
            score=score,
            rationale=rationale,
            samples=sum(judgement.samples for judgement in member_judgements),
            unparsable=sum(judgement.unparsable for judgement in member_judgements),
            members=score_by_name,
        )

    def _weighted_mean(self, scores: Sequence[float]) -> float:
        """Return the weighted mean of the members' scores, each mapped to the panel's scale."""
        weighted_scores = []
        for member, score in zip(self.members, scores, strict=True):
            weighted_scores.append(member.weight * (member.intercept + member.slope * score))
        return math.fsum(weighted_scores) / math.fsum(member.weight for member in self.members)

    def clients(self, client: "Client") -> tuple["Client", ...]:
        return tuple(dict.fromkeys(self._client_of(judge, client) for judge in self.single_judges))

    def _client_of(self, judge: Judge, client: "Client") -> "Client":
        if client.open_client_for is not None:
            return client.open_client_for(judge.lm, judge.api_base)
        endpoints = {(judge.lm, judge.api_base) for judge in self.single_judges}
        if len(endpoints) > 1:
            raise PanelError(f"{self.name} asks several models: open it by panel.open_client()")
        return client

    def freeze(self) -> PanelFile:
        members = [
            MemberEntry(
                name=member.name,
                weight=member.weight,
                slope=member.slope,
                intercept=member.intercept,
                judge=member.judge.freeze(),
            )
            for member in self.members
        ]
        provenance = to_json_data(self.provenance)
        subject = SubjectEntry.from_subject(self.subject)
        return PanelFile(subject=subject, provenance=provenance, members=members)

    @classmethod
    def from_file(cls, file: PanelFile) -> "Panel":
        """Return the panel in a file whose content was checked (see `frozen.loads`)."""
        members = [
            Member(**{**asdict(member), "judge": Judge.from_file(member.judge)})
            for member in file.members
        ]
        return cls.join(file.subject.to_subject(), members, provenance=file.provenance)


AnyJudge = Judge | Panel


def _member_problem(panel_subject: Subject, member: Member) -> str | None:
    """Return why a member does not fit a panel on this subject; None if the member fits."""
    # Ratings on another scale fit: the member's slope and intercept map them to the panel's scale.
    task_text, panel_task_text = _task_text(member.judge.subject), _task_text(panel_subject)
    if task_text != panel_task_text:
        return f"{task_text}, and the panel {panel_task_text}: leave this member out"
    max_slope, max_intercept = (1, 0) if panel_subject.is_pairwise else (1e9, 1e9)
    has_valid_line = 0 < member.slope <= max_slope and abs(member.intercept) <= max_intercept
    if 1e-100 <= member.weight <= 1e6 and has_valid_line:
        return None
    line_text = f"{member.intercept:g} + {member.slope:g} * score"
    return (
        f"has the weight {member.weight} and the line {line_text}; a weight is above 0 and at most "
        "1e6, a slope above 0 and at most 1e9, an intercept from -1e9 to 1e9; for a comparison, "
        "the slope is at most 1 and the intercept 0"
    )


def _task_text(subject: Subject) -> str:
    if isinstance(subject, Comparison):
        return f"compares each {subject.candidate} by {subject.name}"
    return f"rates {subject.name}"
