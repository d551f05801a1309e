"""What a run's settings choose from: words alone, which a help text shows without loading numpy."""

from typing import Literal

Level = Literal["summary", "dataset", "system"]
LEVELS: tuple[Level, ...] = ("summary", "dataset", "system")
OptimizerName = Literal["rank", "gepa"]
Ship = Literal["better", "tuned"]
# The chance that a judge ships which is no better than the untuned one.
RISK = 0.1
