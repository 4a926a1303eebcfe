"""Shards of very different sizes: packed into groups against padded to the largest."""

from functools import partial

import jax
import numpy as np

from benchmarks.tools import per_round, rows_of, run, show
from peerwise import topology as topologies
from peerwise.core import Shard
from peerwise.methods.crc import crc
from peerwise.models import naive_bayes
from peerwise.shards import Group, Shards, pack

NODES, SMALLEST, LARGEST, FEATURES, CLASSES = 1_000, 5, 500, 16, 26


def padded(shards: Shards) -> Shards:
    """The same shards, all padded to the largest: one group."""
    longest = max(group.shard.weight.shape[1] for group in shards.groups)

    def wide(a: np.ndarray) -> np.ndarray:
        return np.pad(a, [(0, 0), (0, longest - a.shape[1]), *[(0, 0)] * (a.ndim - 2)])

    place = np.argsort(np.concatenate([g.nodes for g in shards.groups]))
    whole = [jax.tree.map(wide, group.shard) for group in shards.groups]
    shard = Shard(*(np.concatenate(leaves)[place] for leaves in zip(*whole, strict=True)))
    return Shards((Group(np.arange(shards.n, dtype=np.int32), shard),))


def main() -> None:
    rng = np.random.default_rng(0)
    sizes = np.exp(rng.uniform(np.log(SMALLEST), np.log(LARGEST), NODES)).astype(int)
    x, y = rows_of(sizes.sum(), FEATURES, CLASSES)
    shards = pack(x, y, np.split(np.arange(sizes.sum()), np.cumsum(sizes)[:-1]))
    method = crc(naive_bayes((0,) * FEATURES, CLASSES), lr=0.05, rows=int(sizes.sum()), nodes=NODES)
    tree = topologies.random_tree(NODES)
    kinds = {"groups of similar size": shards, "padded to the largest": padded(shards)}
    ends = [np.asarray(run(method, kind, tree, 4)) for kind in kinds.values()]
    assert np.allclose(*ends, rtol=1e-3, atol=1e-4 * np.abs(ends[0]).max())
    took = per_round(
        {name: (partial(run, method, kind, tree), 2, 18) for name, kind in kinds.items()}, budget=10
    )
    base = took["groups of similar size"]
    show(
        f"CRC with {NODES:,} nodes of {sizes.min()} to {sizes.max()} rows, log-uniform",
        ("", "groups", "rows", "rows with padding", "round, ms", "x ours"),
        [
            (
                name,
                str(len(kind.groups)),
                f"{kind.rows:,}",
                f"{sum(g.shard.weight.size for g in kind.groups):,}",
                f"{took[name] * 1e3:.1f}",
                f"{took[name] / base:.1f}",
            )
            for name, kind in kinds.items()
        ],
    )


if __name__ == "__main__":
    main()
