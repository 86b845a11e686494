"""How a page gets in: a token in its address that works once becomes a cookie that scripts cannot read.

An `EventSource` cannot send headers, and a bearer token in an address would stay in histories.
"""

from __future__ import annotations

import secrets
from collections import deque

PATH = "/ui"
ENTER = "/ui/enter"
_MOST = 64


class Passes:
    """Of one process. Held in memory only: a restart ends every pass."""

    def __init__(self) -> None:
        # browsers keep cookies by host, not by port: two services must not take each other's away
        self.cookie = f"longstride-{secrets.token_hex(4)}"
        self._unused: deque[str] = deque(maxlen=_MOST)
        self._cookies: deque[str] = deque(maxlen=_MOST)

    def issue(self) -> str:
        """A token for one entry."""
        self._unused.append(secrets.token_urlsafe(24))
        return self._unused[-1]

    def enter(self, token: str) -> str | None:
        """The value of a cookie for a token that was not used before; None for any other."""
        found = next((one for one in self._unused if secrets.compare_digest(one.encode(), token.encode())), None)
        if found is None:
            return None
        self._unused.remove(found)
        self._cookies.append(secrets.token_urlsafe(24))
        return self._cookies[-1]

    def admits(self, path: str, cookies: str) -> bool:
        """Whether a request for ``path`` with this ``Cookie`` header has a pass."""
        if path != PATH and not path.startswith(f"{PATH}/"):
            return False
        given = _value(cookies, self.cookie).encode("utf-8", "replace")
        return any(secrets.compare_digest(one.encode(), given) for one in self._cookies)


def _value(cookies: str, name: str) -> str:
    """Of one cookie. Whatever else this machine's name has been given, by services on other ports, does no harm: the
    standard parser takes none where one is malformed."""
    for part in cookies.split(";"):
        found, _, value = part.strip().partition("=")
        if found == name:
            return value
    return ""
