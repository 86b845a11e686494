"""Real pages and messy files through the extraction of visit. Floors are pinned in extraction_floors.json; lowering one
is a decision, not a repair."""

from __future__ import annotations

import gzip
import json
import tarfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.extraction import Snippets, plain, shingle_score, snippet_score
from tests.support.load import slack
from tools.visit.extracted import Extracted, Unreadable
from tools.visit.files import FileReader
from tools.visit.worker import ExtractionWorker

FLOORS = json.loads(Path(__file__).with_name("extraction_floors.json").read_text())
SAMPLE = 25
"""Every so many pages are read by the default tests, all of them by the nightly ones."""


NOTHING = Snippets((), ())


@dataclass(frozen=True)
class Page:
    body: bytes
    url: str
    article: str = ""
    snippets: Snippets = NOTHING


def articles(data: Path, step: int) -> Iterator[Page]:
    folder = data / "extract" / "article-extraction-benchmark"
    truth = json.loads((folder / "ground-truth.json").read_text())
    for name in sorted(truth)[::step]:
        body = gzip.decompress((folder / "html" / f"{name}.html.gz").read_bytes())
        yield Page(body, truth[name]["url"], truth[name]["articleBody"])


def snippet_pages(data: Path, step: int) -> Iterator[Page]:
    with tarfile.open(data / "extract" / "trafilatura-half.tar.xz") as packed:
        members = {Path(member.name).name: member for member in packed.getmembers()}
        listed = packed.extractfile(members["evaldata.json"])
        assert listed is not None
        truth = json.load(listed)
        for url in sorted(truth)[::step]:
            file = packed.extractfile(members[truth[url]["file"]])
            assert file is not None
            yield Page(file.read(), url, "", Snippets(truth[url]["with"], truth[url]["without"]))


def read_all(pages: list[Page], children: int = 2) -> list[Extracted]:
    readers = [FileReader(ExtractionWorker(60.0)) for _ in range(children)]

    def read(number: int) -> Extracted:
        page = pages[number]
        return readers[number % children].read(page.body, ".html", page.url, "text/html")

    try:
        with ThreadPoolExecutor(children) as pool:
            return list(pool.map(read, range(len(pages))))
    finally:
        for reader in readers:
            reader.close()


def check(data: Path, step: int, floors: dict[str, float]) -> None:
    """Read both sets once, and hold them to the floors."""
    pages = [*articles(data, step), *snippet_pages(data, step)]
    found = list(zip(pages, read_all(pages), strict=True))
    shingles = shingle_score((page.article, got.text) for page, got in found if page.article)
    main = snippet_score((page.snippets, got.text) for page, got in found if not page.article)
    whole = snippet_score((page.snippets, got.whole or got.text) for page, got in found if not page.article)
    measured = {
        "article 4-gram F1": shingles.f1,
        "snippet F1": main.f1,
        "whole-page snippet recall": whole.recall,
    }
    below = {name: round(measured[name], 4) for name, floor in floors.items() if measured[name] < floor}
    assert not below, f"below the floor: {below}"


def test_a_sample_of_real_pages(data_dir: Path) -> None:
    check(data_dir, SAMPLE, FLOORS["samples"])


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_all_real_pages(data_dir: Path) -> None:
    check(data_dir, 1, FLOORS["whole sets"])


def messy(data: Path) -> list[Path]:
    return sorted(path for path in (data / "messy").rglob("*") if path.is_file())


def test_every_messy_file_gives_text_or_says_why_not(data_dir: Path) -> None:
    """None hangs, none kills this process, none is reported as a fault of ours."""
    reader = FileReader(ExtractionWorker(20.0))
    read = 0
    for path in messy(data_dir):
        started = time.monotonic()
        try:
            found = reader.read(path.read_bytes(), path.suffix)
            assert found.text.strip(), path.name
            found.text.encode()
            read += 1
        except Unreadable as error:
            assert error.kind in ("parse", "unsupported", "too_large"), path.name
            assert 10 < len(str(error)) < 300, path.name
            assert "extraction failed" not in str(error), path.name
        assert time.monotonic() - started < 25 * slack(), path.name
    reader.close()
    assert read >= FLOORS["messy files with text"]


def test_texts_in_odd_encodings_say_the_same(data_dir: Path) -> None:
    """The samples come in pairs: one text in two encodings."""
    folder = data_dir / "messy" / "charset-normalizer" / "data"
    reader = FileReader()
    for a, b in (("russian", "russian-2"), ("hebrew-2", "hebrew-3"), ("arabic", "arabic-1")):
        texts = [reader.read((folder / f"sample-{name}.txt").read_bytes(), ".txt").text for name in (a, b)]
        assert texts[0].split() == texts[1].split()
    reader.close()


def test_the_scores_count_what_they_should() -> None:
    assert shingle_score([("a b c d e", "a b c d e")]).f1 == 1.0
    assert shingle_score([("a b c d e", "x y z w")]).f1 == 0.0
    half = shingle_score([("a b c d e f", "a b c d")])
    assert (half.precision, half.recall) == (1.0, 1 / 3)
    score = snippet_score([(Snippets(["one two", "three"], ["bad"]), "**one**\n two [bad](http://x)")])
    assert (score.precision, score.recall) == (0.5, 0.5)
    assert plain("# Head\n- *a* [b](http://x(y)) `c` | d") == "Head a b c d"
