"""What the papers compute and decide: formulas, and rules over boxes, probabilities and scores."""
