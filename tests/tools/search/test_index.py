"""The index: what is found, how it follows its source, how it survives."""

from __future__ import annotations

import gzip
import json
import multiprocessing
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tools.search.pages import PAGES, write_jsonl
from tools.search.base import CorpusFault
from tools.search.folder import MAX_FILE_BYTES, FolderPages
from tools.search.index import CorpusIndex
from tools.search.jsonl import JsonlPages
from tools.search.terms import index_form, match_expression, query_terms
from tools.visit.files import FileReader


@pytest.fixture
def index(tmp_path: Path) -> CorpusIndex:
    opened = CorpusIndex(tmp_path / "cache", JsonlPages(write_jsonl(tmp_path / "pages.jsonl")))
    opened.update()
    return opened


def found(index: CorpusIndex, query: str, n: int = 10) -> list[str]:
    return [page.path.removeprefix("page/") for page in index.search(query, n)]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("When was the harbour lighthouse built?", "p1"),
        ("keeper of lights", "p2"),
        ("cafe zurich", "p3"),
        ("CAFÉ", "p3"),
        ("marathon runner", "p4"),
        ("灯塔是谁守的", "p5"),
        ("智能", "p6"),
        ("王", "p5"),
        ("明", "p5"),
        ("编程 python", "p7"),
        ("人工智能如何学习", "p6"),
    ],
)
def test_finds(index: CorpusIndex, query: str, first: str) -> None:
    assert found(index, query)[0] == first


def test_a_title_named_in_the_query_comes_first(index: CorpusIndex) -> None:
    assert found(index, "who wrote keeper of lights about the lighthouse keeper tower harbour")[:2] == ["p1", "p2"]
    assert found(index, "lighthouse keeper novel keeper of lights")[0] == "p2"


def test_stop_words_alone_still_search(index: CorpusIndex) -> None:
    assert query_terms("What is the harbour?") == ["harbour"]
    assert query_terms("who is it") == ["who", "is", "it"]
    assert "p2" in found(index, "it")


@given(st.text(max_size=80))
def test_no_query_is_a_syntax_error(tmp_path_factory: pytest.TempPathFactory, query: str) -> None:
    folder = tmp_path_factory.getbasetemp() / "syntax"
    folder.mkdir(exist_ok=True)
    index = CorpusIndex(folder, JsonlPages(write_jsonl(folder / "pages.jsonl")))
    index.update()
    for text in (query, f'"{query}" AND NOT {query}* : ({query})', f"title:{query}"):
        assert len(index.search(text, 3)) <= 3
    index.close()


@given(st.text(alphabet="灯塔港口人ab é1", max_size=20))
def test_cjk_text_is_found_by_its_own_words(text: str) -> None:
    form = f" {index_form(text).lower()} "
    for term in query_terms(text):
        if not term.isascii() and len(term) == 2 and all("一" <= char <= "鿿" for char in term):
            assert f" {term} " in form
    assert match_expression(query_terms(text)).count('"') % 2 == 0


def test_only_what_changed_is_read_again(tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "a.md").write_text("# First page\n\nabout otters", encoding="utf-8")
    (folder / "deep" / "er" / "b.txt").write_text("about badgers", encoding="utf-8")
    read: list[str] = []
    reader = FileReader()

    def spy(body: bytes, suffix: str, url: str) -> object:
        read.append(url)
        return reader.read(body, suffix, url)

    def opened() -> CorpusIndex:
        index = CorpusIndex(tmp_path / "cache", FolderPages(folder, spy))  # type: ignore[arg-type]
        index.update()
        return index

    index = opened()
    assert sorted(read) == ["a.md", "deep/er/b.txt"]
    assert [page.title for page in index.search("otters", 5)] == ["First page"]
    index.close()
    read.clear()
    (folder / "a.md").write_text("# First page\n\nabout weasels now", encoding="utf-8")
    (folder / "deep" / "er" / "b.txt").unlink()
    (folder / "c.txt").write_text("about stoats", encoding="utf-8")
    index = opened()
    assert sorted(read) == ["a.md", "c.txt"]
    assert [found(index, word) for word in ("otters", "badgers", "weasels", "stoats")] == [[], [], ["a.md"], ["c.txt"]]
    assert len(index) == 2
    index.close()


def test_bad_files_are_reported_not_fatal(tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "good.html").write_bytes(
        b"<html><title>Good</title><body><p>A page about herons and rivers.</p></body></html>"
    )
    (folder / "fake.pdf").write_bytes(b"%PDF-1.7 nothing more")
    (folder / "zip.txt").write_bytes(b"PK\x03\x04" + bytes(200))
    (folder / "empty.md").write_bytes(b"")
    (folder / ".hidden.txt").write_text("secret herons")
    (folder / ".git").mkdir()
    (folder / ".git" / "config.txt").write_text("secret herons")
    (folder / "photo.png").write_bytes(b"\x89PNG")
    with (folder / "huge.txt").open("wb") as huge:
        huge.truncate(MAX_FILE_BYTES + 1)
    (folder / "away.txt").symlink_to("/etc/hostname")
    reader = FileReader()
    index = CorpusIndex(tmp_path / "cache", FolderPages(folder, reader.read))
    index.update()
    assert found(index, "herons") == ["good.html"]
    notes = index.notes()
    assert set(notes) == {"fake.pdf", "zip.txt", "empty.md", "huge.txt", "away.txt"}
    assert "PDF" in notes["fake.pdf"]
    assert "larger" in notes["huge.txt"]
    index.update()  # broken files are not read again while they stay the same
    reader.close()
    index.close()


def test_jsonl_forms(tmp_path: Path) -> None:
    file = tmp_path / "pages.jsonl.gz"
    lines = [
        {"id": 7, "title": "Numbered", "text": "alpha"},
        {"url": "https://example.org/a/b?x=1", "text": "beta"},
        {"text": "gamma"},
        {"title": "no text"},
        {"id": 7, "text": "a second page under a taken address"},
    ]
    with gzip.open(file, "wt", encoding="utf-8") as out:
        out.write("\n".join(json.dumps(line) for line in lines) + "\n\nnot json\n")
    index = CorpusIndex(tmp_path / "cache", JsonlPages(file))
    index.update()
    assert [index.search(word, 1)[0].path for word in ("alpha", "beta", "gamma")] == [
        "page/7",
        "example.org/a/b?x=1",
        "page/3",
    ]
    assert "2 lines are not pages; line 4" in index.notes()["pages.jsonl.gz"]
    index.close()


def test_a_cut_gzip_keeps_what_came(tmp_path: Path) -> None:
    file = tmp_path / "pages.jsonl.gz"
    whole = gzip.compress(
        b"".join(b'{"text": "page %d %s"}\n' % (n, os.urandom(200).hex().encode()) for n in range(300))
    )
    file.write_bytes(whole[: len(whole) // 2])
    index = CorpusIndex(tmp_path / "cache", JsonlPages(file))
    index.update()
    assert 0 < len(index) < 300
    assert index.notes()["pages.jsonl.gz"]
    index.close()


@pytest.mark.parametrize("damage", [b"not a database at all, but long enough to be read as one" * 50, b""])
def test_a_damaged_index_is_built_again(tmp_path: Path, index: CorpusIndex, damage: bytes) -> None:
    index.close()
    index.file.write_bytes(damage)
    again = CorpusIndex(tmp_path / "cache", JsonlPages(tmp_path / "pages.jsonl"))
    again.update()
    assert found(again, "harbour lighthouse")[0] == "p1"
    again.close()


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    source = JsonlPages(write_jsonl(tmp_path / "pages.jsonl"))
    index = CorpusIndex(tmp_path / "cache", source)
    index.close()
    index.file.unlink()
    index.file.mkdir()
    with pytest.raises(CorpusFault, match="cannot open the index"):
        CorpusIndex(tmp_path / "cache", source)


def _build(cache: str, file: str, start: object, results: object) -> None:
    start.wait()  # type: ignore[attr-defined]
    index = CorpusIndex(Path(cache), JsonlPages(Path(file)))
    index.update()
    results.put((len(index), [page.path for page in index.search("harbour", 3)]))  # type: ignore[attr-defined]
    index.close()


def test_two_processes_may_build_at_once(tmp_path: Path) -> None:
    file = write_jsonl(tmp_path / "pages.jsonl")
    context = multiprocessing.get_context("spawn")
    start, results = context.Event(), context.Queue()
    builders = [context.Process(target=_build, args=(str(tmp_path / "c"), str(file), start, results)) for _ in range(3)]
    for builder in builders:
        builder.start()
    start.set()
    answers = [results.get(timeout=60) for _ in builders]
    for builder in builders:
        builder.join()
        assert builder.exitcode == 0
    assert answers == [(len(PAGES), ["page/p1"])] * 3


def test_an_interrupted_build_leaves_nothing_half_done(tmp_path: Path) -> None:
    class Stopped(Exception):
        pass

    source = JsonlPages(write_jsonl(tmp_path / "pages.jsonl"))
    index = CorpusIndex(tmp_path / "cache", source)

    def stop(done: int, total: int) -> None:
        if done == total:
            raise Stopped

    with pytest.raises(Stopped):
        index.update(stop)
    assert len(index) == 0
    seen: list[tuple[int, int]] = []
    index.update(lambda done, total: seen.append((done, total)))
    assert len(index) == len(PAGES)
    assert seen == [(0, 1), (1, 1)]
    index.close()
