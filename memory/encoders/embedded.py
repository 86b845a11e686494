"""The default encoder: static word vectors that ship in wordllama's wheel, fused with lexical features.

No download, no GPU, a millisecond or two a chunk.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from memory.encoders.fusion import LexicalFusion
from memory.encoders.vectors import unit_rows
from memory.errors import EncoderFault

VERSION = 1
_VECTORS = "weights/l2_supercat_256.safetensors"
_TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"


class WordVectors:
    """wordllama's static token vectors (32,000 x 256), pooled as the sum of (1 + ln count) * vector per distinct token.

    The damped count is worth .02-.06 of R@1 over wordllama's mean on question-to-section retrieval. Weights by token
    rank, removing common components, and heavier first sentences were tried and gave nothing.

    Reads the whole of a document; ``max_tokens`` bounds state texts only, as in `HashingEncoder`.
    """

    dim = 256
    max_tokens = 512
    id = f"wordllama-l2-supercat-256-v{VERSION}"

    def __init__(self) -> None:
        """Loads 16 MB (about 50 ms). Raises EncoderFault."""
        from safetensors import SafetensorError
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer

        folder = _package_folder()
        try:
            vectors = load_file(folder / _VECTORS)["embedding.weight"]
            # The files are read directly: importing wordllama would configure the root logger of the whole process.
            self._tokenizer = Tokenizer.from_file(str(folder / _TOKENIZER))
        except (OSError, KeyError, SafetensorError) as error:
            raise EncoderFault(f"wordllama's vectors cannot be read: {error}", hint=_REINSTALL) from error
        self._vectors: NDArray[np.float32] = np.ascontiguousarray(vectors, dtype=np.float32)
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()

    def encode_query(self, text: str) -> NDArray[np.float32]:
        """(256,) float32."""
        row: NDArray[np.float32] = self.encode_documents([text])[0]
        return row

    def encode_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(len(texts), 256) float32."""
        rows = np.zeros((len(texts), self.dim), dtype=np.float32)
        for position, text in enumerate(texts):
            if text.strip():
                rows[position] = self._pooled(text)
        return unit_rows(rows)

    def _pooled(self, text: str) -> NDArray[np.float32]:
        # one text at a time: encode_batch starts a thread pool that does not survive a fork
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        tokens, counts = np.unique(np.asarray(encoding.ids, dtype=np.int64), return_counts=True)
        pooled: NDArray[np.float32] = (1.0 + np.log(counts)).astype(np.float32) @ self._vectors[tokens]
        return pooled


def embedded_encoder(lexical_weight: float = 0.4) -> LexicalFusion:
    """The default of a machine with nothing configured."""
    return LexicalFusion(WordVectors(), lexical_weight)


_REINSTALL = "pip install --force-reinstall wordllama"


def _package_folder() -> Path:
    spec = importlib.util.find_spec("wordllama")
    if spec is None or spec.origin is None:
        raise EncoderFault("wordllama is not installed", hint="pip install wordllama")
    return Path(spec.origin).parent
