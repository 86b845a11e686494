"""Files attached to the question: what of them to read next, and what a reading says of itself."""

from __future__ import annotations

import re

from agent.backbones.extractive.scene import Block, Scene

MAX_PARTS = 12
"""Parts of files read for one question, shared evenly; of every file at least the first."""
_HEAD = re.compile(r"(?P<name>[^\n]+?) \((?:whole file|page \d+ of (?P<parts>\d+)|found places)[^\n]*\)(?:\n|\Z)")


def next_part(scene: Scene) -> tuple[str, int] | None:
    """(name, number from 1) of the part to read now: one file after the other, from its beginning; None when all is
    read that will be."""
    files = scene.legal.files
    each = max(1, MAX_PARTS // max(1, len(files)))
    for name in files:
        last = max((number for file, number in scene.files_read if file == name), default=0)
        if last == 0 or (last < each and last < _parts(scene, name)):
            return name, last + 1
    return None


def is_attached(block: Block) -> bool:
    """Whether a block shows a part of a file."""
    return block.tool == "parse_file" and not block.failed


def split_head(text: str) -> tuple[str, str]:
    """(name without its ending, text) of a part as the tool shows it; the name is empty where the head is missing."""
    head = _HEAD.match(text)
    return (head["name"].rpartition(".")[0] or head["name"], text[head.end() :]) if head else ("", text)


def _parts(scene: Scene, name: str) -> int:
    """How many parts a file has, as far as a visible part of it says."""
    heads = [_HEAD.match(block.text) for block in scene.blocks if is_attached(block)]
    return max((int(head["parts"] or 1) for head in heads if head and head["name"] == name), default=1)
