"""Statements of one transaction, sent together: only what is fetched is waited for.

psycopg's own pipeline sends each statement by itself, and so wakes the server for each. Where server and clients share
processors that is most of what a small transaction costs. This one leaves the statements with libpq until an answer is
needed, with psycopg's adapters for the values of both ways.
"""

from __future__ import annotations

import re
import select
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any, TypeAlias

Key: TypeAlias = tuple[str, tuple[int, ...]]
"""A statement, and the types of its values."""
KEPT = 200
"""Prepared statements of a connection: more than the store has. Those that name a session come and go."""
_PLACE = re.compile("%[s%]")


class Answer:
    """`memory.store.sql.Rows`: what a statement gave, once it is asked for."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self._rows: Iterator[Any] | None = None
        self.result: Any = None

    def _told(self) -> Any:
        if self.result is None:
            self._pipe.fetch()
        if self.result is None:
            raise self._pipe.given_up()
        return self.result

    @property
    def rowcount(self) -> int:
        told = self._told().command_tuples
        return -1 if told is None else int(told)

    @property
    def status(self) -> str:
        """What the server says it did, as ``COMMIT``."""
        return str((self._told().command_status or b"").decode())

    def __iter__(self) -> Iterator[Any]:
        if self._rows is None:
            self._rows = iter(self._pipe.rows(self._told()))
        return self._rows

    def fetchone(self) -> Any:
        return next(iter(self), None)

    def fetchall(self) -> list[Any]:
        return list(self)


class Prepared:
    """The statements that one connection has prepared, for the types of their values."""

    def __init__(self) -> None:
        self.names: dict[Key, bytes] = {}
        """The latest used last."""
        self.numbers = count(1)


class Pipe:
    """A connection in the pipeline mode of libpq.

    What psycopg raises is raised where an answer is fetched, or at the end.
    """

    def __init__(self, connection: Any, prepared: Prepared) -> None:
        from psycopg import errors
        from psycopg.adapt import PyFormat, Transformer
        from psycopg.pq import ExecStatus, Format

        self._errors, self._synced = errors, ExecStatus.PIPELINE_SYNC
        self._auto, self._binary = PyFormat.AUTO, Format.BINARY
        self._good = (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK, ExecStatus.PIPELINE_SYNC)
        self._connection = connection.pgconn
        self._adapting = Transformer(connection)
        self._prepared = prepared
        self._sent: deque[tuple[Answer, Key | None]] = deque()
        """What is not answered yet, and what it prepares."""
        self._connection.enter_pipeline_mode()

    def execute(self, text: str, values: Sequence[Any]) -> Answer:
        """Put a statement down, prepared: ``%s`` stands for a value, ``%%`` for a percent sign."""
        adapting = self._adapting
        given = adapting.dump_sequence(values, [self._auto] * len(values))
        key = (text, tuple(adapting.types or ()))
        names = self._prepared.names
        name = names.pop(key, None)
        if name is None:
            name = b"longstride_%d" % next(self._prepared.numbers)
            self._connection.send_prepare(name, _numbered(text), key[1])
            self._sent.append((Answer(self), key))
        names[key] = name
        self._connection.send_query_prepared(name, given, param_formats=adapting.formats, result_format=self._binary)
        answer = self._put()
        if len(names) > KEPT:
            self.script(f"DEALLOCATE {names.pop(next(iter(names))).decode()}")
        return answer

    def script(self, text: str) -> Answer:
        """Put down a statement that has no values and does not come again."""
        self._connection.send_query_params(text.encode(), None)
        return self._put()

    def fetch(self) -> None:
        """Wait for the answers to everything so far."""
        self._connection.send_flush_request()
        while self._sent:
            self._take()

    def end(self) -> None:
        """Wait for everything, and leave the mode."""
        self._connection.pipeline_sync()
        last = self._put()
        while last.result is None:
            self._take()
        self._connection.exit_pipeline_mode()

    def give_up(self) -> None:
        """Leave the mode after a failure, whatever the answers are."""
        self._connection.pipeline_sync()
        last = self._put()
        while last.result is None:
            try:
                self._take()
            except self._errors.Error:
                if not self._sent or self._connection.status:
                    raise
        self._connection.exit_pipeline_mode()

    def given_up(self) -> Exception:
        """What is raised where an answer is asked for that an earlier failure prevented."""
        failure: Exception = self._errors.InterfaceError("an earlier statement failed")
        return failure

    def rows(self, result: Any) -> list[Any]:
        """What a result holds, row by row."""
        self._adapting.set_pgresult(result)
        found: list[Any] = self._adapting.load_rows(0, result.ntuples, tuple)
        return found

    def _put(self) -> Answer:
        answer = Answer(self)
        self._sent.append((answer, None))
        return answer

    def _take(self) -> None:
        result = self._result()
        answer, prepares = self._sent.popleft()
        if result.status in self._good:
            answer.result = result
            return
        if prepares is not None:
            self._prepared.names.pop(prepares, None)
        raise self._errors.error_from_result(result)

    def _result(self) -> Any:
        """The next result; the end of a statement's results is told by None, but not after a sync."""
        result = None
        while (told := self._told()) is not None:
            result = told
            if told.status == self._synced:
                break
        if result is None:
            raise self._errors.OperationalError("the server gave no answer")
        return result

    def _told(self) -> Any:
        connection = self._connection
        while connection.flush():
            if _ready(connection.socket, writing=True):
                connection.consume_input()
        while connection.is_busy():
            _ready(connection.socket, writing=False)
            connection.consume_input()
        return connection.get_result()


def _ready(socket: int, *, writing: bool) -> bool:
    """Wait until a socket can be read, or written; whether it can be read."""
    if not hasattr(select, "poll"):
        return bool(select.select([socket], [socket] if writing else [], [])[0])
    waiting = select.poll()
    waiting.register(socket, select.POLLIN | (select.POLLOUT if writing else 0))
    return any(event & ~select.POLLOUT for _, event in waiting.poll())


def _numbered(text: str) -> bytes:
    numbers = count(1)
    return _PLACE.sub(lambda found: f"${next(numbers)}" if found[0] == "%s" else "%", text).encode()
