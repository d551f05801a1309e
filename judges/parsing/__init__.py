"""From raw replies to ratings, choices and probabilities, strictly."""
