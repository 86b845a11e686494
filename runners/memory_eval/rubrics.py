"""LongMemEval's five ways to judge an answer, by type of question; LoCoMo is judged as plain facts.

The wording is ours; what each rubric accepts is upstream's. Upstream counts every reply that holds "yes", also inside
another word; here the verdict is a word of its own, and a reply without one leaves the answer ungraded.
"""

from __future__ import annotations

from runners.replay.dialogues import Asking
from runners.scoring.verdict import Verdict, one_word

_FACT = (
    "Accept the response when it states the reference answer, something equivalent to it, or every step that leads "
    "to it. Reject it when it gives only a part of what the reference answer says."
)
_RUBRICS = {
    "temporal-reasoning": _FACT
    + " A count of days, weeks, months or the like that is off by one is accepted (18 days for 19, say).",
    "knowledge-update": "Accept the response when the newest value that it gives is the reference answer. Older values "
    "beside it do no harm. Reject it otherwise.",
    "single-session-preference": "The reference describes what a response fit for this user looks like. Accept the "
    "response when it recalls and uses the user's own circumstances rightly; it need not cover every point. Reject it "
    "otherwise.",
}
_ABSTENTION = (
    "The question cannot be answered from the conversations; the reference explains why. Accept the response when it "
    "recognises this: it may say that the information is missing or incomplete, or that something else was said but "
    "not this. Reject it when it answers."
)


def rubric(asked: Asking) -> str:
    """What is accepted. Abstention goes by the question's id, not by its type."""
    if not asked.answerable:
        return _ABSTENTION
    return _RUBRICS.get(asked.kind, _FACT)


def judge_prompt(asked: Asking, answer: str) -> str:
    """The question to the judge, who answers yes or no."""
    return (
        "Judge a response to a question about earlier conversations.\n"
        f"{rubric(asked)}\n\n"
        f"Question: {asked.question}\n\nReference: {asked.answer}\n\nResponse: {answer}\n\n"
        "Is the response accepted? Reply with one word, yes or no."
    )


def verdict(reply: str) -> Verdict | None:
    """What the judge said; None where it said neither, or both."""
    said = one_word(reply, positive=("yes",), negative=("no",))
    return None if said is None else Verdict(said)
