"""What exists is documented, and what the documentation points at exists."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from memory.lifecycle.compact import CompactReport
from memory.policies.registry import POLICIES
from memory.stored import StoreSizes
from runners.choices import packaged_names
from runners.cli.app import COMMANDS, GROUPS
from runners.health import Check
from runners.memory_eval.report import MemoryDifference, MemoryReport, MemoryRow
from runners.replay.report import ReplayReport
from runners.replay.rows import CurveRow, DifferenceRow, ReplayRow, SessionRow
from runners.report import CitationReport, RunReport, ShowReport, StepReport
from runners.sessions.catalogue import SessionEntry
from runners.stress.tables import CellRow, Curve, LatencyRow, RecallRow, StressReport

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def text() -> str:
    return "\n".join(page.read_text("utf-8") for page in PAGES)


@pytest.mark.parametrize("command", [function.__name__.replace("_", "-") for function in COMMANDS])
def test_every_command_is_documented(command: str) -> None:
    assert f"`longstride {command}" in text()


@pytest.mark.parametrize("command", [f"{group} {name}" for group, (_, names) in GROUPS.items() for name in names])
def test_every_command_of_a_group_is_documented(command: str) -> None:
    assert f"`longstride {command}" in text()


@pytest.mark.parametrize("kind", ["profile", "policy", "backbone"])
def test_every_config_file_is_documented(kind: str) -> None:
    missing = [name for name in packaged_names(kind) if f"`{name}`" not in text()]  # type: ignore[arg-type]
    assert not missing


def test_every_policy_is_documented() -> None:
    assert not [name for name in POLICIES if f"`{name}`" not in text()]


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_every_policy_has_its_section(name: str) -> None:
    """What it does, when to use it, cost, source, every option, and what was measured."""
    page = (ROOT / "docs" / "policies.md").read_text("utf-8")
    (section,) = re.findall(rf"^## `{name}`\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    for part in ("**Use it**", "**Cost**", "**From**", "**Options**", "**Measured**"):
        assert section.count(f"* {part}") == 1, part
    fields = POLICIES[name].config.model_fields.items()
    assert not [key for key, field in fields if f"`{field.alias or key}`" not in section]


REPORTS = (
    RunReport,
    CitationReport,
    ShowReport,
    StepReport,
    SessionEntry,
    StoreSizes,
    CompactReport,
    Check,
    MemoryReport,
    MemoryRow,
    MemoryDifference,
    ReplayReport,
    ReplayRow,
    DifferenceRow,
    SessionRow,
    CurveRow,
    StressReport,
    CellRow,
    RecallRow,
    LatencyRow,
    Curve,
)


@pytest.mark.parametrize("report", REPORTS)
def test_every_json_field_is_documented(report: type) -> None:
    page = (ROOT / "docs" / "json.md").read_text("utf-8")
    missing = [field.name for field in fields(report) if not re.search(rf"[`.]{field.name}(\[\])?`", page)]
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_relative_links_resolve(page: Path) -> None:
    links = [link for link in LINK.findall(page.read_text("utf-8")) if "://" not in link]
    broken = [link for link in links if not (page.parent / link.partition("#")[0]).exists()]
    assert not broken


def test_make_targets_in_the_documentation_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    named = set(re.findall(r"\bmake ([a-z][a-z-]*)", "\n".join(re.findall(r"`[^`]+`|^make.*$", text(), re.MULTILINE))))
    assert named
    assert named <= targets
