"""Search lists and pages in the shapes that Tongyi-DeepResearch and WebSailor were trained on.

What is stored stays as it is: these are views of the recent steps. A line that is not recognised (a marker of clipping,
a note) is shown as it stands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

from memory.records import ToolCall

_HEAD = re.compile(r'Results for "(.*)" \((\d+)(?:, \d+ more already listed above)?\):$')
_ENTRY = re.compile(r"(\d+\. \[.*\]\((\S+)\))(?: \(([^()]*)\))?$")
_PAGE = re.compile(r"^\[(.*)\]\((\S+)\)\n\((.*)\)\n\n", re.MULTILINE)
_EVIDENCE = "Evidence in page:"
BETWEEN = "\n=======\n"


def trained_shape(call: ToolCall, text: str) -> str:
    """The text of a successful call as the models know it; other tools' texts are unchanged."""
    if call.name == "search":
        return "\n".join(_search_lines(text))
    return _pages(text, str(call.arguments.get("goal") or "")) if call.name == "visit" else text


def _search_lines(text: str) -> Iterator[str]:
    begun = False
    for line in text.split("\n"):
        head, entry = _HEAD.match(line), _ENTRY.match(line)
        if head:
            if begun:
                yield BETWEEN.strip("\n")
            begun = True
            yield f"A Google search for '{head[1]}' found {head[2]} results:\n\n## Web Results"
        elif entry:
            yield entry[1]
            if entry[3]:
                yield f"Date published: {entry[3]}"
            yield f"Source: {urlsplit(entry[2]).hostname or entry[2]}"
        elif line.startswith("   "):
            yield line.strip()
        elif line or not begun:
            yield line


def _pages(text: str, goal: str) -> str:
    heads = list(_PAGE.finditer(text))
    if not heads or heads[0].start() > 0:
        return text
    ends = [head.start() for head in heads[1:]] + [len(text)]
    return BETWEEN.join(
        _page(head, text[head.end() : end].strip(), goal) for head, end in zip(heads, ends, strict=True)
    )


def _page(head: re.Match[str], body: str, goal: str) -> str:
    title, url, notes = head.groups()
    opening = f"The useful information in {url} for user goal {goal} as follows: \n\n"
    if body.startswith(_EVIDENCE) and "\nSummary:" in body:
        return f"{opening}{body}"
    evidence = body.removeprefix(_EVIDENCE).strip()
    return f"{opening}{_EVIDENCE} \n{evidence}\n\nSummary: \n{title} ({notes})\n"
