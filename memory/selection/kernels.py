"""The loops of `memory.selection.compiled`, on arrays alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

import numba
import numpy as np

from memory.plan import FloatArray, IntArray
from memory.selection.lazy import FREE
from memory.selection.similarity import Float32Array, Int32Array

_Function = TypeVar("_Function", bound=Callable[..., Any])


class Arrays(NamedTuple):
    """A `Problem`, as the kernels take it. Its ``indices`` are an argument of their own, None if rows are dense: each
    case is compiled by itself, since a choice between two loops keeps both from the vector unit."""

    starts: IntArray
    stops: IntArray
    weights: Float32Array
    value: Float32Array
    own: IntArray
    own_weight: Float32Array
    fidelity: Float32Array
    scale: Float32Array


class Lists(NamedTuple):
    """`Neighbours`, as the kernels take them."""

    starts: IntArray
    stops: IntArray
    indices: Int32Array
    weights: Float32Array


def _compiled(function: _Function) -> _Function:
    """``function``, compiled when it is first called and cached on disk, or in memory where no disk can be written.

    Sums may be reordered, so that they use the vector unit; nothing is contracted, so that what is covered already
    adds exactly 0.
    """
    options = {"fastmath": {"reassoc", "nsz"}, "error_model": "numpy", "nogil": True}
    try:
        return cast(_Function, numba.njit(cache=True, **options)(function))
    except RuntimeError:
        return cast(_Function, numba.njit(**options)(function))


@_compiled
def _dense_sum(row: Float32Array, scale: Any, value: Float32Array, best: Float32Array, total: Any) -> Any:
    """``total`` and what a row of all clients adds. Adding it behind the loop would keep it from the vector unit."""
    zero = np.float32(0.0)
    for i in range(len(row)):
        over = scale * row[i] - best[i]
        total += value[i] * (over if over > zero else zero)
    return total


@_compiled
def _sparse_sum(row: Float32Array, clients: Int32Array, scale: Any, best: Float32Array, total: Any) -> Any:
    """``total`` and what a row of some clients adds."""
    zero = np.float32(0.0)
    for i in range(len(row)):
        over = scale * row[i] - best[clients[i]]
        total += over if over > zero else zero
    return total


@_compiled
def _gain(p: Arrays, indices: Int32Array | None, best: Float32Array, j: int, level: int) -> Any:
    """What candidate ``j`` at ``level`` adds. ``best`` is written to, and left as it was."""
    total = np.float32(0.0)
    scale = p.scale[j, level]
    row = p.weights[p.starts[j] : p.stops[j]]
    if indices is not None:
        return _sparse_sum(row, indices[p.starts[j] : p.stops[j]], scale, best, total)
    me = p.own[j]
    mine = best[me] if me >= 0 else np.float32(0.0)
    if me >= 0:
        # its own cover is undamped: it comes first, and is taken out of the loop
        over = p.fidelity[j, level] * p.own_weight[j] - mine
        if over > np.float32(0.0):
            total = p.value[me] * over
        best[me] = np.inf
    total = _dense_sum(row, scale, p.value, best, total)
    if me >= 0:
        best[me] = mine
    return total


@_compiled
def _take(p: Arrays, indices: Int32Array | None, best: Float32Array, j: int, level: int) -> None:
    """`Problem.take`."""
    scale = p.scale[j, level]
    row = p.weights[p.starts[j] : p.stops[j]]
    if indices is None:
        for i in range(len(row)):
            best[i] = max(best[i], scale * row[i])
    else:
        clients = indices[p.starts[j] : p.stops[j]]
        for i in range(len(row)):
            best[clients[i]] = max(best[clients[i]], scale * row[i])
    me = p.own[j]
    if me >= 0:
        best[me] = max(best[me], p.fidelity[j, level] * p.own_weight[j])


@_compiled
def cover(p: Arrays, indices: Int32Array | None, best: Float32Array, levels: IntArray) -> None:
    """`Problem.cover`."""
    for j in range(len(levels)):
        if p.fidelity[j, levels[j]] > 0.0:
            _take(p, indices, best, j, levels[j])


@_compiled
def gains(
    p: Arrays, indices: Int32Array | None, best: Float32Array, candidates: IntArray, levels: IntArray
) -> FloatArray:
    """`Problem.gains`. ``best`` is written to, and left as it was."""
    result = np.empty(len(candidates))
    for b in range(len(candidates)):
        result[b] = _gain(p, indices, best, candidates[b], levels[b])
    return result


@_compiled
def first_gains(p: Arrays, indices: Int32Array | None, best: Float32Array, shown: IntArray) -> FloatArray:
    """`NumpyEngine.first_gains`. ``best`` is written to, and left as it was."""
    result = np.zeros(p.fidelity.shape)
    for j in range(len(shown)):
        for level in range(shown[j] + 1, p.fidelity.shape[1]):
            result[j, level] = _gain(p, indices, best, j, level)
    return result


@_compiled
def pack(
    lists: Lists,
    value: Float32Array,
    own_weight: Float32Array,
    damping: Any,
    starts: IntArray,
    indices: Int32Array,
    weights: Float32Array,
) -> None:
    """`memory.selection.nearest.pack`, into the last three."""
    for j in range(len(starts)):
        place = starts[j]
        indices[place], weights[place] = j, value[j] * own_weight[j]
        for listed in range(lists.starts[j], lists.stops[j]):
            place += 1
            i = lists.indices[listed]
            indices[place] = i
            weights[place] = damping * lists.weights[listed] * value[i] if i != j else np.float32(0.0)


@_compiled
def reached(lists: Lists, scale: Float32Array, cover: Float32Array) -> None:
    """`memory.selection.nearest.reached`: raises ``cover``. ``scale`` (n,): damping times the fidelity shown."""
    for i in range(len(cover)):
        best = cover[i]
        for listed in range(lists.starts[i], lists.stops[i]):
            j = lists.indices[listed]
            if j != i:
                best = max(best, scale[j] * lists.weights[listed])
        cover[i] = best


@_compiled
def offered(
    lists: Lists,
    value: Float32Array,
    own_weight: Float32Array,
    fidelity: Float32Array,
    scale: Float32Array,
    cover: Float32Array,
    gains: FloatArray,
) -> None:
    """`memory.selection.nearest.offered`, added to ``gains`` of 0. ``scale`` (n, L): damping times fidelity."""
    levels = fidelity.shape[1]
    for i in range(len(cover)):
        for level in range(levels):
            gains[i, level] += value[i] * max(fidelity[i, level] * own_weight[i] - cover[i], np.float32(0.0))
        for listed in range(lists.starts[i], lists.stops[i]):
            j, cosine = lists.indices[listed], lists.weights[listed]
            for level in range(levels):
                over = scale[j, level] * cosine - cover[i]
                if over > 0.0 and j != i:
                    gains[j, level] += value[i] * over


@_compiled
def _before(key: float, element: int, other_key: float, other: int) -> bool:
    """Whether ``element`` comes first: a larger key, or of equals the newer candidate, the finer level."""
    return bool(key > other_key or (key == other_key and element > other))


@_compiled
def _sink(keys: FloatArray, heap: IntArray, size: int, key: float, element: int) -> None:
    """Put ``element`` in place of the first of the heap, and move it down to where it belongs."""
    place = 0
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and _before(keys[child + 1], heap[child + 1], keys[child], heap[child]):
            child += 1
        if not _before(keys[child], heap[child], key, element):
            break
        keys[place], heap[place] = keys[child], heap[child]
        place = child
    keys[place], heap[place] = key, element


@_compiled
def _push(keys: FloatArray, heap: IntArray, size: int, key: float, element: int) -> None:
    """Add ``element`` to a heap of ``size``."""
    place = size
    while place > 0:
        parent = (place - 1) // 2
        if not _before(key, element, keys[parent], heap[parent]):
            break
        keys[place], heap[place] = keys[parent], heap[parent]
        place = parent
    keys[place], heap[place] = key, element


@_compiled
def greedy(
    p: Arrays,
    indices: Int32Array | None,
    best: Float32Array,
    shown: IntArray,
    gain: FloatArray,
    costs: IntArray,
    room: int,
    by_cost: bool,
    queue: IntArray,
    queue_keys: FloatArray,
) -> tuple[int, int]:
    """`NumpyEngine.greedy` in place on ``best``, ``shown`` and ``gain``: (room left, gains computed).

    ``queue`` holds the elements with their first keys, in order; only those looked at again go into a heap. One that
    is still the first with its new key is taken at once.
    """
    levels = p.fidelity.shape[1]
    keys, heap, size, head = np.empty(len(queue)), np.empty(len(queue), dtype=np.int64), 0, 0
    evaluations = 0
    while size > 0 or head < len(queue):
        again = size > 0 and (head == len(queue) or _before(keys[0], heap[0], queue_keys[head], queue[head]))
        element = heap[0] if again else queue[head]
        j, level = element // levels, element % levels
        extra = costs[j, level] - costs[j, shown[j]]
        key = -1.0
        if level > shown[j] and extra <= room:
            gain[j, level] = _gain(p, indices, best, j, level)
            evaluations += 1
            if gain[j, level] > 0.0:
                key = gain[j, level] / max(float(extra), FREE) if by_cost else gain[j, level]
        later = head + (0 if again else 1)
        beaten = later < len(queue) and _before(queue_keys[later], queue[later], key, element)
        for rival in range(1, min(3, size)) if again else range(min(1, size)):
            beaten = beaten or _before(keys[rival], heap[rival], key, element)
        if key >= 0.0 and not beaten:
            room -= extra
            _take(p, indices, best, j, level)
            shown[j] = level
            gain[j, : level + 1] = 0.0
            key = -1.0
        if again and key >= 0.0:
            _sink(keys, heap, size, key, element)
        elif again:
            size -= 1
            _sink(keys, heap, size, keys[size], heap[size])
        else:
            head += 1
            if key >= 0.0:
                _push(keys, heap, size, key, element)
                size += 1
    return room, evaluations
