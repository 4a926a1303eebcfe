"""Run one setting: split the rows, deal them out, let the network learn, measure."""

import math
from functools import lru_cache, partial
from inspect import signature
from typing import Any, NamedTuple

import jax
import numpy as np

from peerwise import data, metrics, topology
from peerwise.agreement import tan_structure
from peerwise.channel import Channel, both, erasure
from peerwise.core import Method
from peerwise.errors import BadData, BadSetting
from peerwise.experiments.baselines import BASELINES, baseline, one_hot
from peerwise.experiments.names import find
from peerwise.experiments.setting import NEURAL, Setting
from peerwise.models.family import Model
from peerwise.models.registry import PLAIN, agreed, check_rows, model_for
from peerwise.nets import Net, bayesian_network
from peerwise.runtime import cast, precision_of
from peerwise.shards import pack, pooled
from peerwise.simulate import simulate
from peerwise.update.losses import LOSSES

__all__ = ["Outcome", "Split", "for_nets", "make_method", "make_net", "run", "split"]

POOLED = ("rc", "ml", "pooled_net")  # methods that see all rows at once
RELAY = {"warm", "brake", "fade", "clip"}  # options of its own
SERVER = ("federated_nb", "fedavg")  # methods with a server


class Outcome(NamedTuple):
    """What one setting gave, for every repetition, recorded round and node.

    Errors on the training rows are measured after the last round only: there are many such rows.
    """

    rounds: np.ndarray  # [r] which rounds were recorded
    values: dict[str, np.ndarray]  # name -> [repetitions, r or 1, nodes] or [repetitions, r]
    bytes_per_link: int  # of one message
    messages: int  # sent in all in one repetition


class Split(NamedTuple):
    """The rows of one repetition, encoded, shifted and standardised on its training rows."""

    x: np.ndarray  # [m, d] training rows
    y: np.ndarray
    owned: list[np.ndarray]  # the rows of x of each node
    x_test: np.ndarray
    y_test: np.ndarray
    schema: data.Schema
    shape: tuple[int, ...]  # of a row: more than one number for images


@lru_cache(maxsize=4)
def _encoded(
    name: str, target: str | None, typing: str, missing: str, drop: tuple[str, ...]
) -> Any:
    table = data.load(name, target=target)
    encoded = data.encode(table, typing=typing, missing=missing, drop=drop)
    return encoded, np.shape(table.frame)[1:]


def split(setting: Setting, repetition: int) -> Split:
    """Test rows first, then the network's rows among the others.

    The test rows of settings that differ only in size are nested, and methods and topologies are
    compared on the very same rows. A shift changes the training rows of nodes and never the test
    rows, before the rows are standardised: the units that a network agrees on are those of the rows
    that its nodes hold, and nobody has the others. It moves numbers by parts of their standard
    deviation, so that the units before do not matter.
    """
    s = setting
    encoded, shape = _encoded(s.data, s.target, s.typing, s.missing, s.drop)
    total, wanted = len(encoded.y), s.nodes * s.rows
    if total <= wanted:
        raise BadData(
            f"{s.data} has {total} rows: too few for {s.nodes} nodes of {s.rows} rows and a test "
            "set; ask for fewer nodes or rows"
        )
    order = np.random.default_rng([s.seed, repetition, 0]).permutation(total)
    test = order[max(wanted, total - s.test_rows) :]
    pool = order[: total - len(test)]
    rng = np.random.default_rng([s.seed, repetition, 1])
    sizes = find("sizes", s.sizes)(rng, s.nodes, wanted, minimum=min(2, s.rows))
    deal = find("partitions", s.partition)
    drawn = s.partition in ("dirichlet", "dirichlet_by_class")
    options: dict[str, Any] = {"alpha": s.alpha} if drawn else {}
    options |= s.partition_options
    _takes(f"partition_options of {s.partition}", deal, 4, options)
    rows = deal(rng, encoded.x[pool], encoded.y[pool], sizes, **options)
    train = pool[np.concatenate(rows)]
    kept = np.concatenate([train, test])
    x, y, schema = encoded.x[kept], encoded.y[kept], encoded.schema
    m = len(train)
    owned = np.split(np.arange(m), np.cumsum([len(r) for r in rows])[:-1])
    x[:m], y[:m] = _shifted(s, repetition, x[:m], y[:m], owned, schema)
    if s.model not in PLAIN or s.method in NEURAL:
        x, schema = data.standardise(x, schema, np.arange(m))
    if s.precision == "float32":
        x = x.astype(np.float32)
    made = Split(x[:m], y[:m], owned, x[m:], y[m:], schema, shape)
    return for_nets(made) if s.method in NEURAL else made


def _takes(what: str, function: Any, arguments: int, options: dict[str, Any]) -> None:
    """Refuse options that a function does not have, or that are among its first arguments."""
    try:
        signature(function).bind(*range(arguments), **options)
    except TypeError as error:
        raise BadSetting(f"{what}: {error}") from None


def _shifted(
    s: Setting,
    repetition: int,
    x: np.ndarray,
    y: np.ndarray,
    owned: list[np.ndarray],
    schema: data.Schema,
) -> tuple[np.ndarray, np.ndarray]:
    """The training rows as the nodes see and label them."""
    shift = find("shifts", s.shift)
    _takes(f"shift_options of {s.shift}", shift, 5, s.shift_options)
    # numbers of its own: the same rows go to the same nodes, shifted or not
    rng = np.random.default_rng([s.seed, repetition, 4])
    seen, told = shift(rng, x, y, owned, schema.cardinalities, **s.shift_options)
    plain = s.model in PLAIN and s.method not in NEURAL
    if plain and not np.array_equal(x, seen, equal_nan=True):
        raise BadSetting(
            f"{s.shift} moves numbers, and {s.model} is about numbers as they are; "
            "take concept_shift, or another model"
        )
    return seen, told


def make_method(setting: Setting, model: Any, rows: int, degree: int = 1) -> Method:
    """The method that a setting names, with the parameters that are its own."""
    s = setting
    make = find("methods", s.method)
    if ":" in s.method:
        method = make(model, **s.method_options)
        if not isinstance(method, Method):
            raise BadSetting(f"{s.method} must return a peerwise.core.Method, got {type(method)}")
        return method
    if s.method in NEURAL:
        return _neural(s, model)
    selecting = s.method == "crc" and s.weigh == "worst"
    own = {"alpha"} if selecting else RELAY if s.method == "relay" else set()
    if set(s.method_options) - own:
        raise BadSetting(
            "method_options are for neural methods, for a method of your own, named as "
            'module:function, for crc with weigh = "worst", which has alpha, and for relay, which '
            f"has {', '.join(sorted(RELAY))}"
        )
    crc = {
        **s.method_options,
        "iterations": s.iterations,
        "include_self": s.include_self,
        "weigh": s.weigh,
        **({"m0": s.m0} if s.m0 else {"lr": s.lr, "rows": rows, "nodes": s.nodes}),
    }
    budget = math.inf if s.epsilon is None else s.epsilon
    release: dict[str, Any] = {"epsilon": budget, "sensitivity": s.sensitivity}
    if s.sensitivity == "bounded":
        release["bounds"] = (-s.bound, s.bound)
    private = {"epsilon": budget, "delta": s.delta, "clip": s.clip, "rounds": s.rounds}
    gossip = {"counter": s.counter, **({"degree": degree} if s.counter == "cumulative" else {})}
    known: dict[str, dict[str, Any]] = {
        "ml": {},
        "rc": {"lr": s.lr, "start": s.start, "iterate": s.iterate},
        "isolated": {"lr": s.lr, "iterations": s.iterations, "start": s.start},
        "crc": crc,
        "private_crc": {**crc, **private},
        "federated_nb": release,
        "gossip_nb": {**release, **gossip},
        "robust_nb": release,
        "relay": {"lr": s.lr, **s.method_options},
        "gradient_tracking": {"lr": s.lr, "rows": rows, "nodes": s.nodes},
    }
    try:
        return make(model, **known[s.method])
    except TypeError as error:
        raise BadSetting(f"method_options of {s.method}: {error}") from None


def _neural(s: Setting, net: Net) -> Method:
    training: dict[str, Any] = {
        "loss": LOSSES[s.loss](net.classes, s.beta),
        **({"steps": s.steps} if s.steps else {"epochs": s.epochs}),
        "batch": s.batch,
        "lr": s.lr,
        "optimiser": s.optimiser,
        "momentum": s.momentum,
        "weight_decay": s.weight_decay,
        "validation": s.validation,
        **({"start": "common"} if s.common_start else {}),
    }
    try:
        made: Method = find("methods", s.method)(net, **training, **s.method_options)
    except TypeError as error:
        raise BadSetting(f"method_options of {s.method}: {error}") from None
    return made


def make_net(setting: Setting, part: Split) -> Net:
    """The net of a setting for the rows of one repetition; a user's own is given their shape."""
    s, classes = setting, len(part.schema.classes)
    if ":" in s.net:
        make = find("nets", s.net)(part.shape, classes)
    else:
        make = find("nets", s.net)(part.shape, classes, s.net_init)
    layers = s.bayesian_layers
    return bayesian_network(make, math.prod(part.shape), classes, layers, s.samples, s.paper_init)


def for_nets(part: Split) -> Split:
    """Rows as a net reads them: categories one-hot, and nothing missing."""
    if np.isnan(part.x).any() or np.isnan(part.x_test).any():
        raise BadData(
            'neural networks cannot use missing values; take missing = "category" or fill them in'
        )
    wide = [one_hot(x, part.schema.cardinalities) for x in (part.x, part.x_test)]
    shape = part.shape if math.prod(part.shape) == wide[0].shape[1] else wide[0].shape[1:]
    return part._replace(x=wide[0], x_test=wide[1], shape=shape)


def make_topology(setting: Setting, repetition: int) -> topology.Topology:
    """The network of one repetition."""
    s = setting
    seed = int(np.random.SeedSequence([s.seed, repetition, 2]).generate_state(1)[0])
    if ":" in s.topology:
        own = find("topologies", s.topology)
        draw = lambda seed: own(s.nodes, seed=seed, **s.topology_options)  # noqa: E731
    else:
        draw = lambda seed: topology.named(  # noqa: E731
            s.topology, s.nodes, seed, **s.topology_options
        )
    if s.method in SERVER:
        return topology.server(s.nodes)
    if s.push:
        among = s.nodes if s.topology == "complete" else draw(seed)
        return topology.pushes(among, rounds=s.rounds, seed=seed)
    if s.redraw is None:
        made = draw(seed)
    else:
        made = topology.redrawn(draw, every=s.redraw, rounds=s.rounds, seed=seed)
    return topology.metropolis(made) if s.metropolis else made


def make_channel(setting: Setting) -> Channel:
    """What befalls the messages of a setting: its channel, and losses by its arrival."""
    s = setting
    try:
        made: Channel = find("channels", s.channel)(**s.channel_options)
    except TypeError as error:
        raise BadSetting(f"channel_options of {s.channel}: {error}") from None
    if s.arrival == 1:
        return made
    lossy = erasure(s.arrival)
    # what is lost is lost when it is sent, whatever delays the rest
    return lossy if s.channel == "perfect" else both(lossy, made)


def _probe(setting: Setting, part: Split) -> Any:
    return metrics.together(
        metrics.errors("test", part.x_test, part.y_test),
        *(_own_probe(name) for name in setting.metrics),
    )


def _own_probe(name: str) -> Any:
    found = find("metrics", name)
    return found if ":" in name else found()


def make_model(setting: Setting, part: Split, shards: Any = None, graph: Any = None) -> Model:
    """The model of a setting for the rows of one repetition.

    What must be agreed before learning is a first phase of the network, where there is one; nodes
    that learn alone are told, as they are told center and scale.
    """
    s, schema = setting, part.schema
    if s.model == "tan" and graph is not None:
        classes = len(schema.classes)
        parents = tan_structure(shards, graph, schema.cardinalities, classes, s.seed)
        options: dict[str, Any] = {"parents": tuple(parents.tolist())}
    else:
        options = agreed(schema, s.model, part.x, part.y)
    made = model_for(schema, s.model, **{**options, **s.model_options})
    check_rows(made, np.asarray(part.x), schema)
    return made


def run(setting: Setting) -> Outcome:
    """Run all repetitions of a setting, side by side where their shapes allow it."""
    s = setting.canonical()
    parts = [split(s, r) for r in range(s.repetitions)]
    if s.method in BASELINES:
        return Outcome(np.array([0]), baseline(s.method, parts), 0, 0)
    central, silent = s.method in POOLED, s.method in (*POOLED, "isolated", "isolated_net")
    rounds = {"ml": 0, "federated_nb": 1}.get(s.method, s.rounds)
    at = _recorded(s, rounds)
    deal = pooled if central else pack
    shards = [deal(p.x, p.y, p.owned) for p in parts]
    if central:
        graphs = [topology.alone(1)] * s.repetitions
    else:
        graphs = [make_topology(s, r) for r in range(s.repetitions)]
    talk = [None] * s.repetitions if silent else graphs
    models: list[Any]
    if s.method in NEURAL:
        models = [make_net(s, p) for p in parts]
    else:
        models = [make_model(s, *each) for each in zip(parts, shards, talk, strict=True)]
    degree = max(g.slots for g in graphs)
    methods = [make_method(s, model, s.nodes * s.rows, degree) for model in models]
    probes = [_probe(s, p) for p in parts]
    seeds = [int(x) for x in np.random.SeedSequence([s.seed, 3]).generate_state(s.repetitions)]
    go = partial(
        simulate,
        rounds=rounds,
        at=at,
        channel=make_channel(s),
        precision=s.precision,
    )
    if _alike(methods, shards, graphs):
        graph: Any = graphs[0] if central else graphs
        runs = [go(methods[0], shards, graph, seed=seeds, probe=probes)]
    else:
        runs = [
            go(method, [a], [b], seed=[c], probe=[d])
            for method, a, b, c, d in zip(methods, shards, graphs, seeds, probes, strict=True)
        ]
    states = [jax.tree.map(lambda a, i=i: a[i], r.state) for r in runs for i in range(_count(r))]
    values = _at_end(methods, states, [metrics.errors("train", p.x, p.y) for p in parts], s)
    if rounds:
        seen = [run.history["adapt"] for run in runs]
        values |= {k: np.concatenate([np.asarray(h[k]) for h in seen]) for k in seen[0]}
    else:  # nothing is learnt round by round: look at the start
        values |= _at_end(methods, states, probes, s)
    return Outcome(
        np.array(at or [0]),
        values,
        0 if silent else runs[0].message_bytes,
        0 if silent else runs[0].messages,
    )


def _recorded(s: Setting, rounds: int) -> list[int]:
    """The rounds at which errors are measured: the last is always among them."""
    if not rounds or s.record == "last":
        return [rounds] if rounds else []
    every = 1 if s.record == "all" else int(s.record)
    return sorted({*range(every, rounds + 1, every), rounds})


def _count(run: Any) -> int:
    return int(jax.tree.leaves(run.state)[0].shape[0])


@partial(jax.jit, static_argnums=0)
def _look(method: Method, probe: Any, state: Any) -> Any:
    return probe(method, state)


def _at_end(
    methods: list[Method], states: list[Any], probes: list[Any], s: Setting
) -> dict[str, np.ndarray]:
    """What the probes see in the final states of the repetitions: [repetitions, 1, ...]."""
    with precision_of(s.precision) as dtype:
        seen = [
            _look(method, cast(probe, dtype), state)
            for method, probe, state in zip(methods, probes, states, strict=True)
        ]
        return {k: np.stack([np.asarray(h[k])[None] for h in seen]) for k in seen[0]}


def _alike(methods: list[Method], shards: list[Any], graphs: list[Any]) -> bool:
    """Whether all repetitions fit into one array program."""
    shapes = [[a.shape for a in jax.tree.leaves(s)] for s in shards]
    one = all(m is methods[0] for m in methods) and all(s == shapes[0] for s in shapes)
    return one and max(len(g.table) for g in graphs) == 1
