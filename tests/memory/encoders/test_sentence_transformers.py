"""The sentence-transformers path for real, with the MiniLM weights.

With LONGSTRIDE_REQUIRE_ST set, a missing package is a failure.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from memory.encoders.cache import CachedEncoder, KeyCache
from memory.encoders.factory import EncoderConfig, make_encoder
from memory.encoders.fusion import LexicalFusion
from memory.encoders.onednn import quicken
from memory.encoders.sentence_transformers import SentenceTransformerEncoder
from memory.encoders.windows import WindowedEncoder
from memory.errors import EncoderFault
from tests.memory.encoders.corpus import floor, load, recall_at_1
from tests.support.minilm import minilm_folder

if importlib.util.find_spec("sentence_transformers") is None and not os.environ.get("LONGSTRIDE_REQUIRE_ST"):
    pytest.skip("sentence-transformers is not installed: its encoder is NOT tested", allow_module_level=True)


@lru_cache(maxsize=1)
def minilm() -> SentenceTransformerEncoder:
    return SentenceTransformerEncoder(minilm_folder(), device="cpu")


def test_shape_of_the_model() -> None:
    encoder = minilm()
    assert encoder.dim == 384
    assert encoder.max_tokens == 254  # 256 less [CLS] and [SEP]
    assert encoder.count_tokens("hello world") == 2
    assert encoder.count_tokens("word " * 1000) == 1000


def test_vectors_are_the_packages_own_and_of_unit_length() -> None:
    from sentence_transformers import SentenceTransformer

    texts = ["The ferry sails twice a day.", "", "🙂", " \n", "中文", "word " * 2000]
    rows = minilm().encode_documents(texts)
    norms = np.linalg.norm(rows, axis=1)
    assert [round(float(norm), 5) for norm in norms] == [1, 0, 1, 0, 1, 1]
    assert rows.dtype == np.float32
    own = SentenceTransformer(str(minilm_folder()), device="cpu").encode(texts, show_progress_bar=False)
    np.testing.assert_allclose(rows[[0, 2, 4, 5]], own[[0, 2, 4, 5]], atol=1e-5)
    np.testing.assert_allclose(minilm().encode_query(texts[0]), own[0], atol=1e-5)
    assert minilm().encode_documents([]).shape == (0, 384)


def test_quick_layers_give_what_plain_ones_give() -> None:
    import torch

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(48, 96), torch.nn.GELU(), torch.nn.Linear(96, 7, bias=False))
    given = torch.randn(2, 5, 48)
    with torch.inference_mode():
        plain = model(given)
        names = list(model.state_dict())
        assert quicken(model) in (0, 2)  # 0: a build without oneDNN
        assert list(model.state_dict()) == names
        torch.testing.assert_close(model(given), plain, atol=1e-5, rtol=1e-5)
        assert model(given[:, :0]).shape == (2, 0, 7)
        assert model.double()(given.double()).dtype == torch.float64
    model.float()(given).sum().backward()
    assert all(weight.grad is not None for weight in model.parameters())


@pytest.mark.timeout(600)
def test_floors(tmp_path: Path) -> None:
    english, cjk = load("english"), load("cjk")
    cache = KeyCache(tmp_path / "keys.sqlite")
    cached = CachedEncoder(minilm(), cache)
    fused = LexicalFusion(cached)
    assert recall_at_1(cached, english) >= floor("minilm_english_r1")
    assert recall_at_1(fused, english) >= floor("minilm_fusion_english_r1")
    alone = recall_at_1(cached, cjk, english.documents)
    with_words = recall_at_1(fused, cjk, english.documents)
    assert with_words >= floor("minilm_fusion_cjk_r1")
    assert with_words > alone
    cache.close()


def test_settings_give_windowed_keys() -> None:
    config = EncoderConfig(kind="sentence-transformers", model=str(minilm_folder()), device="cpu", lexical_weight=0.4)
    encoder = make_encoder(config)
    assert isinstance(encoder, LexicalFusion)
    assert isinstance(encoder.inner, WindowedEncoder)
    filler = "The weather stayed much the same and nobody had anything to report. " * 40
    text = filler + "The steamer Amalia ran aground in a snowstorm in 1911."
    query = minilm().encode_query("Which ship was wrecked in bad weather?")
    whole = encoder.inner.encode_documents([text])[0] @ query
    head = minilm().encode_documents([text])[0] @ query
    assert whole > head + 0.05


def test_ids_follow_the_weights_not_the_place(tmp_path: Path) -> None:
    copy = tmp_path / minilm_folder().name
    shutil.copytree(minilm_folder(), copy)
    again = SentenceTransformerEncoder(copy, device="cpu")
    shorter = SentenceTransformerEncoder(copy, device="cpu", max_seq_length=128)
    prefixed = SentenceTransformerEncoder(copy, device="cpu", query_prefix="query: ")
    assert again.id == minilm().id
    assert len({again.id, shorter.id, prefixed.id}) == 3
    assert shorter.max_tokens == 126


def test_prefixes_are_put_before_the_text() -> None:
    prefixed = SentenceTransformerEncoder(
        minilm_folder(), device="cpu", query_prefix="query: ", document_prefix="passage: "
    )
    np.testing.assert_allclose(prefixed.encode_query("ferry"), minilm().encode_query("query: ferry"), atol=1e-5)
    np.testing.assert_allclose(
        prefixed.encode_documents(["ferry"]), minilm().encode_documents(["passage: ferry"]), atol=1e-5
    )
    assert prefixed.max_tokens == 252


def test_threads_may_share_it() -> None:
    texts = [f"text number {number} " * (number + 1) for number in range(16)]
    expected = [minilm().encode_query(text) for text in texts]
    with ThreadPoolExecutor(4) as pool:
        counts = pool.map(minilm().count_tokens, texts)
        found = list(pool.map(minilm().encode_query, texts))
        assert list(counts) == [minilm().count_tokens(text) for text in texts]
    np.testing.assert_allclose(np.stack(found), np.stack(expected), atol=1e-5)


@pytest.mark.parametrize("model", ["no-such-folder/model", "/no/such/folder"])
def test_a_model_that_is_not_there(model: str) -> None:
    with pytest.raises(EncoderFault, match="cannot be loaded") as fault:
        SentenceTransformerEncoder(model, local_files_only=True)
    assert "local_files_only" in fault.value.hint
    assert model in str(fault.value)


def test_a_device_that_is_not_there() -> None:
    with pytest.raises(EncoderFault, match="cannot be loaded") as fault:
        SentenceTransformerEncoder(minilm_folder(), device="warp")
    assert "device" in fault.value.hint


def test_a_damaged_model(tmp_path: Path) -> None:
    copy = tmp_path / "broken"
    shutil.copytree(minilm_folder(), copy)
    (copy / "model.safetensors").write_bytes(b"not weights")
    with pytest.raises(EncoderFault, match="cannot be loaded"):
        SentenceTransformerEncoder(copy, device="cpu")


def test_loading_draws_nothing_into_the_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    SentenceTransformerEncoder(minilm_folder(), device="cpu")
    assert capfd.readouterr() == ("", "")
