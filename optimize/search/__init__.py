"""Search for a judge that ranks as people do: candidates, races, the gate, DSPy's optimizers."""
