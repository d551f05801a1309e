"""Many judgements: concurrency, retries, the journal, the budget, batch files, other machines."""
