"""The starter set's systems: what each is inclined to leave out, add, contradict or spoil."""

from dataclasses import dataclass

Counts = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A system's habits. For every document each count is drawn from its tuple, all equally likely.

    `lean` is how strongly important points are favoured (negative: the unimportant ones); `gist`,
    `linked`, `extract` and `scatter` are probabilities.
    """

    points: Counts
    lean: float = 1.0
    gist: float = 0.0
    wrong: Counts = (0,)
    trivia: Counts = (0,)
    invented: Counts = (0,)
    repeats: Counts = (0,)
    moves: Counts = (0,)
    spoiled: Counts = (0,)
    linked: float = 0.8
    extract: float = 0.0
    scatter: float = 0.0


SYSTEMS: dict[str, Profile] = {
    # Tells the main points in order; its slips are rare.
    "careful": Profile(
        points=(3, 3, 4, 4),
        lean=3,
        wrong=(0, 0, 0, 0, 1),
        trivia=(0, 0, 0, 0, 1),
        spoiled=(0, 0, 0, 1),
    ),
    # Packs several points into one sentence, and now and then gets it wrong.
    "dense": Profile(
        points=(0, 0, 1, 1),
        lean=2,
        gist=1,
        wrong=(0, 0, 0, 1),
        moves=(0, 0, 0, 1),
        spoiled=(0, 0, 1),
    ),
    # Copies the first sentences, sometimes telling ones from all over, not always cleanly.
    "lead": Profile(
        points=(3, 4, 5, 6),
        extract=1,
        scatter=0.3,
        spoiled=(0, 1, 1),
    ),
    # Cannot leave anything out, least of all the details.
    "wordy": Profile(
        points=(2, 3, 3),
        lean=0.5,
        gist=0.4,
        wrong=(0, 0, 1),
        trivia=(1, 2, 3),
        repeats=(0, 0, 1, 1),
        moves=(0, 0, 0, 1),
        spoiled=(0, 0, 1, 1),
        linked=0.9,
    ),
    # Writes well, reads badly: a point or two, often not the main ones.
    "sketchy": Profile(
        points=(1, 1, 2),
        lean=-1,
        wrong=(0, 0, 0, 1),
        trivia=(0, 1, 1),
        invented=(0, 0, 0, 1),
        spoiled=(0, 0, 1),
        moves=(0, 1, 2),
        linked=1,
    ),
    # Has the points, in any order, and says some of them twice.
    "muddled": Profile(
        points=(2, 2, 3),
        lean=1.5,
        gist=0.3,
        wrong=(0, 0, 1, 1),
        trivia=(0, 0, 0, 1),
        repeats=(0, 0, 1, 1),
        moves=(2, 3, 4),
        linked=1,
        spoiled=(0, 0, 1, 1),
    ),
    # Reads smoothly and makes things up.
    "inventive": Profile(
        points=(1, 2, 3),
        lean=1.5,
        gist=0.4,
        wrong=(1, 1, 2, 3),
        trivia=(0, 0, 1),
        invented=(0, 1, 1),
        spoiled=(0, 0, 0, 1),
    ),
    # Knows what matters and cannot write.
    "rough": Profile(
        points=(2, 3, 3),
        lean=2,
        gist=0.3,
        wrong=(0, 0, 0, 1),
        trivia=(0, 0, 0, 1),
        moves=(0, 0, 1, 2),
        spoiled=(2, 3, 4),
        linked=1,
    ),
    # A little of everything.
    "mixed": Profile(
        points=(1, 2, 3),
        lean=0.5,
        gist=0.5,
        wrong=(0, 0, 1, 1),
        trivia=(0, 1, 1),
        invented=(0, 0, 1),
        repeats=(0, 0, 1),
        moves=(0, 1, 2),
        spoiled=(0, 1, 1, 2),
    ),
}
