"""How the service is set up, and what it refuses to start with."""

from __future__ import annotations

import ipaddress

from pydantic import BaseModel, ConfigDict, Field, field_validator

from memory.store.address import Address
from runners.environment import Secret
from runners.errors import UsageFault

PORT = 8077
TOKEN = "LONGSTRIDE_TOKEN"
"""The variable with the bearer token, for the service and its client."""
SHORTEST_TOKEN = 16
LOCAL_HOSTS = ("127.0.0.1", "localhost", "::1")


class ServiceSettings(BaseModel):
    """What the service listens on, lets in, and holds."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    host: str = "127.0.0.1"
    port: int = Field(PORT, ge=0, le=65_535)
    token: Secret | None = None
    """Asked for everywhere but at ``/healthz``; without one the service listens on loopback only."""
    hosts: tuple[str, ...] = ()
    """Names that a ``Host`` header may have, besides those of loopback and ``host`` itself."""
    debug: bool = False
    """Offer ``/select_debug``, which tells everything about everyone's candidates."""
    max_body: int = Field(8 * 1024 * 1024, ge=1024)
    body_timeout_s: float = Field(10.0, gt=0)
    """For a body to arrive whole."""
    max_candidates: int = Field(5_000, ge=1)
    max_waiting: int = Field(64, ge=1)
    """Selections that may wait for a free core; more are refused with 503."""
    database: Address | None = None
    """Where the sessions are; None: below ``LONGSTRIDE_HOME``."""
    store_wait_s: float = Field(10.0, gt=0)
    """How long an operation waits for a database that is gone, or a store that is locked."""
    answer_s: float = Field(60.0, gt=0)
    """For a request on a session of a database: a server may hang without being gone. What was begun goes on."""
    max_sessions: int = Field(16, ge=1)
    """Sessions that are held open; the one unused for longest is closed for another. Each takes a connection of its
    database."""
    max_streams: int = Field(32, ge=0)
    cache_mib: int = Field(256, ge=1)
    sample: float = Field(0.05, ge=0, le=1)
    """Share of the selections that the debug log takes."""

    @field_validator("token")
    @classmethod
    def _long_enough(cls, token: Secret | None) -> Secret | None:
        if token is not None and (len(token.reveal()) < SHORTEST_TOKEN or not token.reveal().isascii()):
            raise ValueError(f"the token must have at least {SHORTEST_TOKEN} ASCII characters")
        return token

    def allowed_hosts(self) -> frozenset[str]:
        """Names that requests may be addressed to, lower case, without port and brackets."""
        own = () if self.host in ("0.0.0.0", "::") else (self.host,)
        return frozenset(name.lower().strip("[]") for name in (*LOCAL_HOSTS, *own, *self.hosts))


def check_bind(settings: ServiceSettings) -> None:
    """Raises UsageFault for another bind than loopback without a token."""
    if settings.token is None and not is_loopback(settings.host):
        raise UsageFault(
            f"without a token the service listens on loopback only, not on {settings.host}",
            hint=f"set {TOKEN} to {SHORTEST_TOKEN} characters or more",
        )


def is_loopback(host: str) -> bool:
    """Whether an address, or the one name that is one, is reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
