"""Several judges joined in one: maps to a common scale, weights, and what labels say of them."""
