"""Find a catalogue judge by its name."""

import difflib

from judges.catalog import chain_of_density, summeval, win_rate
from judges.dimension import Comparison, Dimension, UnknownDimensionError

_JUDGES: dict[str, Dimension | Comparison] = {
    judge.name: judge
    for source in (summeval, chain_of_density, win_rate)
    for judge in source.JUDGES
}


def names() -> tuple[str, ...]:
    """Return the names of all catalogue judges, source by source."""
    return tuple(_JUDGES)


def find(name: str) -> Dimension | Comparison:
    """Return the catalogue judge of that name; UnknownDimensionError names its neighbours."""
    try:
        return _JUDGES[name]
    except KeyError:
        near = difflib.get_close_matches(name.lower(), _JUDGES, n=3, cutoff=0.5)
        near += [known for known in _JUDGES if name and name.lower() in known and known not in near]
        hint = f"near it: {', '.join(near)}" if near else f"it has {', '.join(_JUDGES)}"
        raise UnknownDimensionError(
            f"no judge {name!r} in the catalogue; {hint} (dspy-judges list shows all); one of "
            "your own is a file, FILE.yaml"
        ) from None
