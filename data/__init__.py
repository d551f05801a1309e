"""Human labels: types, readers, splits and the starter set."""
