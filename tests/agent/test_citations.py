from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.citations import QUOTE_CHARS, Citation, Mention, find_mentions, resolve_citations
from memory.errors import NotStored
from memory.records import Chunk, ChunkRef, Observation, Source, Step


class Reader:
    """The chunks of a session, by number."""

    def __init__(self, *steps: Step) -> None:
        self.chunks = {step.number: Chunk(step, "", 1, 1, "") for step in steps}

    async def chunk(self, number):
        if number not in self.chunks:
            raise NotStored(f"no c{number}")
        return self.chunks[number]

    async def full_text(self, number):
        raise NotImplementedError

    async def view_text(self, number, level):
        raise NotImplementedError

    async def expand(self, ref):
        raise NotImplementedError


def seen(number, text, *sources):
    found = tuple(Source(url, title) for url, title in sources)
    return Step(number, observations=(Observation(f"s{number}.0", "visit", text, sources=found),))


FILLER = "The weather was mild that year. Nothing else of note took place. " * 30
TOWER = seen(
    12,
    f"{FILLER}The tower was finished in March 1889 by the company of Gustave Eiffel. {FILLER}",
    ("http://tower.example/a", "The tower"),
)


async def test_chunk_url_title_and_passage():
    (found,) = await resolve_citations("It was finished in 1889 [c12].", Reader(TOWER))
    assert (found.chunk, found.chunk_id, found.url, found.title) == (12, "c12", "http://tower.example/a", "The tower")
    assert "finished in March 1889" in found.quote
    assert len(found.quote) <= QUOTE_CHARS
    assert found.quote in TOWER.observations[0].text
    assert found.found


@pytest.mark.parametrize(
    "head",
    [
        "[Lease](http://town.example/lease)\n(whole page)\n\n",
        "lease.txt (whole file)\n\n",
        "lease.pdf (page 1 of 3; no text layer on page 2)\n\n",
    ],
)
async def test_the_head_line_of_a_tool_is_not_quoted(head):
    body = "The lease was signed by Ruth Amsel."
    step = seen(3, head + body, ("http://town.example/lease", "Lease"))
    (found,) = await resolve_citations("Ruth Amsel signed the lease [c3]", Reader(step))
    assert (found.quote, found.url, found.title) == (body, "http://town.example/lease", "Lease")


async def test_of_several_pages_in_one_step_each_is_quoted_alone():
    pages = [("http://a", "A", "The mill burned down in 1790."), ("http://b", "B", "The mill was sold in 1801.")]
    text = "\n\n".join(f"[{title}]({url})\n(whole page)\n\n{body}" for url, title, body in pages)
    step = seen(4, text, *[(url, title) for url, title, _ in pages])
    (found,) = await resolve_citations("It was sold in 1801 [c4]", Reader(step))
    assert (found.quote, found.url) == ("The mill was sold in 1801.", "http://b")


async def test_a_citation_to_nothing_is_said():
    found = await resolve_citations("Yes [c99]. No [c12].", Reader(TOWER))
    assert [(c.chunk, c.found) for c in found] == [(99, False), (12, True)]
    assert found[0] == Citation(99, found=False)


async def test_each_claim_has_its_own_passage():
    step = seen(3, f"Ada was born in London. {FILLER} Babbage died in 1871. {FILLER}", ("http://x", "X"))
    other = seen(4, f"Babbage was an engineer. {FILLER} Ada wrote the notes on it. {FILLER}", ("http://y", "Y"))
    found = await resolve_citations("Babbage died in 1871 [c3]. Ada wrote notes [c4].", Reader(step, other))
    assert "1871" in found[0].quote
    assert "notes" in found[1].quote


async def test_the_source_named_last_before_the_passage():
    text = (
        "1. [Alpha](http://alpha.example)\nAlpha sells apples in many shops of the north.\n"
        "2. [Beta](http://beta.example)\n" + "Beta makes bridges of steel for railways. " * 8 + "\n"
        "3. [Gamma](http://gamma.example)\n" + "Gamma grows grapes on the southern slopes. " * 8
    )
    sources = [(f"http://{name.lower()}.example", name) for name in ("Alpha", "Beta", "Gamma")]
    (found,) = await resolve_citations("Bridges of steel for railways [c1]", Reader(seen(1, text, *sources)))
    assert found.title == "Beta"


async def test_a_glimpse_leads_to_what_it_showed():
    glimpse = Step(20, observations=(Observation("s20.0", "glimpse", "c12 is shown", refs=(ChunkRef(12),)),))
    (found,) = await resolve_citations("Finished in March 1889 [c20]", Reader(TOWER, glimpse))
    assert found.chunk == 20
    assert found.url == "http://tower.example/a"
    assert "1889" in found.quote


async def test_a_glimpse_into_nothing_is_still_a_chunk():
    glimpse = Step(20, observations=(Observation("s20.0", "glimpse", "c12", refs=(ChunkRef(12),)),))
    (found,) = await resolve_citations("So it is [c20]", Reader(glimpse))
    assert found.found
    assert found.quote == "c12"


async def test_no_word_in_common():
    (found,) = await resolve_citations("東京 [c12]", Reader(TOWER))
    assert found.quote.startswith("The weather")


async def test_an_earlier_answer_a_note_and_an_empty_chunk():
    answer = Step(5, "answer", answer="It was Paris.", question="Where?")
    empty = seen(6, "", ("http://e", "E"))
    found = await resolve_citations("Paris [c5] [c6]", Reader(answer, empty))
    assert [(c.quote, c.url) for c in found] == [("It was Paris.", ""), ("", "http://e")]


async def test_chinese():
    step = seen(2, "这座塔很高。" * 40 + "塔于1889年3月完工。" + "天气很好。" * 40, ("http://z", "塔"))
    (found,) = await resolve_citations("完工于1889年【c2】", Reader(step))
    assert "1889年3月完工" in found.quote


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("A [c1].", [Mention(1, "A")]),
        ("A [c1][c2] B [c1]", [Mention(1, "A\nB"), Mention(2, "A")]),
        ("A [c1, c2; C3] B.", [Mention(1, "A"), Mention(2, "A"), Mention(3, "A")]),
        ("[c4]", [Mention(4, "")]),
        ("no [1] or c5 or [c] or [cc5] or [c5 x]", []),
        ("A [c1]. [c2]", [Mention(1, "A"), Mention(2, "A")]),
    ],
)
def test_mentions(answer, expected):
    assert find_mentions(answer) == expected


@given(st.text(alphabet="c[]【】, 0123456789ab.\n", max_size=200))
def test_any_answer_has_mentions_once_each(answer):
    numbers = [mention.chunk for mention in find_mentions(answer)]
    assert len(numbers) == len(set(numbers))
