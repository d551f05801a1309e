"""What is judged: read by its name, and put on the scale that people were given."""

from judges.define import read_subject
from judges.dimension import MOST_RATINGS, Comparison, Dimension, Subject
from optimize.run.settings import Settings, SettingsError, bounds_of

Bounds = tuple[float, float]


def read(settings: Settings) -> Subject:
    """The dimension or comparison; raises SettingsError where a flag does not suit it."""
    subject = read_subject(settings.subject)
    pairwise = isinstance(subject, Comparison)
    if pairwise != (settings.pairwise is not None):
        right = "--pairwise" if pairwise else "--dimension"
        raise SettingsError(f"{subject.name}: say {right} {settings.subject}")
    if settings.scale is None:
        return subject
    if isinstance(subject, Comparison):
        raise SettingsError("--scale: pairs have votes, and no scale")
    bounds = bounds_of(settings.scale)
    return subject if bounds is None else on_scale(subject, bounds)


def on_scale(dimension: Dimension, bounds: Bounds) -> Dimension:
    """The dimension rated from one bound to the other, in whole numbers."""
    ratings = whole_ratings(bounds)
    return dimension.on_scale(ratings[0], ratings[-1])


def whole_ratings(bounds: Bounds) -> tuple[int, ...]:
    """Every rating of a scale; SettingsError where it is no judge's."""
    low, high = bounds
    if not (low.is_integer() and high.is_integer() and high - low < MOST_RATINGS):
        raise SettingsError(
            f"--scale {low:g}-{high:g}: a judge rates in whole numbers, {MOST_RATINGS} at most; "
            "say --scale any to keep its own, since only the order of the labels counts"
        )
    return tuple(range(int(low), int(high) + 1))


def label_bounds(subject: Dimension, scale: str | None) -> Bounds | None:
    """Between what labels must lie; None: anything."""
    if scale is not None:
        return bounds_of(scale)
    return float(subject.scale[0]), float(subject.scale[-1])
