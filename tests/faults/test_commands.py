"""The command itself, killed at random: `longstride run`, then `longstride resume` until there is an answer."""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from memory.records import JsonValue
from tests.faults.script import transcript
from tests.faults.survivor import GROWTH, Survivor
from tests.faults.zygote import Ended, Zygote
from tests.runners.command import PAGES

QUESTION = "Who directed the film The Salt Road, and where was she born?"
OPTIONS = ("-c", "encoder.kind=hashing", "-c", "summaries.kind=off")


@pytest.fixture(scope="module")
def disk() -> Iterator[Path]:
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        corpus = Path(folder) / "corpus"
        corpus.mkdir()
        for name, text in PAGES.items():
            if name.endswith(".html"):
                continue  # a parser in a process of its own only takes time here
            (corpus / name).write_text(text, encoding="utf-8")
        yield Path(folder)


def command(zygote: Zygote, disk: Path, folder: Path, kill_after: float | None = None) -> Ended:
    """Start the session of ``folder``, or go on with it, as a person would."""
    asked = (folder / "session.sqlite").exists() and Survivor(folder).settled()
    start = ["run", QUESTION, "--corpus", str(disk / "corpus"), "--out", str(folder), *OPTIONS]
    arguments = ["resume", str(folder)] if asked else start
    report = folder.with_suffix(".json")
    return zygote.run(
        "command",
        home=str(disk / "home"),
        arguments=[*arguments, "-q", "--json", str(report)],
        kill_after=kill_after,
    )


def finished(folder: Path) -> list[JsonValue]:
    """The transcript; the report and the trajectory file say the same."""
    survivor = Survivor(folder)
    survivor.look()
    steps = survivor.steps()
    report = json.loads(folder.with_suffix(".json").read_text())
    assert (report["status"], report["steps"], report["answer"]) == ("completed", len(steps), steps[-1].answer)
    lines = [json.loads(line) for line in (folder / "trajectory.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == list(range(1, len(steps) + 1))
    assert [line["created"] for line in lines] == [step.created for step in steps]
    assert not any(step.interrupted for step in steps)
    return transcript(steps)


def kill_until_answered(zygote: Zygote, disk: Path, kills: int, seed: int) -> int:
    """Returns how many kills left a session that had begun."""
    whole = disk / f"whole{seed}"
    ended = command(zygote, disk, whole)
    assert ended.code == 0, ended.error
    expected, rng, span, done, begun, number = finished(whole), random.Random(seed), ended.seconds, 0, 0, 0
    while done < kills:
        number += 1
        folder = disk / f"killed{seed}-{number}"
        within = span
        while (ended := command(zygote, disk, folder, rng.uniform(0.0, within))).killed:
            within *= GROWTH
            done += 1
            begun += folder.exists()
            if (folder / "session.sqlite").exists():
                Survivor(folder).look()
        assert ended.code == 0, ended.error
        assert finished(folder) == expected
    return begun


def test_a_command_killed_a_few_times(zygote: Zygote, disk: Path) -> None:
    assert kill_until_answered(zygote, disk, 8, 1) > 0


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_a_command_killed_a_hundred_times(zygote: Zygote, disk: Path) -> None:
    """Some 50 seconds."""
    assert kill_until_answered(zygote, disk, 100, 2) > 20
