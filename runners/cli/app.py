"""The ``longstride`` command: its commands, and the border where faults become one line and an exit code.

A command is one file with one function (named as the command) and one line in `COMMANDS`. Command functions load what
they need when they are called, so that ``--help`` stays fast.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import typer

from memory.store.address import masked
from runners.cli import (
    bench,
    dev_server,
    doctor,
    fit_profile,
    fork,
    mcp_server,
    memory,
    memory_eval,
    models,
    policies,
    replay,
    run,
    serve,
    sessions,
    show,
    stress,
    tool,
    ui,
)
from runners.cli.exits import BAD_INPUT, DONE, FAILED, FAULTS, INTERRUPTED, fault_code, fault_lines

COMMANDS: tuple[Callable[..., Any], ...] = (
    run.run,
    run.resume,
    fork.fork,
    show.show,
    tool.tool,
    policies.policies,
    replay.replay,
    memory_eval.memory_eval,
    fit_profile.fit_profile,
    models.models,
    stress.stress,
    doctor.doctor,
    dev_server.dev_server,
    mcp_server.mcp,
    serve.serve,
    ui.ui,
)

_UsageError: type[Exception] = typer.BadParameter.__mro__[2]
"""click's root of errors; typer brings click along, inside or beside itself."""

GROUPS: Mapping[str, tuple[str, Mapping[str, Callable[..., Any]]]] = {
    "bench": ("Benchmarks: run, resume, score, report, compare, submit, export.", bench.BENCH),
    "sessions": ("What sessions there are; show, export or remove one.", sessions.SESSIONS),
    "report": ("What became of a stress run.", stress.REPORT),
    "memory": ("How large a session's memory is; make it smaller.", memory.MEMORY),
}
"""Commands with commands of their own: what the group is for, and its functions by name."""


def make_app() -> typer.Typer:
    """The command line as typer sees it."""
    app = typer.Typer(
        name="longstride",
        help="Long-horizon web research with managed memory.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_main_options)
    for command in COMMANDS:
        app.command()(command)
    for name, (about, commands) in GROUPS.items():
        group = typer.Typer(help=about, no_args_is_help=True)
        for subcommand, function in commands.items():
            group.command(subcommand)(function)
        app.add_typer(group, name=name)
    return app


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code. Anything that is no fault of ours propagates with its traceback."""
    try:
        code = make_app()(args=arguments, prog_name="longstride", standalone_mode=False)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else DONE
    except KeyboardInterrupt:
        return INTERRUPTED
    except typer.Abort:  # a question was not answered with yes
        return FAILED
    except _UsageError as error:
        return _bad_usage(error)
    except FAULTS as fault:
        for line in fault_lines(fault):
            sys.stderr.write(f"longstride: {masked(line)}\n")
        return fault_code(fault)
    return code if isinstance(code, int) else DONE


def _bad_usage(error: Any) -> int:
    """What the command line itself is wrong about, in one line; a command that says nothing at all gets its help."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
    else:
        about = error.ctx.command_path if getattr(error, "ctx", None) else "longstride"
        said = " ".join(error.format_message().replace("Value error, ", "").split()).removesuffix(".")
        sys.stderr.write(f"longstride: {masked(said)} (`{about} --help` explains it)\n")
    return BAD_INPUT


def run_command() -> None:
    """Entry point of the console script."""
    sys.exit(main())


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"longstride {version('longstride')}")
        raise typer.Exit


def _main_options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass
