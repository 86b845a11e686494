"""Linear layers of a model on the CPU through oneDNN: the same float32, up to rounding.

PyTorch's wheels multiply float32 matrices by MKL, which keeps to AVX2 on processors that are not Intel's; oneDNN, which
the wheels also hold, uses AVX-512 there and is then more than twice as fast.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from torch import Tensor, nn

Multiply: TypeAlias = "Callable[[Tensor, Tensor, Tensor | None], Tensor]"
_TOLERANCE = 1e-4


def quicken(model: nn.Module) -> int:
    """Let a model's linear layers multiply through oneDNN, where that can be had; how many of them do.

    Weights, names and state stay as they are. A layer that is moved to another device, or trained, works as before.
    """
    from torch import nn

    multiply = _multiply()
    if multiply is None:
        return 0
    layers = [layer for layer in model.modules() if type(layer) is nn.Linear]
    for layer in layers:
        _replace_forward(layer, multiply)
    return len(layers)


def _replace_forward(layer: nn.Linear, multiply: Multiply) -> None:
    import torch

    plain = layer.forward

    def forward(given: Tensor) -> Tensor:
        weight = layer.weight
        fits = weight.dtype == given.dtype == torch.float32 and weight.device.type == given.device.type == "cpu"
        if fits and given.numel() and not torch.is_grad_enabled():
            return multiply(given, weight, layer.bias)
        return plain(given)

    object.__setattr__(layer, "forward", forward)


def _multiply() -> Multiply | None:
    """The operator; None where this build lacks it, or it does not give what PyTorch's own gives."""
    import torch

    if not torch.backends.mkldnn.is_available():
        return None

    def multiply(given: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        found: Tensor = torch.ops.mkldnn._linear_pointwise(given, weight, bias, "none", [], "")
        return found

    given, weight = (torch.linspace(-1, 1, size * 8).reshape(size, 8) for size in (3, 5))
    try:
        found = multiply(given, weight, None)
    except (AttributeError, RuntimeError, TypeError):
        return None
    return multiply if torch.allclose(found, given @ weight.T, atol=_TOLERANCE) else None
