"""Bodies to text: kinds, charsets, hostile documents, a child that dies."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.load import slack
from tests.tools.visit.documents import ARTICLE, BOX, SENTENCES, pdf
from tools.visit.charset import decode
from tools.visit.extracted import Extracted, Unreadable
from tools.visit.files import FileReader
from tools.visit.sniff import sniff
from tools.visit.worker import ExtractionWorker


@pytest.fixture(scope="module")
def worker() -> Iterator[ExtractionWorker]:
    worker = ExtractionWorker()
    yield worker
    worker.close()


@pytest.fixture(scope="module")
def reader(worker: ExtractionWorker) -> FileReader:
    return FileReader(worker)


def read(reader: FileReader, body: str | bytes, content_type: str = "text/html; charset=utf-8") -> Extracted:
    return reader.read(body.encode() if isinstance(body, str) else body, "", "https://town.test/a/", content_type)


def test_an_article_comes_clean_and_whole(reader: FileReader) -> None:
    found = read(reader, ARTICLE)
    assert found.title == "The river town"
    assert all(sentence in found.text for sentence in SENTENCES)
    assert "[stone bridge](https://town.test/a/bridge.html)" in found.text
    assert "4,211" in found.text
    for noise in ("About us", "cookies", "secret", "color:red"):
        assert noise not in found.text


def test_a_page_without_article_is_shown_whole(reader: FileReader) -> None:
    found = read(reader, BOX)
    assert found.title == "Element 26"
    assert "Melting point | 1538 °C" in found.text.replace("| Melting point", "Melting point")


def test_a_pdf_comes_page_by_page(reader: FileReader) -> None:
    found = read(reader, pdf("First page of the report", "Second page", title="Report"), "application/octet-stream")
    assert (found.title, found.text) == ("Report", "[page 1]\nFirst page of the report\n\n[page 2]\nSecond page")


@pytest.mark.parametrize(
    "body", [b"%PDF-1.7\nfake", pdf("x")[:200], b"%PDF-1.4 trailer << /Root 1 0 R >> %%EOF", pdf()]
)
def test_broken_pdfs_say_why(reader: FileReader, body: bytes) -> None:
    with pytest.raises(Unreadable, match="PDF"):
        read(reader, body)


@pytest.mark.parametrize(
    ("content_type", "suffix", "body", "kind"),
    [
        ("text/html", "", b"plain words", "html"),
        ("text/plain", "", b"<!DOCTYPE html><p>x", "html"),
        ("application/pdf", "", b"<html>login please", "html"),
        ("application/pdf", "", b"nothing like it", "binary"),
        ("text/html", "", b"junk %PDF-1.4 x", "pdf"),
        ("application/json; charset=x", "", b"{}", "json"),
        ("application/vnd.api+json", "", b"{}", "json"),
        ("text/csv", "", b"a,b", "csv"),
        ("text/plain", ".csv", b"a,b", "csv"),
        ("", ".md", b"# x", "markdown"),
        ("", "", b"words", "text"),
        ("application/zip", "", b"PK\x03\x04", "binary"),
        ("text/html", "", b"PK\x03\x04", "binary"),
        ("image/jpeg", "", b"odd", "binary"),
        ("video/mp4", "", b"\0\0\0\x18ftypmp42", "binary"),
        ("text/plain", "", bytes(range(256)) * 8, "binary"),
        ("text/plain", "", "wide words".encode("utf-16-le"), "text"),
        ("application/octet-stream", ".txt", b"words", "text"),
        ("", "", b"", "text"),
        ("text/html", "", b"<html>\0\0\0<p>nul", "html"),
    ],
)
def test_sniffing(content_type: str, suffix: str, body: bytes, kind: str) -> None:
    assert sniff(content_type, body, suffix) == kind


CHINESE = "编码不同的文字也要读得出来，这是一个比较长的句子。" * 3


@pytest.mark.parametrize(
    ("body", "header", "text"),
    [
        (CHINESE.encode("gbk"), "text/html; charset=gb2312", CHINESE),
        (CHINESE.encode("gbk"), "text/html; charset=utf-8", CHINESE),
        (b'<meta charset="gbk">' + CHINESE.encode("gbk"), "text/html", '<meta charset="gbk">' + CHINESE),
        (b'<meta charset="gbk">' + CHINESE.encode(), "text/html; charset=utf-8", '<meta charset="gbk">' + CHINESE),
        (b"\xef\xbb\xbf" + CHINESE.encode(), "text/html; charset=latin-1", CHINESE),
        (CHINESE.encode("utf-16"), "text/html; charset=utf-8", CHINESE),
        (CHINESE.encode(), "text/html; charset=no-such-charset", CHINESE),
        (CHINESE.encode("big5", "ignore"), "text/html; charset=big5", CHINESE.encode("big5", "ignore").decode("big5")),
        ("café “quoted”".encode("cp1252"), "text/html; charset=iso-8859-1", "café “quoted”"),
        (CHINESE.encode()[:-1], "", CHINESE[:-1]),
        (b"", "text/html; charset=hex", ""),
    ],
)
def test_charsets(body: bytes, header: str, text: str) -> None:
    assert decode(body, header, markup=True)[0] == text


@given(
    st.binary(max_size=400),
    st.sampled_from(["", "text/html; charset=utf-16", "charset=idna", "charset=rot13", "charset=;"]),
)
def test_decoding_never_raises(body: bytes, header: str) -> None:
    assert isinstance(decode(body, header, markup=True)[0], str)


HEAD = b"<html><head><title>T</title></head><body>"
HOSTILE = {
    "5 MB of nested inline tags": (HEAD + b"<b>word " * 620_000, "word"),
    "200,000 nested blocks": (HEAD + b"<div>" * 200_000 + b"bottom", "bottom"),
    "100,000 attributes": (
        HEAD + b"<p " + b" ".join(b'a%d="1"' % n for n in range(100_000)) + b">the text</p>",
        "the text",
    ),
    "NUL bytes": (HEAD + b"<p>hel\0lo wor\0ld</p>\0", "hello world"),
    "never closed": (b"<html><body><table><tr><td>one<td>two<p>three</table>four <a href=>five</a", "three"),
    "huge colspan": (HEAD + b"<table><tr><td colspan=9007199254740991>cell</td><td>y</td></tr></table>", "cell"),
    "open script": (HEAD + b"before " + b"<script>" * 100_000, "before"),
    "entities": (HEAD + b"<p>" + b"&lt;&#1114112;&bogus;" * 20_000 + b"end</p>", "end"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_markup_ends_with_its_text(reader: FileReader, name: str) -> None:
    body, expected = HOSTILE[name]
    started = time.monotonic()
    assert expected in read(reader, body).text
    assert time.monotonic() - started < 15 * slack()


def test_a_document_that_takes_too_long_is_given_up_and_shown_crudely() -> None:
    worker = ExtractionWorker(limit_s=1.5)
    reader = FileReader(worker)
    read(reader, "<p>warm</p>")
    slow = HEAD + b"<p>" + b"<i>word</i> " * 29_000 + b"</p>"
    found = read(reader, slow)
    assert "word word" in found.text
    assert any("longer than 1.5 s" in note or "memory" in note for note in found.notes)
    assert read(reader, ARTICLE).title == "The river town"
    reader.close()
    assert worker.pid is None


def test_closing_does_not_wait_for_a_document() -> None:
    worker = ExtractionWorker(limit_s=60)
    worker.extract("html", b"<p>warm</p>")
    failures: list[Unreadable] = []

    def read_slowly() -> None:
        try:
            worker.extract("html", HEAD + b"<p>" + b"<i>word</i> " * 29_000 + b"</p>")
        except Unreadable as error:
            failures.append(error)

    thread = threading.Thread(target=read_slowly)
    thread.start()
    while not worker.busy:
        pass
    started = time.monotonic()
    worker.close()
    thread.join()
    assert time.monotonic() - started < 2 * slack()
    assert len(failures) == 1
    assert worker.pid is None


def test_a_child_that_dies_is_replaced(worker: ExtractionWorker) -> None:
    worker.extract("html", b"<p>words enough to stand</p>")
    first = worker.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    assert "stand" in worker.extract("html", b"<p>words enough to stand</p>").text
    assert worker.pid not in (None, first)


def test_the_child_gets_no_secret_and_no_foreign_module(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "canary-1234")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    worker = ExtractionWorker()
    worker.extract("html", b"<p>words</p>")
    pid = worker.pid
    if os.path.exists(f"/proc/{pid}/environ"):  # noqa: PTH110
        with open(f"/proc/{pid}/environ", "rb") as environment:  # noqa: PTH123
            assert b"canary-1234" not in environment.read()
    worker.close()
