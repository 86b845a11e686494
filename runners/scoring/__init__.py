"""Scorers that several evaluations share: exact match, F1, judges and what they say. Pure, but for `judge`."""
