"""``make demo-llm``: the ten questions with a small language model in this process. Takes minutes; prints each answer.

Run as ``python -m tests.acceptance.demo_llm [--backbone NAME] [--questions N]``. Exit status 0 when at least six in ten
are right, that is, when the first line of the answer, the model's own words, holds the string that it should.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

from agent.events import Bus
from agent.session import Outcome
from runners.config import RunConfig, load_config
from runners.environment import read_environment
from runners.folders import new_folder
from runners.request import ConfigRequest
from runners.toolbox import Inputs
from runners.wiring import SessionRequest, open_session
from tests.acceptance.pydoc_questions import QUESTIONS, shows, told

WANTED = 0.6


async def ask(question: str, folder: Path, config: RunConfig) -> Outcome:
    """One question in a session of its own."""
    request = SessionRequest(new_folder(folder, folder), read_environment(), Bus(), config, Inputs("pydoc:"))
    async with open_session(request) as opened:
        return await opened.session.ask(question)


async def main(backbone: str, count: int, options: tuple[str, ...] = ()) -> float:
    """Share of right answers."""
    config = load_config(ConfigRequest(backbone=backbone, options=("limits.max_steps=8", *options)))
    out = sys.stdout
    model = config.backbone.model or f"policy, answers read by {config.backbone.reader}"
    out.write(f"{config.backbone.kind}: {model}, {config.dialect} dialect\n")
    right = cited = 0
    begun = time.monotonic()
    questions = list(QUESTIONS.items())[:count]
    with tempfile.TemporaryDirectory() as folder:
        for number, (question, wanted) in enumerate(questions, 1):
            started = time.monotonic()
            outcome = await ask(question, Path(folder, str(number)), config)
            good = told(outcome.answer.partition("\n")[0], wanted)
            right += good
            cited += shows(outcome, wanted)
            out.write(f"\n{number}. {question}\n   {' '.join((outcome.answer or outcome.message).split())[:300]}\n")
            state = "right" if good else f"WRONG, it is {wanted!r}"
            seconds = time.monotonic() - started
            out.write(f"   {state}; {outcome.status}, {outcome.steps} steps, {seconds:.0f} s\n")
            out.flush()
    seconds = (time.monotonic() - begun) / len(questions)
    out.write(
        f"\n{right} of {len(questions)} right; {cited} show it in the cited passage; {seconds:.0f} s a question\n"
    )
    return right / len(questions)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backbone", default="local")
    parser.add_argument("--questions", type=int, default=len(QUESTIONS))
    parser.add_argument("-c", action="append", default=[], metavar="KEY=VALUE", dest="options")
    given = parser.parse_args()
    sys.exit(0 if asyncio.run(main(given.backbone, given.questions, tuple(given.options))) >= WANTED else 1)
