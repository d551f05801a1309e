"""The form of figures in JSON, on the screen and on the page."""
