"""The page in a real Chromium: what it shows, what its keys and controls do, and what hostile texts cannot."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.runners.viewer.hostile import corpus
from tools.visit.browser import find_chromium

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

pytestmark = pytest.mark.skipif(
    find_chromium() is None, reason="NO CHROMIUM: apt-get install chromium, to test the viewer's page"
)
OURS = {
    "HTML", "HEAD", "META", "TITLE", "LINK", "STYLE", "SCRIPT", "BODY", "HEADER", "MAIN", "ASIDE", "SECTION",
    "DIV", "SPAN", "P", "A", "STRONG", "SMALL", "BUTTON", "INPUT", "LABEL", "CANVAS", "H2", "H3", "DETAILS",
    "SUMMARY", "DL", "DT", "DD", "UL", "LI", "TABLE", "TBODY", "TR", "TD", "PRE", "MARK", "BLOCKQUOTE",
}  # fmt: skip
TAGS = "() => [...new Set([...document.querySelectorAll('*')].map(e => e.tagName))]"
HANDLERS = """() => [...document.querySelectorAll('*')].filter(e =>
  [...e.attributes].some(a => /^on|^srcdoc/.test(a.name))).length"""
ADDRESSES = "() => [...document.querySelectorAll('[href],[src]')].map(e => e.getAttribute('href') || e.src)"
READY = 'html[data-ready="1"]'


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=find_chromium(), args=["--no-sandbox"])
        try:
            yield browser
        finally:
            await browser.close()


async def opened(browser: Browser, file: Path, faults: list[str], **options: Any) -> Page:
    """The page once it is there; whatever it complains of, asks for or pops up becomes a fault."""
    page = await browser.new_page(**options)
    page.on("console", lambda message: faults.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: faults.append(f"error: {error}"))
    page.on("dialog", lambda dialog: faults.append(f"dialog: {dialog.message}"))
    page.on("request", lambda asked: None if asked.url.split(":")[0] in ("file", "data") else faults.append(asked.url))
    await page.goto(file.as_uri())
    await page.wait_for_selector(READY, state="attached")
    return page


async def picture(page: Page) -> str:
    """The grid as it is drawn."""
    return str(await page.evaluate("() => document.getElementById('map').toDataURL()"))


async def settled(page: Page) -> None:
    """Two frames: what was asked for has been drawn."""
    await page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


async def test_the_page_shows_a_session_and_obeys(files: tuple[Path, Path]) -> None:
    faults: list[str] = []
    async with chromium() as browser:
        page = await opened(browser, files[0], faults, viewport={"width": 1280, "height": 860})
        await page.wait_for_function("() => document.querySelectorAll('#answer .citations li').length === 3")
        # a citation jumps to its passage
        await page.click("#answer .answer .cite >> nth=0")
        quote = await page.text_content("#quoted")
        assert quote and "were" in quote and await page.text_content("#chunk h2") == "c19act"
        # the four levels by keys: different texts
        texts = []
        for key in "1234":
            await page.keyboard.press(key)
            await settled(page)
            texts.append(await page.text_content("#chunk .text"))
            chosen = await page.text_content('#chunk [role="tab"][aria-selected="true"]')
            assert chosen and chosen.split()[0] == ("full", "detailed", "brief", "placeholder")[len(texts) - 1]
        sizes = [len(text or "") for text in texts]
        assert len(set(texts)) == 4 and sizes == sorted(sizes, reverse=True)
        assert "cosine" in (await page.text_content("#chunk .facts") or "")
        # steps by keys and slider; the grid follows
        await page.keyboard.press("s")
        before = await picture(page)
        await page.keyboard.press("ArrowLeft")
        await settled(page)
        assert (await page.text_content("#step h2") or "").startswith("Step 39")
        assert await picture(page) != before
        await page.locator("#slider").fill("12")
        await settled(page)
        assert (await page.text_content("#step h2") or "").startswith("Step 12")
        # a click in the grid opens the chunk under it
        await page.click("#map", position={"x": 700, "y": 100})
        await page.wait_for_selector("#chunk:not([hidden]) .text")
        # search
        await page.keyboard.press("/")
        await page.keyboard.type("harbours of Osk")
        await page.wait_for_selector("#find .found mark")
        await page.keyboard.press("Enter")
        await page.click("#find .found .cite >> nth=0")
        await page.wait_for_selector("#quoted")
        await page.close()
    assert faults == []


async def test_hostile_texts_stay_texts(files: tuple[Path, Path]) -> None:
    faults: list[str] = []
    async with chromium() as browser:
        page = await opened(browser, files[1], faults)
        for name in ("step", "chunk", "whatif", "answer", "find"):
            await page.click(f"#tab-{name}")
            assert set(await page.evaluate(TAGS)) <= OURS
        await page.fill("#search", "<script>")
        await page.wait_for_selector("#find .found mark")
        assert set(await page.evaluate(TAGS)) <= OURS
        await page.click("#tab-step")
        await page.keyboard.press("Home")
        for number in range(1, len(corpus()) + 1):
            await page.keyboard.press("ArrowRight")
            await page.keyboard.press("ArrowDown")
            if number % 8 == 0:
                await page.keyboard.press("1" if number % 16 else "3")
                await settled(page)
                found = set(await page.evaluate(TAGS)) - OURS
                assert not found, f"c{number}: {found}"
        assert await page.evaluate("() => [window.hacked, ({}).hacked, location.protocol]") == [None, None, "file:"]
        assert await page.evaluate(HANDLERS) == 0
        assert await page.evaluate(ADDRESSES) == ["data:,", "#"]
        await page.close()
    assert faults == []


async def test_pictures_to_look_at(files: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> None:
    """At both widths, light and dark: nothing is wider than the page. The pictures stay below pytest's own folder."""
    faults: list[str] = []
    async with chromium() as browser:
        for width, scheme in ((1280, "light"), (1280, "dark"), (400, "light"), (400, "dark")):
            size = {"width": width, "height": 860}
            page = await opened(browser, files[0], faults, viewport=size, color_scheme=scheme)
            await page.click("#answer .answer .cite >> nth=0")
            await page.wait_for_selector("#quoted")
            for name in ("answer", "step", "chunk"):
                await page.click(f"#tab-{name}")
                await settled(page)
                picture = tmp_path_factory.getbasetemp() / f"viewer-{name}-{width}-{scheme}.png"
                await page.screenshot(path=picture, full_page=width < 900)
                assert await page.evaluate("() => document.documentElement.scrollWidth") <= width
            paper = await page.evaluate("() => getComputedStyle(document.body).backgroundColor")
            assert (sum(int(part) for part in paper[4:-1].split(",")) < 200) is (scheme == "dark")
            await page.close()
    assert faults == []
