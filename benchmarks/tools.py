"""What the benchmarks share: networks to run on, fair timing, tables."""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np
from rich.console import Console
from rich.table import Table

from peerwise import topology as topologies
from peerwise.core import Method
from peerwise.methods.crc import crc
from peerwise.models import naive_bayes
from peerwise.shards import Shards, pack
from peerwise.simulate import simulate
from peerwise.topology import Topology

console = Console(width=100)


def rows_of(count: int, features: int, classes: int, seed: int = 0) -> tuple[Any, Any]:
    """Standardised float32 rows around a mean per class, and their classes."""
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=count)
    spread = 3 / np.sqrt(features)  # hard enough that nodes have something to learn
    x = rng.normal(size=(classes, features))[y] * spread + rng.normal(size=(count, features))
    return ((x - x.mean(0)) / x.std(0)).astype(np.float32), y


def network(
    n: int, features: int, classes: int, rows: int = 50, seed: int = 0
) -> tuple[Method, Shards, Topology]:
    """CRC with its default learning rate, `rows` rows on each of n nodes, and a random tree."""
    x, y = rows_of(n * rows, features, classes, seed)
    method = crc(naive_bayes((0,) * features, classes), lr=0.05, rows=n * rows, nodes=n)
    shards = pack(x, y, list(np.arange(n * rows).reshape(n, rows)))
    return method, shards, topologies.random_tree(n, seed=seed)


def run(method: Method, shards: Shards, topology: Topology, rounds: int, **options: Any) -> Any:
    """The statistics of all nodes after a run that records nothing."""
    done = simulate(method, shards, topology, rounds, at=[], **options)
    return jax.block_until_ready(done.state.value)


def seconds(f: Callable[[], Any]) -> float:
    """How long one call takes."""
    start = time.perf_counter()
    jax.block_until_ready(f())
    return time.perf_counter() - start


def race(
    runners: Mapping[Any, Callable[[], Any]], least: int = 5, budget: float = 4
) -> dict[Any, float]:
    """The shortest time of each, in turns: whoever else uses the machine slows them all alike.

    One call before counts for nothing (it compiles); then at least `least` turns, and more until
    `budget` seconds have gone by.
    """
    for f in runners.values():
        seconds(f)
    best = dict.fromkeys(runners, float("inf"))
    start, turns = time.perf_counter(), 0
    while turns < least or time.perf_counter() - start < budget:
        turns += 1
        for name, f in runners.items():
            best[name] = min(best[name], seconds(f))
    return best


def per_round(
    runners: Mapping[Any, tuple[Callable[[int], Any], int, int]], **options: Any
) -> dict[Any, float]:
    """Seconds of a round, free of what a run costs once: name -> (run, few rounds, many rounds)."""
    calls = {
        (name, rounds): partial(f, rounds)
        for name, (f, few, many) in runners.items()
        for rounds in (few, many)
    }
    best = race(calls, **options)
    return {
        name: (best[name, many] - best[name, few]) / (many - few)
        for name, (_, few, many) in runners.items()
    }


def verdict(good: bool) -> str:
    """How a target is marked."""
    return "[green]met[/]" if good else "[bold red]MISSED[/]"


def show(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], note: str = "") -> None:
    """Print a table: text to the left, numbers to the right, what it means underneath."""
    table = Table(title=title, caption=note, title_justify="left", caption_justify="left")
    for i, head in enumerate(heads):
        table.add_column(head, justify="left" if i == 0 else "right")
    for row in rows:
        table.add_row(*row)
    console.print(table)
    console.print()
