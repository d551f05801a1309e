"""The report of a result: an HTML page to read, check and quote, and its text for a terminal."""
