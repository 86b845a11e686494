"""The ciphers that published benchmarks hide their texts with, and the seal on what we write of private ones.

They keep texts out of crawls and search engines; they are no protection from a reader who wants to know.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from itertools import cycle

SEALED = "sealed:"
"""How a sealed text begins."""
_TOKEN = re.compile(rf"{SEALED}([A-Za-z0-9+/]+=*)")


def xor(data: bytes, key: bytes) -> bytes:
    """Bytes xor the key, repeated."""
    return bytes(a ^ b for a, b in zip(data, cycle(key), strict=False)) if key else data


def sha_key(password: str) -> bytes:
    """The key of BrowseComp and BrowseComp-ZH: SHA-256 of the row's canary."""
    return hashlib.sha256(password.encode()).digest()


def decrypt(text: str, key: bytes) -> str:
    """Base64, xor, UTF-8. Raises ValueError for what is none of these under this key."""
    try:
        return xor(base64.b64decode(text, validate=True), key).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError) as fault:
        raise ValueError(f"not encrypted with this canary: {fault}") from fault


def encrypt(text: str, key: bytes) -> str:
    """The inverse of `decrypt`."""
    return base64.b64encode(xor(text.encode("utf-8"), key)).decode("ascii")


def seal(text: str, password: str) -> str:
    """A text that may be written down; `unseal` opens it with the same password. An empty one stays empty."""
    return SEALED + encrypt(text, sha_key(password)) if text else ""


def unseal(text: str, password: str) -> str:
    """The inverse of `seal`; a text that is not sealed comes back as it is. Raises ValueError for another password."""
    match = _TOKEN.fullmatch(text)
    return decrypt(match[1], sha_key(password)) if match else text
