"""Names to addresses, asked once per hop."""

from __future__ import annotations

import asyncio
import socket
from typing import Protocol

from tools.base import ToolError


class Resolver(Protocol):
    """Every address of a host, as literal IPs, in the order to try them; empty when there is none."""

    async def __call__(self, host: str, port: int) -> list[str]: ...


async def system_resolver(host: str, port: int) -> list[str]:
    """The operating system's resolver. IPv4 first: a host without IPv6 routes fails slowly otherwise."""
    try:
        answers = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        raise ToolError(
            "network", f"cannot resolve {host!r} ({error.strerror or error}); check the spelling"
        ) from error
    except (UnicodeError, OSError) as error:
        raise ToolError("network", f"cannot resolve {host!r} ({error})") from error
    ordered = sorted(answers, key=lambda answer: answer[0] != socket.AF_INET)
    return list(dict.fromkeys(str(answer[4][0]) for answer in ordered))
