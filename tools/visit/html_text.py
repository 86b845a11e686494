"""HTML to Markdown text: the main content by trafilatura, or the whole page where that drops too much.

Runs in the extraction child: hostile markup can keep the parsers busy for ever, or crash them.
"""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING

from tools.visit.charset import decode
from tools.visit.extracted import Extracted

if TYPE_CHECKING:
    from bs4 import BeautifulSoup, Tag

MAX_MARKUP_CHARS = 8_000_000
MAX_TAGS = 60_000
"""Beyond this many tags the page is stripped by a linear scan: 32,000 nested inline tags kept trafilatura busy for
over 20 seconds."""
MAX_TREE_TAGS = 30_000
"""Beyond this many, the whole page is written by the linear scan: the tree that is walked for it takes seconds."""
MAX_DEPTH = 400
MAX_ATTRIBUTES = 2000
"""In one tag: 100,000 keep lxml busy for over 10 seconds."""
_TOO_LITTLE = 0.02
"""Main text shorter than this share of the visible text: the page is no article (a table, a list, a box); show all.

Measured on 677 real pages: larger shares cost precision (.25: article F1 .921 for .957, .05: .954)."""
_TOO_LITTLE_CHARS = 200
_DROPPED = ("script", "style", "noscript", "template", "svg", "iframe", "nav", "footer", "form", "button", "head")
_BLOCKS = frozenset(
    {"p", "div", "section", "article", "main", "ul", "ol", "table", "tr", "br", "hr", "pre", "dl", "dt", "dd"}
    | {"blockquote", "figure", "figcaption", "aside", "header", "address", "details", "summary", "caption"}
)
_HEADINGS = {f"h{level}": "#" * level for level in range(1, 7)}
_SCRIPTED = re.compile(
    r"<(script|style|noscript|svg|template|iframe)\b.*?(?:</\1\s*>|\Z)|<!--.*?(?:-->|\Z)", re.S | re.I
)
_LONG_TAG = re.compile(r"<[a-zA-Z][^<>]{20000}")
_TAG = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9]*)[^<>]*>")
_TITLE = re.compile(r"<title[^>]*>(.*?)(?:</title|\Z)", re.S | re.I)
_VOID = frozenset({"br", "hr", "img", "input", "meta", "link", "p", "li", "td", "tr", "th", "source", "wbr", "area"})


def html_text(body: bytes, content_type: str, url: str, *, crude: bool = False) -> Extracted:
    """Title and Markdown text. Links are absolute (against ``url``). ``crude``: by a linear scan, no parser."""
    markup, _ = decode(body, content_type, markup=True)
    markup = markup.replace("\0", "")
    notes: list[str] = []
    if len(markup) > MAX_MARKUP_CHARS:
        markup = markup[:MAX_MARKUP_CHARS]
        notes.append(f"only the first {MAX_MARKUP_CHARS} characters of markup were read")
    count = _count(markup)
    if crude or count > MAX_TAGS:
        notes.append("markup too deep, large or slow to parse: shown without structure")
        return Extracted(_crude_title(markup), _crude_text(markup), tuple(notes))
    title, main = _main_text(markup, url)
    page_title, whole = _whole_page(markup, url) if count <= MAX_TREE_TAGS else ("", _crude_text(markup))
    title = title or page_title or _crude_title(markup)
    if len(main) >= _TOO_LITTLE_CHARS and len(main) >= _TOO_LITTLE * len(_crude_text(markup)):
        return Extracted(title, main, tuple(notes), whole)
    if len(whole) <= len(main):
        return Extracted(title, main, tuple(notes))
    if main:
        notes.append("the whole page is shown: no main text stands out")
    return Extracted(title, whole, tuple(notes))


def _main_text(markup: str, url: str) -> tuple[str, str]:
    from trafilatura import extract, extract_metadata, load_html

    tree = load_html(markup)
    if tree is None:
        return "", ""
    for template in list(tree.iter("template")):
        template.drop_tree()
    if url:  # trafilatura itself resolves against the host alone
        tree.make_links_absolute(url, handle_failures="ignore")
        for anchor in tree.iter("a"):
            if " " in anchor.get("href", ""):
                anchor.set("href", anchor.get("href").strip().replace(" ", "%20"))
    title = (extract_metadata(tree, default_url=url or None).title or "").strip()
    text = extract(
        tree,
        url=url or None,
        output_format="markdown",
        include_tables=True,
        include_links=True,
        include_formatting=True,
        include_comments=False,
    )
    return title, (text or "").strip()


def _whole_page(markup: str, url: str) -> tuple[str, str]:
    """Every visible text, tables as rows of cells; for infobox, table and index pages."""
    from bs4 import BeautifulSoup

    soup = BeautifulSoup(markup, "lxml")
    title = soup.title.get_text(" ", strip=True) if soup.title else ""
    for tag in soup(list(_DROPPED)):
        tag.decompose()
    _mark_links(soup, url)
    parts: list[str] = []
    _write(soup, parts)  # not its body alone: text may stand behind it
    return title, _tidy("".join(parts))


def _mark_links(soup: BeautifulSoup, url: str) -> None:
    from urllib.parse import urljoin

    for anchor in soup.find_all("a", href=True):
        text = anchor.get_text(" ", strip=True)
        target = str(anchor["href"]).strip()
        if not text or target.startswith(("#", "javascript:", "mailto:", "data:")):
            continue
        try:
            anchor.string = f"[{text}]({urljoin(url, target)})"
        except ValueError:
            continue


def _write(tag: Tag, parts: list[str]) -> None:
    """Depth-first text with line breaks at blocks. Recursion is bounded: `_count` let no deep page through."""
    from bs4 import Tag
    from bs4.element import Comment, NavigableString

    for child in tag.children:
        if isinstance(child, Comment):
            continue
        if isinstance(child, NavigableString):
            parts.append(str(child) if tag.name == "pre" else re.sub(r"\s+", " ", str(child)))
        elif isinstance(child, Tag):
            name = child.name
            if name in _HEADINGS:
                parts.append(f"\n\n{_HEADINGS[name]} {child.get_text(' ', strip=True)}\n\n")
            elif name == "tr":
                cells = [cell.get_text(" ", strip=True) for cell in child.find_all(["td", "th"], recursive=False)]
                parts.append("\n" + " | ".join(" ".join(cell.split()) for cell in cells))
            elif name == "li":
                parts.append("\n- ")
                _write(child, parts)
            else:
                breaks = "\n" if name in _BLOCKS else ""
                parts.append(breaks)
                _write(child, parts)
                parts.append(breaks)


def _count(markup: str) -> int:
    """Number of tags; more than `MAX_TAGS` where the parsers could choke, also on depth or attributes."""
    if any(len(tag[0].split()) > MAX_ATTRIBUTES for tag in _LONG_TAG.finditer(markup)):
        return MAX_TAGS + 1
    depth = count = 0
    for tag in _TAG.finditer(markup):
        count += 1
        if tag[2].lower() not in _VOID and not tag[0].endswith("/>"):
            depth = max(0, depth - 1) if tag[1] else depth + 1
        if count > MAX_TAGS or depth > MAX_DEPTH:
            return MAX_TAGS + 1
    return count


def _crude_text(markup: str) -> str:
    """All text by a linear scan, without a parser."""
    body = _SCRIPTED.sub(" ", markup)
    body = _TAG.sub(lambda tag: "\n" if tag[2].lower() in _BLOCKS or tag[2].lower() in _HEADINGS else " ", body)
    return _tidy(html.unescape(body))


def _crude_title(markup: str) -> str:
    found = _TITLE.search(markup[:200_000])
    return " ".join(html.unescape(_TAG.sub(" ", found[1])).split())[:300] if found else ""


def _tidy(text: str) -> str:
    lines = [re.sub(r"[ \t\xa0]+", " ", line).strip() for line in text.splitlines()]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
