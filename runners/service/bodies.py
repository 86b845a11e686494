"""What comes in over HTTP and what goes out, with examples for the OpenAPI description."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, FailFast, Field, JsonValue

from runners.service.selecting import Ask, Candidate, Strategy

MAX_TEXT = 1_000_000
"""Characters of one text."""
MAX_QUERY = 20_000
MAX_TOKENS = 1_000_000_000
MAX_ROWS = 100_000
"""Of any list, whatever the settings say: what is longer is not looked at."""
Id = Annotated[str, Field(min_length=1, max_length=200)]
Tokens = Annotated[int, Field(ge=0, le=MAX_TOKENS)]
SESSION = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class CandidateIn(Body):
    id: Id
    text: str = Field(max_length=MAX_TEXT)
    tokens: Tokens | None = Field(None, description="null: counted by the service")


_CANDIDATES: list[JsonValue] = [
    {"id": "m1", "text": "The harbour of Varden was rebuilt in 1831."},
    {"id": "m2", "text": "Invoice 4711-B was paid by Ingrid Solvang."},
    {"id": "m3", "text": "Thanks, that is all for today.", "tokens": 8},
]


class SelectIn(Body):
    """What to choose from, oldest first."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        json_schema_extra={
            "examples": [
                {
                    "query": "Who paid invoice 4711-B?",
                    "candidates": _CANDIDATES,
                    "budget": 40,
                    "strategy": "pacms",
                    "must_keep": ["m3"],
                }
            ]
        },
    )

    query: str = Field(min_length=1, max_length=MAX_QUERY)
    candidates: Annotated[list[CandidateIn], FailFast(), Field(max_length=MAX_ROWS)]
    budget: Tokens = Field(description="tokens that the chosen may cost together")
    strategy: Strategy = "pacms"
    must_keep: Annotated[list[Id], FailFast()] = Field(
        [], max_length=MAX_ROWS, description="ids that are always chosen"
    )
    k: int = Field(10, ge=0, le=100_000, description="of rag")
    mult: float = Field(0.5, ge=0, le=1, description="of mmr: weight of the query against redundancy")
    drop_duplicates: bool = Field(True, description="of chosen texts that are the same only the newest stays")
    fallbacks: int = Field(0, ge=0, le=1_000_000, description="how often the caller fell back since its last answer")

    def ask(self) -> Ask:
        """The request as the selector takes it."""
        return Ask(
            self.query,
            tuple(Candidate(one.id, one.text, one.tokens) for one in self.candidates),
            self.budget,
            self.strategy,
            tuple(self.must_keep),
            self.k,
            self.mult,
            self.drop_duplicates,
        )


class SelectOut(Body):
    """``selected``: ids in the order of the candidates."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        json_schema_extra={
            "examples": [
                {
                    "selection": "s1f3a9c",
                    "selected": ["m2", "m3"],
                    "tokens": 23,
                    "budget": 40,
                    "strategy": "pacms",
                    "recency": "",
                    "warm": 3,
                    "objective": 0.71,
                    "upper_bound": 0.71,
                    "notes": [],
                }
            ]
        },
    )

    selection: str
    selected: list[str]
    tokens: int
    budget: int
    strategy: Strategy
    recency: Literal["", "encoder", "irrelevant"] = Field(description="why the newest were taken instead")
    warm: int = Field(description="candidates whose keys were known")
    objective: float | None
    upper_bound: float | None
    notes: list[str]


class DecisionOut(Body):
    id: str
    kept: bool
    tokens: int
    score: float = Field(description="cosine with the query")
    order: int | None = Field(description="place in the order of choice, from 0")
    gain: float | None = Field(description="what it added, or would add, to the objective")
    reason: str


class DebugOut(SelectOut):
    """The selection, and one decision for each candidate."""

    decisions: list[DecisionOut]
    dropped: list[str]


class UsedIn(Body):
    """What the agent did next, to measure how much of what it used was kept."""

    selection: Id
    text: str = Field(max_length=MAX_TEXT)


class UsedOut(Body):
    """Strings of ``text`` that were new to the query and stood in some candidate; those that stood in a kept one."""

    used: int
    kept: int


class PrewarmIn(Body):
    texts: Annotated[list[Annotated[str, Field(max_length=MAX_TEXT)]], FailFast()] = Field(
        max_length=MAX_ROWS, examples=[["The harbour of Varden."]]
    )


class PrewarmOut(Body):
    made: int


class BeginIn(Body):
    """A session of a new name is begun; one that is there is opened."""

    name: str | None = Field(None, pattern=SESSION, examples=["support-4711"], description="null: one is given")


class SessionOut(Body):
    session: str
    steps: int
    writable: bool
    policy: str
    budget: int | None


class IngestIn(Body):
    text: str = Field(min_length=1, max_length=MAX_TEXT, examples=["Invoice 4711-B was paid by Ingrid Solvang."])
    role: Literal["user", "assistant", "tool"] = "user"
    tool: str = Field("", max_length=64, description="which tool, with the role tool")


class IngestOut(Body):
    chunk: str = Field(examples=["c7"])


class AssembleIn(Body):
    question: str = Field("", max_length=MAX_QUERY, examples=["Who paid?"], description="empty: as before")
    budget: Annotated[int, Field(ge=1, le=MAX_TOKENS)] | None = Field(None, description="null: as configured")


class MessageOut(Body):
    role: str
    content: str


class AssembleOut(Body):
    step: int
    tokens: int
    budget: int
    messages: list[MessageOut]


class GlimpseIn(Body):
    chunk: str = Field(max_length=64, examples=["c7", "c10-c20"])
    part: int = Field(1, ge=1, le=MAX_TOKENS)
    query: str = Field("", max_length=1000, description="show only the passages that match this best")


class TextOut(Body):
    text: str


class SearchIn(Body):
    query: str = Field(min_length=1, max_length=MAX_QUERY)
    count: int = Field(5, ge=1, le=50)


class FoundOut(Body):
    chunk: str
    passage: str


class FoundsOut(Body):
    found: list[FoundOut]


class ListedOut(Body):
    """A session that there is. ``status``: of its last run; ``running`` while a process holds it."""

    session: str
    status: str
    steps: int
    question: str
    policy: str
    last_activity: float = Field(description="Unix time, seconds")


class StepOut(Body):
    """A stored step in one line. ``tokens``: of its full text."""

    step: int
    line: str
    tokens: int


class ErrorBody(Body):
    kind: str
    message: str
    hint: str = ""


class ErrorOut(Body):
    """Every answer that is not 2xx."""

    error: ErrorBody
