"""The built-in statistical model."""
