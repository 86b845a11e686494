"""Cells on another machine: the text that is sent there, which shows values, errors and files as they are here."""

from __future__ import annotations

import secrets

from pydantic import ValidationError

from tools.python.base import SandboxFault
from tools.python.mechanisms import script
from tools.python.replies import CellReply

ASKED, REPLY = "longstride_cell.json", "longstride_reply.json"
MAX_STREAMED = 512 << 10
"""Bytes of files that come back between what the code printed."""
_ONCE = f"""
def main():
    with open({ASKED!r}, encoding="utf-8") as file:
        code = json.load(file)["code"]
    os.unlink({ASKED!r})
    reply = Cells(os.getcwd(), None).run(code)
    with open({REPLY!r}, "w", encoding="utf-8") as file:
        json.dump(reply, file)
import json
main()
"""


def read_reply(text: bytes | str) -> CellReply:
    """Raises SandboxFault for anything that is none."""
    try:
        return CellReply.model_validate_json(text)
    except ValidationError as error:
        raise SandboxFault("the reply of the code made no sense") from error


def once() -> str:
    """A script that runs the cell in `ASKED` and writes `REPLY`, both in its working folder."""
    return script(("inside_cells",)) + _ONCE


class Streamed:
    """The texts for an interpreter that stays, whose output is all that comes back: replies follow a mark in it."""

    def __init__(self) -> None:
        self._mark = f"longstride-{secrets.token_hex(16)}:"

    def begin(self) -> str:
        """Run first, once."""
        made = (
            "import sys, types\n"
            "module = types.ModuleType('longstride_cells')\n"
            f"exec({script(('inside_cells',))!r}, module.__dict__)\n"
            f"module.MAX_FILE = module.MAX_HANDED = {MAX_STREAMED}\n"
            "module.out = sys.stdout\n"
            "module.cells = module.Cells(module.os.getcwd(), None)\n"
            "sys.modules['longstride_cells'] = module\n"
        )
        return f"exec({made!r}, {{}})"

    def cell(self, code: str) -> str:
        """Run one cell."""
        made = (
            "import json, sys\n"
            "own = sys.modules['longstride_cells']\n"
            f"reply = json.dumps(own.cells.run({code!r}))\n"
            f"print({self._mark!r} + reply, file=own.out, flush=True)\n"
        )
        return f"exec({made!r}, {{}})"

    def split(self, output: str) -> tuple[str, CellReply | None]:
        """What the code printed, and the reply; None when there was none. Raises SandboxFault for a bad one."""
        printed, mark, rest = output.rpartition(self._mark)
        if not mark:
            return output, None
        return printed, read_reply(rest.strip())
