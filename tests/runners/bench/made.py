"""Benchmarks made for tests: our own questions in the published formats, and a model server that answers them."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from memory.records import Reply, ToolCall, Usage
from runners.bench.cipher import encrypt, sha_key
from runners.devserver.model_server import ScriptedTurn, WireRequest
from runners.devserver.wire import Turn

TOWNS = ("Alvik", "Borgund", "Cedarholt", "Dunmoor", "Eskdale", "Farnby", "Grensund", "Holmfirth")


def multihop(folder: Path, count: int = 4) -> Path:
    """Questions over pages of our own: one page a question."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [town(at) for at in range(count)]
    questions = [
        {
            "id": f"q{at}",
            "dataset": "made" if at % 2 else "other",
            "question": f"Who built the lighthouse of {name}?",
            "answer": f"{name} Andersen",
            "aliases": [],
            "supporting_pages": [f"p{at}"],
        }
        for at, name in enumerate(names)
    ]
    pages = [
        {
            "page_id": f"p{at}",
            "title": f"Lighthouse of {name}",
            "text": f"The lighthouse of {name} was built by {name} Andersen in {1800 + at}.",
        }
        for at, name in enumerate(names)
    ]
    write_lines(folder / "questions.jsonl", questions)
    write_lines(folder / "pages.jsonl", pages)
    return folder


def town(at: int) -> str:
    """A name of its own for every number."""
    return TOWNS[at % len(TOWNS)] + ("" if at < len(TOWNS) else f"by{chr(97 + at // 8 % 26)}{chr(97 + at // 208)}")


def write_lines(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


def gaia(folder: Path) -> Path:
    """Two questions of our own in GAIA's format, one with a file; the dummy row; one without a gold."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "prices.csv").write_text("item,price\nrope,12\nlamp,30\n", "utf-8")
    rows: list[dict[str, object]] = [
        {"task_id": "0-0-0-0-0", "Question": "dummy", "Level": 1, "Final answer": "x", "file_name": ""},
        {
            "task_id": "t-1",
            "Question": "According to the attached price list of the chandlery, how much does a lamp cost in crowns?",
            "Level": 1,
            "Final answer": "30",
            "file_name": "prices.csv",
        },
        {
            "task_id": "t-2",
            "Question": "Which two towns does the coastal ferry of the northern line call at, in alphabetical order?",
            "Level": "2",
            "Final answer": "Alvik, Borgund",
            "file_name": "",
        },
        {"task_id": "t-3", "Question": "What does nobody know?", "Level": 3, "Final answer": "?", "file_name": ""},
    ]
    write_lines(folder / "metadata.jsonl", [{**row, "Annotator Metadata": {}} for row in rows])
    return folder


SECRETS = {
    "Which keeper of the old harbour light wrote the almanac that was printed in Osk?": "Ingeborg Vestergaard-Lund",
    "What is the colour of the third boat in the painting that hangs in the town hall of Bodil?": "vermilion",
}


def browsecomp(path: Path, secrets: Mapping[str, str] = SECRETS) -> Path:
    """Our own questions in BrowseComp's format, encrypted as it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.DictWriter(file, ["problem", "answer", "problem_topic", "canary"])
        out.writeheader()
        for at, (question, answer) in enumerate(secrets.items()):
            canary = f"made-for-tests-{at}"
            key = sha_key(canary)
            row = {"problem": encrypt(question, key), "answer": encrypt(answer, key)}
            out.writerow({**row, "problem_topic": "Art", "canary": canary})
    return path


def texts_of(request: WireRequest) -> str:
    """Everything that a request says."""
    messages: Any = request.body["messages"]
    return "\n".join(json.dumps(message.get("content") or "", ensure_ascii=False) for message in messages)


class Answering:
    """A model for a server: it searches once, or reads the attached file, then answers by its table.

    ``delay``: seconds before each answer; ``asked``: the question of every call, in order.
    """

    def __init__(self, answers: Mapping[str, str], delay: float = 0.0) -> None:
        self.answers = answers
        self.delay = delay
        self.asked: list[str] = []

    def __call__(self, request: WireRequest) -> ScriptedTurn:
        reply = self._reply(request)
        return Turn(reply, delay_s=self.delay) if self.delay else reply

    def _reply(self, request: WireRequest) -> Reply:
        said = texts_of(request)
        question = next(question for question in self.answers if question in said)
        self.asked.append(question)
        usage = Usage(input_total=100, output=10, cache_read=40)
        messages: Any = request.body["messages"]
        if any(message["role"] == "tool" for message in messages):
            return Reply(self.answers[question], usage=usage)
        tools: Any = request.body["tools"]
        names = {tool["function"]["name"] for tool in tools}
        call = (
            ToolCall("a", "parse_file", {"file": "prices.csv"})
            if "parse_file" in names
            else ToolCall("a", "search", {"queries": [question[-30:]]})
        )
        return Reply("I look.", tool_calls=(call,), stop_reason="tool_calls", usage=usage)


def call(tool: str) -> tuple[ToolCall, ...]:
    """One call, as a model makes it."""
    return (ToolCall("a", tool, {"queries": ["lighthouse"]}),)


def backbone(folder: Path, url: str) -> Path:
    """A backbone file for a model server."""
    path = folder / "served.yaml"
    path.write_text(
        "dialect: native\nbackbone:\n  kind: openai\n  model: scripted\n"
        f"  base_url: {url}/v1\n  max_retries: 0\n  stream_attempts: 1\n",
        "utf-8",
    )
    return path


def rows_of(out: Path, kind: str = "result", name: str = "results.jsonl") -> list[dict[str, Any]]:
    """Lines of a results file."""
    lines = (out / name).read_text("ascii").splitlines()
    return [row for row in map(json.loads, lines) if row["kind"] == kind]


def outcome_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """What of a result has to be the same however the run was cut up."""
    return {key: row[key] for key in ("policy", "task", "rollout", "status", "answer", "measures", "steps")}
