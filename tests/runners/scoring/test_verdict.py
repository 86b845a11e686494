"""What judges say, and what must not be read into it."""

from __future__ import annotations

import pytest

from runners.scoring.verdict import conclusion, one_word, yes_no

REPLY = """extracted_final_answer: Oslo

reasoning: the gold says correct: no more than Oslo

correct: {word}

confidence: 85%
"""


@pytest.mark.parametrize(("word", "correct"), [("yes", True), ("no", False), ("Yes.", True), ("**no**", False)])
def test_browsecomp(word: str, correct: bool) -> None:
    """Upstream's regular expression compares the whole match with "yes", so that nothing is ever right."""
    verdict = yes_no(REPLY.format(word=word))
    assert verdict is not None
    assert verdict.correct is correct
    assert (verdict.extracted, verdict.confidence) == ("Oslo", 85)


@pytest.mark.parametrize(
    "said",
    [
        "",
        "I cannot say.",
        "correct: maybe",
        "correct: nothing like it",
        "correct: no-one knows",
        "incorrect: yes",
        # both left open: the form handed back
        "correct: yes/no",
        "correct: yes or no",
        "correct: [yes|no]",
        "correct: yes when both say the same, no in every other case",
    ],
)
def test_no_verdict_in_it(said: str) -> None:
    assert yes_no(said) is None


@pytest.mark.parametrize(
    ("word", "correct"),
    [("yes, there is no difference", True), ("no because Oslo is", False), ('"yes"', True), ("[no]", False)],
)
def test_a_verdict_may_be_quoted_or_explained(word: str, correct: bool) -> None:
    verdict = yes_no(f"correct: {word}\nconfidence: 9%")
    assert verdict is not None
    assert verdict.correct is correct


def test_markdown_around_the_fields() -> None:
    verdict = yes_no("**extracted_final_answer:** None\n- **correct**: yes\n**confidence:** 100%")
    assert verdict is not None
    assert verdict.correct
    assert verdict.extracted == ""


def test_what_was_only_thought_is_no_verdict() -> None:
    verdict = yes_no("<think>\ncorrect: yes\n</think>\ncorrect: no")
    assert verdict is not None
    assert not verdict.correct
    assert yes_no("<think>correct: yes") is None
    # templates that open the thought themselves leave its end alone in the reply
    assert yes_no("so correct: yes?\ncorrect: yes\n</think>I cannot say.") is None
    assert yes_no("hm\n</think>correct: yes") is not None


@pytest.mark.parametrize(
    ("said", "correct"),
    [
        ("最终答案: 北京\n\n解释: 一致\n\n结论: 正确", True),
        ("最终答案：北京\n解释：不一致\n结论：错误", False),
        ("结论: '正确'", True),
        ("结论: 不正确", False),
        ("结论:  **错误**", False),
    ],
)
def test_xbench(said: str, correct: bool) -> None:
    """Upstream's pattern takes one character between the colon and the word, so that "结论:正确" fails."""
    verdict = conclusion(said)
    assert verdict is not None
    assert verdict.correct is correct


@pytest.mark.parametrize(
    "said",
    [
        "最终答案: 北京, 正确",
        "结论: 正确答案是上海，回答错误",
        "结论: 正确/错误",
        "结论: 正确或错误",
        "结论: 正确与否无法判断",
    ],
)
def test_xbench_without_a_conclusion(said: str) -> None:
    assert conclusion(said) is None


@pytest.mark.parametrize(
    ("said", "correct"),
    [
        ("CORRECT", True),
        ("INCORRECT", False),
        ("Grade: **Incorrect**", False),
        ("yes", True),
        ("No.", False),
        ("The eyes have it. nothing", None),
        ("not correct", False),
        ("not incorrect", True),
        ("It reads like a yes at first.\nno", False),
        ("correct or incorrect?", None),
        ("1", True),
        ("Score: 0", False),
        ("", None),
    ],
)
def test_one_word(said: str, correct: bool | None) -> None:
    assert one_word(said) is correct
