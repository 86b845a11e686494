"""The extractive summariser's child process, for real."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from memory.errors import SummaryFailed
from memory.frame import block
from memory.records import Level
from memory.summaries import child
from memory.summaries.base import SummaryJob
from memory.summaries.config import SummaryConfig
from memory.summaries.process import ExtractiveSummariser
from memory.tokens import ScriptCounter

ROOT = Path(child.__file__).parents[2]
FILLER = "It went on in much the same way for quite some time after that. "


def job(number: int = 1, text: str = FILLER * 20 + "The bridge was opened in 1987. " + FILLER * 20) -> SummaryJob:
    return SummaryJob(
        number, text, "When was the bridge opened?", ScriptCounter().count(block(number, Level.FULL, text))
    )


@pytest.fixture
async def summariser() -> AsyncIterator[ExtractiveSummariser]:
    made = ExtractiveSummariser(SummaryConfig())
    yield made
    await made.aclose()


async def test_views_from_one_child(summariser: ExtractiveSummariser) -> None:
    assert summariser.pid is None
    made = await asyncio.gather(*(summariser.summarise(job(number)) for number in range(1, 9)))
    assert [[view.chunk for view in views] for views in made] == [[n, n] for n in range(1, 9)]
    assert all("1987" in view.text for views in made for view in views)
    assert summariser.started == 1
    assert summariser.pid not in (None, os.getpid())


async def test_many_summarisers_share_a_few_children() -> None:
    """And the last one to leave takes them along."""
    made = [ExtractiveSummariser(SummaryConfig()) for _ in range(12)]
    await asyncio.gather(*(one.summarise(job(number)) for number, one in enumerate(made, start=1)))
    pids = {one.pid for one in made} - {None}
    assert 1 <= len(pids) == sum(one.started for one in made) <= (os.cpu_count() or 1)
    for one in made[:-1]:
        await one.aclose()
    assert len(await made[-1].summarise(job(20))) == 2
    assert sum(one.started for one in made) == len(pids)
    await made[-1].aclose()
    for pid in pids:
        assert pid is not None
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


async def test_short_empty_and_odd_texts(summariser: ExtractiveSummariser) -> None:
    for text in ("", "42", "\ud800\u2028 x", "None", "字" * 400):
        views = await summariser.summarise(job(text=text))
        assert views[1].tokens <= views[0].tokens <= job(text=text).tokens_full


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
async def test_a_killed_child_is_started_again(summariser: ExtractiveSummariser) -> None:
    await summariser.summarise(job())
    first = summariser.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    assert len(await summariser.summarise(job(2))) == 2
    assert summariser.started == 2
    assert summariser.pid != first


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
async def test_a_child_killed_twice_in_one_job_fails_it(summariser: ExtractiveSummariser) -> None:
    await summariser.summarise(job())
    huge = " ".join(f"Sentence {n} of this text says that. " for n in range(10_000))
    running = asyncio.create_task(summariser.summarise(job(text=huge)))
    killed: set[int] = set()
    while not running.done():
        await asyncio.sleep(0)
        if summariser.pid is not None and summariser.pid not in killed:
            killed.add(summariser.pid)
            os.kill(summariser.pid, signal.SIGKILL)
    with pytest.raises(SummaryFailed, match="twice"):
        await running
    assert len(killed) == 2
    assert len(await summariser.summarise(job(2))) == 2


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
async def test_a_stopped_child_is_killed_when_its_job_is_cancelled(summariser: ExtractiveSummariser) -> None:
    await summariser.summarise(job())
    first = summariser.pid
    assert first is not None
    os.kill(first, signal.SIGSTOP)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await summariser.summarise(job(2))
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)
    views = await summariser.summarise(job(3))
    assert views[0].chunk == 3


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
async def test_the_child_is_deaf_to_interrupts_and_polite(summariser: ExtractiveSummariser) -> None:
    await summariser.summarise(job())
    assert summariser.pid is not None
    os.kill(summariser.pid, signal.SIGINT)
    await summariser.summarise(job(2))
    assert summariser.started == 1
    assert os.getpriority(os.PRIO_PROCESS, summariser.pid) >= min(19, os.getpriority(os.PRIO_PROCESS, 0) + child.NICE)


async def test_after_closing_nothing_starts(summariser: ExtractiveSummariser) -> None:
    await summariser.aclose()
    with pytest.raises(SummaryFailed, match="closed"):
        await summariser.summarise(job())
    assert summariser.started == 0


async def test_an_interpreter_that_cannot_start(
    summariser: ExtractiveSummariser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    with pytest.raises(SummaryFailed, match="cannot start"):
        await summariser.summarise(job())


@pytest.mark.skipif(sys.platform == "win32", reason="the true command")
async def test_children_that_die_at_once_are_not_started_for_ever(
    summariser: ExtractiveSummariser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/true")
    for _ in range(10):
        with pytest.raises(SummaryFailed):
            await summariser.summarise(job())
    assert summariser.started <= 5


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_the_child_goes_with_a_killed_parent(tmp_path: Path) -> None:
    """An unguarded script as main module: it must run once only, and leave nobody behind."""
    script = tmp_path / "host.py"
    script.write_text(
        textwrap.dedent("""
            import asyncio, sys
            from memory.summaries.base import SummaryJob
            from memory.summaries.config import SummaryConfig
            from memory.summaries.process import ExtractiveSummariser

            async def main():
                summariser = ExtractiveSummariser(SummaryConfig())
                await summariser.summarise(SummaryJob(1, "Some text. " * 300, "q", 5000))
                print(summariser.pid, flush=True)
                await asyncio.sleep(60)

            asyncio.run(main())
        """)
    )
    parent = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert parent.stdout is not None
    with parent:
        pid = int(parent.stdout.readline())
        # the child holds the write end of a pipe of its own; watching its end needs no polling on Linux
        handle = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
        parent.kill()
        parent.wait()
        if handle is None:
            pytest.skip("no pidfd on this platform")
        import select

        assert select.select([handle], [], [], 30)[0], "the child outlived its parent"
        os.close(handle)
        assert parent.stdout.read() == ""
