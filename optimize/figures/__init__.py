"""How a figure stands in JSON, on the screen and on the page."""
