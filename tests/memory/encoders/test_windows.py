from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from memory.encoders.hashing import HashingEncoder
from memory.encoders.windows import SHORT_WINDOW, WindowedEncoder, split_windows, state_text, truncate
from memory.tokens import ScriptCounter

SCRIPT = ScriptCounter().count


def words(text: str) -> int:
    return len(text.split())


TEXT = st.text(st.sampled_from("abc 中文\n.🙂"), max_size=400)


class HeadOnly:
    """Reads the first ``max_tokens`` words, as a transformer with a short window does. Remembers what it was given."""

    id = "head"
    dim = 512

    def __init__(self, max_tokens: int) -> None:
        self.max_tokens = max_tokens
        self.given: list[str] = []
        self._inner = HashingEncoder(self.dim)

    def encode_query(self, text: str) -> NDArray[np.float32]:
        row: NDArray[np.float32] = self.encode_documents([text])[0]
        return row

    def encode_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.given += texts
        return self._inner.encode_documents([" ".join(text.split()[: self.max_tokens]) for text in texts])


@given(text=TEXT, limit=st.integers(0, 80), count=st.sampled_from([SCRIPT, words]))
def test_truncate_gives_a_prefix_that_fits(text: str, limit: int, count: object) -> None:
    assert callable(count)
    cut = truncate(text, limit, count)
    assert text.startswith(cut)
    assert count(cut) <= limit
    if count(text) <= limit and limit:
        assert cut == text


@pytest.mark.parametrize(
    "text", ["word " * 5000, "中" * 5000, "internationalisation " * 2000, "a" * 40_000, "1\n" * 9000]
)
def test_truncate_wastes_little(text: str) -> None:
    assert 0.8 * 256 <= SCRIPT(truncate(text, 256, SCRIPT)) <= 256


@given(text=TEXT, limit=st.integers(4, 60))
def test_windows_cover_the_text_and_fit(text: str, limit: int) -> None:
    windows = split_windows(text, limit, SCRIPT)
    assert all(SCRIPT(window) <= limit for window in windows)
    assert "".join("".join(windows).split()) == "".join(text.split())


@given(
    question=TEXT,
    recent=st.lists(TEXT, max_size=4),
    limit=st.integers(1, 120),
    count=st.sampled_from([SCRIPT, words]),
)
def test_a_state_fits_and_gives_the_question_first(question: str, recent: list[str], limit: int, count: object) -> None:
    assert callable(count)
    state = state_text(question, recent, limit, count)
    assert count(state) <= limit
    if count(question) <= limit:
        assert state.startswith(question)


def test_recent_steps_get_equal_shares_and_what_others_leave() -> None:
    steps = ["old " * 300, "short step", "new " * 300]
    state = state_text("who built the tower", steps, 64, words)
    assert state.startswith("who built the tower\nold ")
    assert "short step" in state
    assert abs(state.count("old") - state.count("new")) <= 4
    assert 50 <= words(state) <= 64


def test_a_state_that_fits_is_whole() -> None:
    assert state_text("q", ["one", "", "two"], 64, words) == "q\none\ntwo"
    assert state_text("", [], 64, words) == ""


def test_a_long_window_takes_the_head_as_the_paper_does() -> None:
    limit = SHORT_WINDOW + 1
    state = state_text("q", ["old " * 3000, "new " * 3000], limit, words)
    assert "new" not in state
    assert 0.8 * limit <= words(state) <= limit
    assert "new" in state_text("q", ["old " * 3000, "new " * 3000], SHORT_WINDOW, words)


def test_a_key_sees_the_whole_text() -> None:
    inner = HeadOnly(50)
    text = "filler text about nothing much " * 18 + "the zeppelin landed in Lakehurst"
    query = inner.encode_query("zeppelin Lakehurst")
    windowed = WindowedEncoder(inner, words)
    by_head, by_windows = (float(one.encode_documents([text])[0] @ query) for one in (inner, windowed))
    assert by_head < 0.05
    assert by_windows > 0.12
    assert windowed.encode_query("zeppelin Lakehurst").tolist() == query.tolist()


def test_the_key_is_the_renormalised_mean_of_the_windows() -> None:
    inner = HeadOnly(6)
    text = "red green blue one two three four five six seven"
    parts = split_windows(text, 6, words)
    assert len(parts) == 2
    mean = inner.encode_documents(parts).mean(axis=0)
    key = WindowedEncoder(inner, words).encode_documents(["", text, "one window"])
    assert not key[0].any()
    np.testing.assert_allclose(key[1], mean / np.linalg.norm(mean), atol=1e-6)
    np.testing.assert_allclose(key[2], inner.encode_query("one window"), atol=1e-6)


def test_a_huge_text_is_sampled_over_its_whole_length() -> None:
    inner = HeadOnly(10)
    text = "begin " + " ".join(f"w{number}" for number in range(2000)) + " finish"
    WindowedEncoder(inner, words, max_windows=5).encode_documents([text])
    assert len(inner.given) == 5
    assert inner.given[0].startswith("begin")
    assert inner.given[-1].endswith("finish")


def test_the_id_names_the_windows() -> None:
    inner = HeadOnly(10)
    assert len({inner.id, WindowedEncoder(inner, words).id, WindowedEncoder(inner, words, max_windows=4).id}) == 3
    with pytest.raises(ValueError, match="max_windows"):
        WindowedEncoder(inner, words, max_windows=0)
