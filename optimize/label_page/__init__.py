"""The page on which people give labels: its session, its server and its HTML file."""
