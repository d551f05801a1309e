"""Readers and writers of tables, row by row, in every supported format."""
