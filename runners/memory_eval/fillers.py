"""Redundancy: turns that speak of what the evidence speaks of, in other words each time, and say nothing.

R of them are put into the dialogue for every evidence turn (after PACMS, which injects templated paraphrases). They
name the evidence's own topic, so that a selector by relevance alone spends its budget on them; no word of an answer is
among them. With the same seed the fillers of a smaller R are among those of a larger one, at the same places.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from memory.records import Step
from memory.text.words import tokenize
from runners.replay.dialogues import Asking, Dialogue, dialogue, turn_step

TEMPLATES = (
    "About {a} and {b} again: nothing new from my side, I was only thinking of {c} the other day.",
    "I keep coming back to {a}. We spoke of {b} before, and there is no news about {c} either.",
    "Just so that it is said: {a}, {b} and {c} are still on my mind, but I have nothing to add for now.",
    "Remember our talk about {a}? It was a good one. No change with {b} or {c} since then.",
    "On the topic of {a} and {b}, let us leave it as it is; {c} can wait for another day.",
    "It is funny how often {a} comes up. {b} as well, and {c}; I will tell you when something happens.",
    "Once more on {a}: I have thought about {b} and {c}, and I am where I was before.",
    "You asked me about {a} some time ago. As for {b} and {c}, everything is as we left it.",
    "I mentioned {a} to somebody today, and then {b} and {c}. There was nothing in it worth noting.",
    "Let us not go through {a} again, nor through {b}. I have no questions about {c} today.",
    "Still {a}, still {b}! Some day I will write down what I think of {c}, but not now.",
    "To sum up what we have on {a}, {b} and {c}: it is all settled, and nothing needs doing.",
)
TOPICS = 3
_SPOKEN = re.compile(r"(?:\[([^\]]*)\] )?([^:\n]{0,80}): ", re.DOTALL)
_PLAIN_WORDS = (
    "about actually after again also always another around because been before being best between both came come "
    "could does doing done down each even ever every from gets getting give goes going good great have having help "
    "here hope into just keep kind know last least less like little long look looking lots love made make makes "
    "many maybe mean might more most much need never next nice only other over please possible pretty provide "
    "really recommend right said same should since some someone something soon still such suggest sure take tell "
    "than thank thanks that their them then there these they thing things think this those though time tips today "
    "used using very want wants well went were what when where which while will with without wondering work would "
    "year years yeah your"
)
_PLAIN = frozenset(_PLAIN_WORDS.split())
"""Words of four letters and more that are no topic."""


def inject(given: Dialogue, redundancy: int, seed: int) -> Dialogue:
    """The dialogue with ``redundancy`` fillers for every evidence turn, evidence numbered anew.

    A filler stands behind a turn drawn at random, never among the last two, which every context shows.
    """
    steps = given.recording.steps
    evidence = sorted({number for asked in given.asked for number in asked.evidence})
    if not redundancy or not evidence or len(steps) < TOPICS:
        return given
    frequency = Counter(term for step in steps for term in set(tokenize(step.thought)))
    placed: list[tuple[int, int, int, str]] = []
    for number in evidence:
        about = [asked for asked in given.asked if number in asked.evidence]
        words = topics(steps[number - 1], about, given.asked, frequency)
        order = random.Random(f"{seed} {given.recording.id} {number}")
        forms = order.sample(TEMPLATES, len(TEMPLATES))
        for at in range(redundancy):
            behind = order.randint(1, len(steps) - 2)
            placed.append((behind, number, at, _said(forms[at % len(forms)], words, at)))
    return _with(given, sorted(placed))


def topics(turn: Step, about: Sequence[Asking], asked: Sequence[Asking], frequency: Mapping[str, int]) -> list[str]:
    """What a turn speaks of, in at most three words: those of its questions first, then the rarest in the dialogue.

    Words of any answer are left out, so that no filler can state one.
    """
    answers = {term for item in asked for term in tokenize(item.answer)}
    questions = {term for item in about for term in tokenize(item.question)}
    said = _SPOKEN.sub("", turn.thought, count=1)
    words = [word for word in dict.fromkeys(tokenize(said)) if len(word) > 3 and word.isalpha()]
    words += [word for word in sorted(questions) if len(word) > 3 and word.isalpha() and word not in words]
    words = [word for word in words if word not in answers and word not in _PLAIN]
    words.sort(key=lambda word: (word not in questions, frequency[word]))
    return words[:TOPICS]


def _said(template: str, words: Sequence[str], at: int) -> str:
    """The same words in another order each time."""
    words = [*words, *("that", "the rest", "all of it")][:TOPICS]
    turned = [words[(at + place) % TOPICS] for place in range(TOPICS)]
    return template.format(a=turned[0], b=turned[1], c=turned[2])


def _with(given: Dialogue, placed: Sequence[tuple[int, int, int, str]]) -> Dialogue:
    """``placed``: (turn that it stands behind, evidence turn, ordinal, text), sorted."""
    steps: list[Step] = []
    moved: dict[int, int] = {}
    waiting = list(placed)
    for step in given.recording.steps:
        steps.append(replace(step, number=len(steps) + 1))
        moved[step.number] = len(steps)
        while waiting and waiting[0][0] == step.number:
            _, number, _, text = waiting.pop(0)
            date, _ = _spoken(step)
            _, speaker = _spoken(given.recording.steps[number - 1])
            steps.append(turn_step(len(steps) + 1, date, speaker, text))
    recording = dialogue(given.recording.id, given.recording.family, steps)
    asked = (replace(item, evidence=tuple(moved[number] for number in item.evidence)) for item in given.asked)
    return Dialogue(recording, tuple(asked))


def _spoken(step: Step) -> tuple[str, str]:
    """Date and speaker of a turn."""
    match = _SPOKEN.match(step.thought)
    return (match[1] or "", match[2]) if match else ("", "user")
