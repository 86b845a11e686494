"""One MCP server as the configuration names it, and how a run may fail at it."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, model_validator

SERVER_NAME = re.compile(r"[a-z][a-z0-9-]{0,23}")
"""A server's tools are called ``name__tool``, and providers take 64 characters."""
_VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]{0,127}$"
Variable = Annotated[str, Field(pattern=_VARIABLE)]


class McpFault(Exception):
    """A server cannot be used, or not as it is configured. ``hint``: what a person can do about it.

    ::

        McpFault
        ├── Ended
        └── CallRefused
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class Ended(McpFault):
    """The server ended, or its connection did. The message says how."""


class CallRefused(McpFault):
    """The server answered a call with an error of the protocol."""


class McpServerConfig(BaseModel):
    """A server to start (``command``) or to reach (``url``). It sees no variable of ours but those named here."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    command: str = ""
    """Program of a server that speaks over stdin and stdout; found on PATH."""
    args: tuple[str, ...] = ()
    env: dict[Variable, str] = {}
    """Variables with their values. They are stored with the session, so no secrets."""
    pass_env: tuple[Variable, ...] = ()
    """Variables that the server gets from our own environment or ``.env``, secrets included."""
    cwd: str = ""
    """Its working folder; empty: ours."""
    url: str = ""
    """Endpoint of a server that speaks streamable HTTP: https, or http on loopback."""
    token_env: Variable | None = None
    """Variable with the bearer token for ``url``."""
    allow: tuple[str, ...] | None = None
    """The tools to offer; null: all of them, as long as they are few."""
    timeout_s: float = Field(default=60.0, gt=0, le=3600)
    """Of one call."""
    start_s: float = Field(default=30.0, gt=0, le=600)
    """For a start: until it has named its tools."""
    max_chars: int = Field(default=20_000, ge=500, le=200_000)
    """Of one result as the model sees it."""
    restarts: int = Field(default=3, ge=0, le=100)
    """How often a server that ended, or stopped answering, is started again in one run."""

    @model_validator(mode="after")
    def _one_kind(self) -> McpServerConfig:
        if bool(self.command.strip()) == bool(self.url.strip()):
            raise ValueError("give either command or url")
        if self.url and (self.args or self.env or self.pass_env or self.cwd):
            raise ValueError("args, env, pass_env and cwd belong to command, not to url")
        if self.command and self.token_env:
            raise ValueError("token_env belongs to url: name variables of a command in pass_env")
        if self.url:
            check_url(self.url)
        if any("\0" in text for text in (self.command, self.cwd, *self.args, *self.env.values())):
            raise ValueError("a NUL character cannot be handed to a program")
        return self

    @property
    def variables(self) -> tuple[str, ...]:
        """Names of our variables that this server gets or is reached with."""
        return (*self.pass_env, *([self.token_env] if self.token_env else []))


def check_url(url: str) -> None:
    """Raises ValueError for what is neither https nor http to this machine."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme not in ("http", "https") or not host:
        raise ValueError("url must begin with https:// or http://")
    if parts.username is not None or parts.password is not None:
        raise ValueError("url must not hold a user or a password: use token_env")
    if parts.scheme == "http" and not _is_loopback(host):
        raise ValueError("url must be https, unless it is on this machine (localhost, 127.0.0.1)")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
