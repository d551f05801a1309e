"""One run of the optimizer: settings, labels, budget, models, its folder, from top to bottom."""
