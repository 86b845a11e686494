"""The options that several commands share, each with its one help text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, get_type_hints

import typer

from runners.request import ConfigRequest

_CONFIG = "Configuration"
_OUTPUT = "Output"

Profile: TypeAlias = Annotated[
    str | None,
    typer.Option("--profile", metavar="NAME", help="Set of defaults: default, paper.", rich_help_panel=_CONFIG),
]
Policy: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--policy", metavar="NAME", help="Context policy; `longstride policies` lists them.", rich_help_panel=_CONFIG
    ),
]
Backbone: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--backbone",
        metavar="NAME",
        help="The model: embedded (no LLM), embedded-reader, local, openai, anthropic, deepseek, gemini, openrouter, "
        "ollama, vllm, sglang, llamacpp, or a YAML file of your own.",
        rich_help_panel=_CONFIG,
    ),
]
ConfigFile: TypeAlias = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="Your own YAML, over the packaged ones.", rich_help_panel=_CONFIG),
]
Overrides: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("-c", metavar="KEY=VALUE", help="One value, as in `-c policy.tau=0.5`.", rich_help_panel=_CONFIG),
]
Corpus: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--corpus",
        metavar="PATH|pydoc:",
        help="Search this instead of the web: a folder (HTML, Markdown, text, PDF), a JSONL of pages, or `pydoc:` for "
        "the documentation of this Python.",
    ),
]
Files: TypeAlias = Annotated[
    list[Path] | None, typer.Option("--file", metavar="PATH", help="A file to give the agent; repeatable.")
]
Offline: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--offline",
        help="Use recorded searches and pages only, and say what was not recorded. A corpus is searched as always.",
    ),
]
Steps: TypeAlias = Annotated[
    int | None, typer.Option("--steps", min=1, metavar="N", help="Stop after this many steps.", rich_help_panel=_CONFIG)
]
Out: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="DIR",
        help="Where the session goes (default: below LONGSTRIDE_HOME).",
        rich_help_panel=_OUTPUT,
    ),
]
OutAddress: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--out",
        metavar="DIR|ADDRESS",
        help="Where the session goes: a folder, or postgresql://user@host/database#name (default: LONGSTRIDE_STORE, or "
        "below LONGSTRIDE_HOME).",
        rich_help_panel=_OUTPUT,
    ),
]
StoreAddress: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--at",
        metavar="ADDRESS",
        help="The database with the sessions, postgresql://user@host/database (default: LONGSTRIDE_STORE, or files "
        "below LONGSTRIDE_HOME).",
    ),
]
JsonFile: TypeAlias = Annotated[
    str | None,
    typer.Option("--json", metavar="FILE", help="Write the report as JSON; `-` for stdout.", rich_help_panel=_OUTPUT),
]
LogLevel: TypeAlias = Annotated[
    Literal["debug", "info", "warning", "error"],
    typer.Option("--log-level", help="What is logged to stderr.", rich_help_panel=_OUTPUT),
]
Quiet: TypeAlias = Annotated[bool, typer.Option("--quiet", "-q", help="Show the result only.", rich_help_panel=_OUTPUT)]


OFFLINE: tuple[str, ...] = ("search.offline=true", "visit.offline=true")
"""The options that ``--offline`` stands for."""


def config_request(
    profile: str | None,
    policy: str | None,
    backbone: str | None,
    config: Path | None,
    overrides: list[str] | None,
) -> ConfigRequest:
    """The configuration that these options ask for."""
    return ConfigRequest(profile, policy, backbone, config, tuple(overrides or ()))


def spread(function: Callable[..., Any]) -> Callable[..., Any]:
    """A command whose parameters that are dataclasses stand for the options that are their fields: what commands share
    is told once."""
    hints = get_type_hints(function, include_extras=True)
    groups = {name: kind for name, kind in hints.items() if isinstance(kind, type) and is_dataclass(kind)}
    parameters: list[Parameter] = []
    for given in signature(function).parameters.values():
        kind = groups.get(given.name)
        own = given.replace(annotation=hints[given.name], kind=Parameter.KEYWORD_ONLY)
        parameters += [own] if kind is None else _options(kind)

    @wraps(function)
    def command(**options: Any) -> Any:
        for name, kind in groups.items():
            options[name] = kind(**{field.name: options.pop(field.name) for field in fields(kind)})
        return function(**options)

    command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {given.name: given.annotation for given in parameters}
    return command


def _options(kind: type) -> list[Parameter]:
    hints = get_type_hints(kind, include_extras=True)
    return [
        Parameter(
            field.name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(kind)
    ]
