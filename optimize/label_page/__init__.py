"""The page on which people give labels: its session, server and file."""
