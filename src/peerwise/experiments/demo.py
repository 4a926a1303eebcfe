"""The demonstration: a network learns handwritten digits, with nothing but what is installed."""

from collections.abc import Callable
from typing import NamedTuple

import networkx as nx
import numpy as np

from peerwise import topology
from peerwise.experiments.job import make_method, make_topology, split
from peerwise.experiments.job import run as run_setting
from peerwise.experiments.setting import Setting
from peerwise.metrics import consensus, errors, guards, together
from peerwise.models.registry import model_for
from peerwise.shards import pack
from peerwise.simulate import simulate

__all__ = ["Demo", "demo"]


class Demo(NamedTuple):
    """What the demonstration shows."""

    setting: Setting
    graph: nx.Graph
    rounds: np.ndarray  # [t]
    error: np.ndarray  # [t, nodes] test error of every node's model
    levels: dict[str, float]  # test errors of the references
    spread: dict[str, float]  # standard deviation over nodes, where there are several
    bytes_per_link: int
    messages: int
    guards: int


def demo(setting: Setting, progress: Callable[[int], None] | None = None) -> Demo:
    """Run CRC and its references once; `progress` is told the rounds done."""
    part = split(setting, 0)
    model = model_for(part.schema, setting.model)
    graph = make_topology(setting, 0)
    run = simulate(
        make_method(setting, model, setting.nodes * setting.rows),
        pack(part.x, part.y, part.owned),
        graph,
        setting.rounds,
        seed=setting.seed,
        probe=together(errors("test", part.x_test, part.y_test), guards(), consensus()),
        at=range(1, setting.rounds + 1),
        progress=progress,
        chunk=1 if progress else None,
    )
    levels, spread = {}, {}
    names = {
        "calibrated, pooled (RC)": "rc",
        "max. likelihood, pooled": "ml",
        "each node alone": "isolated",
    }
    for label, method in names.items():
        update = {"method": method, "repetitions": 1, "record": "last"}
        found = run_setting(setting.model_copy(update=update)).values["test_error"][0, -1]
        levels[label] = float(found.mean())
        spread[label] = float(found.std())
    seen = run.history["adapt"]
    return Demo(
        setting,
        topology.graph_of(graph),
        np.arange(1, setting.rounds + 1),
        np.asarray(seen["test_error"]),
        levels,
        spread,
        run.message_bytes,
        run.messages,
        int(np.asarray(seen["guards"])[-1].sum()),
    )
