"""Settings of visit."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from tools.visit.robots import RobotsMode


class VisitConfig(BaseModel):
    """``window_chars``: the most text of one page in an observation. ``max_age_s``: how long a recorded page is used
    again. ``offline``: only recorded pages (and the local corpus). ``extract_s``: limit for parsing one document;
    ``robots_s``: for its site's robots.txt.

    ``extractor``: who finds what a goal asks for in a long page: ``passages`` ranks its passages, ``llm`` asks the
    summariser's model (``summary_backbone``, else the backbone), which is shown at most ``extractor_chars`` of it.
    ``browser``: ``auto`` renders a page that shows no text without JavaScript (extra ``browser``), with the Chromium
    at ``browser_path`` or on PATH.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    window_chars: int = Field(default=6000, ge=500)
    max_age_s: float = Field(default=86_400.0, ge=0)
    offline: bool = False
    robots: RobotsMode = "respect"
    robots_s: float = Field(default=5.0, gt=0)
    extract_s: float = Field(default=20.0, gt=0)
    extractor: Literal["passages", "llm"] = "passages"
    extractor_chars: int = Field(default=60_000, ge=2000)
    browser: Literal["off", "auto"] = "off"
    browser_path: str = ""
    browser_s: float = Field(default=30.0, gt=0)
    cache_bytes: int = Field(default=256_000_000, gt=0)
    timeout_s: float = Field(default=120.0, gt=0)
