"""CRC on a GPU as the network grows: time of a round, beside what its memory alone would take."""

import sys
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.tools import console, per_round, run, seconds, show, verdict
from peerwise import topology
from peerwise.methods.crc import crc
from peerwise.methods.relay import relay
from peerwise.models import naive_bayes
from peerwise.shards import pack

ROWS, FEATURES, CLASSES = 50, 16, 26
TARGETS = {100_000: (4.0, None), 1_000_000: (45.0, 20.0)}  # nodes -> ms a round, GB
SMALL = (10_000_000, 5, 4, 2)  # nodes, rows, features, classes
MOST = 1.5  # target of relay: times a round of CRC


def network(n: int, rows: int, features: int, classes: int) -> Any:
    """The model, rows and tree of n nodes; class means differ in every feature."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, classes, n * rows, dtype=np.int32)
    means = rng.standard_normal((classes, features), np.float32)
    x = rng.standard_normal((n * rows, features), np.float32)
    x += means[y]
    shards = pack(x, y, np.arange(n * rows).reshape(n, rows))
    return naive_bayes((0,) * features, classes), shards, topology.random_tree(n, seed=0)


def bandwidth() -> float:
    """Bytes a second that a copy moves, read and written."""
    a = jnp.ones((1 << 28,), jnp.float32)
    copy = jax.jit(lambda a: a + 1)
    copy(a)
    return 2 * a.nbytes / min(seconds(lambda: copy(a)) for _ in range(5))


def floor(n: int, rows: int, features: int, classes: int) -> float:
    """Bytes of a round: statistics read twice and written once, rows read once."""
    return 4.0 * n * (3 * classes * (1 + 2 * features) + rows * (features + 2))


def peak() -> float:
    """Most memory of the device so far, GB; 0 where it is not counted."""
    return (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use", 0) / 1e9


def main() -> None:
    if jax.default_backend() == "cpu":
        console.print("No GPU here: nothing to measure.\n")
        return
    rate = bandwidth()
    rows = []
    for n, *shape in (
        *((n, ROWS, FEATURES, CLASSES) for n in (10_000, *TARGETS)),
        SMALL,
    ):
        model, shards, tree = network(n, *shape)
        method = crc(model, m0=1000.0)
        few, many = (10, 110) if n < 100_000 else (5, 25)
        took = per_round({n: (partial(run, method, shards, tree), few, many)}, least=3, budget=0)[n]
        least, (ms, gb) = floor(n, *shape) / rate, TARGETS.get(n, (None, None))
        rows.append(
            (
                f"{n:,} nodes of {shape[0]} rows, {shape[1]} features, {shape[2]} classes",
                f"{took * 1e3:.2f}"
                + (f" (at most {ms:g}) {verdict(took * 1e3 <= ms)}" if ms else ""),
                f"{least * 1e3:.2f}",
                f"{took / least:.1f}",
                f"{peak():.1f}" + (f" (at most {gb:g}) {verdict(peak() <= gb)}" if gb else ""),
            )
        )
        del model, shards, tree, method
    show(
        f"CRC on a random tree; a copy moves {rate / 1e12:.2f} TB/s",
        ("", "round, ms", "memory alone, ms", "times that", "peak so far, GB"),
        rows,
        "memory alone: statistics read twice and written once, rows read once.",
    )
    for n in (20_000, 100_000):
        relay_beside_crc(n)


def relay_beside_crc(n: int) -> None:
    """A round of relay against one of CRC, in turns."""
    model, shards, tree = network(n, ROWS, FEATURES, CLASSES)
    methods = {"CRC": crc(model, m0=1000.0), "relay": relay(model)}
    best = per_round(
        {name: (partial(run, m, shards, tree), 5, 25) for name, m in methods.items()}, budget=0
    )
    times = best["relay"] / best["CRC"]
    show(
        f"Relay, {n:,} nodes, {tree.slots} slots",
        ("", "round, ms"),
        [(name, f"{took * 1e3:.2f}") for name, took in best.items()],
        f"times CRC: {times:.2f} (at most {MOST:g}) {verdict(times <= MOST)}; "
        f"peak so far {peak():.1f} GB",
    )


if __name__ == "__main__":  # `python -m benchmarks.gpu relay`: relay beside CRC alone
    if sys.argv[1:] == ["relay"]:
        for n in (20_000, 100_000):
            relay_beside_crc(n)
    else:
        main()
