"""How time per round and memory grow with the number of nodes."""

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.tools import network, per_round, run, show, verdict
from peerwise import topology as topologies
from peerwise.topology import Topology

SIZES = (100, 1_000, 10_000)
ROWS, FEATURES, CLASSES = 50, 16, 26
ROUNDS = {100: (4, 404), 1_000: (2, 52), 10_000: (1, 7)}  # few, many
LINEAR, MEMORY = 1.3, 4.0  # targets: times linear growth, GiB
GRAPHS: dict[str, Callable[[int], Topology]] = {
    "star": topologies.star,
    "Barabási-Albert, m = 3": partial(topologies.barabasi_albert, m=3),
}


def runner(n: int, graph: Callable[[int], Topology] = topologies.random_tree) -> Any:
    """Runs n nodes on a graph, and the few and many rounds to time."""
    method, shards, _ = network(n, FEATURES, CLASSES, ROWS)
    return partial(run, method, shards, graph(n)), *ROUNDS[n]


def peak() -> float:
    """Most resident memory of this process so far, GiB (getrusage would count its parent's)."""
    (line,) = (x for x in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in x)
    return int(line.split()[1]) / 2**20


def peak_of_a_run(n: int) -> tuple[float, float]:
    """Most memory, in GiB, of a process that runs n nodes: before the run, and at its end."""
    call = f"from benchmarks import scaling; scaling.run_once({n})"
    done = subprocess.run([sys.executable, "-c", call], check=True, capture_output=True, text=True)
    before, after = done.stdout.split()
    return float(before), float(after)


def run_once(n: int) -> None:
    """What the process does: two runs, the second as compiled."""
    made = network(n, FEATURES, CLASSES, ROWS)
    before = peak()
    for _ in range(2):
        run(*made, 3)
    print(before, peak())


def main() -> None:
    times = per_round({n: runner(n) for n in SIZES}, budget=40)
    rows = []
    for i, (n, took) in enumerate(times.items()):
        growth = goal = ""
        if i:
            last = SIZES[i - 1]
            ratio = took / times[last] / (n / last)
            growth = f"{ratio:.2f}"
            goal = f"{LINEAR:g} {verdict(ratio <= LINEAR)}"
        rows.append(
            (f"random tree, {n:,}", f"{took * 1e3:.2f}", f"{took / n * 1e6:.1f}", growth, goal)
        )
    most = SIZES[-1]
    whole = times[most] / times[SIZES[0]] / (most / SIZES[0])
    rows.append(
        (
            f"{SIZES[0]:,} to {most:,} nodes",
            "",
            "",
            f"{whole:.2f}",
            f"{LINEAR:g} {verdict(whole <= LINEAR)}",
        )
    )
    others = per_round({name: runner(most, graph) for name, graph in GRAPHS.items()}, budget=10)
    for name, took in others.items():
        rows.append((f"{name}, {most:,}", f"{took * 1e3:.2f}", f"{took / most * 1e6:.1f}", "", ""))
    show(
        f"CRC as the network grows: {ROWS} rows a node, {FEATURES} features, {CLASSES} classes",
        ("graph, nodes", "round, ms", "round and node, us", "x linear", "target: at most"),
        rows,
        "x linear: growth of the time of a round over growth of the number of nodes.",
    )
    before, after = peak_of_a_run(most)
    show(
        f"Memory of a fresh process with {most:,} nodes",
        ("", "GiB", "target: less than"),
        (
            ("Python, JAX and the data, before the run", f"{before:.2f}", ""),
            ("peak", f"{after:.2f}", f"{MEMORY:g} {verdict(after < MEMORY)}"),
        ),
    )


if __name__ == "__main__":
    main()
