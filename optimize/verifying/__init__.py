"""Verification of any judge: where scores come from, and every correlation of them."""
