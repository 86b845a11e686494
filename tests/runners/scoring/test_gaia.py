"""GAIA's rule, case by case."""

from __future__ import annotations

import pytest

from runners.scoring.gaia import quasi_exact


@pytest.mark.parametrize(
    ("answer", "gold", "right"),
    [
        # numbers
        ("17", "17", True),
        ("17.0", "17", True),
        ("$1,234.50", "1234.5", True),
        ("89706%", "89706", True),
        ("17 km", "17", False),
        ("seventeen", "17", False),
        ("", "17", False),
        ("inf", "inf", True),
        ("not a number", "inf", False),
        ("nan", "nan", True),
        # lists
        ("a, b, c", "a,b,c", True),
        ("a; b; c", "a,b,c", True),
        ("b, a, c", "a,b,c", False),
        ("a, b", "a,b,c", False),
        ("a, b., c", "a,b,c", False),
        ("Braintree, Honolulu", "braintree, HONOLULU", True),
        ("3, $4, x", "3,4,X", True),
        ("3, four, x", "3,4,X", False),
        ("1,000, 2", "1000, 2", False),
        # text
        ("sea gull", "Seagull", True),
        ("St. Petersburg!", "st petersburg", True),
        ("Saint Petersburg", "St. Petersburg", False),
        ("", "x", False),
        # by the rule as published, whatever a reader would say
        ("\u22125", "-5", False),
        ("5 dollars", "5", False),
        ("\u20ac5", "5", False),
        ("50%", "0.5", False),
        ("Caf\u00e9", "Cafe", False),
        ("1,000", "1000", True),
        ("1000, 5", "1,000, 5", False),
        # no answer
        ("", "...", False),
        (" \n", "!", False),
        ("?", "!", True),
    ],
)
def test_quasi_exact(answer: str, gold: str, right: bool) -> None:
    assert quasi_exact(answer, gold) is right
