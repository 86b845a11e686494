"""Seeded pools, and the plain answers to compare with: brute force and greedy without any laziness."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from memory.plan import FloatArray, IntArray
from memory.selection.similarity import Float32Array

DAMPING = 0.2


def unit_keys(rng: np.random.Generator, count: int, dim: int = 8, shift: float = 0.3) -> Float32Array:
    keys = rng.normal(size=(count, dim)) + shift
    keys /= np.linalg.norm(keys, axis=1, keepdims=True)
    return keys.astype(np.float32)


def clustered(
    seed: int, count: int, *, dim: int = 64, shared: float = 0.0
) -> tuple[Float32Array, FloatArray, IntArray]:
    """Keys in clusters of about 25 (with a ``shared`` direction, as text has it), relevance, costs of 50-5,000."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(max(1, count // 25), dim))
    keys = centres[rng.integers(0, len(centres), count)] + 0.7 * rng.normal(size=(count, dim))
    common = rng.normal(size=dim)
    keys += shared * np.linalg.norm(keys, axis=1).mean() * common / np.linalg.norm(common)
    keys /= np.linalg.norm(keys, axis=1, keepdims=True)
    query = keys[0] + 0.3 * rng.normal(size=dim) / dim**0.5
    relevance = np.maximum(keys @ query / np.linalg.norm(query), 0)
    costs = np.exp(rng.uniform(np.log(50), np.log(5_000), count)).astype(np.int64)
    return keys.astype(np.float32), relevance, costs


@dataclass(frozen=True)
class Instance:
    """A pool of levels; ``levels`` 2 with a free, empty first one is plain facility location."""

    values: FloatArray
    fidelity: FloatArray
    costs: IntArray
    cosines: Float32Array
    damping: float
    floor: IntArray
    budget: int

    @property
    def similarity(self) -> FloatArray:
        result: FloatArray = self.damping * np.maximum(self.cosines.astype(np.float64), 0)
        return result + (1 - self.damping) * np.eye(len(self.values))

    def cost(self, levels: IntArray) -> int:
        return int(self.costs[np.arange(len(levels)), levels].sum())

    def objective(self, levels: IntArray) -> float:
        if not len(levels):
            return 0.0
        cover = self.similarity * self.fidelity[np.arange(len(levels)), levels][None, :]
        return float(self.values @ cover.max(axis=1))

    def best(self) -> float:
        """F of the best levels not coarser than the floor, by trying all."""
        ranges = [range(low, self.fidelity.shape[1]) for low in self.floor.tolist()]
        tried = (np.array(levels, dtype=np.int64) for levels in itertools.product(*ranges))
        return max(self.objective(levels) for levels in tried if self.cost(levels) <= self.budget)

    def plain(self, by_cost: bool) -> IntArray:
        """Greedy: every gain computed anew for every pick; of equals the newer chunk, then the finer level."""
        levels = self.floor.copy()
        cover = (self.similarity * self.fidelity[np.arange(len(levels)), levels][None, :]).max(axis=1)
        while True:
            best = (0.0, -1, -1)
            for j, level in itertools.product(range(len(levels)), range(self.fidelity.shape[1])):
                extra = int(self.costs[j, level] - self.costs[j, levels[j]])
                if level <= levels[j] or self.cost(levels) + extra > self.budget:
                    continue
                new = self.fidelity[j, level] * self.similarity[:, j]
                gain = float(self.values @ np.maximum(new - cover, 0))
                if gain > 1e-12:
                    best = max(best, (gain / max(extra, 1e-6) if by_cost else gain, j, level))
            if best[1] < 0:
                return levels
            levels[best[1]] = best[2]
            cover = np.maximum(cover, self.fidelity[best[1], best[2]] * self.similarity[:, best[1]])

    def single(self) -> IntArray:
        """The floor and the best single element that fits."""
        options = [self.floor]
        for j, level in itertools.product(range(len(self.floor)), range(self.fidelity.shape[1])):
            levels = self.floor.copy()
            levels[j] = max(level, levels[j])
            if self.cost(levels) <= self.budget:
                options.append(levels)
        return max(options, key=self.objective)


def items(rng: np.random.Generator, most: int) -> Instance:
    """A random plain instance with at most ``most`` items, some of them to be kept."""
    count = int(rng.integers(1, most + 1))
    keys = unit_keys(rng, count)
    costs = np.stack([np.zeros(count, dtype=np.int64), rng.integers(0, 100, count)], axis=1)
    floor = (rng.random(count) < 0.1).astype(np.int64)
    least = int(costs[np.arange(count), floor].sum())
    budget = int(rng.integers(least, costs[:, 1].sum() + 2))
    fidelity = np.tile([0.0, 1.0], (count, 1))
    return Instance(rng.random(count), fidelity, costs, keys @ keys.T, 1.0, floor, budget)


def chunks(rng: np.random.Generator, most: int, levels: int = 4) -> Instance:
    """A random instance of chunks with ``levels`` levels."""
    count = int(rng.integers(1, most + 1))
    keys = unit_keys(rng, count)
    costs = np.sort(rng.integers(1, 100, (count, levels)), axis=1)
    fidelity = np.sort(rng.random((count, levels)), axis=1)
    floor = np.where(rng.random(count) < 0.1, rng.integers(0, levels, count), 0)
    least = int(costs[np.arange(count), floor].sum())
    budget = int(rng.integers(least, costs[:, -1].sum() + 2))
    return Instance(rng.random(count), fidelity, costs, keys @ keys.T, DAMPING, floor, budget)
