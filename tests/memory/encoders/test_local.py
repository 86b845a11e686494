"""What every encoder promises, on the ones that run anywhere; and how well the default finds things."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.encoders import embedded
from memory.encoders.embedded import WordVectors, embedded_encoder
from memory.encoders.fusion import LexicalFusion
from memory.encoders.hashing import HashingEncoder
from memory.encoders.windows import WindowedEncoder
from memory.errors import EncoderFault
from memory.ports import Encoder
from memory.tokens import ScriptCounter
from tests.memory.encoders.corpus import floor, load, recall_at_1


@lru_cache(maxsize=1)
def vectors() -> WordVectors:
    return WordVectors()


ENCODERS: dict[str, Callable[[], Encoder]] = {
    "hashing": HashingEncoder,
    "words": vectors,
    "default": lambda: LexicalFusion(vectors()),
    "windowed": lambda: WindowedEncoder(HashingEncoder(64), ScriptCounter().count),
}
JUNK = st.text(st.characters(codec="utf-8"), max_size=60)
FILES = (embedded._VECTORS, embedded._TOKENIZER)
PIECES = st.lists(
    JUNK | st.sampled_from(["", " \n", "🙂🙃", "\x00", "中文", "word", "１２３", "\u0301", "a" * 300]), max_size=6
)


@pytest.fixture(params=ENCODERS)
def encoder(request: pytest.FixtureRequest) -> Encoder:
    return ENCODERS[request.param]()


@settings(max_examples=60, deadline=None)
@given(texts=PIECES)
@pytest.mark.parametrize("name", ENCODERS)
def test_rows_are_unit_or_zero_and_the_same_alone_as_in_a_batch(name: str, texts: list[str]) -> None:
    encoder = ENCODERS[name]()
    rows = encoder.encode_documents(texts)
    assert rows.shape == (len(texts), encoder.dim)
    assert rows.dtype == np.float32
    assert np.isfinite(rows).all()
    for text, row in zip(texts, rows, strict=True):
        norm = np.linalg.norm(row)
        assert abs(norm - 1) < 1e-5 or (norm == 0 and not any(map(str.isalpha, text)))
        np.testing.assert_allclose(encoder.encode_documents([text])[0], row, atol=1e-6)
        assert norm == 0 or text.strip()


def test_no_texts_and_empty_texts(encoder: Encoder) -> None:
    assert encoder.encode_documents([]).shape == (0, encoder.dim)
    assert not encoder.encode_documents(["", " \n\t"]).any()
    query = encoder.encode_query("")
    assert query.shape == (encoder.dim,)
    assert not query.any()


def test_another_process_gives_the_same_bytes() -> None:
    code = (
        "import sys; from memory.encoders.embedded import embedded_encoder\n"
        "sys.stdout.write(embedded_encoder().encode_query('Hash seeds must not matter, 数字 42').tobytes().hex())"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    here = LexicalFusion(vectors()).encode_query("Hash seeds must not matter, 数字 42")
    np.testing.assert_allclose(np.frombuffer(bytes.fromhex(ran.stdout), dtype=np.float32), here, atol=1e-6)


def test_the_default_leaves_the_process_as_it_was() -> None:
    code = (
        "import logging, sys; from memory.encoders.embedded import embedded_encoder\n"
        "embedded_encoder().encode_documents(['one', 'two'])\n"
        "assert not logging.getLogger().handlers, 'the root logger was configured'\n"
        "assert not {'wordllama', 'requests', 'torch'} & set(sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def test_the_vectors_are_those_that_the_id_names() -> None:
    """When a release of wordllama ships others, `embedded.VERSION` must rise: keys of both must never be compared."""
    folder = embedded._package_folder()
    hashes = [hashlib.sha256((folder / name).read_bytes()).hexdigest()[:16] for name in FILES]
    assert hashes == ["64b47a2dc493cb8e", "93248f2a9ec36c7b"]


def test_missing_and_broken_vectors_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(embedded, "_VECTORS", "weights/none.safetensors")
        with pytest.raises(EncoderFault, match="cannot be read") as broken:
            WordVectors()
    assert "pip install" in broken.value.hint
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(EncoderFault, match="not installed"):
        WordVectors()


@pytest.mark.parametrize("weight", [0.2, 0.4, 0.9])
def test_fused_cosine_is_the_mixture(weight: float) -> None:
    fused = LexicalFusion(vectors(), weight)
    a, b = "The ferry to the island sails twice a day.", "How often does the boat sail to the islands?"
    expected = (1 - weight) * float(vectors().encode_query(a) @ vectors().encode_query(b))
    expected += weight * float(fused.lexical.encode_query(a) @ fused.lexical.encode_query(b))
    assert float(fused.encode_query(a) @ fused.encode_documents([b])[0]) == pytest.approx(expected, abs=1e-6)
    assert 0 < expected < 1


def test_ids_name_every_option() -> None:
    ids = {
        LexicalFusion(HashingEncoder(), 0.4).id,
        LexicalFusion(HashingEncoder(), 0.5).id,
        LexicalFusion(HashingEncoder(), 0.4, dim=512).id,
        LexicalFusion(HashingEncoder(128), 0.4).id,
        LexicalFusion(vectors(), 0.4).id,
        HashingEncoder().id,
    }
    assert len(ids) == 6
    assert embedded_encoder().id == LexicalFusion(vectors(), 0.4).id


@pytest.mark.parametrize("weight", [0.0, 1.0, -1.0])
def test_a_weight_without_a_mixture_is_refused(weight: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        LexicalFusion(HashingEncoder(), weight)


def test_lexical_vectors_know_inflections_and_discount_common_words() -> None:
    encoder = HashingEncoder(4096)

    def cosine(a: str, b: str) -> float:
        return float(encoder.encode_query(a) @ encoder.encode_query(b))

    assert cosine("installing packages", "package installation") > 0.25
    assert cosine("what is the zeppelin", "zeppelin") > 0.7 > 0.5 > cosine("what is the zeppelin", "what is the time")
    assert cosine("error E4012", "E4012") > cosine("error E4012", "error E4013")


def test_floors_of_the_default() -> None:
    default = LexicalFusion(vectors())
    english, cjk = load("english"), load("cjk")
    assert recall_at_1(default, english) >= floor("default_english_r1")
    assert recall_at_1(default, cjk, english.documents) >= floor("default_cjk_r1")


def test_floor_of_cjk_by_lexical_fusion_alone() -> None:
    fused = LexicalFusion(HashingEncoder())
    assert recall_at_1(fused, load("cjk"), load("english").documents) >= floor("hashing_fusion_cjk_r1")
