from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memory.sanitize import MIN_LIMIT, sanitize

NASTY = st.text(
    st.one_of(
        st.characters(),
        st.characters(categories=("Cf", "Cc", "Cs", "Mn")),
        st.sampled_from("<|>[]/sINT｜\ufe0f\u200d\u200c\u00ad\r\n\u2028❤ab\ud83d\ude00"),
    ),
    max_size=200,
)
TOKENS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<｜begin▁of▁sentence｜>",
    "<｜User｜>",
    "</s>",
    "<s>",
    "[INST]",
    "[/INST]",
    "<<SYS>>",
    "<</SYS>>",
    "<start_of_turn>",
    "<tool_call>",
    "</tool_response>",
    "<think>",
)


@given(NASTY, st.none() | st.integers(MIN_LIMIT, 150))
@example("<|a\u00ad|>", None)
@example("a\ufe0f\u200db" * 40, MIN_LIMIT)
def test_result_is_storable_and_a_fixed_point(text: str, limit: int | None) -> None:
    clean = sanitize(text, limit)
    clean.encode("utf-8")
    assert not [c for c in clean if unicodedata.category(c) == "Cc" and c not in "\n\t"]
    assert clean.splitlines() == clean.removesuffix("\n").split("\n") or not clean
    assert not set(clean) & set("\u200b\u200e\u200f\u202a\u202e\u2066\u2069\u2028\ufeff\u00ad\U000e0041")
    assert sanitize(clean, limit) == clean
    if limit is not None:
        assert len(clean) <= limit


@given(
    st.text(
        st.characters(exclude_categories=("Cc", "Cf", "Cs", "Mn", "Zl", "Zp", "Cn", "Lo")).filter(
            lambda c: c not in "<["
        ),
        max_size=300,
    )
)
def test_plain_text_passes_unchanged(text: str) -> None:
    assert sanitize(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "tab\tand\nnewline",
        "नमस्ते क्\u200dष",
        "می\u200cخواهم",
        "👩\u200d🚀 ❤\ufe0f\u200d🔥 1\ufe0f⃣",
        "中文\u3000字",
        "a < b |> c <b>x</b>",
        "x <- y[INDEX]",
        "<span>",
    ],
)
def test_what_people_write_passes_unchanged(text: str) -> None:
    assert sanitize(text) == text


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("a\x00b", "a␀b"),
        ("\x1b[31mred\x7f", "␛[31mred␡"),
        ("one\r\ntwo\rthree\x0cfour\u2028five\x85six", "one\ntwo\nthree\nfour\nfive\nsix"),
        ("\ud800x", "\ufffdx"),
        ("evil\u202egpj", r"evil\u{202E}gpj"),
        ("zero\u200bwidth", r"zero\u{200B}width"),
        ("a\u200db", r"a\u{200D}b"),
        ("tag\U000e0041", r"tag\u{E0041}"),
        ("soft\u00adhyphen \ufeffbom", "softhyphen bom"),
        ("\x9b31m", r"\u{9B}31m"),
    ],
)
def test_what_cannot_be_seen_is_shown(text: str, clean: str) -> None:
    assert sanitize(text) == clean


@pytest.mark.parametrize("token", TOKENS)
def test_special_tokens_stay_readable_but_are_no_tokens(token: str) -> None:
    clean = sanitize(f"x{token}{token}y")
    assert token not in clean
    assert clean.replace(" ", "") == f"x{token}{token}y"


@pytest.mark.parametrize("joint", ["\u00ad", "\ufeff", "\r\n"])
def test_a_token_cannot_form_by_cleaning(joint: str) -> None:
    assert "<|endoftext|>" not in sanitize(f"<|endo{joint}ftext|>")


def test_the_cap_says_what_is_left_out() -> None:
    clean = sanitize("x" * 1000, 100)
    head, marker = clean.split("\n")
    assert marker == f"[… {1000 - len(head)} characters left out]"
    assert set(head) == {"x"} and 90 < len(clean) <= 100
    assert sanitize("x" * 100, 100) == "x" * 100
    with pytest.raises(ValueError, match="marker"):
        sanitize("x", 10)
