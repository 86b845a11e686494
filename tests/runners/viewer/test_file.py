"""The page in one file: our own elements only, whatever the session says; a policy that lets nothing else run."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest
from bs4 import BeautifulSoup

from runners.viewer.page import MODULES, bundle, escaped_json, static
from tests.runners.command import Command
from tests.runners.viewer.hostile import corpus, hostile_step
from tests.runners.viewer.made import make_session


class Elements(HTMLParser):
    """Counts start tags, and keeps what stands in scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.raw: list[tuple[str, str]] = []
        self.attributes: dict[str, list[dict[str, str | None]]] = {}
        self._open = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes.setdefault(tag, []).append(dict(attrs))
        self._open = tag

    def handle_endtag(self, tag: str) -> None:
        self._open = ""

    def handle_data(self, data: str) -> None:
        if self._open in ("script", "style"):
            self.raw.append((self._open, data))


@pytest.fixture(scope="module")
def pages(files: tuple[Path, Path]) -> tuple[str, str]:
    """A harmless session's page, and a hostile one's."""
    return files[0].read_text("utf-8"), files[1].read_text("utf-8")


def test_hostile_text_adds_no_element(pages: tuple[str, str]) -> None:
    assert len(corpus()) >= 100
    plain, hostile = map(Elements, pages)
    assert hostile.tags == plain.tags
    data = json.loads(next(text for tag, text in hostile.raw if text.startswith("{")))
    assert len(data["rows"]) == len(corpus()) + 1
    shown = data["chunks"][0]["texts"]["full"]
    assert "<script>window.hacked=1</script>" in shown, "what was said is shown, whole"
    # read by a parser of another make, too
    counts = [Counter(tag.name for tag in BeautifulSoup(page, "lxml").find_all()) for page in pages]
    assert counts[0] == counts[1]


def test_the_policy_names_the_one_script_and_the_one_style(pages: tuple[str, str]) -> None:
    page = Elements(pages[0])
    meta = next(m for m in page.attributes["meta"] if m.get("http-equiv") == "Content-Security-Policy")
    policy = meta["content"] or ""
    assert "default-src 'none'" in policy and "unsafe" not in policy and "connect-src" not in policy
    (style,) = (text for tag, text in page.raw if tag == "style")
    (script,) = (text for tag, text in page.raw if tag == "script" and not text.startswith("{"))
    for text in (style, script):
        assert f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" in policy
    assert [s.get("type") for s in page.attributes["script"]] == ["application/json", "module"]
    assert not [
        a for tags in page.attributes.values() for a in tags for name in a if name.startswith("on") or name == "style"
    ]


def test_scripts_write_text_nodes_only_and_reach_nowhere() -> None:
    script = bundle()
    assert not re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", script)
    for name in MODULES:
        module = static(f"{name}.js")
        assert not re.findall(r"https?://", module), name
        imported = re.findall(r'^import .*? from "\./(\w+)\.js";$', module, re.MULTILINE | re.DOTALL)
        assert set(imported) <= set(MODULES[: MODULES.index(name)]), f"{name} is bundled before what it imports"
    assert "import " not in re.sub(r"//.*", "", script) and not re.search(r"^export ", script, re.MULTILINE)
    names = re.findall(r"^(?:async )?(?:function|class|const|let) (\w+)", script, re.MULTILINE)
    assert len(names) == len(set(names)), "modules share one scope in the file"
    assert not re.findall(r"url\(|@import", static("viewer.css"))


def test_json_cannot_end_its_element() -> None:
    value = {"a": "</script><!--&\u2028\u2029", "b": [1.5, None, True]}
    text = escaped_json(value)
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text) == value


def test_the_command_refuses_what_it_cannot_write(command: Command) -> None:
    asyncio.run(make_session(command.home, "a", steps=2))
    ended = command("show", "a", "--html", "none/page.html", report=False)
    assert ended.code == 2 and "--html none/page.html: cannot be written" in ended.error
    ended = command("show", "a", "--html", "page.html")
    assert ended.code == 0 and ended.report["status"] == "completed"


def test_secrets_do_not_get_into_the_page(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "canary-5f1e-secret-value"
    monkeypatch.setenv("SERPER_API_KEY", secret)

    made = make_session(
        command.home,
        "a",
        steps=4,
        question=f"Is {secret} in it?",
        answer=secret,
        step=lambda n: hostile_step([secret], n),
    )
    asyncio.run(made)
    assert command("show", "a", "--html", "page.html", report=False).code == 0
    page = Path("page.html").read_text("utf-8")
    assert secret not in page and "***" in page
