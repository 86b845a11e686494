"""What a person sees of a run: the step, the action, the context meter, and at the end the answer with its citations.

A terminal gets a view that is redrawn at every event; anything else gets one line a step. Both go to stderr, so that
stdout holds the answer alone. Page text is never read as markup and cannot move the cursor.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from agent.events import (
    AnyEvent,
    Bus,
    ContextSummary,
    ModelReplied,
    StepCommitted,
    StepStarted,
    SummaryProgress,
    ToolStarted,
)
from memory.chunking import arguments_text, placeholder_text
from memory.records import Step, ToolCall, Usage, add_usage
from runners.meter import Meter, one_line
from runners.report import CitationReport, RunReport
from tools.python.base import UNSAFE

HISTORY = 6
"""Finished steps that stay in view."""
LINE = 160


@dataclass(slots=True)
class RunView:
    """The run as far as it was told of. ``on_event`` is a listener of the bus."""

    step: int = 0
    action: str = ""
    context: ContextSummary | None = None
    pending: int = 0
    usage: Usage = field(default_factory=Usage)
    model_seconds: float = 0.0
    done: deque[tuple[int, str]] = field(default_factory=lambda: deque(maxlen=HISTORY))

    def on_event(self, event: AnyEvent) -> None:
        """Take one event in."""
        match event:
            case StepStarted():
                self.step, self.context, self.pending = event.step, event.context, event.pending_summaries
                self.action = "asking the model"
            case ModelReplied():
                self.usage = add_usage(self.usage, event.usage)
                self.model_seconds = event.seconds
            case ToolStarted():
                self.action = describe_call(event.call)
            case StepCommitted():
                self.done.append((event.step.number, describe_step(event.step)))
                self.action = ""
            case SummaryProgress():
                self.pending = event.pending
            case _:
                pass

    def render(self, width: int) -> RenderableType:
        """The view, ``width`` cells wide."""
        lines = [_row(number, text, width, "dim") for number, text in self.done]
        if self.action:
            lines.append(_row(self.step, self.action, width, "bold"))
        if self.context is not None:
            meter = Meter.of(self.context)
            size = f" {meter.used:,}/{meter.budget:,} tokens, pressure {self.context.pressure:.2f}"
            lines.append(meter.bar(max(8, min(80, width - len(size)))).append(size))
            lines.append(meter.legend())
            lines.append(Text(self._figures(), style="dim"))
        return Group(*lines)

    def line(self, step: Step) -> str:
        """One step as a line of plain text."""
        context = "" if self.context is None else f" | {Meter.of(self.context).plain()}"
        pending = f", {self.pending} summaries pending" if self.pending else ""
        return f"step {step.number}: {describe_step(step)}{context}{pending}"

    def _figures(self) -> str:
        parts = [f"summaries pending {self.pending}"]
        if self.usage.input_total is not None:
            parts.append(f"tokens in {self.usage.input_total:,}, out {self.usage.output or 0:,}")
        if self.usage.cost is not None:
            parts.append(f"${self.usage.cost:.4f}")
        if self.model_seconds >= 0.05:
            parts.append(f"last reply {self.model_seconds:.1f} s")
        return "  ".join(parts)


@contextmanager
def watch(bus: Bus, console: Console | None = None, *, quiet: bool = False) -> Iterator[None]:
    """Show what goes over the bus while the block runs; ``console``: where (default: stderr)."""
    if quiet:
        yield
        return
    console = console or Console(stderr=True)
    view = RunView()
    if console.is_terminal:
        with Live(console=console, auto_refresh=False, transient=True) as live:

            def redraw(event: AnyEvent) -> None:
                view.on_event(event)
                live.update(view.render(console.width), refresh=True)

            end = bus.subscribe(redraw)
            try:
                yield
            finally:
                end()
        return

    def write(event: AnyEvent) -> None:
        view.on_event(event)
        if isinstance(event, StepCommitted):
            console.print(Text(view.line(event.step)), soft_wrap=True)

    end = bus.subscribe(write)
    try:
        yield
    finally:
        end()


def warn_of_unsafe(python: str, console: Console | None = None) -> None:
    """Say in red that code runs without isolation, where it does; to stderr unless ``console`` says otherwise."""
    if python.startswith(UNSAFE):
        console = console or Console(stderr=True)
        warning = f"python runs {python}: the model's code can do all that you can"
        console.print(Text(warning, "bold red"), soft_wrap=True)


def show_report(report: RunReport, console: Console | None = None) -> None:
    """The answer, its citations resolved, and what the run took; to stdout unless ``console`` says otherwise."""
    console = console or Console()
    if report.answer:
        console.print(Text(clean(report.answer)), soft_wrap=True)
    else:
        console.print(Text(f"no answer: {report.status}: {one_line(report.message, 2000)}", "bold red"), soft_wrap=True)
    for citation in report.citations:
        console.print(_citation(citation), soft_wrap=True)
    cost = "n/a" if report.cost is None else f"${report.cost:.4f}"
    figures = f"{report.status} after {report.steps} steps in {report.seconds:.1f} s, cost {cost}"
    name = "embedded (no LLM)" if report.backbone == "embedded" else report.backbone
    model = f"{name}, policy {report.policy}"
    console.print(Text(f"\n{figures}; {model}; session {report.session}", "dim"), soft_wrap=True)
    if report.python.startswith(UNSAFE):
        console.print(Text(f"python ran {report.python}", "bold red"), soft_wrap=True)


def describe_call(call: ToolCall) -> str:
    """A call on one line: its name and what it is about."""
    arguments = call.arguments
    values = list(arguments.values())
    single = values[0] if len(values) == 1 else None
    about = single if isinstance(single, str) else arguments_text(arguments)
    return one_line(f"{call.name} {about}", LINE)


def describe_step(step: Step) -> str:
    """A finished step on one line: its placeholder."""
    return one_line(placeholder_text(step), LINE)


def clean(text: str) -> str:
    """Text of several lines without anything that moves the cursor."""
    return "\n".join(one_line(line, len(line) + 1) if line.strip() else "" for line in text.splitlines())


def _row(number: int, text: str, width: int, style: str) -> Text:
    row = Text(f"{number:>5}  {text}", style=style, no_wrap=True)
    row.truncate(width, overflow="ellipsis")
    return row


def _citation(citation: CitationReport) -> Text:
    text = Text(f"\n[{citation.chunk}] ", "bold")
    if not citation.found:
        return text.append("cites nothing that is stored", "bold red")
    where = "  ".join(part for part in (one_line(citation.title, LINE), one_line(citation.url, 2000)) if part)
    text.append(where or "no source", "not bold")
    if citation.quote:
        text.append(f"\n    {one_line(citation.quote, 600)}", "not bold dim")
    return text
