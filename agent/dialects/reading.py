"""What the dialects share in reading replies: thoughts, calls written into the text, replies that are not whole."""

from __future__ import annotations

import re

from agent.dialects.parsing import call_of, parse_json, scalars, unfenced
from agent.errors import ParseFailure
from memory.records import JsonValue, Reply

_OPEN, _CLOSE = "<think>", "</think>"
_BEGUN = re.compile(r"<tool_call>\s*\{|<answer>|\A\s*(?:```\w*\s*)?\{")
_BARE_CALL = re.compile(r'\A\s*\{\s*["\'](?:name|function|type|arguments)["\']\s*:')


def check_whole(reply: Reply) -> None:
    """Refuse what must not be acted upon: a reply that was cut, or a refusal. Raises ParseFailure."""
    if reply.stop_reason == "length":
        raise ParseFailure("the reply was cut at the output limit; be shorter and repeat the action", cut=True)
    if reply.stop_reason == "refusal":
        raise ParseFailure("the model refused to reply")


def split_thought(reply: Reply) -> tuple[str, str]:
    """Thought (reasoning fields and ``<think>``) and the rest, both stripped and storable.

    Tags inside a call or an answer are its own text. A thought that is never closed ends where a call or an answer
    begins. A closing tag alone closes a thought that the template of the server opened in the prompt.
    """
    text = scalars(reply.text)
    thoughts = [scalars(reply.reasoning).strip()]
    while True:
        begun = _BEGUN.search(text)
        begin = begun.start() if begun else len(text)
        opening, closing = text.find(_OPEN), text.find(_CLOSE)
        if 0 <= closing < begin and not 0 <= opening < closing:
            thoughts.append(text[:closing].strip())
            text = text[closing + len(_CLOSE) :]
        elif 0 <= opening < begin:
            end, skip = (closing, len(_CLOSE)) if closing >= 0 else (begin, 0)
            thoughts.append(text[opening + len(_OPEN) : end].strip())
            text = text[:opening] + text[end + skip :]
        else:
            return "\n".join(part for part in thoughts if part), text.strip()


def joined(thought: str, text: str) -> str:
    """A thought and the text beside a call, as one thought."""
    return "\n".join(part for part in (thought, text.strip()) if part)


def written_call(text: str) -> tuple[str, str, dict[str, JsonValue]] | None:
    """(text before, name, arguments) of the first call written into the text, None without one. Raises ParseFailure."""
    if "<tool_call>" in text:
        before, rest = text.split("<tool_call>", 1)
        body, closing, _ = rest.partition("</tool_call>")
        name, arguments = call_of(parse_json(unfenced(body), closed=bool(closing)))
        return before, name, arguments
    bare = unfenced(text)
    if not _BARE_CALL.match(bare):
        return None
    value = parse_json(bare)
    if (
        isinstance(value, dict)
        and isinstance(value.get("name"), str)
        and ("arguments" in value or "parameters" in value)
    ):
        name, arguments = call_of(value)
        return "", name, arguments
    return None
