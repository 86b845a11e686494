from __future__ import annotations

import sys
from typing import Any

import pytest
from pydantic import ValidationError

from memory.encoders.embedded import WordVectors
from memory.encoders.factory import EncoderConfig, make_encoder
from memory.encoders.fusion import LexicalFusion
from memory.encoders.hashing import HashingEncoder
from memory.encoders.prefixes import prefixes_for
from memory.encoders.windows import WindowedEncoder
from memory.errors import EncoderFault


def test_nothing_configured_gives_the_packaged_encoder() -> None:
    encoder = make_encoder(EncoderConfig())
    assert isinstance(encoder, LexicalFusion)
    assert isinstance(encoder.inner, WordVectors)
    assert encoder.weight == 0.4


def test_weights_and_dimensions() -> None:
    assert isinstance(make_encoder(EncoderConfig(lexical_weight=0.0)), WordVectors)
    assert make_encoder(EncoderConfig(kind="hashing", dim=64)).id == HashingEncoder(64).id
    fused = make_encoder(EncoderConfig(kind="hashing", lexical_weight=0.3))
    assert isinstance(fused, LexicalFusion)
    assert fused.weight == 0.3


def test_http_models_with_short_windows_are_read_window_by_window() -> None:
    long = EncoderConfig(kind="http", base_url="http://127.0.0.1:9/v1", model="m", dim=8)
    assert make_encoder(long).max_tokens == 8192
    short = make_encoder(long.model_copy(update={"max_tokens": 512}))
    assert isinstance(short, WindowedEncoder)
    assert short.max_tokens == 512


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"kind": "bge"}, "'embedded', 'hashing', 'sentence-transformers' or 'http'"),
        ({"kind": "http", "model": "m"}, "needs base_url and model"),
        ({"kind": "embedded", "model": "BAAI/bge-m3"}, "kind embedded has no setting model"),
        ({"kind": "hashing", "device": "cpu"}, "no setting device"),
        ({"colour": "red"}, "colour"),
        ({"lexical_weight": 1.0}, "less than 1"),
        ({"dim": 0, "kind": "hashing"}, "greater than or equal to 1"),
    ],
)
def test_bad_settings_are_named(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        EncoderConfig(**given)


def test_a_missing_package_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(EncoderFault) as fault:
        make_encoder(EncoderConfig(kind="sentence-transformers"))
    assert "BAAI/bge-m3" in str(fault.value)
    assert "pip install 'longstride[bge]'" in fault.value.hint


@pytest.mark.parametrize(
    ("model", "query", "document"),
    [
        ("BAAI/bge-m3", "", ""),
        ("sentence-transformers/all-MiniLM-L6-v2", "", ""),
        ("text-embedding-3-small", "", ""),
        ("nomic-ai/nomic-embed-text-v1.5", "search_query: ", "search_document: "),
        ("nomic-embed-text:latest", "search_query: ", "search_document: "),
        ("intfloat/multilingual-e5-small", "query: ", "passage: "),
        ("intfloat/e5-base-v2", "query: ", "passage: "),
        ("intfloat/multilingual-e5-large-instruct", "", ""),
        ("BAAI/bge-small-en-v1.5", "Represent this sentence for searching relevant passages: ", ""),
    ],
)
def test_prefixes_that_models_were_trained_with(model: str, query: str, document: str) -> None:
    assert prefixes_for(model) == (query, document)
