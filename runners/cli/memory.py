"""``longstride memory``: how large a session's memory is, and making it smaller."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from runners.cli.options import JsonFile
from runners.cli.run import SessionName
from runners.cli.sessions import DryRun, Yes, size_text

if TYPE_CHECKING:
    from memory.lifecycle.compact import CompactReport
    from memory.lifecycle.tombstones import EvictionRule
    from memory.stored import StoreSizes

Hot = Annotated[int, typer.Option("--hot", min=2, metavar="N", help="The newest N steps stay as they are.")]
Similar = Annotated[
    float, typer.Option("--similar", min=0.5, max=1.0, help="Share of common text that makes two observations copies.")
]
Duplicates = Annotated[bool, typer.Option("--duplicates/--no-duplicates", help="Let summaries name what they copy.")]
EvictBefore = Annotated[
    int | None, typer.Option("--evict-before", min=2, metavar="STEP", help="Evict the observations of steps before it.")
]
EvictTo = Annotated[
    str | None,
    typer.Option("--evict-to", metavar="SIZE", help="Evict the oldest observations until SIZE of text is left: 200MB."),
]


def size(session: SessionName, json_file: JsonFile = None) -> None:
    """Say where the bytes of a session's store are."""
    import asyncio
    from dataclasses import asdict

    from runners.environment import forget_secrets, read_environment
    from runners.report import write_json
    from runners.stores import find_session, open_store

    environment = read_environment()
    forget_secrets()
    folder = find_session(environment, session)

    async def read() -> StoreSizes:
        async with await open_store(folder, create=False, read_only=True) as store:
            return await store.sizes()

    sizes = asyncio.run(read())
    if json_file:
        write_json(asdict(sizes), json_file)
    if json_file != "-":
        typer.echo("\n".join(_size_lines(sizes)))


def compact(
    session: SessionName,
    dry_run: DryRun = False,
    hot: Hot = 100,
    similar: Similar = 0.9,
    duplicates: Duplicates = True,
    evict_before: EvictBefore = None,
    evict_to: EvictTo = None,
    yes: Yes = False,
    json_file: JsonFile = None,
) -> None:
    """Make a session smaller: copies named, old observations compressed together. Only --evict-* loses text.

    Every text stays within reach of glimpse, and past contexts rebuild as before; evicted ones leave a tombstone.
    """
    import asyncio
    from dataclasses import asdict

    from memory.lifecycle.compact import Compaction
    from runners.compacting import compact_session
    from runners.environment import forget_secrets, read_environment
    from runners.report import check_json, write_json
    from runners.stores import find_session

    environment = read_environment()
    forget_secrets()
    check_json(json_file)
    folder = find_session(environment, session)
    rule = _rule(evict_before, evict_to)
    if rule is not None and not yes and not dry_run:
        typer.confirm(f"Evict observations of {folder.name} for good ({rule})?", abort=True, err=True)
    wanted = Compaction(hot=hot, similar=similar if duplicates else None, rule=rule, dry_run=dry_run)
    report = asyncio.run(compact_session(folder, wanted))
    if json_file:
        write_json({"session": folder.name, "dry_run": dry_run, **asdict(report)}, json_file)
    if json_file != "-":
        typer.echo("\n".join(_report_lines(report, dry_run)))


def _rule(before: int | None, to: str | None) -> EvictionRule | None:
    from memory.lifecycle.tombstones import EvictionRule

    if before is None and to is None:
        return None
    return EvictionRule(before, None if to is None else _bytes(to))


def _bytes(text: str) -> int:
    """``200MB`` as a number. Raises UsageFault."""
    import re

    from runners.errors import UsageFault

    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMG]?)B?", text.strip().upper())
    if match is None:
        raise UsageFault(f"--evict-to {text}: not a size", hint="as in 200MB")
    return int(float(match[1]) * {"": 1, "K": 10**3, "M": 10**6, "G": 10**9}[match[2]])


def _size_lines(sizes: StoreSizes) -> list[str]:
    rows = {
        "observations": sizes.observations,
        f"packs (of {size_text(sizes.packed_text)} of text, {sizes.packed_steps:,} steps)": sizes.packs,
        "thoughts, actions, answers": sizes.steps_text,
        "summaries": sizes.summaries,
        "keys": sizes.keys,
        "plans": sizes.plans,
        "facts, events, the rest": sizes.other,
        "free": sizes.free,
    }
    lines = [f"{size_text(count):>10}  {name}" for name, count in rows.items()]
    evicted = f", {sizes.evicted_steps:,} of them evicted" if sizes.evicted_steps else ""
    return [*lines, f"{size_text(sizes.file):>10}  in all, {sizes.steps:,} steps{evicted}"]


def _report_lines(report: CompactReport, dry_run: bool) -> list[str]:
    would = "would be " if dry_run else ""
    copies = f"{report.duplicates:,} steps saw what an earlier one had seen ({report.identical:,} word for word)"
    lines = [
        f"{copies}; {report.views_merged:,} summaries {would}merged, {report.tokens_saved:,} tokens less",
        f"{report.packed:,} steps {would}packed: {size_text(report.packed_before)} to {size_text(report.packed_after)}",
    ]
    if report.evicted or report.kept_without_summary:
        lines.append(
            f"{report.evicted:,} steps {would}evicted ({report.evicted_chars:,} characters); "
            f"{report.kept_without_summary:,} stay, having no summary yet"
        )
        lines.append(f"{len(report.lost_contexts):,} past contexts {would}no longer rebuilt: they showed what is gone")
    lines.append(f"{size_text(max(0, report.freed))} {would}freed{' (about)' if dry_run else ''}")
    return [*lines, report.problem] if report.problem else lines


MEMORY: Mapping[str, Callable[..., Any]] = {"size": size, "compact": compact}
