"""What of a request a provider's prompt cache could still hold: the longest common prefix with the one before."""

from __future__ import annotations

from collections.abc import Sequence
from os.path import commonprefix

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
            total += counter.count(commonprefix([old.content, new.content]))
        break
    return total
