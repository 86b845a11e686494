"""Recorded runs from files: one module per format."""
