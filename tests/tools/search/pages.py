"""A small corpus of our own, English and Chinese."""

from __future__ import annotations

import json
from pathlib import Path

PAGES = [
    (
        "p1",
        "Harbour lighthouse",
        "The harbour lighthouse was built in 1874. Its keeper lived beside the tower for forty years.",
    ),
    ("p2", "Keeper of lights (novel)", "A novel about a keeper who paints. It never mentions the sea by name."),
    ("p3", "Café Zürich", "A café known for pastry; naïve visitors order twice."),
    ("p4", "Running", "She runs every morning and has run nine marathons."),
    ("p5", "灯塔", "港口的灯塔建于一八七四年，守塔人是王小明。"),
    ("p6", "人工智能", "人工智能研究机器如何学习。"),
    ("p7", "Mixed", "The term 机器学习 means machine learning; Python 编程 is used."),
    ("p8", "Markup <b>&amp;</b>", 'Text with <script>alert(1)</script> & "quotes".\n    indented line\n</pre> kept'),
]


def write_jsonl(file: Path) -> Path:
    lines = [
        json.dumps({"page_id": key, "title": title, "text": text}, ensure_ascii=False) for key, title, text in PAGES
    ]
    file.write_text("\n".join(lines), encoding="utf-8")
    return file
