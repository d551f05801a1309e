"""How the starter set was constructed, fault by fault; `python -m data.construct` shows it."""
