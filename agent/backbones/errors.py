"""Providers' errors, mapped once to ours. Knows no SDK: both official ones raise errors of the same shape.

What the SDK has retried by itself (connection, 408, 409, 429, 5xx) arrives here only after its last try. An error
inside a stream, which no SDK retries, becomes `BrokenStream`, and that alone is retried by ours (``retrying.py``).
"""

from __future__ import annotations

import email.utils
import re
import time
from collections.abc import Mapping

from agent.errors import AuthFailed, BackboneFault, BadRequest, BrokenStream, ContextTooLong, RateLimited, Unavailable

RETRY_AFTER_S = (1.0, 120.0)
"""Bounds of a wait that a server may ask for, seconds."""
MESSAGE_CHARS = 500
SHORTEST_KEY = 6
"""A shorter one would cut holes into ordinary text."""

_TOO_LONG = re.compile(
    r"string_above_max_length|exceed_context_size|context[_ -]?length|context (?:size|limit|window)"
    r"|maximum model length|(?:prompt|input|request|messages?)\b[^.]{0,60}\btoo (?:long|large)|input token count"
    r"|too large for model|reduce the length|token count exceeds|maximum number of tokens allowed|request_too_large",
    re.IGNORECASE,
)
_NOT_TOO_LONG = re.compile(r"max_(?:completion_)?tokens\W+(?:is|must|:)", re.IGNORECASE)
_NUMBER = r"\(?\s*(\d[\d,_]*)"
_LIMITS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"maximum (?:context|model) length(?: (?:is|of))?\s*{_NUMBER}",
        rf">\s*{_NUMBER}",
        rf"with\s*{_NUMBER} maximum",
        rf"tokens allowed\s*{_NUMBER}",
        rf"context (?:size|length|window|limit)(?: (?:is|of))?\s*{_NUMBER}",
        rf"\bLimit:? {_NUMBER}",
    )
)
_NO_MODEL = re.compile(
    r"model[_ ]?not[_ ]?(?:found|exist)|model\b[^.]{0,80}\bdoes not exist|no such model", re.IGNORECASE
)
_NO_CREDIT = re.compile(r"insufficient[_ ](?:quota|balance|credit|fund)|billing|credit balance", re.IGNORECASE)
_AUTH_TYPES = frozenset({"authentication_error", "permission_error", "invalid_api_key", "401", "403"})
_REQUEST_TYPES = frozenset({"invalid_request_error", "400", "422"})


def sdk_fault(error: Exception, *, key_env: str, where: str, key: str = "") -> BackboneFault:
    """An SDK's error before the stream began. ``where`` names model and server, ``key_env`` the variable of the key,
    which some servers repeat in their errors: it is masked."""
    status = getattr(error, "status_code", None)
    if not isinstance(status, int):
        cause = error.__cause__ or error
        return Unavailable(
            f"cannot reach {where}: {type(cause).__name__}: {_short(str(cause))}",
            hint="check the network and base_url",
        )
    headers = getattr(getattr(error, "response", None), "headers", None)
    return status_fault(status, *error_fields(error, key), headers=headers or {}, key_env=key_env, where=where)


def stream_fault(error: Exception, *, key_env: str, where: str, key: str = "") -> BackboneFault:
    """An error after the stream began: sent inside it, or the end of the connection. Nothing of the reply is used."""
    kind, message = error_fields(error, key)
    if getattr(error, "body", None) is not None:
        if says_too_long(f"{kind} {message}"):
            return ContextTooLong(f"{where}: {message}", limit=context_limit(message))
        if kind in _AUTH_TYPES:
            return AuthFailed(f"{where} does not accept the key", hint=f"set {key_env}")
        if kind in _REQUEST_TYPES:
            return BadRequest(f"{where} refuses the request: {message}")
    cause = error.__cause__ or error
    return BrokenStream(
        f"{where}: the stream broke: {type(cause).__name__}: {message or _short(_masked(str(cause), key))}"
    )


def status_fault(
    status: int, kind: str, message: str, *, headers: Mapping[str, str], key_env: str, where: str
) -> BackboneFault:
    """The fault of an HTTP error status, with what its body said."""
    said = f"{where} answered {status}" + (f": {message}" if message else "")
    about = f"{kind} {message}"
    if status == 401:
        # no message: some servers repeat part of the key in it
        return AuthFailed(f"{where} does not accept the key (401)", hint=f"set {key_env} to a valid key")
    if status == 402 or (status in (400, 403, 429) and _NO_CREDIT.search(about)):
        return AuthFailed(said, hint="the account has no credit or quota left")
    if status == 403:
        return AuthFailed(said, hint=f"the key in {key_env} may not use this model")
    if status == 413 or (status in (400, 422, 429, 500) and says_too_long(about)):
        return ContextTooLong(said, limit=context_limit(message))
    if status == 404 or (status in (400, 422) and _NO_MODEL.search(about)):
        return Unavailable(said, hint="check the model's name and base_url", retryable=False)
    if status == 429:
        return RateLimited(said, retry_after=retry_after(headers))
    if status in (408, 409) or status >= 500:
        return Unavailable(said)
    return BadRequest(said)


def error_fields(error: Exception, key: str = "") -> tuple[str, str]:
    """(type or code, message) of an SDK error, wherever the body has them; empty when it says nothing. ``key`` does
    not come back."""
    kind, message = _said_by(error)
    return _masked(kind, key), _short(_masked(message, key))


def _masked(text: str, key: str) -> str:
    return text.replace(key, "***") if len(key) >= SHORTEST_KEY else text


def _said_by(error: Exception) -> tuple[str, str]:
    body = getattr(error, "body", None)
    inner = body.get("error") if isinstance(body, Mapping) else None
    for found in (inner, body):
        if isinstance(found, Mapping):
            kinds = (found.get("code"), found.get("type"))
            kind = " ".join(str(part) for part in kinds if isinstance(part, str | int) and str(part))
            message = found.get("message") or found.get("detail") or found.get("msg")
            if kind or message:
                first = next((part for part in map(str, kinds) if part in _AUTH_TYPES | _REQUEST_TYPES), kind)
                return first, message if isinstance(message, str) else str(message or "")
    text = inner if isinstance(inner, str) else body if isinstance(body, str) else getattr(error, "message", "")
    return "", str(text or "")


def context_limit(message: str) -> int | None:
    """The window (tokens) that a too-long message names, None when it names none."""
    for pattern in _LIMITS:
        match = pattern.search(message)
        if match:
            return int(match.group(1).replace(",", "").replace("_", ""))
    return None


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Seconds to wait, within `RETRY_AFTER_S`, from a Retry-After of either form; None when absent or unreadable."""
    value = headers.get("retry-after") or headers.get("Retry-After")
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(value).timestamp() - (time.time() if now is None else now)
        except (ValueError, TypeError, OverflowError):
            return None
    low, high = RETRY_AFTER_S
    return min(high, max(low, seconds)) if seconds == seconds else None


def says_too_long(text: str) -> bool:
    """Whether an error is about the length of the prompt."""
    return bool(_TOO_LONG.search(text)) and not _NOT_TOO_LONG.search(text)


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= MESSAGE_CHARS else flat[:MESSAGE_CHARS] + "…"
