"""Many judgements: concurrency, retries, the budget, batch files."""
