"""``longstride run`` and ``longstride resume``: put a question, or go on with a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from runners.cli.exits import status_code
from runners.cli.options import (
    OFFLINE,
    Backbone,
    ConfigFile,
    Corpus,
    Files,
    JsonFile,
    LogLevel,
    Offline,
    OutAddress,
    Overrides,
    Policy,
    Profile,
    Quiet,
    Steps,
    config_request,
)

if TYPE_CHECKING:
    from runners.folders import SessionFolder
    from runners.report import RunReport
    from runners.wiring import SessionRequest

Question = Annotated[str, typer.Argument(help="What to find out.", show_default=False)]
SessionName = Annotated[str, typer.Argument(help="A session's name, a beginning of it, its folder, or its address.")]
Say = Annotated[str | None, typer.Option("--say", metavar="TEXT", help="A further instruction or question.")]


def run(
    question: Question,
    corpus: Corpus = None,
    files: Files = None,
    policy: Policy = None,
    backbone: Backbone = None,
    profile: Profile = None,
    config: ConfigFile = None,
    overrides: Overrides = None,
    steps: Steps = None,
    offline: Offline = False,
    out: OutAddress = None,
    json_file: JsonFile = None,
    log_level: LogLevel = "warning",
    quiet: Quiet = False,
) -> None:
    """Answer a question: search, visit and compute until there is an answer with citations, or a limit is reached."""
    from agent.events import Bus
    from runners.config import load_config
    from runners.environment import forget_secrets, read_environment
    from runners.errors import UsageFault
    from runners.logs import setup_logging
    from runners.report import check_json
    from runners.stores import knowing, new_session
    from runners.toolbox import Inputs, check_inputs
    from runners.wiring import SessionRequest

    environment = read_environment()
    setup_logging(log_level, environment.secrets)
    forget_secrets()
    if not question.strip():
        raise UsageFault("the question is empty")
    asked = [*([f"limits.max_steps={steps}"] if steps else []), *(OFFLINE if offline else ())]
    settings = load_config(config_request(profile, policy, backbone, config, [*(overrides or ()), *asked]))
    inputs = Inputs(corpus, tuple(str(path.absolute()) for path in files or ()))
    check_inputs(inputs)
    check_json(json_file)
    folder = new_session(environment, out)
    environment = knowing(environment, folder)
    work(SessionRequest(folder, environment, Bus(), settings, inputs, question), question, json_file, quiet)


def resume(
    session: SessionName,
    say: Say = None,
    overrides: Overrides = None,
    json_file: JsonFile = None,
    log_level: LogLevel = "warning",
    quiet: Quiet = False,
) -> None:
    """Continue a session from its last whole step, with its own configuration; -c changes what may still change."""
    from agent.events import Bus
    from runners.environment import forget_secrets, read_environment
    from runners.errors import UsageFault
    from runners.logs import setup_logging
    from runners.report import check_json
    from runners.stores import find_session, knowing
    from runners.wiring import SessionRequest

    environment = read_environment()
    setup_logging(log_level, environment.secrets)
    forget_secrets()
    if say is not None and not say.strip():
        raise UsageFault("--say is empty")
    check_json(json_file)
    folder = find_session(environment, session)
    environment = knowing(environment, folder)
    work(SessionRequest(folder, environment, Bus(), changes=tuple(overrides or ())), say, json_file, quiet)


def work(request: SessionRequest, question: str | None, json_file: str | None, quiet: bool) -> None:
    """Run to an outcome, show it, write it; exits with the code of its status."""
    import asyncio
    from dataclasses import replace

    from runners.checking import tell_checking
    from runners.live import show_report, watch
    from runners.report import to_json, write_json

    request = replace(request, checking=None if quiet else tell_checking)
    try:
        with watch(request.bus, quiet=quiet):
            report = asyncio.run(answer(request, question))
    except KeyboardInterrupt:
        if request.folder.address is None and not request.folder.store.exists():
            raise  # before there was a session
        typer.echo(f"\ninterrupted; continue with: longstride resume {_handle(request.folder)}", err=True)
        raise
    if json_file:
        write_json(to_json(report), json_file)
    if json_file != "-":
        show_report(report)
    raise typer.Exit(status_code(report.status))


async def answer(request: SessionRequest, question: str | None) -> RunReport:
    """Open the session, ask (None: go on), report."""
    import time

    from runners.errors import UsageFault
    from runners.live import warn_of_unsafe
    from runners.outcome import run_report
    from runners.wiring import open_session, unasked

    started = time.monotonic()
    async with open_session(request) as opened:
        session = opened.session
        question = question or await unasked(opened) or None
        if question is None and not opened.memory.question:
            raise UsageFault(f"session {request.folder.name} was never asked anything", hint="give --say")
        warn_of_unsafe(opened.python)
        outcome = await (session.go_on() if question is None else session.ask(question))
        model = opened.loop.backbone.name
    return run_report(outcome, opened.config, model, time.monotonic() - started, opened.python)


def _handle(folder: SessionFolder) -> str:
    return folder.name if folder.path.parent.name == "runs" else str(folder)
