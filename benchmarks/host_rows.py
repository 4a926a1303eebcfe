"""Rows in the host's memory against rows on the device: time a round, and memory of the device.

    python -m benchmarks.host_rows [NODES] [ROWS] [FEATURES]

Meant for a GPU (`nvidia-smi`'s memory is what the device reports): there, rows of the host are
pinned and moved in blocks of nodes, every round. It checks that both give the same numbers, to
rounding.
"""

import sys
import time

import jax
import numpy as np

from peerwise.core import near, on_host
from peerwise.methods import crc
from peerwise.models import naive_bayes
from peerwise.shards import pack
from peerwise.simulate import simulate
from peerwise.topology import random_tree

CLASSES, ROUNDS = 10, 8


def network(nodes, rows, features):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((nodes * rows, features), np.float32)
    y = rng.integers(CLASSES, size=nodes * rows, dtype=np.int32)
    owned = np.arange(nodes * rows).reshape(nodes, rows)
    model = naive_bayes((0,) * features, CLASSES)
    return crc(model, rows=nodes * rows, nodes=nodes), pack(x, y, list(owned)), random_tree(nodes)


def peak():
    return (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use", 0) / 1e9


def timed(parts, place):
    go = lambda rounds: simulate(*parts, rounds, rows=place)  # noqa: E731
    jax.block_until_ready(go(1).state)
    begun = time.perf_counter()
    jax.block_until_ready(go(1).state)
    once = time.perf_counter() - begun
    begun = time.perf_counter()
    run = go(1 + ROUNDS)
    jax.block_until_ready(run.state)
    return run, (time.perf_counter() - begun - once) / ROUNDS


def bus(gigabytes=1):
    """GB a second from the host's pinned memory to the device, in one piece."""
    held = on_host({"x": np.ones(gigabytes << 28, np.float32)})
    move = jax.jit(lambda tree: near(tree)["x"] + 0)
    jax.block_until_ready(move(held))
    best = float("inf")
    for _ in range(3):
        begun = time.perf_counter()
        jax.block_until_ready(move(held))
        best = min(best, time.perf_counter() - begun)
    return held["x"].nbytes / 1e9 / best


def main(nodes=None, rows=500, features=64):
    if nodes is None:  # a few blocks' worth of rows on a GPU
        nodes = 2000 if jax.default_backend() == "cpu" else 20_000
    rate = bus()
    print(f"{jax.devices()[0].device_kind}: the bus moves {rate:.1f} GB/s")
    parts = network(int(nodes), int(rows), int(features))
    size = sum(a.nbytes for g in parts[1].groups for a in g.shard) / 1e9
    seen = {}
    for place in ("host", "device"):  # the host first: a peak of the device stays
        run, seconds = timed(parts, place)
        seen[place] = [np.asarray(a) for a in jax.tree.leaves(run.state)], seconds
        print(
            f"{place:7s} {seconds * 1e3:9.2f} ms a round, peak {peak():.2f} GB, rows {size:.2f} GB"
        )
    apart = max(
        float(np.max(np.abs(a - b)) / max(np.max(np.abs(b)), 1e-30))
        for a, b in zip(seen["host"][0], seen["device"][0], strict=True)
    )
    print(
        f"host / device {seen['host'][1] / seen['device'][1]:.2f}; "
        f"host / (device + rows over the bus) "
        f"{seen['host'][1] / (seen['device'][1] + size / rate):.2f}; "
        f"largest difference {apart:.1e}"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
