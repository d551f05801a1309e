"""The embedded model: a small statistical judge that ships with the project and works offline."""
