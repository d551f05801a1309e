"""DSPy's own optimizers on the exact objective: one file each, on what all of them share."""
