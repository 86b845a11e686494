"""The live view: what it shows on a terminal and elsewhere, and that page text stays text."""

from __future__ import annotations

import io

from rich.console import Console

from agent.events import (
    Bus,
    ContextSummary,
    Finished,
    ModelReplied,
    StepCommitted,
    StepStarted,
    SummaryProgress,
    ToolFinished,
    ToolStarted,
)
from memory.records import Observation, Source, Step, ToolCall, Usage
from runners.live import RunView, describe_call, show_report, watch
from runners.report import CitationReport, RunReport

HOSTILE = "[bold red]win[/] \x1b[2J [link=http://x]y"
CONTEXT = ContextSummary(
    tokens=5_000,
    budget=10_000,
    pressure=0.5,
    fixed_tokens=1_000,
    recent_tokens=2_000,
    tokens_by_level=(100, 400, 500, 1_000),
    counts_by_level=(9, 4, 2, 1),
    unfitted_tokens=5_000,
)
CALL = ToolCall("s3.1", "visit", {"urls": ["http://corpus.local/a"], "goal": HOSTILE})
SEEN = Observation("s3.1", "visit", HOSTILE, sources=(Source("http://corpus.local/a", HOSTILE),))


def play(bus: Bus) -> None:
    bus.emit(StepStarted(3, CONTEXT, 2))
    bus.emit(ModelReplied(3, Usage(input_total=5_100, output=60), 1.25))
    bus.emit(ToolStarted(3, CALL))
    bus.emit(ToolFinished(3, SEEN))
    bus.emit(SummaryProgress(pending=1, done=4))
    bus.emit(StepCommitted(Step(3, calls=(CALL,), observations=(SEEN,))))
    bus.emit(Finished("completed", "done"))


def console(*, terminal: bool, width: int = 100) -> tuple[Console, io.StringIO]:
    stream = io.StringIO()
    return Console(file=stream, force_terminal=terminal, width=width, color_system=None, legacy_windows=False), stream


def report(**changes: object) -> RunReport:
    given: dict[str, object] = {
        "session": "20260101-000000-abcd",
        "status": "completed",
        "question": "q",
        "answer": f"It is 42 [c3].\n\n{HOSTILE}",
        "message": "",
        "citations": (
            CitationReport("c3", "http://corpus.local/a", HOSTILE, "the quote"),
            CitationReport("c9", "", "", "", found=False),
        ),
        "steps": 3,
        "tokens": Usage(),
        "cost": None,
        "backbone": "embedded",
        "policy": "pace",
        "config_hash": "0",
        "seconds": 1.0,
        **changes,
    }
    return RunReport(**given)  # type: ignore[arg-type]


def test_elsewhere_one_line_a_step() -> None:
    bus = Bus()
    where, stream = console(terminal=False)
    with watch(bus, where):
        play(bus)
    play(bus)
    (line,) = stream.getvalue().splitlines()
    assert line.startswith("step 3: visit [bold red]win[/]")
    assert (
        "5,000/10,000 tokens (fixed 1,000, placeholder 100, brief 400, detailed 500, full 1,000, recent 2,000)" in line
    )
    assert line.endswith("1 summaries pending")
    assert "\x1b" not in line


def test_a_terminal_sees_step_action_meter_and_summaries() -> None:
    view = RunView()
    bus = Bus()
    bus.subscribe(view.on_event)
    bus.emit(StepStarted(3, CONTEXT, 2))
    bus.emit(ModelReplied(3, Usage(input_total=5_100, output=60), 1.25))
    bus.emit(ToolStarted(3, CALL))
    where, stream = console(terminal=True)
    where.print(view.render(100))
    first, bar, legend, figures = stream.getvalue().splitlines()
    assert first.lstrip().startswith("3  visit {")
    assert "5,000/10,000 tokens, pressure 0.50" in bar
    assert bar.count("·") > 20
    assert "detailed 500" in legend
    assert "summaries pending 2  tokens in 5,100, out 60  last reply 1.2 s" in figures
    assert "\x1b" not in stream.getvalue()


def test_the_terminal_view_is_redrawn_and_goes_away() -> None:
    bus = Bus()
    where, stream = console(terminal=True)
    with watch(bus, where):
        play(bus)
    assert "[bold red]win[/]" in stream.getvalue()
    assert "\x1b[2J" not in stream.getvalue()


def test_quiet_shows_nothing() -> None:
    bus = Bus()
    where, stream = console(terminal=False)
    with watch(bus, where, quiet=True):
        play(bus)
    assert stream.getvalue() == ""


def test_the_answer_with_its_citations() -> None:
    where, stream = console(terminal=False)
    show_report(report(), where)
    shown = stream.getvalue()
    assert shown.startswith("It is 42 [c3].\n\n[bold red]win[/] [2J")
    assert "[c3] [bold red]win[/] [2J [link=http://x]y  http://corpus.local/a\n    the quote" in shown
    assert "[c9] cites nothing that is stored" in shown
    assert "completed after 3 steps in 1.0 s, cost n/a; embedded (no LLM), policy pace; session 2026" in shown
    assert "\x1b" not in shown


def test_no_answer_says_why() -> None:
    where, stream = console(terminal=False)
    show_report(report(answer="", status="budget", message="limit of 3 steps reached", citations=(), cost=0.5), where)
    assert stream.getvalue().startswith("no answer: budget: limit of 3 steps reached\n")
    assert "cost $0.5000" in stream.getvalue()


def test_a_call_with_one_text_is_shown_by_it() -> None:
    assert describe_call(ToolCall("s1.1", "python", {"code": "1 +\n1"})) == "python 1 + 1"
    assert describe_call(ToolCall("s1.1", "search", {"queries": ["a", "b"]})) == 'search {"queries": ["a", "b"]}'
