"""``longstride policies``: what context policies there are."""

from __future__ import annotations

import typer

from memory.records import JsonValue
from runners.cli.options import JsonFile


def policies(json_file: JsonFile = None) -> None:
    """List the context policies: what each does, and the YAML that sets it up."""
    from runners.choices import packaged_names, packaged_text
    from runners.report import write_json

    found = [(name, packaged_text("policy", name)) for name in packaged_names("policy")]
    if json_file:
        rows: list[JsonValue] = [
            {"name": name, "description": _description(text), "yaml": text} for name, text in found
        ]
        write_json({"policies": rows}, json_file)
        if json_file == "-":
            return
    for name, text in found:
        typer.echo(f"{name}: {_description(text)}")
        body = [line for line in text.splitlines() if line and not line.startswith("#")]
        typer.echo("".join(f"    {line}\n" for line in body))


def _description(text: str) -> str:
    """The comment that a policy file begins with."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.lstrip("# ").rstrip())
    return " ".join(lines)
