"""What the learned scorer is fitted on: contexts of recorded runs, of planted sessions and of dialogues, with what was
needed of them.

The same measures as in replay: the strict strings of the next action; the visit that states an answer; labelled
evidence turns. Facts are asked for when a session is over, so that nothing is learned from how far back we ask.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from memory.plan import FloatArray
from memory.records import Level
from memory.scoring.learned import ModelName, features
from memory.summaries.config import SummaryConfig
from runners.fitting import Example
from runners.replay.dialogues import Dialogue, read_dialogues
from runners.replay.planted import build_session, evidence, read_collection
from runners.replay.prepare import Prepared, Toolkit, encode_queries, prepare
from runners.replay.readers.files import read_files
from runners.replay.recording import Recording
from runners.replay.targets import targets_of

RECENT = 2


@dataclass(frozen=True, slots=True)
class Sources:
    """What to fit on. ``runs``: files of recorded runs; ``multihop``: folders of questions and pages; ``dialogues``:
    LongMemEval folders or LoCoMo files. ``sessions`` planted sessions of ``visits`` visits for each folder."""

    runs: Sequence[Path]
    multihop: Sequence[Path] = ()
    dialogues: Sequence[Path] = ()
    visits: int = 1_200
    sessions: int = 2
    seed: int = 0
    skip_broken: bool = False


def examples(sources: Sources, tools: Toolkit) -> Iterator[Example]:
    """Every context of the sources, in their order. Raises UsageFault naming file and line."""
    # the scores need no summaries, and making them would take most of the time
    tools = replace(tools, summaries=SummaryConfig(kind="off"))
    for recording in read_files(sources.runs, skip_broken=sources.skip_broken).recordings:
        yield from of_run(recording, tools)
    for folder in sources.multihop:
        for seed in range(sources.seed, sources.seed + sources.sessions):
            yield from of_planted(folder, sources.visits, seed, tools)
    for path in sources.dialogues:
        for dialogue in read_dialogues(path):
            yield from of_dialogue(dialogue, tools)


def of_run(recording: Recording, tools: Toolkit) -> Iterator[Example]:
    """The contexts whose next action took a string from an old step."""
    run = prepare(recording, tools, RECENT)
    for step, targets in sorted(targets_of(run).items()):
        # as the scorer does it: what the running task needs next is looked for among its own steps
        own = min(recording.question_at(step).from_step, run.old(step) + 1) - 1
        needed = sorted({target.source - 1 for target in targets if target.source > own})
        yield _example(run, "step", recording.id, run.cosines(step), run.lexical(step), needed, own)


def of_planted(folder: Path, visits: int, seed: int, tools: Toolkit) -> Iterator[Example]:
    """Every question whose answer a visited page states, asked when the session is over."""
    questions, pages = read_collection(folder)
    run = prepare(build_session(questions, pages, visits, seed).recording, tools, RECENT)
    where = {chunk.step.source.url.rpartition("/")[2]: chunk.step.number for chunk in run.chunks if chunk.step.source}
    found = [(question, stated[0]) for question in questions if (stated := evidence(question, pages, where))]
    step = len(run) + 1
    asked = [(question, source) for question, source in found if source <= run.old(step)]
    vectors = encode_queries(tools, [run.state(step, question.question) for question, _ in asked])
    for (question, source), vector in zip(asked, vectors, strict=True):
        cosines = run.scan(vector, run.old(step))
        yield _example(run, "lookup", question.id, cosines, run.lexical(step, question.question), [source - 1])


def of_dialogue(dialogue: Dialogue, tools: Toolkit) -> Iterator[Example]:
    """Every question about a dialogue, with its evidence turns."""
    run = prepare(dialogue.recording, tools, RECENT)
    step = len(run) + 1
    vectors = encode_queries(tools, [run.state(step, asking.question) for asking in dialogue.asked])
    for asking, vector in zip(dialogue.asked, vectors, strict=True):
        needed = [number - 1 for number in asking.evidence if number <= run.old(step)]
        cosines = run.scan(vector, run.old(step))
        unit = f"{dialogue.recording.id}/{asking.name}"
        yield _example(run, "turn", unit, cosines, run.lexical(step, asking.question), needed)


def _example(
    run: Prepared,
    model: ModelName,
    unit: str,
    cosines: FloatArray,
    lexical: FloatArray,
    needed: Sequence[int],
    own: int = 0,
) -> Example:
    count = len(cosines)
    tokens = run.index.pool(count, cosines).tokens[own:, Level.FULL].astype(np.float64)
    marks = np.zeros(count, dtype=np.bool_)
    marks[list(needed)] = True
    scores = cosines[own:]
    spread = float(scores.std()) if len(scores) else 0.0
    peak = float(scores.max() - scores.mean()) / spread if spread > 0 else 0.0
    return Example(run.recording.family, unit, model, features(scores, lexical[own:], tokens), marks[own:], peak)
