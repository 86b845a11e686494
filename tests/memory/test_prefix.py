"""The longest common prefix of two requests, in tokens."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memory.prefix import _shared, common_prefix_tokens
from memory.records import Message
from memory.tokens import ScriptCounter, message_tokens

COUNTER = ScriptCounter()


@given(st.text(alphabet="ab", max_size=30), st.text(alphabet="ab", max_size=30))
def test_shared_is_the_common_prefix(a: str, b: str) -> None:
    slow = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    assert _shared(a, b) == slow


def test_by_hand() -> None:
    one, two = Message("system", "be careful"), Message("user", "history: aaaa bbbb")
    other = Message("user", "history: aaaa cccc")
    assert common_prefix_tokens(None, [one], "", COUNTER) is None
    same = message_tokens(one, COUNTER) + COUNTER.count("[tools]")
    assert common_prefix_tokens([one, two], [one, two], "[tools]", COUNTER) == same + message_tokens(two, COUNTER)
    assert common_prefix_tokens([one, two], [one, other], "[tools]", COUNTER) == same + COUNTER.count("history: aaaa ")
    assert common_prefix_tokens([one], [two], "", COUNTER) == 0
