"""How the python tool is configured: whether it is offered, where the code runs, how long, what is kept."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tools.python.base import Level


class PythonConfig(BaseModel):
    """``enabled``: offer the tool where the code can be isolated. ``timeout_s``: of one call. ``where``: on this
    machine, or a service that isolates by itself. ``level``: the isolation on this machine; ``auto`` takes the best.
    Level 0 is none at all, and is never taken without ``unsafe_python``. ``keep_files`` and ``keep_mb`` bound what is
    kept of the files that the code makes, per session."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: bool = True
    timeout_s: float = Field(default=60.0, gt=0)
    where: Literal["local", "sandbox_fusion", "e2b"] = "local"
    level: Level | Literal["auto"] = "auto"
    unsafe_python: bool = False
    keep_files: int = Field(default=200, ge=0)
    keep_mb: int = Field(default=64, ge=0)

    @model_validator(mode="after")
    def _unsafe_is_said(self) -> PythonConfig:
        if self.level == 0 and not self.unsafe_python:
            raise ValueError("python.level 0 runs code without any isolation: it needs python.unsafe_python: true")
        return self
