"""One tuning run: its settings, labels, models, budget and folder, and the run itself."""
