from __future__ import annotations

import logging
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from memory.encoders import cache as module
from memory.encoders.cache import CachedEncoder, KeyCache
from memory.ports import Encoder

DIM = 8


class Counting:
    """An encoder whose vectors follow from the text, and that remembers what it was asked."""

    id = "counting"
    dim = DIM
    max_tokens = 100

    def __init__(self) -> None:
        self.asked: list[str] = []

    def encode_query(self, text):
        return self.encode_documents([text])[0]

    def encode_documents(self, texts):
        self.asked.extend(texts)
        return vectors(texts)


def vectors(texts, dim=DIM):
    return np.array([np.full(dim, len(text) + ord(text[0])) if text else np.zeros(dim) for text in texts], np.float32)


@pytest.fixture
def cache(tmp_path):
    cache = KeyCache(tmp_path / "deep" / "keys.db")
    yield cache
    cache.close()


def conforms(encoder: CachedEncoder) -> Encoder:
    """The type checker's proof that the port is met."""
    return encoder


def test_each_text_is_encoded_once(cache):
    inner = Counting()
    encoder = CachedEncoder(inner, cache)
    texts = ["one", "two", "one", "", "三"]
    first = encoder.encode_documents(texts)
    assert np.array_equal(first, vectors(texts))
    assert sorted(inner.asked) == sorted({"one", "two", "", "三"})
    again = CachedEncoder(Counting(), KeyCache(cache.path))
    assert np.array_equal(again.encode_documents([*texts[::-1], "new"]), vectors([*texts[::-1], "new"]))
    assert again.inner.asked == ["new"]
    again.cache.close()
    assert encoder.encode_documents([]).shape == (0, DIM)


def test_queries_go_past_the_cache(cache):
    encoder = CachedEncoder(Counting(), cache)
    encoder.encode_query("q")
    encoder.encode_query("q")
    assert encoder.inner.asked == ["q", "q"]


def test_encoders_and_dimensions_are_never_mixed(cache):
    cache.put_many("a", 2, ["t"], np.ones((1, 2), np.float32))
    assert cache.get_many("b", 2, ["t"]) == [None]
    assert cache.get_many("a", 3, ["t"]) == [None]
    (found,) = cache.get_many("a", 2, ["t"])
    assert found.tolist() == [1, 1]
    # Joined by hand these two would be one key.
    cache.put_many("a1", 2, ["x"], np.zeros((1, 2), np.float32))
    assert cache.get_many("a", 12, ["x"]) == [None]


def test_lone_surrogates_are_texts_too_and_nan_is_not_kept(cache):
    cache.put_many("a", 2, ["\ud800", "\0", "bad"], np.array([[1, 2], [3, 4], [np.nan, 1]], np.float32))
    one, two, bad = cache.get_many("a", 2, ["\ud800", "\0", "bad"])
    assert one.tolist() == [1, 2]
    assert two.tolist() == [3, 4]
    assert bad is None


def test_bounded_and_the_least_used_go_first(tmp_path, monkeypatch):
    now = 1_000_000.0
    monkeypatch.setattr(module.time, "time", lambda: now)
    cache = KeyCache(tmp_path / "keys.db", max_bytes=300_000)
    dim = 64
    matrix = np.ones((100, dim), np.float32)
    kept = [f"kept{i}" for i in range(100)]
    cache.put_many("a", dim, kept, matrix)
    for round_ in range(40):
        now += 4000
        cache.put_many("a", dim, [f"r{round_}.{i}" for i in range(100)], matrix)
        assert all(vector is not None for vector in cache.get_many("a", dim, kept))
        assert cache.path.stat().st_size <= 300_000
    assert cache.get_many("a", dim, ["r0.0"]) == [None]
    assert cache.get_many("a", dim, ["r39.99"])[0] is not None
    cache.close()
    assert sum(entry.stat().st_size for entry in tmp_path.iterdir()) <= 400_000


def test_one_batch_larger_than_the_cache(tmp_path):
    cache = KeyCache(tmp_path / "keys.db", max_bytes=64 * 1024)
    texts = [f"t{i}" for i in range(2000)]
    cache.put_many("a", 256, texts, np.ones((2000, 256), np.float32))
    assert cache.path.stat().st_size <= 64 * 1024
    assert cache.get_many("a", 256, texts[-1:])[0] is not None
    cache.close()


@pytest.mark.parametrize("content", [b"not a database" * 500, b"SQLite format 3\0" + b"\xff" * 8000])
def test_a_damaged_file_is_set_aside_and_begun_anew(tmp_path, content, caplog):
    path = tmp_path / "keys.db"
    path.write_bytes(content)
    encoder = CachedEncoder(Counting(), KeyCache(path))
    assert np.array_equal(encoder.encode_documents(["x"]), vectors(["x"]))
    assert np.array_equal(encoder.encode_documents(["x"]), vectors(["x"]))
    assert encoder.inner.asked == ["x"]
    assert (tmp_path / "keys.db.damaged").read_bytes() == content
    assert "begun anew" in caplog.text
    encoder.cache.close()


def test_damage_in_the_middle_of_use(tmp_path):
    path = tmp_path / "keys.db"
    cache = KeyCache(path)
    texts = [f"t{i}" for i in range(500)]
    cache.put_many("a", DIM, texts, vectors(texts))
    cache.close()
    whole = bytearray(path.read_bytes())
    whole[4096:] = b"\xaa" * (len(whole) - 4096)
    path.write_bytes(whole)
    encoder = CachedEncoder(Counting(), KeyCache(path))
    for _ in range(3):
        assert np.array_equal(encoder.encode_documents(texts), vectors(texts))
    assert len(encoder.inner.asked) <= 1000
    encoder.cache.close()


def test_a_file_of_another_kind(tmp_path):
    path = tmp_path / "keys.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE vectors (something)")
    connection.close()
    cache = KeyCache(path)
    cache.put_many("a", DIM, ["x"], vectors(["x"]))
    cache.put_many("a", DIM, ["x"], vectors(["x"]))
    assert cache.get_many("a", DIM, ["x"])[0] is not None
    cache.close()


def test_a_busy_or_impossible_file_is_passed_over(tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.WARNING)
    monkeypatch.setattr(module, "_BUSY_TIMEOUT_S", 0.01)
    cache = KeyCache(tmp_path / "keys.db")
    cache.put_many("a", DIM, ["x"], vectors(["x"]))
    other = sqlite3.connect(cache.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    cache.put_many("a", DIM, ["y"], vectors(["y"]))
    assert cache.get_many("a", DIM, ["x", "y"])[1] is None
    other.close()
    cache.put_many("a", DIM, ["y"], vectors(["y"]))
    assert cache.get_many("a", DIM, ["y"])[0] is not None
    cache.close()
    (tmp_path / "file").write_text("")
    impossible = KeyCache(tmp_path / "file" / "keys.db")
    caplog.clear()
    for _ in range(5):
        impossible.put_many("a", DIM, ["x"], vectors(["x"]))
        assert impossible.get_many("a", DIM, ["x"]) == [None]
    assert len(caplog.records) == 1


def test_closed_is_empty(cache):
    cache.put_many("a", DIM, ["x"], vectors(["x"]))
    cache.close()
    cache.put_many("a", DIM, ["y"], vectors(["y"]))
    assert cache.get_many("a", DIM, ["x"]) == [None]


def test_threads_and_processes_share_it(tmp_path):
    path = tmp_path / "keys.db"
    program = (
        "import sys, numpy as np\n"
        f"sys.path.insert(0, {str(Path(__file__).parents[3])!r})\n"
        "from memory.encoders.cache import KeyCache\n"
        f"cache = KeyCache({str(path)!r})\n"
        "for i in range(50):\n"
        "    cache.put_many('a', 4, [f'{sys.argv[1]}.{i}'], np.full((1, 4), i, np.float32))\n"
        "cache.close()\n"
    )
    children = [subprocess.Popen([sys.executable, "-c", program, str(n)]) for n in range(2)]
    cache = KeyCache(path)

    def work(name):
        for i in range(50):
            cache.put_many("a", 4, [f"{name}.{i}"], np.full((1, 4), i, np.float32))

    threads = [threading.Thread(target=work, args=(name,)) for name in ("x", "y")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [child.wait() for child in children] == [0, 0]
    for name in ("0", "1", "x", "y"):
        found = cache.get_many("a", 4, [f"{name}.{i}" for i in range(50)])
        assert [int(vector[0]) for vector in found] == list(range(50))
    cache.close()
