"""Judges and the embedded model behind an OpenAI-compatible endpoint."""
