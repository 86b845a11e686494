"""Encoders behind a ``/v1/embeddings`` endpoint: OpenAI and what speaks like it (vLLM, Ollama, llama.cpp, TEI)."""

from __future__ import annotations

import email.utils
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import httpx
import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, FiniteFloat, ValidationError

from memory.encoders.prefixes import prefixes_for
from memory.encoders.vectors import checked_rows
from memory.encoders.windows import truncate
from memory.errors import EncoderFault
from memory.tokens import ScriptCounter

_MAX_REPLY_BYTES = 256 * 1024 * 1024
_FIRST_BACKOFF_S = 0.5


class _Item(BaseModel):
    index: int
    embedding: list[FiniteFloat]


class _Reply(BaseModel):
    data: list[_Item]


class HttpEncoder:
    """A client of one model. Blocking. When ``dim`` is not given, one request is made at once to learn it.

    ``dim``: also sent as ``dimensions``, for models that can shorten their vectors. ``timeout_s`` bounds one whole
    attempt. Replies 408, 429 and 5xx and broken connections are tried again, ``attempts`` times in all, after
    ``Retry-After`` or half a second, doubled each time; no wait is longer than ``max_wait_s``.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key: str | None = None,
        dim: int | None = None,
        max_tokens: int = 8192,
        query_prefix: str | None = None,
        document_prefix: str | None = None,
        batch_size: int = 32,
        timeout_s: float = 60.0,
        attempts: int = 4,
        max_wait_s: float = 20.0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """``base_url`` includes ``/v1``. ``max_tokens``: the model's window; texts are cut to it by estimate."""
        known = prefixes_for(model)
        self.model = model
        self._url = base_url.rstrip("/") + "/embeddings"
        self._query_prefix = known[0] if query_prefix is None else query_prefix
        self._document_prefix = known[1] if document_prefix is None else document_prefix
        self._asked_dim = dim
        self._batch_size = max(1, batch_size)
        self._timeout_s = timeout_s
        self._attempts = max(1, attempts)
        self._max_wait_s = max_wait_s
        self._sleep = sleep
        self._count = ScriptCounter().count
        self.max_tokens = max_tokens
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        try:
            self._client = httpx.Client(headers=headers, timeout=timeout_s)
        except (UnicodeEncodeError, ValueError) as error:
            raise EncoderFault(f"no client for {self._url}: the key or a proxy setting is malformed") from error
        if dim is None:
            dim = len(self._request(["dimensions"])[0])
        self.dim = dim
        prefixes = "|".join((self._query_prefix, self._document_prefix))
        self.id = f"http-{httpx.URL(self._url).host}-{model}-{dim}-{max_tokens}-{prefixes}"

    def close(self) -> None:
        self._client.close()

    def encode_query(self, text: str) -> NDArray[np.float32]:
        """(dim,) float32. Raises EncoderFault."""
        row: NDArray[np.float32] = self._rows([text], self._query_prefix)[0]
        return row

    def encode_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(len(texts), dim) float32. Raises EncoderFault."""
        return self._rows(texts, self._document_prefix)

    def _rows(self, texts: Sequence[str], prefix: str) -> NDArray[np.float32]:
        rows = np.zeros((len(texts), self.dim), dtype=np.float32)
        told = [position for position, text in enumerate(texts) if text.strip()]
        for start in range(0, len(told), self._batch_size):
            batch = told[start : start + self._batch_size]
            vectors = self._request([truncate(prefix + texts[at], self.max_tokens, self._count) for at in batch])
            if any(len(vector) != self.dim for vector in vectors):
                lengths = sorted({len(vector) for vector in vectors})
                raise EncoderFault(f"{self.model} gave vectors of {lengths} dimensions, expected {self.dim}")
            rows[batch] = checked_rows(np.asarray(vectors), len(batch), self.dim, self.model)
        return rows

    def _request(self, texts: list[str]) -> list[list[float]]:
        """The vectors of one batch, in its order."""
        body = self._post({"model": self.model, "input": texts, "encoding_format": "float"})
        try:
            items = _Reply.model_validate_json(body).data
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            where = ".".join(map(str, first["loc"]))
            raise EncoderFault(f"{self._url} gave no embeddings: {where}: {first['msg']}") from error
        if sorted(item.index for item in items) != list(range(len(texts))):
            raise EncoderFault(f"{self._url} gave {len(items)} embeddings for {len(texts)} texts, or wrong indices")
        return [item.embedding for item in sorted(items, key=lambda item: item.index)]

    def _post(self, payload: dict[str, str | list[str] | int]) -> bytes:
        if self._asked_dim is not None:
            payload["dimensions"] = self._asked_dim
        for attempt in range(self._attempts):
            try:
                status, retry_after, body = self._attempt(payload)
                if status < 400:
                    return body
                fault = _refused(self._url, status, body)
            except httpx.HTTPError as error:
                retry_after = None
                fault = _unreachable(self._url, error)
            except httpx.InvalidURL as error:
                raise EncoderFault(
                    f"{self._url} is not a URL: {error}", hint="give base_url as http(s)://host/v1"
                ) from error
            if not fault.retryable or attempt + 1 == self._attempts:
                raise fault
            wait = _FIRST_BACKOFF_S * 2**attempt if retry_after is None else retry_after
            self._sleep(min(max(wait, 0.0), self._max_wait_s))
        raise AssertionError("unreachable")

    def _attempt(self, payload: dict[str, str | list[str] | int]) -> tuple[int, float | None, bytes]:
        """Status, Retry-After (seconds) and body. The body is read under a deadline: a drip must not hold a run."""
        deadline = time.monotonic() + self._timeout_s
        body = bytearray()
        with self._client.stream("POST", self._url, json=payload) as response:
            for part in response.iter_bytes():
                body += part
                if time.monotonic() > deadline:
                    raise httpx.ReadTimeout(f"no whole reply within {self._timeout_s:g} s", request=response.request)
                if len(body) > _MAX_REPLY_BYTES:
                    raise EncoderFault(f"{self._url} gave more than {_MAX_REPLY_BYTES >> 20} MB for one batch")
        return response.status_code, _retry_after(response.headers.get("retry-after")), bytes(body)


def _refused(url: str, status: int, body: bytes) -> EncoderFault:
    text = " ".join(body[:400].decode("utf-8", "replace").split())[:200]
    hints = {
        401: "set the key of this endpoint",
        403: "the key may not use this model",
        404: "check base_url (it ends in /v1) and the model's name",
        413: "lower batch_size or max_tokens",
        400: "lower max_tokens, or drop dim if the model cannot shorten its vectors",
    }
    return EncoderFault(
        f"{url} answered {status}: {text}",
        hint=hints.get(status, ""),
        retryable=status in (408, 429) or status >= 500,
    )


def _unreachable(url: str, error: httpx.HTTPError) -> EncoderFault:
    return EncoderFault(
        f"{url} cannot be reached: {error or type(error).__name__}",
        hint="is the server running, and base_url right?",
        retryable=isinstance(error, httpx.TransportError) and not isinstance(error, httpx.UnsupportedProtocol),
    )


def _retry_after(value: str | None) -> float | None:
    """Seconds from a Retry-After header: a number or an HTTP date. None when absent or unreadable."""
    if value is None:
        return None
    try:
        return float(value)
    except ValueError:
        pass
    try:
        moment = email.utils.parsedate_to_datetime(value)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - datetime.now(UTC)).total_seconds()
