"""Measure any judge against people's labels: where its scores come from, and every figure."""
