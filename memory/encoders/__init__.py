"""Encoders: text to keys."""
