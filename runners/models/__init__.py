"""Weights that a person asked for: which there are, where they come from, and that they are what they should be."""
