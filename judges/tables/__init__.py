"""Rows of outputs and pairs: read, matched to texts, written whole."""
