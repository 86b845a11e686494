"""``longstride fit-profile``: the learned scorer of mosaic, refitted on recorded runs and memory questions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from runners.cli.options import ConfigFile, JsonFile, Overrides, Profile

if TYPE_CHECKING:
    from memory.records import JsonValue
    from runners.fitting import Fitted

Runs = Annotated[list[Path], typer.Argument(metavar="FILE…", help="Recorded runs, as for `longstride replay`.")]
Multihop = Annotated[
    list[Path] | None,
    typer.Option(
        "--multihop", metavar="DIR", help="Questions and pages: facts are planted in long sessions of visits."
    ),
]
Dialogues = Annotated[
    list[Path] | None,
    typer.Option("--longmemeval", metavar="PATH", help="A LongMemEval folder, or a file of LoCoMo. May be repeated."),
]
Out = Annotated[Path, typer.Option("--out", metavar="YAML", help="Where the fitted scorer is written.")]
Visits = Annotated[int, typer.Option("--visits", min=20, metavar="N", help="Of a planted session.")]
Sessions = Annotated[int, typer.Option("--sessions", min=1, metavar="N", help="Planted sessions.")]
SkipBroken = Annotated[bool, typer.Option("--skip-broken", help="Leave runs out that cannot be read.")]
Seed = Annotated[int, typer.Option("--seed", help="Of the planted sessions.")]


def fit_profile(
    files: Runs,
    out: Out,
    multihop: Multihop = None,
    longmemeval: Dialogues = None,
    visits: Visits = 1_200,
    sessions: Sessions = 2,
    skip_broken: SkipBroken = False,
    seed: Seed = 0,
    profile: Profile = None,
    config: ConfigFile = None,
    overrides: Overrides = None,
    json_file: JsonFile = None,
) -> None:
    """Fit the learned scorer of mosaic to your own runs: which old steps the next one needs. No model is needed.

    Every family (the folder of a file) is also judged by a fit that has not seen it."""
    from runners.config import load_config
    from runners.environment import forget_secrets, read_environment
    from runners.errors import UsageFault
    from runners.fit_examples import Sources, examples
    from runners.fitting import fit
    from runners.replay.working import Settings, toolkit
    from runners.report import write_json
    from runners.request import ConfigRequest
    from runners.scorers import scorer_yaml

    environment = read_environment()
    forget_secrets()
    settings = load_config(ConfigRequest(profile, None, None, config, tuple(overrides or ())))
    key = environment.secret("OPENAI_API_KEY")
    cache = environment.home / "cache"
    tools = toolkit(Settings(settings.encoder, cache, api_key=key))
    sources = Sources(files, multihop or (), longmemeval or (), visits, sessions, seed, skip_broken)
    fitted = fit(list(examples(sources, tools)))
    try:
        out.write_text(scorer_yaml(fitted.coefficients, notes(fitted, tools.encoder.id)), "utf-8")
    except OSError as fault:
        raise UsageFault(f"cannot write {out}: {fault.strerror or fault}") from fault
    if json_file:
        write_json(as_json(fitted, tools.encoder.id), json_file)
    if json_file != "-":
        typer.echo("\n".join([*notes(fitted, tools.encoder.id), f"written to {out}"]))


def notes(fitted: Fitted, encoder: str) -> list[str]:
    """What a person should know of the fit: its data, and how it ranks what it has not seen (chance .5)."""
    lines = [f"Fitted with encoder {encoder} on:"]
    lines += [f"  {model}: {family}, {count} contexts" for (model, family), count in sorted(fitted.contexts.items())]
    lines += ["Chance that a needed chunk ranks above one that is not, for families held out (cosine alone):"]
    lines += [
        f"  {row.model}: {row.family} by {row.against}: {row.ranking:.3f} ({row.alone:.3f}),"
        f" {row.contexts} contexts of {row.units} units"
        for row in fitted.held_out
    ]
    return lines


def as_json(fitted: Fitted, encoder: str) -> dict[str, JsonValue]:
    """The report as JSON; its fields are those of `HeldOut`."""
    held_out: list[JsonValue] = [
        {
            "model": row.model,
            "family": row.family,
            "against": row.against,
            "contexts": row.contexts,
            "units": row.units,
            "ranking": row.ranking,
            "cosine_ranking": row.alone,
        }
        for row in fitted.held_out
    ]
    contexts: list[JsonValue] = [
        {"model": model, "family": family, "contexts": count} for (model, family), count in fitted.contexts.items()
    ]
    coefficients: JsonValue = fitted.coefficients.model_dump(mode="json")
    return {"encoder": encoder, "contexts": contexts, "held_out": held_out, "coefficients": coefficients}
