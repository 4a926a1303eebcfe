"""The host: graphs of a million nodes, and 5e7 rows dealt and packed; seconds and memory.

    python -m benchmarks host [NODES] [ROWS]

Seconds are CPU seconds of one thread. Memory is the peak beyond the table itself, in parts of the
table's own bytes: one for the packed rows is the least where they are put in another order.
"""

import math
import resource
import sys
import time

import numpy as np

from peerwise import partition, topology
from peerwise.shards import pack

FEATURES = 4


def took(name, f, words=lambda given: ""):
    begun = time.process_time()
    given = f()
    print(f"{name:44s} {time.process_time() - begun:7.2f} s  {words(given)}", flush=True)
    return given


def graphs(n):
    p = 1.2 * math.log(n) / n  # connected: log(n) / n is where isolated nodes disappear
    makers = {
        "random tree": lambda: topology.random_tree(n),
        "ring": lambda: topology.ring(n),
        "4-regular": lambda: topology.regular(n, k=4),
        "Barabasi-Albert, m = 2": lambda: topology.barabasi_albert(n, m=2),
        f"Erdos-Renyi, mean degree {p * n:.1f}": lambda: topology.erdos_renyi(n, p=p),
    }
    for name, make in makers.items():
        took(name, make, lambda made: f"{made.links.src.shape[1]:,} links")


def peak():
    """The most memory so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def rows(n, m):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((m, FEATURES), np.float32)
    y = rng.integers(10, size=m, dtype=np.int32)
    table, before = x.nbytes + y.nbytes, peak()
    sizes = partition.equal_sizes(n, m)
    more = lambda _: f"peak {(peak() - before) / table:.2f} tables"  # noqa: E731
    dealt = took(
        f"{m:,} rows dealt to {n:,} nodes, iid", lambda: partition.iid(rng, x, y, sizes), more
    )
    took("packed, equal sizes", lambda: pack(x, y, dealt), more)
    uneven = partition.uniform_sizes(rng, n, m)
    dealt = took("dealt, uneven sizes", lambda: partition.iid(rng, x, y, uneven), more)
    took("packed, uneven sizes", lambda: pack(x, y, dealt), more)
    took("dealt by label", lambda: partition.label_sorted(rng, x, y, sizes), more)


def main(nodes=10**6, m=5 * 10**7):
    import jax.numpy as jnp

    jnp.zeros(1)  # JAX starts before anything is measured
    graphs(int(nodes))
    rows(int(nodes), int(m))


if __name__ == "__main__":
    main(*sys.argv[1:])
