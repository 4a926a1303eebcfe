"""A network of nodes that learn from each other, simulated, as a scikit-learn estimator."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Self

import jax
import networkx as nx
import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from peerwise import metrics, notebook, topology
from peerwise.agreement import phase_options
from peerwise.core import Tree
from peerwise.declare import Varies, find
from peerwise.errors import BadData, BadSetting, PeerwiseError, UnknownName
from peerwise.estimators.columns import as_columns, constant, encoded, learn_schema, without
from peerwise.estimators.network_model import NetworkModel
from peerwise.estimators.tabular import Tabular
from peerwise.learner import Cell, World, assemble, cell, offered
from peerwise.learner.assemble import make_links
from peerwise.learner.firsts import check_exact, settled
from peerwise.learner.world import as_read, is_plain
from peerwise.models.algebra import Statistics
from peerwise.models.classifier import Classifier
from peerwise.models.registry import agreed, first_phase, model_for
from peerwise.shards import pack
from peerwise.simulate import simulate
from peerwise.topology import Topology

Array = npt.NDArray[Any]
RECORDS = 12  # rounds in the history, spread over the run


class DecentralizedClassifier(Tabular):
    """A simulated network: nodes keep their own rows and learn from their neighbours' messages.

    What a run file says in sections is said in parameters here: a name, or a dictionary with a name
    and options, such as `{"name": "crc", "lr": 0.1}`. `peerwise list` shows names and options.

    Parameters
    ----------
    method : how nodes learn: "crc" (collaborative risk-based calibration), "relay", "decavg",
        "isolated" (each node alone), or any other method that does not need all rows at one place.
    model : the classifier of a method that learns statistics, as in RiskCalibratedClassifier.
    net : the network of a method that trains weights.
    network : who hears whom: the name of a topology, a dictionary such as
        {"topology": "tree_plus", "extra": 10, "channel": "erasure", "q": 0.7}, a networkx graph
        over the groups, or a `peerwise.topology.Topology`. A graph may also be the "topology" of a
        dictionary.
    privacy : the budget of a method that releases noised statistics, as in {"epsilon": 1.0}. This
        simulates what noise does to accuracy: it comes from `random_state`, and what is fitted is
        no private release of the rows. For one, see `peerwise.privacy` and peers.
    rounds : how often nodes tell their neighbours what they know.
    groups : which node holds a row: the name of a column of X that says so (and is then no
        feature), or a number of nodes to which rows are dealt at random. `fit` takes an array
        `groups` of one entry a row instead, which goes before.
    categorical_features, handle_unknown, cost : as in RiskCalibratedClassifier.
    random_state : of the graph, the dealing, the losses and whatever else is drawn.
    precision : "float64" or "float32".

    Classes, categories, center and scale, and which columns vary, are taken as public, also under
    `privacy`: they come from all rows, and `history_` has exact errors on them. TAN's structure is
    agreed by the nodes themselves, from exactly summed counts, or with noise by sealed sums.

    Attributes
    ----------
    nodes_ : the groups, in order. node_models_ : group -> the model of its node, whose `log_proba`
        reads encoded rows; a `Classifier` where the node keeps plain statistics.
    consensus_ : what `predict` uses: the classifier of the mean of all nodes' statistics or, where
        nodes keep anything else, the mean of all nodes' probabilities.
    history_ : a table of errors on all training rows by round and node.
    topology_ : the network. message_bytes_, messages_ : of one message; how many were sent.
    """

    def __init__(
        self,
        method: Any = "crc",
        *,
        model: Any = "naive_bayes",
        net: Any = "mlp_64",
        network: Any = "random_tree",
        privacy: Any = None,
        rounds: int = 64,
        groups: Any = 8,
        categorical_features: Any = "from_dtype",
        handle_unknown: str = "error",
        cost: Any = None,
        random_state: Any = None,
        precision: str = "float64",
    ):
        self.method = method
        self.model = model
        self.net = net
        self.network = network
        self.privacy = privacy
        self.rounds = rounds
        self.groups = groups
        self.categorical_features = categorical_features
        self.handle_unknown = handle_unknown
        self.cost = cost
        self.random_state = random_state
        self.precision = precision

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Let the nodes learn; `groups` [m] says which node holds each row."""
        self.__dict__.pop("consensus_", None)  # if this fails, there is no half of two fits
        rng = check_random_state(self.random_state)
        seed = int(rng.randint(2**31 - 1))
        described = self._cell(seed)
        columns, y = as_columns(self, X, reset=True, y=self._labels(y))
        owner = self._owners(columns, len(y), groups, rng)
        self.classes_ = np.unique(y)
        self.nodes_, code = np.unique(owner, return_inverse=True)
        self.schema_ = learn_schema(
            columns,
            self._names(),
            self.classes_,
            self.categorical_features,
            np.ones(len(y)),
            not is_plain(described),
            self._site(),
        )
        x = self._varying(
            described, encoded(self._without_site(columns), self.schema_, self.handle_unknown)
        )
        if described.method.learns == "net" and np.isnan(x).any():
            raise BadData(
                f"{described.method.name} trains networks of weights, which cannot read missing "
                "values; fill them in, or take a method that learns statistics, such as crc"
            )
        codes = np.searchsorted(self.classes_, y).astype(np.int32)
        owned = [np.flatnonzero(code == i) for i in range(len(self.nodes_))]
        links = self._links(len(owned))
        world = World(x, codes, owned, self.schema_, len(owned), len(codes), seed, links=links)
        self._learn(described, as_read(described, world))
        return self

    def _varying(self, described: Cell, x: Array) -> Array:
        """Training rows without the numbers that never vary, which say nothing of a class.

        Statistics start with a variance for them, of which classes would get unequal shares: they
        are no features of a model. Nets may need all pixels of an image: they read 0 there.
        """
        still = constant(x, self.schema_) & (not is_plain(described))
        drop = still & (described.method.learns == "model" and not still.all())
        self._read = np.flatnonzero(~drop)
        features = tuple(self.schema_.features[j] for j in self._read)
        self.schema_ = replace(self.schema_, features=features)
        self._constant = still[self._read]
        return without(x[:, self._read], self._constant)

    def _cell(self, seed: int) -> Cell:
        """What is to be learnt, as the learner describes it."""
        run = {"rounds": self.rounds, "seed": seed, "precision": self.precision}
        raw = {"method": self.method, "model": self.model, "net": self.net, "run": run}
        raw["network"] = self._network()[0]
        if self.privacy is not None:
            raw["privacy"] = self.privacy
        try:
            described = cell(raw)
        except Varies as varies:
            raise BadSetting(
                f"{varies} is a list, but an estimator takes one value; give one, or try all "
                "with GridSearchCV"
            ) from None
        name = described.method.name
        if not offered(described.method, "estimator"):
            raise BadSetting(
                f"{name} learns from all rows in one place, but the nodes of a network hold their "
                "own; take another method, such as crc, relay or isolated"
            )
        if self.privacy is not None and "privacy" not in described:
            raise BadSetting(f"{name} adds no noise and does not use privacy: leave it out")
        return described

    def _network(self) -> tuple[Any, Any]:
        """The section of the network without a graph that was built in Python, and that graph."""
        given = self.network
        if isinstance(given, nx.Graph | Topology):
            return {}, given
        if isinstance(given, Mapping):
            graph = given.get("topology")
            if not isinstance(graph, nx.Graph | Topology):
                return given, None
            for key in ("push", "redraw"):
                if given.get(key):
                    raise BadSetting(f"{key} needs the name of a topology, not a graph")
            return {key: value for key, value in given.items() if key != "topology"}, graph
        if not isinstance(given, str):
            raise BadSetting(
                "network must be the name of a topology, a dictionary, a networkx graph or a "
                f"Topology, got {given!r}"
            )
        return given, None

    def _links(self, n: int) -> Topology | None:
        """Who hears whom, where it does not have to be drawn."""
        graph = self._network()[1]
        if graph is None:
            return topology.alone(1) if n == 1 else None
        if isinstance(graph, nx.Graph):
            odd = set(graph.nodes) ^ set(self.nodes_.tolist())
            if odd:
                raise BadSetting(
                    "the nodes of the graph must be the groups; "
                    f"only one of the two has {sorted(map(str, odd))[0]}"
                )
            return topology.from_graph(graph)
        if graph.n != n:
            raise BadSetting(f"the topology has {graph.n} nodes, but there are {n} groups")
        given: Topology = graph
        return given

    def _site(self) -> int | None:
        """Which column says where a row is held, if one does."""
        if not isinstance(self.groups, str):
            return None
        names = self._names()
        if self.groups not in names:
            raise UnknownName("column that says where a row is held:", self.groups, names)
        return names.index(self.groups)

    def _without_site(self, columns: list[Any]) -> list[Any]:
        site = self._site()
        kept = [c for j, c in enumerate(columns) if j != site]
        if not kept:
            raise BadData(f"X has no feature besides '{self.groups}'")
        return kept

    def _owners(self, columns: list[Any], rows: int, groups: Any, rng: Any) -> Array:
        if groups is not None:
            owner = np.asarray(groups)
            if owner.shape != (rows,):
                raise BadData(
                    f"groups must say for each of the {rows} rows which node holds it, got an "
                    f"array of shape {owner.shape}"
                )
        elif isinstance(self.groups, str):
            site = self._site()
            assert site is not None
            owner = np.asarray(columns[site])
        else:
            nodes = self.groups
            if isinstance(nodes, bool) or not isinstance(nodes, int | np.integer) or nodes < 1:
                raise BadSetting(
                    "groups must be a column's name or a number of nodes, 1 or more (an array of "
                    f"owners goes to fit), got {nodes!r}"
                )
            owner = rng.permutation(np.arange(rows) % min(int(nodes), rows))
        if pd.isna(owner).any():
            raise BadData(f"row {int(np.argmax(pd.isna(owner)))} belongs to no group")
        if len({isinstance(name, str) for name in owner.tolist()}) > 1:
            raise BadData("groups mix text and numbers; make them all one or the other")
        return owner

    def _learn(self, described: Cell, world: World) -> None:
        before, world = world.schema, settled(described, world, make_links(described, world))
        if world.schema is not before:
            raise BadSetting(
                "an estimator cannot compute units or select features by sealed sums, as run files "
                'and peers can; set units = "given" and leave select out'
            )
        described = _settled(described, world)
        parts = assemble(described, world)
        rounds, names = described["run"]["rounds"], self.nodes_.tolist()
        at = sorted({int(r) for r in np.geomspace(1, rounds, RECORDS).round()}) if rounds else []
        run = simulate(
            parts.method,
            parts.shards,
            parts.links,
            rounds,
            seed=world.seed,
            at=at,
            probe=metrics.errors("train", world.x, world.y),
            channel=parts.channel,
            precision=described["run"]["precision"],
        )
        self.topology_ = parts.links
        silent = described.method.traits.place == "alone"
        self.message_bytes_ = 0 if silent else run.message_bytes
        self.messages_ = run.messages
        self.history_ = _table(at, run.history, names)
        self._keep(described, world, jax.tree.map(np.asarray, run.state.value), names)

    def _keep(self, described: Cell, world: World, values: Tree, names: list[Any]) -> None:
        """Make models of what the nodes ended with."""
        parts: list[Any] = [jax.tree.map(lambda a, i=i: a[i], values) for i in range(len(names))]
        if world.sums is None and _plain_statistics(described, self.schema_, parts[0]):
            table = dict(described["model"])
            name = table.pop("name")

            def classifier(value: Tree) -> Classifier:
                return Statistics(self.schema_, value, name, table).to_classifier()

            models: list[Any] = [classifier(value) for value in parts]
            consensus: Any = classifier(jax.tree.map(lambda a: a.mean(0), values))
        else:
            empty = world._replace(x=world.x[:0].copy(), y=world.y[:0].copy(), owned=[])
            of_nodes = partial(NetworkModel, described, empty, self.topology_)
            consensus = of_nodes(values)
            models = [of_nodes(jax.tree.map(lambda a: a[None], value)) for value in parts]
        self.node_models_ = dict(zip(names, models, strict=True))
        self.consensus_ = consensus

    def _learnt_html(self) -> str:
        if not hasattr(self, "consensus_"):
            return ""
        by = self.history_.groupby("round")["train_error"]
        lines = {
            "mean of nodes": (by.mean().index.tolist(), by.mean().tolist()),
            "worst node": (by.max().index.tolist(), by.max().tolist()),
        }
        drawn = notebook.chart(lines, "error on the training rows", "round")
        model = getattr(self.consensus_, "_repr_html_", str)()
        return str(model) + drawn

    def _model_name(self) -> str | None:
        try:
            known = find("method", _name(self.method))
        except PeerwiseError:  # fit says what is wrong with it
            return None
        return _name(self.model) if known.learns == "model" else None

    def _of(self, node: Any) -> Any:
        check_is_fitted(self, "consensus_")
        if node is None:
            return self.consensus_
        if node not in self.node_models_:
            raise UnknownName("node", str(node), map(str, self.node_models_))
        return self.node_models_[node]

    def _encode(self, X: Any) -> Array:
        check_is_fitted(self, "schema_")
        columns, _ = as_columns(self, X, reset=False)
        columns = self._without_site(columns)
        x = encoded([columns[j] for j in self._read], self.schema_, self.handle_unknown)
        return without(x, self._constant)

    def predict_log_proba(self, X: Any, node: Any = None) -> Array:
        """log p(y | x) of the consensus, or of one node's model."""
        log_prob: Array = self._of(node).log_proba(self._encode(X))
        return log_prob

    def predict_proba(self, X: Any, node: Any = None) -> Array:
        """p(y | x) of the consensus, or of one node's model."""
        return np.exp(self.predict_log_proba(X, node))

    def predict(self, X: Any, node: Any = None) -> Array:
        """The class that the consensus, or one node's model, predicts."""
        return self._decide(self.predict_log_proba(X, node))


def _name(section: Any) -> Any:
    """The name in a section, in its short form or not."""
    return section.get("name") if isinstance(section, Mapping) else section


def _settled(described: Cell, world: World) -> Cell:
    """The cell with what its model must agree upon: a first phase of the network, if it has one."""
    if "model" not in described:
        return described
    phase = first_phase(described["model"], world.schema)
    if phase is None or world.sums is not None:
        return described
    check_exact(described, phase)
    if described.method.traits.place == "alone" or phase.public:
        options = agreed(world.schema, described["model"]["name"], world.x, world.y)
    else:
        shards, links = pack(world.x, world.y, world.owned), make_links(described, world)
        options = phase_options(phase, shards, links, world.seed)
    return described.changed(model=options)


def _plain_statistics(described: Cell, schema: Any, value: Tree) -> bool:
    """Whether a node's value is the statistics of its model and nothing else."""
    if "model" not in described:
        return False
    table = dict(described["model"])
    model = model_for(schema, table.pop("name"), **table)
    expected = jax.eval_shape(lambda: model.uniform(1.0, float))
    return jax.tree.map(np.shape, expected) == jax.tree.map(np.shape, value)


def _table(at: list[int], history: dict[str, Any], names: list[Any]) -> pd.DataFrame:
    """What was recorded, a line for every round and node."""
    grid = pd.MultiIndex.from_product([at, names], names=["round", "node"])
    recorded = history.get("adapt", {}) if at else {}
    flat = {name: np.asarray(value).reshape(-1) for name, value in recorded.items()}
    return pd.DataFrame(flat, index=grid).reset_index()
