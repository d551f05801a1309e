"""The commands of `python -m judges`, one file each."""
