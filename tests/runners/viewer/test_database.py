"""The viewer over sessions in a database: what it shows of them is what it shows of their files."""

from __future__ import annotations

from pathlib import Path

import httpx

from runners.folders import SessionFolder
from runners.sessions.transfer import push_session
from tests.runners.service.serving import TOKEN, running
from tests.support.postgres import Server

API = "/ui/api/sessions"
PATHS = (
    "/plain/head",
    "/plain/rows?first=3&last=40&stride=10",
    "/plain/codes?step=10&steps=3&every=15&chunk=1&chunks=8&stride=2",
    "/plain/policies",
    "/plain/decisions/30",
    "/plain/chunks/19",
    "/plain/chunks/19/raw",
    "/plain/search?q=HARBOURS OF",
    "/hostile/head",
    "/hostile/chunks/1",
)
REFUSED = {"/plain/chunks/900": 404, "/none/head": 404, "/none/events": 404, "/..%2f..%2fetc/head": 404}


def test_sessions_of_a_database_look_the_same(home: Path, tmp_path: Path, postgres: Server) -> None:
    """From a machine that has none of them."""
    database = postgres.database()
    for name in ("plain", "hostile"):
        push_session(SessionFolder(home / "runs" / name), database)
    bearer = {"authorization": f"Bearer {TOKEN}"}
    with (
        running(home, token=TOKEN) as files,
        running(tmp_path, token=TOKEN, database=database) as shared,
        httpx.Client(base_url=files.url, headers=bearer, timeout=30) as here,
        httpx.Client(base_url=shared.url, headers=bearer, timeout=30) as there,
    ):
        for path in PATHS:
            wanted, found = here.get(API + path), there.get(API + path)
            assert (found.status_code, found.content) == (200, wanted.content), path
        for path, status in REFUSED.items():
            assert there.get(API + path).status_code == status
        listed = [[{**row, "bytes": 0} for row in one.get(API).json()] for one in (here, there)]
        assert {row["session"] for row in listed[1]} == {"plain", "hostile"} and listed[0] == listed[1]
        body = {"policy": "last-k", "budget": 1500}
        planned = [one.post(f"{API}/plain/decisions/30", json=body).json() for one in (here, there)]
        assert planned[0] == planned[1]
        assert [there.get(f"/ui/s/{name}").status_code for name in ("plain", "none")] == [200, 404]
        with there.stream("GET", f"{API}/plain/events?after=39") as events:
            assert next(line for line in events.iter_lines() if line.startswith("event")) == "event: moved"
    assert not (tmp_path / "runs").exists()
