"""Tune judges against human labels and measure them on labels they never saw."""
