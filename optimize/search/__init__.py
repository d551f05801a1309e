"""Search for a judge that ranks as people do: candidates, two optimizers, the gate."""
