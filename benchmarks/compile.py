"""What a first call costs, and what does not compile again."""

import jax

from benchmarks.tools import network, run, seconds, show

NODES, FEATURES, CLASSES, ROUNDS = 50, 16, 26, 64


def main() -> None:
    method, shards, tree = network(NODES, FEATURES, CLASSES)
    _, others, other_tree = network(NODES, FEATURES, CLASSES, seed=1)
    cases = (
        ("first call", (shards, tree, ROUNDS, 0)),
        ("the same again", (shards, tree, ROUNDS, 0)),
        ("other data", (others, tree, ROUNDS, 0)),
        ("another seed", (shards, tree, ROUNDS, 1)),
        ("another random tree", (shards, other_tree, ROUNDS, 0)),
        ("half the rounds", (shards, tree, ROUNDS // 2, 0)),
        ("all of these", (others, other_tree, ROUNDS // 2, 1)),
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
        "The first call compiles. A call of other shapes (nodes, rows, features, slots) would too.",
    )


if __name__ == "__main__":
    main()
