"""Judges: define, run, freeze and load them."""
