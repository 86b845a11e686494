"""The file of results: it goes on where it was, and takes nothing foreign."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from runners.errors import UsageFault
from runners.memory_eval.job import Line
from runners.memory_eval.measures import Found
from runners.memory_eval.results import Header, Results

HEADER = Header("d", "{}", "embedded-1", "", 0)
LINE = Line(
    "d1",
    "q1",
    "type",
    True,
    "top-k",
    "ab",
    "45%",
    2,
    400,
    390,
    Found(1.0, 0.0, 0.5, 0.7),
    0.1,
    "enc",
    "Biscuit",
    1.0,
    0.5,
)
OTHER = replace(LINE, question="q2", found=Found(), answer=None, match=None, failed="down", grade="ungraded")


def test_what_is_added_is_there_again(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    with Results(path, HEADER) as results:
        assert results.known == {}
        results.add([LINE, OTHER])
        results.add([replace(LINE, answer="Crumb")])
    with Results(path, HEADER) as results:
        # of several with one key the last counts
        assert results.known == {LINE.key: replace(LINE, answer="Crumb"), OTHER.key: OTHER}


def test_half_a_line_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    with Results(path, HEADER) as results:
        results.add([LINE])
        results.add([OTHER])
    whole = path.read_bytes()
    path.write_bytes(whole[:-9])
    with Results(path, HEADER) as results:
        assert results.known == {LINE.key: LINE}
        results.add([OTHER])
    assert path.read_bytes() == whole


@pytest.mark.parametrize("kept", [0, 1, 20])
def test_a_file_killed_at_its_beginning_begins_anew(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "r.jsonl"
    Results(path, HEADER).close()
    path.write_bytes(path.read_bytes()[:kept])
    with Results(path, HEADER) as results:
        assert results.known == {}
        results.add([LINE])


@pytest.mark.parametrize(
    ("header", "said"),
    [
        (replace(HEADER, data="e"), "of another data"),
        (replace(HEADER, encoder="x"), "of another encoder"),
        (replace(HEADER, reader="y", seed=1), "of another reader and another seed"),
    ],
)
def test_what_does_not_belong_together_is_refused(tmp_path: Path, header: Header, said: str) -> None:
    path = tmp_path / "r.jsonl"
    Results(path, HEADER).close()
    with pytest.raises(UsageFault, match=re.escape(said)) as fault:
        Results(path, header)
    assert "--rows" in fault.value.hint
    # and nothing holds it
    Results(path, HEADER).close()


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    with Results(path, HEADER), pytest.raises(UsageFault, match="another process is writing it") as fault:
        Results(path, HEADER)
    assert "--rows" in fault.value.hint


@pytest.mark.parametrize(
    ("text", "said"), [('{"a": 1}\n', "no results of memory-eval"), ("notes\n", "r.jsonl:1: not JSON")]
)
def test_a_foreign_file_is_left_alone(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(text)
    with pytest.raises(UsageFault, match=re.escape(said)):
        Results(path, HEADER)
    assert path.read_text() == text


def test_an_edited_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    with Results(path, HEADER) as results:
        results.add([LINE])
    path.write_text(path.read_text().replace('"redundancy": 2', '"redundancy": "two"'))
    with pytest.raises(UsageFault, match=re.escape("r.jsonl:2: not results")):
        Results(path, HEADER)


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageFault, match="cannot be written"):
        Results(tmp_path / "file" / "r.jsonl", HEADER)
