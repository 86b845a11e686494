"""Which search services a run asks, and which pages it may not see: from its configuration and the keys at hand."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from runners.config import RunConfig
from runners.environment import Environment
from runners.errors import ConfigError, UsageFault
from runners.layers import did_you_mean, parse_yaml
from tools.search.base import SearchProvider
from tools.search.config import ProviderConfig, SearchConfig
from tools.search.shapes import KEYLESS, SHAPES, Shape
from tools.web.blocklist import Blocklist

VARIABLES = ", ".join((*(shape.keys[0] for shape in SHAPES.values() if shape.keys), "SEARXNG_URL"))
"""What can be set so that the web can be searched."""


class _BlocklistFile(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    blocked: tuple[str, ...]


def live_providers(config: SearchConfig, environment: Environment) -> list[ProviderConfig]:
    """Those that would be asked, in order: the configured ones, else every one that has what it needs."""
    if config.providers:
        return list(config.providers)
    return [ProviderConfig(name=name) for name, shape in SHAPES.items() if not missing(shape, environment)]


def missing(shape: Shape, environment: Environment, config: ProviderConfig | None = None) -> str:
    """The variable that has to be set before this provider can be asked; empty when there is none."""
    key_env = (config and config.key_env) or (shape.keys[0] if shape.keys else "")
    if shape.header and not environment.secret(key_env):
        return key_env
    base = (config and config.base_url) or environment.setting(shape.urls[0]) or shape.base
    return "" if base else shape.urls[0]


def open_search(config: SearchConfig, environment: Environment) -> SearchProvider:
    """The live search, recording what it finds; offline, the recordings alone.

    Raises UsageFault, naming what has to be set, when there is nothing to ask.
    """
    from tools.search.recorded import RecordedSearch

    cache = environment.home / "cache" / "searches"
    if config.offline:
        return RecordedSearch(None, cache)
    chosen = live_providers(config, environment)
    if not chosen:
        raise UsageFault(
            "there is nothing to search",
            hint=f"give --corpus PATH (a folder, a .jsonl of pages, or pydoc:), or set one of {VARIABLES} for the web",
        )
    from tools.search.chain import SearchChain

    made = [_made(one, environment) for one in chosen]
    return RecordedSearch(made[0] if len(made) == 1 else SearchChain(made), cache, config.max_age_s)


def blocklist(config: RunConfig) -> Blocklist:
    """Everything that search and visit must not show. Raises ConfigError for a list that is not there."""
    entries = list(config.search.blocked)
    for name in config.search.blocklists:
        entries += _named(name)
    return Blocklist(entries)


def provider_line(config: ProviderConfig, environment: Environment) -> str:
    """A provider as ``doctor`` shows it: its server when it is not its own, and its key masked."""
    if config.name == KEYLESS:
        return f"{KEYLESS} (no key, best effort)"
    shape = SHAPES[config.name]
    base = config.base_url or environment.setting(shape.urls[0])
    key = f"{config.key_env or shape.keys[0]} ***" if shape.header else ""
    return f"{config.name} ({', '.join(part for part in (key, base) if part)})"


def _made(config: ProviderConfig, environment: Environment) -> SearchProvider:
    if config.name == KEYLESS:
        from tools.search.ddgs import DdgsProvider

        try:
            return DdgsProvider(config.timeout_s)
        except ModuleNotFoundError as error:
            raise UsageFault(str(error)) from error
    from tools.search.providers import Access, HttpProvider

    shape = SHAPES[config.name]
    variable = missing(shape, environment, config)
    if variable:
        what = "a key" if shape.header and variable not in shape.urls else "the address of a server"
        raise UsageFault(f"search provider {config.name} needs {what}: {variable} is not set")
    key = environment.secret(config.key_env or shape.keys[0]) if shape.header else None
    if key and not (key.isascii() and key.isprintable()):
        raise UsageFault(f"{config.key_env or shape.keys[0]} holds characters that no key has")
    base = config.base_url or environment.setting(shape.urls[0]) or ""
    if base and not base.startswith(("http://", "https://")):
        raise UsageFault(f"{shape.urls[0]} is no address of a server: {base[:80]}", hint="it begins with http(s)://")
    return HttpProvider(shape, Access(key or "", base, config.timeout_s, config.rpm, config.concurrency))


def _named(name: str) -> tuple[str, ...]:
    folder = files("configs") / "blocklists"
    if name.endswith((".yaml", ".yml")):
        try:
            text = Path(name).read_text("utf-8-sig")
        except (OSError, UnicodeDecodeError) as fault:
            raise ConfigError(f"search.blocklists: {name} cannot be read") from fault
    else:
        known = sorted(entry.name.removesuffix(".yaml") for entry in folder.iterdir() if entry.name.endswith(".yaml"))
        if name not in known:
            near = did_you_mean(name, known)
            raise ConfigError(f"search.blocklists: unknown list {name!r}: choose from {', '.join(known)}{near}")
        text = (folder / f"{name}.yaml").read_text("utf-8")
    try:
        listed = _BlocklistFile.model_validate(parse_yaml(text, name)).blocked
        Blocklist(listed)
    except (ValidationError, ValueError) as fault:
        reason = fault.errors()[0]["msg"] if isinstance(fault, ValidationError) else str(fault)
        raise ConfigError(f"search.blocklists: {name}: wanted `blocked:` with a list of hosts ({reason})") from fault
    return listed
