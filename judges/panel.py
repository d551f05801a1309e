"""Several judges joined in one: each asks its own model.

A panel's score is the weighted mean of its members' scores, each put on a common scale by a
straight line of its own. Lines and weights are learned elsewhere (dspy-judges panel).
"""

import math
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from itertools import tee
from typing import TYPE_CHECKING, Any, NoReturn, cast

from dspy_judges.errors import JudgesError
from judges.client import EMBEDDED, is_embedded
from judges.dimension import Comparison, Subject, untuned_prompt
from judges.frozen import MAX_MEMBERS, JudgeFile, PanelFile, PanelMember, shared_entries
from judges.judge import Judge
from judges.judgement import AnyJudgement, Judgement, Preference
from judges.judging import failed

if TYPE_CHECKING:
    from judges.client import Client

MAX_REASON_LENGTH = 300


class PanelError(JudgesError, ValueError):
    """Judges that cannot be joined so, or something asked of a panel that a single judge does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A judge of a panel; `intercept + slope * score` is its score on the panel's scale."""

    name: str
    weight: float
    judge: Judge
    slope: float = 1.0
    intercept: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Panel(Judge):
    """A judge whose score is the weighted mean of its members' mapped scores; make one by `join`.

    Of pairs, margins are joined, in each order and over both. Where a member gives no score, the
    panel's judgement has failed. `lm` is the first model that is not embedded.
    """

    members: tuple[Member, ...]

    def __post_init__(self) -> None:
        Judge.__post_init__(self)
        names = [member.name for member in self.members]
        if not 1 <= len(names) <= MAX_MEMBERS or len(set(names)) < len(names):
            raise PanelError(
                f"{self.name}: a panel has 1 to {MAX_MEMBERS} members, each of its own name; these "
                f"are {len(names)}: {', '.join(names)[:200]}"
            )
        for member in self.members:
            if problem := _problem(self.subject, member):
                raise PanelError(f"member {member.name} {problem}")

    @classmethod
    def join(
        cls,
        subject: Subject,
        members: Sequence[Member],
        *,
        provenance: Mapping[str, object] | None = None,
    ) -> "Panel":
        """A panel on this subject, which reads whatever its members read; raises PanelError."""
        inputs = {n: t for member in members for n, t in member.judge.subject.inputs.items()}
        more = {name: text for name, text in inputs.items() if name not in subject.inputs}
        subject = replace(subject, inputs={**more, **subject.inputs})
        paid_models = [m.judge.lm for m in members if not is_embedded(m.judge.lm)]
        return cls(
            subject=subject,
            prompt=untuned_prompt(subject),
            lm=next(iter(paid_models), EMBEDDED),
            lm_from="user",
            members=tuple(replace(member, judge=_with_plan(member)) for member in members),
            provenance=provenance,
        )

    def __repr__(self) -> str:
        """On one line: the members with their weights."""
        members = ", ".join(f"{member.name} {member.weight:.3g}" for member in self.members)
        return f"Panel({self.name!r}, {self.kind}, reads {', '.join(self.texts)}, of {members})"

    @property
    def is_frozen(self) -> bool:
        """Its members ask as they did when it was joined."""
        return True

    @property
    def parts(self) -> tuple[Judge, ...]:
        return tuple(member.judge for member in self.members)

    def with_model(self, lm: str | None = None, api_base: str | None = None) -> "Panel":
        """The panel at an endpoint that its user names, for members of OpenAI's protocol.

        Every member asks its own model, on which its weight was learned.
        """
        if lm is not None:
            models = ", ".join(dict.fromkeys(judge.lm for judge in self.parts))
            raise PanelError(
                f"{self.name} is a panel, and its weights hold for the models that its members "
                f"ask, {models}: leave the model out"
            )
        members = []
        for member in self.members:
            base = api_base if member.judge.lm.startswith("openai/") else None
            members.append(replace(member, judge=member.judge.with_model(None, base)))
        base = api_base if self.lm.startswith("openai/") else None
        return replace(self, members=tuple(members), api_base=base or self.api_base)

    def judge_rows(
        self, rows: Iterable[Mapping[str, object]], client: "Client", *, seed: int = 0
    ) -> Generator[AnyJudgement, None, None]:
        """Judge a stream of rows; all members' requests are under way together."""
        rows, *copies = tee(rows, len(self.members) + 1)
        with ExitStack() as stack:
            streams = []
            for judge, copy in zip(self.parts, copies, strict=True):
                asker = self._client_of(judge, client)
                stream = judge.judge_rows(copy, asker, seed=seed)
                streams.append(stack.enter_context(closing(stream)))
            for _ in rows:
                yield self.joined([next(stream) for stream in streams])

    def joined(self, judgements: Sequence[AnyJudgement]) -> AnyJudgement:
        """One judgement from its members', in their order."""
        pairs = list(zip(self.members, judgements, strict=True))
        reasons = [
            f"member {member.name}: {judgement.failure or 'no score'}"
            for member, judgement in pairs
            if judgement.failure is not None or math.isnan(judgement.score)
        ]
        if reasons:
            return failed(self.subject, "; ".join(reasons)[:MAX_REASON_LENGTH])

        def mean(name: str) -> float:
            mapped = (
                member.weight * (member.intercept + member.slope * getattr(judgement, name))
                for member, judgement in pairs
            )
            return math.fsum(mapped) / math.fsum(member.weight for member in self.members)

        scores = {member.name: judgement.score for member, judgement in pairs}
        said: list[Any] = [each for _, each in sorted(pairs, key=lambda p: -p[0].weight)]
        if isinstance(self.subject, Comparison):
            comparison = next((each.comparison for each in said if each.comparison), None)
            margins = mean("margin_ab"), mean("margin_ba")
            return Preference.of_orders(*margins, comparison=comparison, members=scores)
        score = mean("score")
        if self.kind == "verdict":  # whatever the lines, a probability
            score = min(max(score, 0.0), 1.0)
        return Judgement(
            score=score,
            rationale=next((each.rationale for each in said if each.rationale), None),
            samples=sum(each.samples for each in said),
            unparsable=sum(each.unparsable for each in said),
            members=scores,
        )

    def clients(self, client: "Client") -> tuple["Client", ...]:
        return tuple(dict.fromkeys(self._client_of(judge, client) for judge in self.parts))

    def _client_of(self, judge: Judge, client: "Client") -> "Client":
        """What asks a member's model, on the budget of `client`."""
        if client.open_sibling is not None:
            return client.open_sibling(judge.lm, judge.api_base)
        if len({part.lm for part in self.parts}) > 1:
            raise PanelError(f"{self.name} asks several models: open it by panel.open_client()")
        return client

    def freeze(self) -> PanelFile:
        members = [
            PanelMember(**_line(member), judge=cast(JudgeFile, member.judge.freeze()))
            for member in self.members
        ]
        return PanelFile(**shared_entries(self.subject, self.provenance), members=members)

    @classmethod
    def of_panel_file(cls, file: PanelFile) -> "Panel":
        """The panel that a checked file holds; PanelError where its members cannot be joined."""
        members = [Member(**_line(each), judge=Judge.of_file(each.judge)) for each in file.members]
        return cls.join(file.subject.read(), members, provenance=file.provenance)

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise PanelError(
            f"{self.name} is a panel and has no plan or prompt of its own; its members have: take "
            "one of panel.parts"
        )

    plan_for = resolved_plan = with_plan = template = program = _refuse


def _line(member: Member | PanelMember) -> dict[str, Any]:
    return {name: getattr(member, name) for name in ("name", "weight", "slope", "intercept")}


def _with_plan(member: Member) -> Judge:
    judge = member.judge
    if isinstance(judge, Panel):
        raise PanelError(f"member {member.name} is a panel itself; join its members instead")
    return judge if judge.plan is not None else judge.with_plan(judge.resolved_plan())


def _problem(panel: Subject, member: Member) -> str | None:
    """Why a judge is no member of a panel on this subject, or its line or weight none."""
    own, line = member.judge.subject, f"{member.intercept:g} + {member.slope:g} * score"
    rescaled = own.name == panel.name and own.scale and panel.scale
    if _judged(own) != _judged(panel) and not rescaled:
        return f"{_judged(own)}, and the panel {panel.name} {_judged(panel)}"
    if not 1e-100 <= member.weight <= 1e6:
        return f"has the weight {member.weight}; above 0 and up to 1e6 is one"
    if not (0 < member.slope <= 1e9 and abs(member.intercept) <= 1e9):
        return f"has the line {line}; a line has a slope above 0, and numbers up to 1e9"
    if isinstance(panel, Comparison) and (member.slope > 1 or member.intercept):
        return f"has the line {line}; of margins in [-1, 1] its slope is at most 1, and alone"
    return None


def _judged(subject: Subject) -> str:
    if isinstance(subject, Comparison):
        return f"compares each {subject.candidate}"
    if subject.words:
        return f"says {' or '.join(subject.words)}"
    return f"rates from {subject.scale[0]} to {subject.scale[-1]}"
