"""Who reads long pages for a goal, and who renders pages that need JavaScript, as a run's configuration says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from agent.backbones.factory import BackboneConfig
from agent.errors import AgentFault
from memory.ports import Completion
from memory.stored import UsageRow
from runners.config import RunConfig
from runners.errors import ConfigError, UsageFault
from tools.visit.goal import GoalExtractor
from tools.visit.reader import Renderer
from tools.web.client import Fetcher


def goal_extractor(
    config: RunConfig, make: Callable[[BackboneConfig], Completion], record: Callable[[UsageRow], Awaitable[None]]
) -> GoalExtractor | None:
    """None when passages are ranked. The caller closes its completion. Raises ConfigError when there is no model."""
    if config.visit.extractor != "llm":
        return None
    model = config.summary_backbone or config.backbone
    if model.kind == "embedded":
        raise ConfigError(
            "visit.extractor: llm needs a model, and the embedded backbone is none",
            hint="choose a backbone, or set summary_backbone",
        )
    return GoalExtractor(make(model), (AgentFault,), record, config.visit.extractor_chars)


def renderer(config: RunConfig, fetcher: Fetcher) -> Renderer | None:
    """None when no browser is wanted. Raises UsageFault, saying what to install."""
    if config.visit.browser == "off" or config.visit.offline:
        return None
    from tools.visit.browser import ChromiumRenderer

    try:
        return ChromiumRenderer(fetcher, config.visit.browser_path, config.visit.browser_s)
    except (ModuleNotFoundError, FileNotFoundError) as error:
        raise UsageFault(f"visit.browser: {error}") from error
