"""What a tool is, and the two ways it can fail.

A failure that the model can mend is a `ToolError` and becomes an observation; anything else is a fault of the program
and ends the run with its traceback.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict

from memory.records import ErrorKind, Observation


class Arguments(BaseModel):
    """Base of every tool's arguments: outside bytes enter here, so pydantic validates; unknown names are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


A = TypeVar("A", bound=Arguments, contravariant=True)


@dataclass(frozen=True, slots=True)
class CallContext:
    """What a tool may know of the call: its id (ours), the step it belongs to, the question in force."""

    call_id: str
    step: int
    question: str = ""


class ToolError(Exception):
    """A failure shown to the model. ``kind`` is of the closed set; the message says what to do differently."""

    def __init__(self, kind: ErrorKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Tool(Protocol, Generic[A]):
    """One tool. ``arguments`` is the pydantic model its JSON schema is made from."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def arguments(self) -> type[Arguments]: ...

    @property
    def timeout_s(self) -> float: ...

    async def run(self, arguments: A, context: CallContext) -> Observation:
        """Raises ToolError for what a model can mend."""
        ...

    async def aclose(self) -> None: ...
