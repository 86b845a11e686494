"""Requests and answers of the services that run code, seen from their side. Pure."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from typing import TypeAlias

from memory.records import JsonValue
from tools.python.base import PythonResult

Fields: TypeAlias = Mapping[str, tuple[type, ...]]
_NONE = type(None)
FUSION: Fields = {
    "code": (str,),
    "language": (str,),
    "compile_timeout": (int, float),
    "run_timeout": (int, float),
    "memory_limit_MB": (int,),
    "stdin": (str, _NONE),
    "files": (dict,),
    "fetch_files": (list,),
}
NEW_MACHINE: Fields = {
    "templateID": (str,),
    "timeout": (int,),
    "allow_internet_access": (bool,),
    "metadata": (dict,),
    "envVars": (dict,),
    "autoPause": (bool,),
    "autoPauseMemory": (bool,),
    "autoResume": (dict,),
}
MACHINE: Fields = {
    "code": (str,),
    "context_id": (str, _NONE),
    "language": (str, _NONE),
    "env_vars": (dict, _NONE),
}
_NEEDED = {"code", "templateID"}
_EXIT = re.compile(r"exit code (\d+)")
_RUN = """
import base64 as _base64, json as _json, os as _os, sys as _sys
for _name, _data in _json.loads({files!r}).items():
    _os.makedirs(_os.path.dirname(_name) or ".", exist_ok=True)
    with open(_name, "wb") as _file:
        _file.write(_base64.b64decode(_data))
exec(compile({code!r}, "script.py", "exec"), {{"__name__": "__main__"}})
None
"""


def wrong(body: JsonValue, fields: Fields) -> str:
    """What is wrong with a request, empty for nothing."""
    if not isinstance(body, dict):
        return "the body is not a JSON object"
    for name, value in body.items():
        if name not in fields:
            return f"unknown field {name}"
        if not isinstance(value, fields[name]) or (isinstance(value, bool) and bool not in fields[name]):
            return f"{name} has a wrong type"
    missing = sorted(name for name in fields if name in _NEEDED and name not in body)
    if missing:
        return f"{missing[0]} is missing"
    if "fetch_files" in fields and body.get("language") != "python":
        return "language must be python here"
    return ""


def fusion_code(body: Mapping[str, JsonValue]) -> str:
    """The script of a request with what it finds beside it, as one cell."""
    return _RUN.format(files=json.dumps(body.get("files", {})), code=body["code"])


def fusion_answer(body: Mapping[str, JsonValue], result: PythonResult) -> bytes:
    """`RunCodeResponse` of SandboxFusion."""
    stderr, code = result.stderr, 0
    if result.error is not None:
        found = _EXIT.search(result.error)
        code = int(found[1]) if found else 1
        stderr += "" if result.state_lost else f"{result.error}\n"
    run: dict[str, JsonValue] = {
        "status": "TimeLimitExceeded" if result.timed_out else "Finished",
        "execution_time": 0.1,
        "return_code": None if result.timed_out else code,
        "stdout": result.stdout,
        "stderr": stderr,
    }
    wanted = body.get("fetch_files")
    wanted = wanted if isinstance(wanted, list) else []
    files: dict[str, JsonValue] = {
        file.name: base64.b64encode(file.data).decode()
        for file in result.files
        if file.name in wanted and file.data is not None
    }
    answer: dict[str, JsonValue] = {
        "status": "Failed" if result.timed_out or code else "Success",
        "message": "",
        "compile_result": None,
        "run_result": run,
        "executor_pod_name": None,
        "files": files,
    }
    return json.dumps(answer).encode()


def events(result: PythonResult) -> bytes:
    """The lines that E2B's code interpreter streams for one execution."""
    lines: list[dict[str, JsonValue]] = [
        {"type": "number_of_executions", "execution_count": 1},
        {"type": "keepalive"},
    ]
    stamp = "2026-01-01T00:00:00Z"
    for name, text in (("stdout", result.stdout), ("stderr", result.stderr)):
        if text:
            lines.append({"type": name, "text": text, "timestamp": stamp})
    if result.value_repr is not None:
        lines.append({"type": "result", "text": result.value_repr, "is_main_result": True})
    if result.error is not None:
        last = result.error.splitlines()[-1]
        name, _, value = last.partition(": ")
        told = "ContextRestarting" if result.state_lost else name
        lines.append({"type": "error", "name": told, "value": value or last, "traceback": result.error})
    lines.append({"type": "end_of_execution"})
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)
