"""Nearest keys by pgvector, where the server has it: candidates for recall, never what a context is scored by.

Vectors are a second copy of the keys, in a table of their own that is made and filled when it is asked for, beside the
store's work: so writing a step costs nothing more, and a session that was pushed is found as well.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from memory.errors import StoreFault
from memory.store import codec
from memory.store.postgres_link import MAKING, Link
from memory.stored import Nearest

INDEXED = 5_000
"""Keys of one encoder from which on a session gets an HNSW index of its own; below, the server scans them."""
MOST_DIMS = 2_000
"""Dimensions that an HNSW index takes."""
_BATCH = 1_000
_TABLE = """CREATE TABLE IF NOT EXISTS longstride.vectors (
    session integer NOT NULL REFERENCES longstride.sessions, encoder bigint NOT NULL, chunk bigint NOT NULL,
    embedding {vector} NOT NULL, PRIMARY KEY (session, encoder, chunk))"""


def vector_type(link: Link) -> str | None:
    """The name of the extension's type, with its schema; the extension is made where this user may. None: not there."""
    if not link.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'").fetchone():
        return None
    if not (found := _installed(link)):
        link.script("SAVEPOINT extension")
        try:
            link.script("CREATE EXTENSION IF NOT EXISTS vector SCHEMA public")
        except StoreFault:  # it takes an administrator
            link.script("ROLLBACK TO SAVEPOINT extension")
        found = _installed(link)
    return found


def _installed(link: Link) -> str | None:
    row = link.execute(
        "SELECT convert_to(quote_ident(n.nspname), 'UTF8') FROM pg_extension e JOIN pg_namespace n"
        " ON n.oid = e.extnamespace WHERE e.extname = 'vector'"
    ).fetchone()
    return None if row is None else f"{row[0]}.vector"


def fill(link: Link, session: int) -> bool:
    """Bring the vectors of a session up to its keys, with an index where that pays; on a connection of its own, so that
    nobody waits for it. False where the server has no pgvector."""
    link.script("BEGIN")
    link.execute("SELECT pg_advisory_xact_lock(CAST(? AS integer), 1)", (MAKING,))
    kind = vector_type(link)
    if kind is not None:
        link.script(_TABLE.format(vector=kind))
    link.script("COMMIT")
    if kind is None:
        return False
    link.script(f"SET longstride.session = '{session}'")
    for encoder, dim in link.execute("SELECT number, dim FROM encoders").fetchall():
        _fill(link, session, encoder, kind)
        _index(link, session, encoder, dim, kind)
    return True


def _fill(link: Link, session: int, encoder: int, kind: str) -> None:
    after = 0
    while rows := link.execute(
        "SELECT k.chunk, k.vector FROM keys k WHERE k.encoder = ? AND k.chunk > ? AND NOT EXISTS (SELECT FROM"
        " longstride.vectors v WHERE v.session = ? AND v.encoder = k.encoder AND v.chunk = k.chunk)"
        " ORDER BY k.chunk LIMIT ?",
        (encoder, after, session, _BATCH),
    ).fetchall():
        after = rows[-1][0]
        keys = [(chunk, np.frombuffer(vector, dtype="<f4")) for chunk, vector in rows]
        link.executemany(
            f"INSERT INTO longstride.vectors VALUES (CAST(? AS integer), ?, ?, CAST(convert_from(?, 'UTF8') AS {kind}))"
            " ON CONFLICT DO NOTHING",
            [(session, encoder, chunk, text_of(key)) for chunk, key in keys if np.isfinite(key).all()],
        )


def _index(link: Link, session: int, encoder: int, dim: int, kind: str) -> None:
    (count,) = link.execute(
        "SELECT COUNT(*) FROM longstride.vectors WHERE session = ? AND encoder = ?", (session, encoder)
    ).fetchone()
    if count < INDEXED or dim > MOST_DIMS:
        return
    name, schema = f"longstride.vectors_{session}_{encoder}", kind.rpartition(".")[0]
    # one whose making was cut off is there, and of no use
    broken = "SELECT 1 FROM pg_index WHERE indexrelid = to_regclass(convert_from(?, 'UTF8')) AND NOT indisvalid"
    if link.execute(broken, (name,)).fetchone():
        link.script(f"DROP INDEX {name}")
    link.script(
        f"CREATE INDEX CONCURRENTLY IF NOT EXISTS {name.rpartition('.')[2]} ON longstride.vectors"
        f" USING hnsw ((embedding::{kind}({dim})) {schema}.vector_cosine_ops)"
        f" WHERE session = {session} AND encoder = {encoder}"
    )


def behind(link: Link, session: int, encoder_id: str) -> int | None:
    """How many chunks the vectors are behind the keys; None where there are none."""
    (there,) = link.execute("SELECT to_regclass('longstride.vectors') IS NOT NULL").fetchone()
    found = link.execute("SELECT number FROM encoders WHERE id = ?", (codec.text_in(encoder_id),)).fetchone()
    if not there or found is None:
        return None
    newest = "SELECT COALESCE(MAX(chunk), 0) FROM {} WHERE encoder = ?"
    (keys,) = link.execute(newest.format("keys"), found).fetchone()
    (vectors,) = link.execute(newest.format("longstride.vectors") + " AND session = ?", (*found, session)).fetchone()
    return int(keys - vectors) if vectors else None


def nearest(link: Link, session: int, encoder_id: str, query: NDArray[np.float32], count: int) -> Nearest | None:
    """The ``count`` keys nearest to ``query`` (dim,) by cosine, approximately where there is an index. None where there
    are no vectors of that encoder."""
    kind = _installed(link)
    found = link.execute("SELECT number, dim FROM encoders WHERE id = ?", (codec.text_in(encoder_id),)).fetchone()
    if kind is None or found is None:
        return None
    encoder, dim = found
    schema = kind.rpartition(".")[0]
    link.script(f"SET LOCAL hnsw.ef_search = {min(1_000, max(100, 4 * count))}")
    distance = f"(embedding::{kind}({dim})) OPERATOR({schema}.<=>) CAST(convert_from(?, 'UTF8') AS {kind})"
    # the numbers stand in the statement itself: so the planner sees that the session's index serves
    rows = link.execute(
        f"SELECT chunk, {distance} FROM longstride.vectors WHERE session = {session} AND encoder = {encoder}"
        f" ORDER BY {distance} LIMIT ?",
        (text_of(query), text_of(query), count),
    ).fetchall()
    numbers = np.array([row[0] for row in rows], dtype=np.int64)
    return Nearest(numbers, 1.0 - np.array([row[1] for row in rows], dtype=np.float64))


def text_of(vector: NDArray[np.float32]) -> str:
    """A vector as pgvector reads it, exactly."""
    return f"[{','.join(map(repr, vector.tolist()))}]"
