"""One run of the optimizer: settings, labels, its folder, the final table, the scorecard."""
