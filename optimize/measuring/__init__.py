"""Measure any judge against people: where scores come from, and every correlation of them."""
