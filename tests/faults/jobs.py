"""What children of the zygote can do. Arguments and results are JSON."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.faults.player import Points, play
from tests.faults.zygote import Job


async def session(given: Mapping[str, Any]) -> object:
    """Play the session of ``folder``; ``deadly``: [point, n]; ``points``: give all points that were passed."""
    deadly = (str(given["deadly"][0]), int(given["deadly"][1])) if given.get("deadly") else None
    points = Points(deadly)
    outcome = await play(Path(given["folder"]), points, given.get("policy", "fold-range"))
    return {"status": outcome.status, "answer": outcome.answer, "points": points.seen if given.get("points") else []}


JOBS: Mapping[str, Job] = {"session": session}
