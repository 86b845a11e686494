"""``longstride tool``: one tool by hand, under the same rules as in a run."""

from __future__ import annotations

from typing import Annotated

import typer

from runners.cli.exits import DONE, FAILED
from runners.cli.options import (
    OFFLINE,
    Backbone,
    ConfigFile,
    Corpus,
    Files,
    JsonFile,
    LogLevel,
    Offline,
    Overrides,
    config_request,
)

ToolName = Annotated[str, typer.Argument(help="search, visit, python, parse_file, or SERVER__TOOL of an MCP server.")]
ToolArguments = Annotated[str, typer.Argument(help="Its arguments as a JSON object.", metavar="'{...}'")]


def tool(
    name: ToolName,
    arguments: ToolArguments = "{}",
    corpus: Corpus = None,
    files: Files = None,
    backbone: Backbone = None,
    config: ConfigFile = None,
    overrides: Overrides = None,
    offline: Offline = False,
    json_file: JsonFile = None,
    log_level: LogLevel = "warning",
) -> None:
    """Run one tool once and show what a model would see. Exit code 1 when the tool failed."""
    import asyncio
    import json
    from dataclasses import asdict

    from memory.records import Observation, ToolCall
    from runners.config import load_config
    from runners.environment import forget_secrets, read_environment
    from runners.errors import UsageFault
    from runners.live import clean
    from runners.logs import setup_logging
    from runners.report import check_json, write_json
    from runners.toolbox import Inputs, ToolboxRequest, check_inputs, run_one_tool

    environment = read_environment()
    setup_logging(log_level, environment.secrets)
    forget_secrets()
    try:
        given = json.loads(arguments)
    except ValueError as fault:
        raise UsageFault(f"the arguments are not JSON: {fault}") from fault
    if not isinstance(given, dict):
        raise UsageFault("the arguments are not a JSON object")
    asked = [*(overrides or ()), *(OFFLINE if offline else ())]
    settings = load_config(config_request(None, None, backbone, config, asked))
    inputs = Inputs(corpus, tuple(str(path.resolve()) for path in files or ()))
    check_inputs(inputs)
    check_json(json_file)
    request = ToolboxRequest(settings, inputs, environment)
    result: Observation = asyncio.run(run_one_tool(request, ToolCall("t0", name, given)))
    if json_file:
        write_json({key: value for key, value in asdict(result).items() if key != "call_id"}, json_file)
    if json_file != "-":
        typer.echo(clean(result.text))
    raise typer.Exit(DONE if result.error is None else FAILED)
