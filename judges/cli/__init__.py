"""The commands of `dspy-judges` that use a judge: list, show, score, winrate and export."""
