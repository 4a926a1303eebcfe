"""From a cell and its rows to something that runs: the one place that makes methods."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import networkx as nx
import numpy as np
from jax.tree_util import Partial

from peerwise import metrics, topology
from peerwise.agreement import phase_options
from peerwise.channel import Channel
from peerwise.core import Method, State, Tree
from peerwise.declare import Declared, build, find, needs
from peerwise.errors import BadSetting
from peerwise.learner.firsts import bounds_of, budget_of, check_exact, settled
from peerwise.learner.sections import Cell
from peerwise.learner.world import World
from peerwise.methods.baselines import Pooled
from peerwise.methods.releasing import release
from peerwise.metrics.clock import Clock
from peerwise.models.family import Model
from peerwise.models.registry import agreed, check_rows, first_phase
from peerwise.nets.net import Net, network_of
from peerwise.privacy.design import Design, design_of
from peerwise.shards import Shards, pack, pooled
from peerwise.topology import Topology


class Assembled(NamedTuple):
    """Everything that a runtime needs for one repetition."""

    method: Method
    shards: Shards
    links: Topology
    channel: Channel | None
    probe: Any  # None without test rows


class Facts(dict[str, Any]):
    """The known facts of a cell; a fact that must be computed is computed on first use."""

    def __init__(self, known: dict[str, Any], makers: dict[str, Callable[[], Any]]):
        super().__init__(known)
        self.makers = makers

    def __missing__(self, name: str) -> Any:
        self[name] = self.makers[name]()  # KeyError: not known here
        return self[name]


def make_links(cell: Cell, world: World) -> Topology:
    """Who hears whom, drawn from the world's seed or given."""
    place, n = cell.method.traits.place, world.nodes
    if place == "pooled":
        return topology.alone(1)
    if place == "alone":
        return topology.alone(n)
    if place == "server":
        return topology.server(n)
    table, s = cell["network"]["topology"], cell["network"]

    def draw(seed: int) -> Topology:
        graph: Topology = build("topology", table, {"n": n, "seed": seed})
        return graph

    if world.links is not None:
        links: Topology = world.links
    elif s["push"] and s["redraw"] is not None:
        raise BadSetting(
            "[network] push draws a receiver for each node in every round, along one graph: "
            "remove redraw, or push"
        )
    elif s["push"]:
        everybody = find("topology", table["name"]).traits.complete
        among = n if everybody else draw(world.seed)
        links = topology.pushes(among, rounds=max(cell["run"]["rounds"], 1), seed=world.seed)
    elif s["redraw"] is not None:
        if "seed" not in find("topology", table["name"]).facts:
            raise BadSetting(
                f"[network] redraw draws a new graph, and {table['name']} is always the same: "
                "remove it, or use a random topology, such as random_tree"
            )
        rounds = max(cell["run"]["rounds"], 1)
        every = min(s["redraw"], rounds)
        links = topology.redrawn(draw, every=every, rounds=rounds, seed=world.seed)
    else:
        links = draw(world.seed)
    if links.n != n:
        raise BadSetting(f"topology '{table['name']}' has {links.n} nodes, and there are {n}")
    return topology.metropolis(links) if "metropolis" in needs("method", cell["method"]) else links


def assemble(
    cell: Cell, world: World, degree: int | None = None, shards: Shards | None = None
) -> Assembled:
    """Method, shards, links, channel and probe of a cell for the rows of a world.

    `degree`: the most neighbours of a node, where it is known to be more than these links have.
    `shards`: the rows as they are packed, where other repetitions are to have the same shapes.
    """
    links = make_links(cell, world)
    if shards is None:
        world = settled(cell, world, links)
        deal = pooled if cell.method.traits.place == "pooled" else pack
        shards = deal(world.x, world.y, world.owned)
    facts = facts_of(cell, world, shards, links, degree)
    method = build("method", cell["method"], facts)
    channel = build("channel", cell["network"]["channel"], facts) if "network" in cell else None
    probe = None if world.x_test is None else probe_of(cell["run"]["metrics"], facts)
    return Assembled(method, shards, links, channel, probe)


def facts_of(
    cell: Cell, world: World, shards: Shards | None, links: Topology, degree: int | None = None
) -> Facts:
    """All facts that functions can ask for, as far as they are known in this world."""
    schema = world.schema
    classes = len(schema.classes)
    facts: dict[str, Any] = {
        "n": world.nodes,
        "nodes": world.nodes,
        "seed": world.seed,
        "rounds": cell["run"]["rounds"],
        "degree": links.slots if degree is None else degree,
        "classes": classes,
        "cardinalities": schema.cardinalities,
        "missing": schema.missing,
        "shape": world.shape or world.x.shape[1:],
    }
    if world.rows is not None:
        facts["rows"] = world.rows
    if world.x_test is not None:
        facts |= {"x_test": world.x_test, "y_test": world.y_test}
        # a metric may look at the nodes' own rows
        facts |= {"x": world.x, "y": world.y, "owned": world.owned}
    known = Facts(facts, {})
    makers = known.makers
    makers["width"] = lambda: width_of(links)
    makers["net"] = lambda: _net(cell, known)
    if "model" in cell:
        makers["model"] = lambda: _model(cell, world, shards, links, known)
    if "privacy" in cell:
        makers["draw"] = lambda: _draw(cell, world, known)
        makers["budget"] = lambda: budget_of(cell, world)
        makers["design"] = lambda: _design(cell, world, known)
    if cell.method.traits.place == "pooled":
        makers["pooled"] = lambda: Pooled(world.x, world.y, classes)
    return known


def _net(cell: Cell, facts: Facts) -> Net:
    net = build("net", cell["net"], facts)
    if isinstance(net, Net):
        return net
    if not callable(net):
        raise BadSetting(
            f"net '{cell['net']['name']}' must return a function from a key to an equinox module, "
            f"or a peerwise.nets.Net, got {type(net)}"
        )
    return network_of(net, math.prod(facts["shape"]), facts["classes"])


def _model(cell: Cell, world: World, shards: Any, links: Topology, facts: Facts) -> Model:
    """The model; what must be agreed before is a first phase of the network, where there is one.

    Nodes that learn alone are told, as they are told center and scale.
    """
    table, schema = dict(cell["model"]), world.schema
    phase = first_phase(table, schema)
    if phase is not None:
        if world.sums is None:
            check_exact(cell, phase)
        if world.sums is not None:
            options = phase.options(world.sums)
        elif cell.method.traits.place in ("neighbours", "server") and not phase.public:
            options = phase_options(phase, shards, links, cell["run"]["seed"])
        else:
            options = agreed(schema, table["name"], world.x, world.y)
        table |= {k: v for k, v in options.items() if table[k] is None}
    model: Model = build("model", table, facts)
    # under a budget no row decides whether a node takes part, only the units that all know
    rows = np.asarray(world.x)
    check_rows(model, rows if world.budget is None else rows[:0], schema)
    return model


def _draw(cell: Cell, world: World, facts: Facts) -> Any:
    if world.draw is not None:
        return world.draw
    s = cell["privacy"]
    budget = budget_of(cell, world)
    shared: dict[str, Any] = {"epsilon": budget.epsilon, "sensitivity": s["sensitivity"]}
    if s["sensitivity"] == "bounded":
        delta = 0.0 if s["mechanism"] == "laplace" else budget.delta
        shared |= {"bounds": (-s["bound"], s["bound"]), "delta": delta}
        shared |= {"mechanism": s["mechanism"], "split": s["split"], "knows": s["aware"]}
    return release(facts["model"], **shared)


def _design(cell: Cell, world: World, facts: Facts) -> Design:
    s, model = cell["privacy"], facts["model"]
    if s["sensitivity"] != "bounded" or s["mechanism"] == "laplace":
        raise BadSetting(
            "sealed sums have Gaussian noise of bounded sensitivity; remove [privacy] sensitivity "
            "and mechanism"
        )
    return design_of(model, *bounds_of(cell, world))


def width_of(links: Topology) -> int:
    """Links between any two nodes along a breadth-first tree from node 0, at most."""
    graph = topology.graph_of(links)
    if graph.is_directed() or not nx.is_connected(graph):
        return links.n
    if nx.is_tree(graph):
        return int(nx.diameter(graph))
    return min(2 * max(nx.single_source_shortest_path_length(graph, 0).values()), links.n - 1)


class _Predictions(NamedTuple):  # of the same functions and options they are equal: one program
    metrics: tuple[tuple[str, Callable[..., Any], tuple[str, ...], tuple[Any, ...]], ...]
    classes: int

    @property
    def each_node(self) -> dict[int, int]:  # see metrics.probes
        return {}

    def __call__(self, x: Any, y: Any, method: Method, state: State) -> Tree:
        key = jax.random.key(0)  # prediction that samples draws the same samples every time

        def one(value: Tree) -> dict[str, Any]:
            facts = {"log_prob": method.predict(key, value, x), "x_test": x, "y_test": y}
            facts["classes"] = self.classes
            values: dict[str, Any] = {}
            for name, make, asked, options in self.metrics:
                value = make(**{fact: facts[fact] for fact in asked}, **dict(options))
                values |= value if isinstance(value, dict) else {name: value}
            return values

        return jax.lax.map(one, state.value)


def probe_of(tables: tuple[Any, ...], facts: Facts) -> Any:
    """One probe that records the errors on the test rows and every metric that is asked for."""
    probes, predicted = [build("metric", {"name": "errors"}, facts)], []
    for table in tables:
        known = find("metric", table["name"])
        if "log_prob" not in known.facts:
            metric = build("metric", table, facts)
            if not isinstance(metric, Clock):  # which reads no model: see `run`
                probes.append(_checked_probe(known, metric))
            continue
        if odd := set(known.facts) - {"log_prob", "x_test", "y_test", "classes"}:
            raise BadSetting(
                f"metric '{known.name}' sees log_prob, x_test, y_test and classes, not {odd.pop()}"
            )
        options = tuple((k, v) for k, v in table.items() if k != "name")
        predicted.append((known.name.rpartition(":")[2], known.make, known.facts, options))
    if predicted:
        look = _Predictions(tuple(predicted), facts["classes"])
        probes.append(Partial(look, facts["x_test"], np.asarray(facts["y_test"], np.int32)))
    return metrics.together(*probes)


def _checked_probe(known: Declared, probe: Any) -> Any:
    if not callable(probe):
        raise BadSetting(
            f"metric '{known.name}' must return a function of (method, state), or ask for log_prob "
            f"and return a number, got {type(probe)}"
        )
    return probe


# the facts that a face cannot know, and the places at which its methods may run
_FACES: dict[str, tuple[set[str], set[str]]] = {
    "run": (set(), {"neighbours", "server", "pooled", "alone"}),
    "estimator": ({"pooled"}, {"neighbours", "server", "alone"}),
    "peer": ({"pooled"}, {"neighbours", "alone"}),
}


def offered(known: Declared, face: str) -> bool:
    """Whether an interface ("run", "estimator", "peer") knows all facts that a method asks for."""
    unknown, places = _FACES[face]
    return known.traits.place in places and not unknown & set(known.facts)
