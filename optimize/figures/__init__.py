"""How the numbers of a result are written: as JSON, and as text for the screen and the page."""
