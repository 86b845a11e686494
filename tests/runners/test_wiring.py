"""Sessions out of configuration and folders: what is stored, what is taken up again, encoders that change."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest

from agent.backbones.scripted import Outcome, Scripted, ScriptedBackbone
from agent.errors import ContextTooLong
from agent.events import Bus
from memory.errors import NotStored, StoreBusy, StoreCorrupt
from memory.records import Reply, Request, ToolCall, Usage
from memory.store.sqlite import SqliteStore
from runners.config import load_config
from runners.devserver.model_server import ModelServer
from runners.environment import Environment
from runners.errors import ConfigError, UsageFault
from runners.folders import find_folder, new_folder
from runners.request import ConfigRequest
from runners.toolbox import Inputs
from runners.trajectory import TrajectoryFile
from runners.wiring import OpenSession, SessionRequest, open_session

NATIVE = ("dialect=native", "python.enabled=false", "summaries.publish=lockstep")


@asynccontextmanager
async def opened(
    home: Path,
    corpus: Path,
    script: Sequence[Scripted] | Callable[[Request], Outcome],
    *options: str,
    changes: Sequence[str] = (),
    new: bool = True,
) -> AsyncIterator[OpenSession]:
    """A new session named ``s`` over a corpus with a scripted model, or that one again."""
    folder = new_folder(home, home / "runs" / "s") if new else find_folder(home, "s")
    config = load_config(ConfigRequest(options=(*NATIVE, *options))) if new else None
    inputs = Inputs(str(corpus)) if new else None
    model = ScriptedBackbone(script)
    request = SessionRequest(folder, Environment(home), Bus(), config, inputs, changes=tuple(changes), backbone=model)
    async with open_session(request) as session:
        yield session
    await model.aclose()


def look(*queries: str) -> Reply:
    return Reply("", tool_calls=(ToolCall("p", "search", {"queries": list(queries)}),), stop_reason="tool_calls")


MANY = [look(f"harbour {i}", "bridge of Osk") for i in range(6)]


async def test_switching_encoders_re_embeds_and_never_mixes(tmp_path: Path, corpus: Path) -> None:
    """An existing session goes on with another encoder: every chunk has a key of the new one, those of the old one
    stay, each plan names the encoder of its query, and no cosine is taken between the two."""
    async with opened(tmp_path, corpus, [*MANY, Reply("done")], "encoder.kind=hashing") as one:
        await one.session.ask("first?")
        first = (await one.store.plans())[-1].encoder_id
        steps = one.memory.steps
    changes = ("encoder.kind=embedded",)
    async with opened(tmp_path, corpus, [*MANY, Reply("done")], changes=changes, new=False) as two:
        await two.session.ask("second?")
        plans = await two.store.plans()
        second = plans[-1].encoder_id
        old, new = await two.store.keys(first), await two.store.keys(second)
        events = [event for event in await two.store.events() if event.kind == "config_changed"]
        assert all(rebuilt.same for rebuilt in await two.memory.rebuild_all())
    assert first != second
    assert [plan.encoder_id for plan in plans] == [first] * steps + [second] * (len(plans) - steps)
    widths = {plan.encoder_id: {len(plan.query_key) // 4} for plan in plans if plan.query_key}
    assert widths == {first: {old.matrix.shape[1]}, second: {new.matrix.shape[1]}}
    assert set(range(1, steps + 1)) <= set(new.numbers.tolist())
    assert max(old.numbers.tolist()) <= steps
    assert np.allclose(np.linalg.norm(new.matrix, axis=1), 1, atol=1e-4)
    assert plans[-1].cosine_spread > 0
    assert [event.body["changed"] for event in events] == [{"encoder.kind": "embedded"}]
    async with opened(tmp_path, corpus, [], new=False) as three:
        assert three.config.encoder.kind == "embedded"
        assert three.loop.memory.steps == len(plans)


async def test_a_change_to_the_same_is_none(tmp_path: Path, corpus: Path) -> None:
    async with opened(tmp_path, corpus, [Reply("done")]) as one:
        await one.session.ask("q?")
    async with opened(tmp_path, corpus, [], changes=("memory.budget=128000",), new=False) as two:
        assert not [event for event in await two.store.events() if event.kind == "config_changed"]


async def test_the_backbone_may_not_become_one_with_other_tools(tmp_path: Path, corpus: Path) -> None:
    async with opened(tmp_path, corpus, [Reply("done")]) as one:
        await one.session.ask("q?")
    changes = ("backbone.kind=openai", "backbone.model=x")
    with pytest.raises(ConfigError, match="from or to embedded"):
        async with opened(tmp_path, corpus, [], changes=changes, new=False):
            pass


async def test_what_a_window_taught_outlives_the_process(tmp_path: Path, corpus: Path) -> None:
    script: list[Scripted] = [*MANY, ContextTooLong("too long", limit=30_000), Reply("done")]
    async with opened(tmp_path, corpus, script) as one:
        await one.session.ask("q?")
        learned = one.loop.window.learned
        assert learned.window == 30_000
        assert learned.ceiling is not None
    async with opened(tmp_path, corpus, [Reply("again")], new=False) as two:
        assert two.loop.window.learned == learned
        await two.session.ask("more?")
        assert (await two.store.plans())[-1].budget == learned.ceiling


async def test_limits_and_guards_go_on(tmp_path: Path, corpus: Path) -> None:
    same = [look("harbour")] * 3
    async with opened(tmp_path, corpus, same, "limits.max_steps=3") as one:
        assert (await one.session.ask("q?")).status == "budget"
    async with opened(tmp_path, corpus, [], new=False) as two:
        assert (await two.session.go_on()).status == "budget"
    raised = ("limits.max_steps=20",)
    async with opened(tmp_path, corpus, [look("harbour")] * 7, changes=raised, new=False) as three:
        assert (await three.session.go_on()).status == "stuck"


async def test_a_second_owner_is_refused_with_the_pid(tmp_path: Path, corpus: Path) -> None:
    async with opened(tmp_path, corpus, [Reply("done")]) as one:
        with pytest.raises(StoreBusy, match=r"\d+"):
            async with opened(tmp_path, corpus, [], new=False):
                pass
        assert (await one.session.ask("q?")).answer == "done"


async def test_a_session_that_cannot_open_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageFault, match="nothing readable"):
        async with opened(tmp_path, tmp_path / "empty", []):
            pass
    assert not (tmp_path / "runs" / "s").exists()


async def test_a_store_without_settings_is_said_to_be_one(tmp_path: Path, corpus: Path) -> None:
    folder = new_folder(tmp_path, tmp_path / "runs" / "s")
    await (await SqliteStore.open(folder.store, create=True)).aclose()
    with pytest.raises(StoreCorrupt, match="never opened whole"):
        async with opened(tmp_path, corpus, [], new=False):
            pass


async def test_the_trajectory_is_mended_from_the_store(tmp_path: Path, corpus: Path) -> None:
    async with opened(tmp_path, corpus, [*MANY[:3], Reply("done")]) as one:
        await one.session.ask("q?")
    file = find_folder(tmp_path, "s").trajectory
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) * 2 // 3])
    async with opened(tmp_path, corpus, [], new=False):
        assert file.read_bytes() == whole
    file.unlink()
    async with opened(tmp_path, corpus, [Reply("more")], new=False) as two:
        await two.session.ask("more?")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["step"] for line in lines] == [1, 2, 3, 4, 5]
    assert [line["answer"] for line in lines[3:]] == ["done", "more"]
    assert TrajectoryFile(file).mend(5) == 5


async def test_a_trajectory_that_cannot_be_written_stops_nothing(tmp_path: Path, corpus: Path) -> None:
    async with opened(tmp_path, corpus, [Reply("done")]) as one:
        await one.session.ask("q?")
    file = find_folder(tmp_path, "s").trajectory
    file.unlink()
    file.mkdir()
    async with opened(tmp_path, corpus, [Reply("more")], new=False) as two:
        assert (await two.session.ask("more?")).status == "completed"
    file.rmdir()
    async with opened(tmp_path, corpus, [], new=False):
        assert [json.loads(line)["answer"] for line in file.read_text().splitlines()] == ["done", "more"]


def test_finding_folders(tmp_path: Path) -> None:
    with pytest.raises(NotStored, match="there is none below"):
        find_folder(tmp_path, "x")
    for name in ("20260101-a", "20260101-b", "20260202-c"):
        new_folder(tmp_path, tmp_path / "runs" / name).store.write_bytes(b"")
    assert find_folder(tmp_path, "20260202").name == "20260202-c"
    assert find_folder(tmp_path, str(tmp_path / "runs" / "20260101-a")).name == "20260101-a"
    with pytest.raises(NotStored, match="fits 2 sessions"):
        find_folder(tmp_path, "202601")
    with pytest.raises(NotStored, match="the latest is 20260202-c"):
        find_folder(tmp_path, "")


async def test_summaries_by_a_model_are_priced_and_count(tmp_path: Path, corpus: Path) -> None:
    """Money spent in the background is money of the run: it is reported, and it ends the run."""
    (tmp_path / "prices.yaml").write_text("prices:\n  small: {input: 1000000, output: 1000000}\n")
    queries = (f"harbour {number}" for number in range(1000))

    def endless(_: Request) -> Outcome:
        return look(next(queries))

    summary = '{"detailed": "The harbour of Varden was rebuilt in 1831.", "brief": "Harbour rebuilt 1831."}'
    with ModelServer(lambda _: Reply(summary, usage=Usage(input_total=3, output=1))) as server:
        options = (
            "summaries.kind=llm",
            "summary_backbone.kind=openai",
            "summary_backbone.model=small",
            f"summary_backbone.base_url={server.url}/v1",
            "limits.max_cost_usd=7",
        )
        async with opened(tmp_path, corpus, endless, *options) as one:
            outcome = await one.session.ask("q?")
            rows = [row for row in await one.store.usage() if row.purpose == "summary"]
    assert outcome.status == "budget"
    assert "max_cost_usd" in outcome.message
    assert [row.usage.cost for row in rows[:2]] == [4.0, 4.0]
    assert outcome.usage.cost is not None and outcome.usage.cost >= 8
