"""Combining alone: the simulator's way against the two usual ones."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.tools import race, show
from peerwise import topology as topologies
from peerwise.combine.apply import Heard, network
from peerwise.combine.weigh import equal
from peerwise.core import Array
from peerwise.topology import Topology

CASES: dict[str, tuple[Callable[[], Topology], int]] = {
    "tree, 320 x 10,250": (lambda: topologies.random_tree(320), 10_250),
    "tree, 10,000 x 858": (lambda: topologies.random_tree(10_000), 858),
    "6-regular, 10,000 x 858": (lambda: topologies.regular(10_000, k=6), 858),
}


def slots_of(topology: Topology) -> Heard:
    """Who is in which slot of whom, all of it heard."""
    ((_, table),) = topology.table
    edge = jnp.maximum(table[0], 0)
    weight = jnp.where(table[0] >= 0, topology.links.weight[0][edge], 0)
    return Heard(None, topology.links.src[0][edge], weight, jnp.zeros_like(edge), None)


def contestants(topology: Topology, size: int) -> dict[str, Callable[[], Array]]:
    rng = np.random.default_rng(0)
    sent = jnp.asarray(rng.normal(size=(topology.n, size)), jnp.float32)
    note = {"size": jnp.ones(topology.n)}
    rule = equal()
    slots = slots_of(topology)
    src, dst = topology.links.src[0], topology.links.dst[0]
    degree = jnp.bincount(dst, length=topology.n).astype(jnp.float32)[:, None]

    @jax.jit
    def ours(sent: Array, slots: Heard) -> Array:
        return network(rule, sent, note, sent, note, (slots,))

    @jax.jit
    def segments(sent: Array, src: Array, dst: Array) -> Array:
        total = jax.ops.segment_sum(sent[src], dst, topology.n, indices_are_sorted=True)
        return total / degree

    @jax.jit
    def gathered(sent: Array, slots: Heard) -> Array:
        weight = slots.weight / slots.weight.sum(1, keepdims=True)
        return jnp.einsum("nk,nkp->np", weight, sent[slots.src])

    return {
        "simulator": lambda: ours(sent, slots),
        "segment_sum": lambda: segments(sent, src, dst),
        "gather [n, k, P]": lambda: gathered(sent, slots),
    }


def main() -> None:
    rows = []
    for name, (graph, size) in CASES.items():
        runs = contestants(graph(), size)
        ends = [np.asarray(f()) for f in runs.values()]
        assert all(np.allclose(end, ends[0], atol=1e-5) for end in ends), name
        best = race(runs, least=8, budget=3)
        fastest = min(best.values())
        rows.append(
            (
                name,
                *(f"{'[bold]' if t == fastest else ''}{t * 1e3:.1f}" for t in best.values()),
                f"{best['segment_sum'] / best['simulator']:.1f}",
                f"{best['gather [n, k, P]'] / best['simulator']:.1f}",
            )
        )
    show(
        "Mean over neighbours, ms",
        ("nodes x parameters", *best, "2nd / 1st", "3rd / 1st"),
        rows,
        "The simulator also silences messages that did not arrive; the others, as written here, do "
        "not.",
    )


if __name__ == "__main__":
    main()
