"""Encoders run by the sentence-transformers package: BGE-M3 (the paper profile's), MiniLM, E5, nomic and the rest."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from memory.encoders.onednn import quicken
from memory.encoders.prefixes import prefixes_for
from memory.encoders.vectors import checked_rows
from memory.errors import EncoderFault

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

DEFAULT_MODEL = "BAAI/bge-m3"
"""8,192 tokens, 1,024 dimensions, 2.3 GB (PACE, section 4.1)."""
INSTALL = "pip install 'longstride[bge]'"


class SentenceTransformerEncoder:
    """A model of the hub, or of a local folder. Loaded when made, which may download it; one call at a time.

    ``max_tokens`` is what the window leaves for text: without special tokens and prefixes; longer texts are cut by the
    model (see `memory.encoders.windows.WindowedEncoder` for short windows). The ``id`` carries a fingerprint of the
    weights, so that a copy elsewhere has the same keys and a retrained model of the same name has not.
    """

    def __init__(
        self,
        model: str | Path = DEFAULT_MODEL,
        *,
        device: str | None = None,
        batch_size: int = 16,
        max_seq_length: int | None = None,
        query_prefix: str | None = None,
        document_prefix: str | None = None,
        local_files_only: bool = False,
    ) -> None:
        """``max_seq_length``: tokens, None for the model's own. A prefix of None is the one the model was trained with.

        Raises EncoderFault when the package is missing or the model cannot be loaded.
        """
        self.model = str(model)
        self._batch_size = batch_size
        self._lock = threading.Lock()
        self._inner = _load(self.model, device, local_files_only)
        if max_seq_length is not None:
            self._inner.max_seq_length = max_seq_length
        known = ("", "") if any(self._inner.prompts.values()) else prefixes_for(self.model)
        self._query_prompt = (known[0] or None) if query_prefix is None else query_prefix
        self._document_prompt = (known[1] or None) if document_prefix is None else document_prefix
        window = self._inner.max_seq_length or 512
        specials = len(self._token_ids("", special=True))
        prefix = max(len(self._token_ids(text or "")) for text in (self._query_prompt, self._document_prompt))
        self.max_tokens = max(1, window - specials - prefix)
        if self._inner.device.type == "cpu":
            quicken(self._inner)
        self.dim = self._encode(["dimensions"], query=False).shape[1]
        name = Path(self.model).name.lower()
        prompts = repr((self._query_prompt, self._document_prompt, sorted(self._inner.prompts.items())))
        self.id = f"st-{name}-{window}-{_fingerprint(self._inner, prompts)}"

    def count_tokens(self, text: str) -> int:
        """Tokens of a text by the model's own tokenizer, special ones left out."""
        with self._lock:
            return len(self._token_ids(text))

    def encode_query(self, text: str) -> NDArray[np.float32]:
        """(dim,) float32. Raises EncoderFault."""
        row: NDArray[np.float32] = self._rows([text], query=True)[0]
        return row

    def encode_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(len(texts), dim) float32. Raises EncoderFault."""
        return self._rows(texts, query=False)

    def _rows(self, texts: Sequence[str], *, query: bool) -> NDArray[np.float32]:
        rows = np.zeros((len(texts), self.dim), dtype=np.float32)
        told = [position for position, text in enumerate(texts) if text.strip()]
        if told:
            found = self._encode([texts[position] for position in told], query=query)
            rows[told] = checked_rows(found, len(told), self.dim, self.model)
        return rows

    def _encode(self, texts: list[str], *, query: bool) -> NDArray[np.float32]:
        encode = self._inner.encode_query if query else self._inner.encode_document
        prompt = self._query_prompt if query else self._document_prompt
        try:
            # tokenizers fail when one is used from two threads
            with self._lock:
                found = encode(texts, prompt=prompt, batch_size=self._batch_size, show_progress_bar=False)
        except (RuntimeError, ValueError, IndexError) as error:
            raise EncoderFault(
                f"{self.model} could not encode {len(texts)} texts: {error}",
                hint="out of memory? a smaller batch_size or max_tokens, or device: cpu",
            ) from error
        return np.asarray(found, dtype=np.float32)

    def _token_ids(self, text: str, *, special: bool = False) -> list[int]:
        ids: list[int] = self._inner.tokenizer.encode(text, add_special_tokens=special, truncation=False, verbose=False)
        return ids


def _load(model: str, device: str | None, local_files_only: bool) -> SentenceTransformer:
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise EncoderFault(
            f"encoder {model} needs the sentence-transformers package: {error}", hint=f"install it: {INSTALL}"
        ) from error
    import httpx
    from safetensors import SafetensorError

    broken = (OSError, ValueError, RuntimeError, ImportError, KeyError, AssertionError, SafetensorError)
    try:
        with _no_progress_bar():
            return SentenceTransformer(model, device=device, local_files_only=local_files_only)
    except (*broken, httpx.HTTPError) as error:
        raise EncoderFault(
            f"encoder {model} cannot be loaded: {' '.join(str(error).split())[:300]}",
            hint="check the name and the device; without the hub, give the folder of a downloaded model, set "
            "local_files_only if it is in the hub's cache, or use the encoder that needs none (kind: embedded)",
            retryable=isinstance(error, httpx.HTTPError | ConnectionError | TimeoutError),
        ) from error


@contextmanager
def _no_progress_bar() -> Iterator[None]:
    """transformers draws a bar into the terminal for reading weights; downloads keep theirs."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def _fingerprint(model: SentenceTransformer, options: str) -> str:
    """Hash of the head of every tensor: cheap even for gigabytes, and different after any training."""
    digest = hashlib.sha256(options.encode())
    for name, tensor in sorted(model.state_dict().items()):
        head = tensor.detach().flatten()[:16].float().cpu().numpy()
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode() + head.tobytes())
    return digest.hexdigest()[:12]
