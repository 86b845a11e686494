"""A backbone from its configuration."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from agent.backbones.base import Backbone
from agent.errors import AuthFailed, ModelMissing
from memory.records import Sampling

Kind: TypeAlias = Literal["openai", "anthropic", "local", "embedded", "scripted"]
HOME = "LONGSTRIDE_HOME"
"""Variable that names the folder with the pulled models."""
_KEYS: Mapping[str, str] = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}
_URLS: Mapping[str, str] = {"openai": "OPENAI_BASE_URL", "anthropic": "ANTHROPIC_BASE_URL"}
_NO_KEY = "none"
"""What a server that needs no key is sent: the SDKs insist on one."""


class SamplingConfig(BaseModel):
    """Sampling for what a request leaves open; null leaves the provider's default."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, gt=0, le=1)
    presence_penalty: float | None = Field(default=None, ge=-2, le=2)


class BackboneConfig(BaseModel):
    """One model. Token figures in tokens, times in seconds.

    ``base_url`` may be a list of equal servers (openai only): a task stays on one of them. ``max_retries`` are the
    SDK's own, of requests that failed; ``stream_attempts`` ours, of streams that broke; ``patience_s`` how long calls
    that a rate limit refused wait altogether. ``timeout_s`` bounds the wait between bytes, ``deadline_s`` one call with
    all its retries. ``rpm``, ``tpm``: requests and tokens per minute.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Kind = "embedded"
    model: str = ""
    api: Literal["chat", "responses"] = "chat"
    """kind ``openai`` only: Chat Completions, which every server speaks, or OpenAI's Responses."""
    base_url: str | tuple[str, ...] | None = None
    api_key_env: str | None = Field(default=None, pattern=r"(_KEYS?|_KEY_ID|_TOKEN|_SECRET|_PASSWORD)$")
    """Another variable with the key. The end of its name says that it is a secret: it is masked, and taken out of the
    environment."""
    window: int = Field(default=131_072, ge=1024)
    max_output_tokens: int = Field(default=8192, ge=16)
    rpm: int | None = Field(default=None, ge=1)
    tpm: int | None = Field(default=None, ge=1)
    concurrency: int | None = Field(default=None, ge=1)
    patience_s: float = Field(default=600.0, ge=0)
    timeout_s: float = Field(default=600.0, gt=0)
    deadline_s: float = Field(default=900.0, gt=0)
    max_retries: int = Field(default=4, ge=0, le=20)
    stream_attempts: int = Field(default=3, ge=1, le=20)
    supports_tools: bool = True
    supports_schema: bool = True
    supports_images: bool = False
    effort: str | None = Field(default=None, pattern=r"^[a-z]{2,16}$")
    """Reasoning effort, as the provider names it; null leaves it out."""
    thinking: Literal["off", "fixed", "adaptive"] = "off"
    """kind ``anthropic`` only: ``fixed`` thinks up to ``thinking_tokens``, ``adaptive`` (newer models) at will."""
    thinking_tokens: int = Field(default=4096, ge=1024)
    reader: str = ""
    """kind ``embedded`` only: a local model that words the answers from the passages that the policy picked."""
    threads: int | None = Field(default=None, ge=1, le=256)
    """Of a local model; null: half of the cores, at most 8."""
    sampling: SamplingConfig = SamplingConfig()
    replies: tuple[str, ...] = ()
    """kind ``scripted`` only: the texts that it says, in order."""

    @field_validator("base_url")
    @classmethod
    def _usable(cls, value: str | tuple[str, ...] | None) -> str | tuple[str, ...] | None:
        if value == ():
            raise ValueError("base_url is an empty list: leave it out for the provider's own")
        for url in (value,) if isinstance(value, str) else value or ():
            check_url(url)
        return value

    @model_validator(mode="after")
    def _complete(self) -> BackboneConfig:
        if self.kind in (*_KEYS, "local") and not self.model:
            raise ValueError(f"kind {self.kind} needs a model")
        if self.kind == "anthropic" and isinstance(self.base_url, tuple) and len(self.base_url) != 1:
            raise ValueError("kind anthropic takes one base_url")
        if self.thinking != "off" and self.window <= self.max_output_tokens + 2 * self.thinking_tokens:
            raise ValueError("thinking_tokens count twice, and leave nothing of the window")
        return self


def make_backbone(
    config: BackboneConfig, env: Mapping[str, str], *, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
) -> Backbone:
    """The backbone, with its limits and retries around it; makes no call.

    ``env``: variables by name; ``sleep`` takes the waits between our own retries. Raises AuthFailed, naming the
    variable, when the provider needs a key and there is none; a server on this machine needs none.
    """
    backbone = _bare(config, env)
    if config.kind in _KEYS:
        from agent.backbones.retrying import Retrying

        backbone = Retrying(backbone, attempts=config.stream_attempts, deadline_s=config.deadline_s, sleep=sleep)
        from agent.backbones.throttled import Throttled

        backbone = Throttled(
            backbone,
            rpm=config.rpm,
            tpm=config.tpm,
            concurrency=config.concurrency,
            patience_s=config.patience_s,
            sleep=sleep,
        )
    return backbone


def check_url(url: str) -> None:
    """Raises ValueError, saying what to write, for what is no base_url."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:  # a port that is no number, a bracket that is open
        usable = False
    if not usable or not url.isprintable() or " " in url:
        raise ValueError(f"{url!r} is no base_url: write it like https://host/v1")
    if parts.path.rstrip("/").endswith(("/chat/completions", "/responses", "/messages")):
        raise ValueError(f"{url!r} is an endpoint: base_url ends before /{parts.path.strip('/').rpartition('v1/')[2]}")


def base_urls(config: BackboneConfig, env: Mapping[str, str]) -> tuple[str, ...]:
    """The servers of a configuration: its own, else the environment's, else empty for the provider's default.

    Raises ModelMissing for a variable that holds no address.
    """
    if config.base_url is None:
        variable = _URLS.get(config.kind, "")
        named = env.get(variable, "").strip()
        try:
            check_url(named or "https://host/v1")
        except ValueError as fault:
            raise ModelMissing(f"{variable}: {fault}", hint=f"set {variable} again, or unset it") from fault
        return (named,) if named else ()
    return (config.base_url,) if isinstance(config.base_url, str) else config.base_url


def _bare(config: BackboneConfig, env: Mapping[str, str]) -> Backbone:
    if config.kind == "embedded":
        from agent.backbones.embedded import EmbeddedBackbone

        policy = EmbeddedBackbone()
        if not config.reader:
            return policy
        from agent.backbones.reading import ReadingBackbone

        reader = BackboneConfig(kind="local", model=config.reader, window=4096, threads=config.threads)
        return ReadingBackbone(policy, _local(reader, env))
    if config.kind == "scripted":
        from agent.backbones.scripted import ScriptedBackbone

        return ScriptedBackbone(config.replies, model=config.model or "scripted", window=config.window)
    if config.kind == "local":
        return _local(config, env)
    urls = base_urls(config, env)
    key_env = config.api_key_env or _KEYS[config.kind]
    key = _key(config, key_env, urls, env)
    common: dict[str, Any] = {
        "model": config.model,
        "api_key": key,
        "key_env": key_env,
        "window": config.window,
        "max_output_tokens": config.max_output_tokens,
        "sampling": Sampling(**config.sampling.model_dump()),
        "timeout_s": config.timeout_s,
        "max_retries": config.max_retries,
        "supports_tools": config.supports_tools,
        "supports_schema": config.supports_schema,
        "supports_images": config.supports_images,
    }
    if config.kind == "openai":
        from agent.backbones.openai import DEFAULT_BASE_URL, OpenAIBackbone
        from agent.backbones.responses import ResponsesBackbone

        made = ResponsesBackbone if config.api == "responses" else OpenAIBackbone
        return made(base_urls=urls or (DEFAULT_BASE_URL,), effort=config.effort, **common)
    from agent.backbones.anthropic import DEFAULT_BASE_URL as ANTHROPIC_URL
    from agent.backbones.anthropic import AnthropicBackbone, Thinking

    kind = config.thinking
    thinking = None if kind == "off" else Thinking(kind, config.thinking_tokens, config.effort)
    return AnthropicBackbone(base_url=urls[0] if urls else ANTHROPIC_URL, thinking=thinking, **common)


def _local(config: BackboneConfig, env: Mapping[str, str]) -> Backbone:
    from agent.backbones.llama_server import ServerOptions, check_library, weights_file
    from agent.backbones.local import LocalBackbone

    options = ServerOptions(weights_file(config.model, env.get(HOME, "")), config.window, config.threads)
    check_library()
    return LocalBackbone(
        options,
        model=config.model,
        max_output_tokens=config.max_output_tokens,
        sampling=Sampling(**config.sampling.model_dump()),
        timeout_s=config.timeout_s,
    )


def _key(config: BackboneConfig, key_env: str, urls: tuple[str, ...], env: Mapping[str, str]) -> str:
    key = env.get(key_env, "").strip()
    if key and not (key.isascii() and key.isprintable()):
        raise AuthFailed(f"{key_env} holds characters that no key has", hint=f"set {key_env} again, without them")
    if key:
        return key
    if urls and all(map(_on_this_machine, urls)):
        return _NO_KEY
    raise AuthFailed(
        f"backbone {config.kind} ({config.model}) needs a key: {key_env} is not set",
        hint=f"export {key_env}=... or choose the embedded backbone, which needs none",
    )


def _on_this_machine(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
