"""The report: one HTML page that a person can read, check and quote, and a short table."""
