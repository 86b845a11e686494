"""Every route of the hostile web through the real visit tool: it ends as the route says, in time, and touches nothing
that is not public."""

from __future__ import annotations

import resource
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from memory.sanitize import sanitize
from runners.devserver.hostile.route import Route
from runners.devserver.hostile_web import HostileWeb, all_routes
from tests.support.load import slack
from tests.tools.web.loopback import connections
from tools.base import CallContext, ToolError
from tools.visit.config import VisitConfig
from tools.visit.tool import VisitArguments, VisitTool
from tools.web.client import Fetcher
from tools.web.policy import FetchConfig

CALL = CallContext("s1.1", 1)
TOTAL_S = 1.0
PAGES = [route for route in all_routes() if route.path != "/robots.txt"]
FAST = [route for route in PAGES if not route.path.startswith("/time/")]


@pytest.fixture(scope="module")
def web() -> Iterator[HostileWeb]:
    with HostileWeb() as running:
        yield running


def tool_for(web: HostileWeb, folder: Path, total_s: float = 20.0) -> VisitTool:
    config = FetchConfig(allow_hosts=web.allow_hosts, total_s=total_s)
    return VisitTool(Fetcher(config, resolver=web.resolver()), folder, VisitConfig(max_age_s=0, robots_s=0.5))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(web: HostileWeb, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[VisitTool]:
    tool = tool_for(web, tmp_path_factory.mktemp("pages"))
    yield tool
    await tool.aclose()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def impatient(web: HostileWeb, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[VisitTool]:
    tool = tool_for(web, tmp_path_factory.mktemp("pages"), TOTAL_S)
    await ended(tool, web.url("/html/plain"))  # the extraction child is warm
    yield tool
    await tool.aclose()


async def ended(tool: VisitTool, url: str, find: str = "") -> tuple[str, str]:
    """(kind, message) of a failure, or ("", text)."""
    try:
        return "", (await tool.run(VisitArguments(urls=[url], find=find), CALL)).text
    except ToolError as error:
        return error.kind, str(error)


async def check(tool: VisitTool, web: HostileWeb, route: Route, limit_s: float) -> None:
    started = time.monotonic()
    with connections() as seen:
        kind, text = await ended(tool, web.url(route))
    took = time.monotonic() - started
    assert set(seen) <= {("127.0.0.1", web.port)}
    assert took < limit_s * slack(), took
    if route.shows:
        assert kind == "", text
        assert route.shows in text
        text.encode()
    else:
        assert kind in route.fails, (kind, text[:300])
        assert 10 < len(text) < 700
    if route.hides:
        assert route.hides not in sanitize(text)


def test_there_are_enough() -> None:
    assert len(PAGES) >= 150
    assert all(bool(route.shows) != bool(route.fails) for route in PAGES)
    assert len({(route.host, route.path) for route in PAGES}) == len(PAGES)


@pytest.mark.parametrize("route", FAST, ids=lambda route: f"{route.host}{route.path}")
@pytest.mark.asyncio(loop_scope="module")
async def test_a_visit_ends_as_it_should(shared: VisitTool, web: HostileWeb, route: Route) -> None:
    await check(shared, web, route, 25.0)


@pytest.mark.parametrize("route", [r for r in PAGES if r not in FAST], ids=lambda route: route.path)
@pytest.mark.asyncio(loop_scope="module")
async def test_a_slow_server_meets_the_deadline(impatient: VisitTool, web: HostileWeb, route: Route) -> None:
    await check(impatient, web, route, 10.0 if route.path == "/time/endless" else TOTAL_S + 1.5)


@pytest.fixture(scope="module", autouse=True)
def peak_before() -> int:
    """Peak memory of this process, in kB, before any page of this file was read."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def test_the_process_stayed_small(peak_before: int) -> None:
    """Runs last: whatever the pages held, they raised the peak by less than 400 MB."""
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak_before < 400_000
