"""What may be fetched: rules for a URL and for the addresses its host resolves to. No packet is sent before both."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Annotated

import httpx
from pydantic import BaseModel, ConfigDict, Field, field_validator

from tools.base import ToolError
from tools.web.addresses import is_public
from tools.web.blocklist import Blocklist
from tools.web.resolver import Resolver

MAX_URL = 4096
_SHAPE = re.compile(r"https?://[^/?#\\]", re.IGNORECASE)
_FORBIDDEN_CHARS = re.compile(r"[\x00-\x20\x7f\\]")
_DEFAULT_PORTS = {"http": 80, "https": 443}


class FetchConfig(BaseModel):
    """``allow_hosts``: exact ``host:port`` that may be reached although it is not public (a local mirror); never by
    pattern. Sizes in bytes, times in seconds; ``total_s`` covers redirects and the body."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    allow_hosts: tuple[str, ...] = ()
    ports: tuple[Annotated[int, Field(ge=1, le=65_535)], ...] = (80, 443, 8080, 8443)
    max_redirects: int = Field(default=5, ge=0, le=20)
    max_raw: int = Field(default=10_000_000, gt=0)
    max_decoded: int = Field(default=20_000_000, gt=0)
    connect_s: float = Field(default=10.0, gt=0)
    total_s: float = Field(default=60.0, gt=0)
    user_agent: str = Field(
        default="Mozilla/5.0 (compatible; longstride/0.1; research agent)", pattern=r"^[\x20-\x7e]+$"
    )

    @field_validator("allow_hosts")
    @classmethod
    def _exact(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for entry in value:
            _split(entry)
        return value


@dataclass(frozen=True, slots=True)
class Target:
    """A URL that passed, and the addresses (literal IPs, all checked) and port where it may be asked for."""

    url: httpx.URL
    host: str
    port: int
    addresses: tuple[str, ...]
    connect_port: int


class FetchPolicy:
    """Turns a URL into a `Target`, or refuses it. ``hosts``: logical host -> ``address:port`` of the moment."""

    def __init__(
        self, config: FetchConfig, resolver: Resolver, hosts: Mapping[str, str], blocked: Blocklist | None = None
    ) -> None:
        self._config = config
        self._resolver = resolver
        self._hosts = hosts
        self._blocked = blocked or Blocklist()
        self._allowed = frozenset(_split(entry) for entry in config.allow_hosts)

    def parse(self, url: str) -> httpx.URL:
        """Raises ToolError ``invalid_arguments`` for what is no URL, ``forbidden`` for one that is not allowed."""
        text = url.strip()
        if len(text) > MAX_URL:
            raise ToolError("invalid_arguments", f"the URL is longer than {MAX_URL} characters")
        if _FORBIDDEN_CHARS.search(text):
            raise ToolError("invalid_arguments", "the URL holds spaces, control characters or backslashes; encode them")
        if not _SHAPE.match(text):
            raise ToolError(
                "invalid_arguments", f"give a whole URL that starts with http:// or https://, not {text[:80]!r}"
            )
        try:
            parsed = httpx.URL(text)
            host, port = host_of(parsed), port_of(parsed)
        except (httpx.InvalidURL, UnicodeError, ValueError) as error:
            raise ToolError("invalid_arguments", f"not a valid URL ({error})") from error
        if parsed.userinfo or "@" in text.split("/", 3)[2]:
            raise ToolError("forbidden", "URLs with a user name or password are not fetched")
        if not host or "%" in host:
            raise ToolError("invalid_arguments", "the URL has no valid host")
        if port not in self._config.ports and (host, port) not in self._allowed:
            allowed = ", ".join(map(str, self._config.ports))
            raise ToolError("forbidden", f"port {port} is not allowed (allowed: {allowed})")
        if self._blocked.blocks(text):
            raise ToolError("forbidden", "this page is on the run's blocklist; use another source")
        return parsed.copy_with(fragment=None)

    def is_local(self, url: httpx.URL) -> bool:
        """Whether this is a page of our own corpus."""
        return url.scheme == "http" and port_of(url) == _DEFAULT_PORTS["http"] and host_of(url) in self._hosts

    def is_exempt(self, url: httpx.URL) -> bool:
        """Whether only configuration lets this place be reached: our own corpus, or an allowed host."""
        return self.is_local(url) or (host_of(url), port_of(url)) in self._allowed

    async def admit(self, url: httpx.URL) -> Target:
        """Resolve a parsed URL once and check every answer. Raises ToolError ``forbidden`` or ``network``."""
        host, port = host_of(url), port_of(url)
        if self.is_local(url):
            address, connect_port = _split(self._hosts[host])
            return Target(url, host, port, (address,), connect_port)
        literal = _literal(host)
        answers = [literal] if literal else await self._resolver(host, port)
        if not answers:
            raise ToolError("network", f"the host {host!r} has no address; check the spelling or search for the page")
        if (host, port) not in self._allowed and not all(is_public(answer) for answer in answers):
            raise ToolError("forbidden", f"{host!r} is not on the public internet; such addresses are never fetched")
        return Target(url, host, port, tuple(answers), port)


def host_of(url: httpx.URL) -> str:
    """The host as sent on the wire: ASCII, lower case, no trailing dot, no brackets."""
    return url.raw_host.decode("ascii").lower().rstrip(".").strip("[]")


def port_of(url: httpx.URL) -> int:
    return url.port or _DEFAULT_PORTS.get(url.scheme, 0)


def _literal(host: str) -> str | None:
    try:
        return str(ip_address(host))
    except ValueError:
        return None


def _split(entry: str) -> tuple[str, int]:
    host, _, port = entry.rpartition(":")
    if not host or not (port.isascii() and port.isdigit() and int(port[:6]) <= 65_535):
        raise ValueError(f"expected host:port, not {entry!r}")
    return host.lower().strip("[]"), int(port)
