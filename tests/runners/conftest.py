"""Fixtures of the command line."""

from __future__ import annotations

from tests.runners.command import command, corpus

__all__ = ["command", "corpus"]
