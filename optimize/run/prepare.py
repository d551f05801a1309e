"""Read and check all that a run can before its first question to a model."""

from dataclasses import dataclass, replace

from judges.dimension import Comparison, Subject
from judges.judge import Judge
from judges.scoring import SamplingPlan
from optimize.run.labels import Labels
from optimize.run.labels import read as read_split
from optimize.run.settings import Settings, SettingsError
from optimize.run.settings import read as read_subject
from optimize.search.objective import Level, choose_level


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRun:
    """A run before its first question to a model: all that can be checked without one has been."""

    settings: Settings
    subject: Subject
    labels: Labels
    level: Level


def prepare(settings: Settings) -> PreparedRun:
    """Read what is judged and the labels; raises what the user has to mend."""
    subject = read_subject(settings)
    pairwise = isinstance(subject, Comparison)
    labels = read_split(settings, subject)
    level = choose_level(labels.train) if settings.level == "auto" else settings.level
    if pairwise and settings.level not in ("auto", "dataset"):
        raise SettingsError(f"--level {level}: pairs have one margin each; only dataset fits them")
    # What could not be written down at the end is refused before anything is asked.
    origin = {"data": {"name": labels.name, "sha256": labels.sha256}}
    seed = Judge.of(subject, lm=settings.lm)
    replace(seed, plan=SamplingPlan(kind="one"), provenance=origin).dumps()
    return PreparedRun(
        settings=settings,
        subject=subject,
        labels=labels,
        level="dataset" if pairwise else level,
    )
