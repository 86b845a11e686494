"""PACE's compression pressure (section 3.3)."""

from __future__ import annotations


def pressure(step: int, t_max: int, previous_tokens: int, budget: int) -> float:
    """P_t = max(t / T_max, |C_{t-1}| / B_max), clamped to [0, 1] as the paper states its range.

    Without the clamp the thresholds of a long session rise until nothing is ever shown above a placeholder.
    """
    if t_max <= 0:
        raise ValueError(f"t_max must be positive, not {t_max}")
    if budget <= 0:
        raise ValueError(f"budget must be positive, not {budget}")
    return min(1.0, max(0.0, step / t_max, previous_tokens / budget))
