"""Statistics of judges and labels: functions of vectors that return frozen dataclasses."""
