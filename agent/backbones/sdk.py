"""What both official SDKs need from us: rate limits are ours alone, and no server makes them wait for weeks."""

from __future__ import annotations

from typing import Any

from agent.backbones.errors import RETRY_AFTER_S


def tamed(client_class: type[Any]) -> type[Any]:
    """The SDK's client class, leaving 429 to us (`agent.backbones.throttled` slows down and waits) and bounding the
    wait that a server may ask for before the retries that stay its own.

    The two methods are not part of the SDK's documented interface; a test holds each SDK to them.
    """

    class Tamed(client_class):  # type: ignore[misc]
        def _should_retry(self, response: Any) -> bool:
            return response.status_code != 429 and bool(super()._should_retry(response))

        def _calculate_retry_timeout(self, *args: Any, **kwargs: Any) -> float:
            return min(RETRY_AFTER_S[1], float(super()._calculate_retry_timeout(*args, **kwargs)))

    return Tamed
