"""Summaries of chunks: extractive and by a model, made in the background, checked before they count."""
