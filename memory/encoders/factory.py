"""Settings to encoder."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from memory.encoders.embedded import WordVectors
from memory.encoders.fusion import LexicalFusion
from memory.encoders.hashing import HashingEncoder
from memory.encoders.remote import HttpEncoder
from memory.encoders.sentence_transformers import DEFAULT_MODEL, SentenceTransformerEncoder
from memory.encoders.windows import SHORT_WINDOW, WindowedEncoder
from memory.ports import Encoder
from memory.tokens import ScriptCounter

EMBEDDED_LEXICAL_WEIGHT = 0.4


class EncoderConfig(BaseModel):
    """Which encoder makes keys and queries. With nothing set: the packaged one, which needs no download and no key."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["embedded", "hashing", "sentence-transformers", "http"] = "embedded"
    model: str | None = None
    """sentence-transformers: a name on the hub or a folder (default BAAI/bge-m3). http: the server's name for it."""
    base_url: str | None = None
    """http: address of the API, ``/v1`` included."""
    lexical_weight: float | None = Field(None, ge=0.0, lt=1.0)
    """Share of hashed words in the cosine. null: 0.4 for ``embedded``, 0 (the plain model) for the others."""
    dim: int | None = Field(None, ge=1, le=65_536)
    """hashing: dimensions (default 256). http: dimensions to ask the server for."""
    max_tokens: int | None = Field(None, ge=16)
    """The model's window; texts are cut to it. null: the model's own (http: 8192)."""
    max_windows: int = Field(16, ge=1)
    """Keys of a model whose window is 1,024 tokens or less are means over at most so many windows of the text."""
    query_prefix: str | None = None
    document_prefix: str | None = None
    """null: what the model is known to want."""
    device: str | None = None
    """sentence-transformers: cpu, cuda, cuda:1, mps. null: the best there is."""
    batch_size: int = Field(16, ge=1)
    local_files_only: bool = False
    """sentence-transformers: never ask the hub."""
    timeout_s: float = Field(60.0, gt=0)

    @model_validator(mode="after")
    def _complete(self) -> EncoderConfig:
        if self.kind == "http" and not (self.base_url and self.model):
            raise ValueError("an encoder of kind http needs base_url and model")
        # a stored configuration spells its defaults out
        given = {name for name, info in type(self).model_fields.items() if getattr(self, name) != info.default}
        foreign = sorted(given - _FIELDS[self.kind])
        if foreign:
            raise ValueError(f"an encoder of kind {self.kind} has no setting {', '.join(foreign)}")
        return self


_COMMON = {"kind", "lexical_weight"}
_MODEL = _COMMON | {"model", "max_tokens", "max_windows", "query_prefix", "document_prefix", "batch_size"}
_FIELDS: dict[str, set[str]] = {
    "embedded": _COMMON,
    "hashing": _COMMON | {"dim"},
    "sentence-transformers": _MODEL | {"device", "local_files_only"},
    "http": _MODEL | {"base_url", "dim", "timeout_s"},
}


def make_encoder(config: EncoderConfig, *, api_key: str | None = None) -> Encoder:
    """The configured encoder, loaded. Blocking: reads weights, may download them or ask a server. Raises EncoderFault.

    ``api_key``: for kind ``http``.
    """
    weight = config.lexical_weight
    if weight is None:
        weight = EMBEDDED_LEXICAL_WEIGHT if config.kind == "embedded" else 0.0
    encoder = _plain(config, api_key)
    return LexicalFusion(encoder, weight) if weight else encoder


def _plain(config: EncoderConfig, api_key: str | None) -> Encoder:
    if config.kind == "embedded":
        return WordVectors()
    if config.kind == "hashing":
        return HashingEncoder(config.dim or 256)
    if config.kind == "http":
        return _http(config, api_key)
    encoder = SentenceTransformerEncoder(
        config.model or DEFAULT_MODEL,
        device=config.device,
        batch_size=config.batch_size,
        max_seq_length=config.max_tokens,
        query_prefix=config.query_prefix,
        document_prefix=config.document_prefix,
        local_files_only=config.local_files_only,
    )
    if encoder.max_tokens > SHORT_WINDOW:
        return encoder
    return WindowedEncoder(encoder, encoder.count_tokens, max_windows=config.max_windows)


def _http(config: EncoderConfig, api_key: str | None) -> Encoder:
    encoder = HttpEncoder(
        config.base_url or "",
        config.model or "",
        api_key=api_key,
        dim=config.dim,
        max_tokens=config.max_tokens or 8192,
        query_prefix=config.query_prefix,
        document_prefix=config.document_prefix,
        batch_size=config.batch_size,
        timeout_s=config.timeout_s,
    )
    if encoder.max_tokens > SHORT_WINDOW:
        return encoder
    return WindowedEncoder(encoder, ScriptCounter().count, max_windows=config.max_windows)
