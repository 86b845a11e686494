"""Servers for tests, ours and users': a scripted model on loopback."""
