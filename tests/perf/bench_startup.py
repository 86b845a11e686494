"""How long the command takes to say something: ``python -m tests.perf.bench_startup [--json FILE]``.

Goal: ``longstride --help`` under 0.5 s. The bare interpreter is measured in the same run, in turn.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time

from runners.report import write_json

CASES = {
    "python -c pass": ["-c", "pass"],
    "longstride --help": ["-m", "longstride", "--help"],
    "longstride policies": ["-m", "longstride", "policies"],
    "longstride doctor": ["-m", "longstride", "doctor"],
}


def measure(arguments: list[str]) -> float:
    """Seconds of one run of the interpreter."""
    began = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=False, capture_output=True)
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", default="")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    seconds: dict[str, list[float]] = {name: [] for name in CASES}
    for _ in range(options.rounds):
        for name, arguments in CASES.items():
            seconds[name].append(measure(arguments))
    for name, values in seconds.items():
        sys.stdout.write(f"{name:24} median {statistics.median(values):.3f} s, min {min(values):.3f} s\n")
    if options.json:
        write_json(
            {name: {"median_s": statistics.median(v), "min_s": min(v)} for name, v in seconds.items()}, options.json
        )


if __name__ == "__main__":
    main()
