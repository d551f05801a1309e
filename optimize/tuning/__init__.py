"""A tuning run: read its settings and labels, plan its budget, and run it in a folder."""
