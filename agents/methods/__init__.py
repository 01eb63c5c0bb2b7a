"""What the papers compute and decide: formulas, and rules over words, boxes, probabilities and scores."""
