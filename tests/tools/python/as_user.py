"""The escape corpus as whoever runs this: ``python -m tests.tools.python.as_user MECHANISM ABI FOLDER``; JSON out."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import asdict, replace
from pathlib import Path

from tests.tools.python.reach import attempt_all, reachable
from tools.python.base import SandboxFault
from tools.python.local import LocalSandbox
from tools.python.mechanisms import available


async def main(name: str, abi: int, folder: Path) -> dict[str, object]:
    mechanism = next((one for one in available() if one.name == name), None)
    if mechanism is None:
        return {"skip": "it is not there"}
    sandbox = LocalSandbox(replace(mechanism, abi=abi) if abi else mechanism)
    try:
        await sandbox.start()
    except SandboxFault as fault:
        return {"skip": str(fault)}
    with reachable(folder) as host:
        found = await attempt_all(sandbox, host)
    return {"level": mechanism.level, "figures": found.figures, **asdict(found)}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])))))
