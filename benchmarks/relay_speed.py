"""A round of relay against one of CRC: the same rows and tree, in turns."""

from functools import partial

from benchmarks.tools import network, per_round, run, show, verdict
from peerwise.methods.crc import crc
from peerwise.methods.relay import relay
from peerwise.models import naive_bayes

SHAPES = ((16, 26), (100, 10))  # features, classes
NODES, ROWS, FEW, MANY = 50, 50, 32, 96
MOST = 1.5  # target: times a round of CRC


def main() -> None:
    """Time per round and bytes per message."""
    rows = []
    for features, classes in SHAPES:
        _, shards, tree = network(NODES, features, classes)
        model = naive_bayes((0,) * features, classes)
        methods = {"CRC": crc(model, m0=1000.0), "relay": relay(model)}
        best = per_round(
            {name: (partial(run, m, shards, tree), FEW, MANY) for name, m in methods.items()},
            budget=10,
        )
        times = best["relay"] / best["CRC"]
        for name, took in best.items():
            mark = f"{times:.2f} (at most {MOST:g}) {verdict(times <= MOST)}"
            rows.append(
                (
                    f"{name}, {features} features, {classes} classes",
                    f"{took * 1e3:.3f}",
                    mark if name == "relay" else "",
                )
            )
    show(
        f"Relay: {NODES} nodes of {ROWS} rows on a random tree, {tree.slots} slots",
        ("", "round, ms", "x CRC"),
        rows,
    )


if __name__ == "__main__":
    main()
