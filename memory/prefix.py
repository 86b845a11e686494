"""What of a request a provider's prompt cache could still hold: the longest common prefix with the one before."""

from __future__ import annotations

from collections.abc import Sequence

from memory.ports import TokenCounter
from memory.records import Message
from memory.tokens import message_tokens


def common_prefix_tokens(
    before: Sequence[Message] | None, after: Sequence[Message], tools_text: str, counter: TokenCounter
) -> int | None:
    """Tokens of ``after`` that repeat ``before`` from the start, tools first; None without a request before."""
    if before is None:
        return None
    total = counter.count(tools_text)
    for old, new in zip(before, after, strict=False):
        if (old.role, old.content, old.tool_calls, old.tool_call_id) == (
            new.role,
            new.content,
            new.tool_calls,
            new.tool_call_id,
        ):
            total += message_tokens(new, counter)
            continue
        if old.role == new.role:
            total += counter.count(new.content[: _shared(old.content, new.content)])
        break
    return total


def _shared(a: str, b: str) -> int:
    """Length of the common prefix, by bisection over slice comparisons."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
