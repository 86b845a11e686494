"""Text for generated sessions: pages given by path, or prose of our own with names, numbers and dates."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from memory.sanitize import sanitize
from runners.errors import UsageFault
from runners.replay.jsonlines import content, lines

MAX_PAGES = 20_000
_PLACES = "Varden Osk Lirne Harrow Quell Tamsin Brade Oster Fennick Morrow Salle Kirkwold Andrath Pelly Wexmoor"
_PEOPLE = "Ada Ilse Bram Tove Noor Pavel Mina Odd Yara Leif Sunniva Karim Petra Jonas Wanda Emeka"
_FAMILIES = "Holm Vass Okafor Lind Brandt Sorley Marsh Dekker Ruiz Anand Koval Ferro Aalto Nkosi"
_THINGS = "harbour bridge archive orchard observatory mill railway canal theatre lighthouse quarry school"
_DEEDS = "surveyed rebuilt sold flooded extended closed painted described measured photographed insured"
_MONTHS = "January February March April May June July August September October November December"


def pages(source: Path | None, seed: int) -> list[str]:
    """Pages as texts: from ``pages.jsonl(.gz)`` (a file, or in a folder; fields title and text), from the ``.txt`` and
    ``.md`` files of a folder, or our own when ``source`` is None. Raises UsageFault."""
    if source is None:
        return [own_page(seed + number) for number in range(600)]
    found = _from_files(source)
    if not found:
        raise UsageFault(f"--pages {source}: no page in it")
    return found


def own_page(seed: int) -> str:
    """A page of some 40 sentences, the same for the same seed."""
    rng = random.Random(seed)
    place, thing = _one(rng, _PLACES), _one(rng, _THINGS)
    return f"The {thing} of {place}\n" + " ".join(_sentences(rng, place, thing))


def _one(rng: random.Random, words: str) -> str:
    return rng.choice(words.split())


def _sentences(rng: random.Random, place: str, thing: str) -> Iterator[str]:
    for _ in range(rng.randint(30, 50)):
        who = f"{_one(rng, _PEOPLE)} {_one(rng, _FAMILIES)}"
        when = f"{rng.randint(1, 28)} {_one(rng, _MONTHS)} {rng.randint(1700, 2020)}"
        other = _one(rng, _THINGS)
        yield rng.choice(
            (
                f"The {thing} of {place} was {_one(rng, _DEEDS)} by {who} on {when}.",
                f"{who} paid {rng.randint(100, 99_999):,} crowns for the {other} beside it.",
                f"A report of {when} counts {rng.randint(3, 900)} people a day at the {other} of {_one(rng, _PLACES)}.",
                f"It stands {rng.randint(2, 90)}.{rng.randint(0, 9)} km from {_one(rng, _PLACES)}, by the old {other}.",
                f"Little is known of the years before, when {who} kept the books.",
            )
        )


def _from_files(source: Path) -> list[str]:
    if source.is_dir():
        named = [path for path in (source / "pages.jsonl.gz", source / "pages.jsonl") if path.is_file()]
        files = named or sorted(path for path in source.rglob("*") if path.suffix in (".txt", ".md"))
    else:
        files = [source]
    found: list[str] = []
    for path in files[:MAX_PAGES]:
        if path.name.removesuffix(".gz").endswith(".jsonl"):
            for number, value in lines(path):
                if not isinstance(value, dict) or not isinstance(value.get("text"), str):
                    raise UsageFault(f"{path}:{number}: a page needs a text")
                found.append(sanitize(f"{value.get('title', '')}\n{value['text']}".strip()))
        else:
            found.append(sanitize(content(path).decode("utf-8", "replace")))
    return [text for text in found if text.strip()][:MAX_PAGES]
