"""The command `plan`: which documents to label next, and how many."""
