"""``longstride dev-server``: the servers that our own tests run against, for tests of your own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from runners.cli.options import JsonFile

Servers = Annotated[
    list[str] | None,
    typer.Argument(help="model, search, hostile, sandbox; the first three when none is named.", metavar="[SERVER]…"),
]
Corpus = Annotated[str, typer.Option("--corpus", metavar="PATH|pydoc:", help="What the search emulator searches.")]
Script = Annotated[
    Path | None, typer.Option("--script", metavar="FILE", help="What the model says: JSONL, one turn a line.")
]
Obedient = Annotated[
    bool, typer.Option("--obedient", help="A hijacked model instead: it does what pages order, as in ORDER visit {…}.")
]
Port = Annotated[int, typer.Option("--port", min=0, max=65_000, help="Of the first server; the others follow. 0: any.")]


def dev_server(
    servers: Servers = None,
    corpus: Corpus = "pydoc:",
    script: Script = None,
    obedient: Obedient = False,
    port: Port = 0,
    json_file: JsonFile = None,
) -> None:
    """Serve a scripted model, the search providers' interfaces and a hostile web site on loopback, until Ctrl-C."""
    import threading
    from contextlib import ExitStack

    from runners.devserver.offer import NAMES, UNNAMED, open_servers
    from runners.environment import forget_secrets, read_environment
    from runners.errors import UsageFault
    from runners.report import write_json

    environment = read_environment()
    forget_secrets()
    unknown = [name for name in servers or () if name not in NAMES]
    if unknown:
        raise UsageFault(f"no server {unknown[0]!r}", hint=f"choose from {', '.join(NAMES)}")
    if script and obedient:
        raise UsageFault("--script and --obedient: the model can be one of them only")
    wanted = [name for name in NAMES if name in (servers or UNNAMED)]
    with ExitStack() as stack:
        cache = environment.home / "cache" / "corpora"
        offered = open_servers(wanted, stack, cache, corpus=corpus, script=script, obedient=obedient, port=port)
        if json_file:
            write_json(
                {
                    one.name: {"url": one.url, "environment": dict(one.environment), "options": list(one.options)}
                    for one in offered
                },
                json_file,
            )
        if json_file != "-":
            for one in offered:
                typer.echo(f"{one.name}: {one.url}")
                for name, value in one.environment.items():
                    typer.echo(f"  export {name}={value}")
                for option in one.options:
                    typer.echo(f"  -c '{option}'")
            typer.echo("Ctrl-C ends.")
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            typer.echo("", err=True)
