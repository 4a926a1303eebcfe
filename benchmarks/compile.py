"""What a first call costs, and what does not compile again."""

import jax

from benchmarks.tools import network, run, seconds, show
from peerwise.topology import random_tree

NODES, FEATURES, CLASSES, ROUNDS = 50, 16, 26, 64


def main() -> None:
    method, shards, tree = network(NODES, FEATURES, CLASSES)
    _, others, _ = network(NODES, FEATURES, CLASSES, seed=1)
    trees = [random_tree(NODES, seed=seed) for seed in range(1, 50)]
    alike = next(t for t in trees if t.slots == tree.slots)
    unlike = next(t for t in trees if t.slots != tree.slots)
    cases = (
        ("first call", (shards, tree, ROUNDS, 0)),
        ("the same again", (shards, tree, ROUNDS, 0)),
        ("other data", (others, tree, ROUNDS, 0)),
        ("another seed", (shards, tree, ROUNDS, 1)),
        (f"another random tree with {alike.slots} slots", (shards, alike, ROUNDS, 0)),
        ("half the rounds", (shards, tree, ROUNDS // 2, 0)),
        ("all of these", (others, alike, ROUNDS // 2, 1)),
        (f"a random tree with {unlike.slots} slots: compiles", (shards, unlike, ROUNDS, 0)),
    )
    jax.clear_caches()
    rows = []
    for name, (rows_, graph, rounds, seed) in cases:
        took = seconds(lambda: run(method, rows_, graph, rounds, seed=seed))  # noqa: B023
        rows.append((name, f"{took * 1e3:.0f}", f"{took / rounds * 1e3:.2f}"))
    show(
        f"Calls in a row: {NODES} nodes, {FEATURES} features, {CLASSES} classes, {ROUNDS} rounds",
        ("call", "ms", "ms a round"),
        rows,
        "The first call compiles, and so does one of other shapes (nodes, rows, features, slots). "
        "Slots: the largest number of neighbours, rounded up to a power of two.",
    )


if __name__ == "__main__":
    main()
