"""Statistics of judges and labels: vectors in, frozen dataclasses out; no generator is needed."""
