"""Agreement statistics over parallel vectors: coefficients, levels, intervals, differences."""
