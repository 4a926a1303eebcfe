"""Run all benchmarks, or those named: `python -m benchmarks [name ...]`."""

import os
import platform
import sys
from importlib import import_module
from importlib.metadata import version

import jax

import peerwise
from benchmarks.tools import console

NAMES = (
    "crc_speed",
    "relay_speed",
    "scaling",
    "devices",
    "aggregation",
    "ragged",
    "compile",
    "releases",
    "sealed",
    "neural",
    "gpu",
    "peers",
    "attack",
    "page",
    "host",
    "planning",
)


def header() -> str:
    """What was measured, and on what."""
    packages = ", ".join(f"{name} {version(name)}" for name in ("jax", "numpy"))
    packages = f"peerwise {peerwise.__version__}, {packages}"
    load = os.getloadavg()[0]
    return (
        f"{os.cpu_count()} cores ({platform.machine()}), {jax.default_backend()}, "
        f"Python {platform.python_version()}, {packages}\n"
        f"Shortest of several repeats, rivals in turns, after compilation. Load before: {load:.1f}"
        f"{' (others are using this machine: ratios hold, times do not)' if load > 0.5 else ''}\n"
    )


def main(names: list[str]) -> None:
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        sys.exit(f"there is no benchmark {unknown[0]!r}: choose from {', '.join(NAMES)}")
    console.print(header())
    for name in names or NAMES:
        module = import_module(f"benchmarks.{name}")
        console.rule(f"{name}: {module.__doc__.splitlines()[0]}", align="left")
        module.main()


if __name__ == "__main__":
    main(sys.argv[1:])
