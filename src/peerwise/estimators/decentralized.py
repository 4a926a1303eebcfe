"""A network of nodes that learn from each other, simulated, as a scikit-learn estimator."""

from numbers import Integral
from typing import Any, Self

import jax
import networkx as nx
import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from peerwise import metrics, topology
from peerwise.agreement import tan_structure
from peerwise.channel import erasure, perfect
from peerwise.core import Method
from peerwise.errors import BadData, BadSetting, UnknownName
from peerwise.estimators.calibrated import Tabular
from peerwise.estimators.columns import as_columns, encoded, learn_schema
from peerwise.methods import crc, isolated, ml
from peerwise.models.algebra import Statistics
from peerwise.models.classifier import Classifier
from peerwise.models.family import Model
from peerwise.models.registry import agreed, check_rows, model_for
from peerwise.shards import Shards, pack
from peerwise.simulate import simulate
from peerwise.topology import Topology

__all__ = ["DecentralizedClassifier"]

Array = npt.NDArray[Any]
METHODS = ("crc", "isolated", "ml")
RECORDS = 12  # rounds in the history, spread over the run


class DecentralizedClassifier(Tabular):
    """Nodes that hold their own rows and tell their neighbours statistics, each with its model.

    Parameters
    ----------
    method : "crc" (collaborative risk-based calibration), "isolated" or "ml" (each node alone).
    model, model_options : the classifier, as in RiskCalibratedClassifier.
    topology : a name (`peerwise list topologies`), a networkx graph (over the groups), or a
        `peerwise.topology.Topology`.
    topology_options : e.g. {"extra": 10} for "tree_plus".
    groups : which node holds a row: the name of a column of X that says so (and is then no
        feature), or a number of nodes to which rows are dealt at random. `fit` takes an array
        `groups` of one entry a row instead, which goes before.
    rounds, lr, iterations, weigh, include_self : as in `peerwise.methods.crc`.
    arrival : probability that a message arrives.
    categorical_features, handle_unknown, cost : as in RiskCalibratedClassifier.
    random_state : of the graph, the dealing and the losses.

    Center, scale and categories are public: they come from all rows. TAN's structure is agreed by
    the nodes themselves, from exactly summed counts.

    Attributes
    ----------
    nodes_ : the groups, in order. node_models_ : group -> Classifier on encoded rows.
    consensus_ : the classifier of the mean of all nodes' statistics, which `predict` uses.
    history_ : a table of errors on all training rows by round and node.
    topology_ : the network. message_bytes_, messages_ : of one message; how many were sent.
    """

    def __init__(
        self,
        method: str = "crc",
        *,
        model: str = "naive_bayes",
        model_options: dict[str, Any] | None = None,
        topology: Any = "random_tree",
        topology_options: dict[str, Any] | None = None,
        groups: Any = 8,
        rounds: int = 64,
        lr: float = 0.05,
        iterations: int = 1,
        weigh: str = "equal",
        include_self: bool = False,
        arrival: float = 1.0,
        categorical_features: Any = "from_dtype",
        handle_unknown: str = "error",
        cost: Any = None,
        random_state: Any = None,
    ):
        self.method = method
        self.model = model
        self.model_options = model_options
        self.topology = topology
        self.topology_options = topology_options
        self.groups = groups
        self.rounds = rounds
        self.lr = lr
        self.iterations = iterations
        self.weigh = weigh
        self.include_self = include_self
        self.arrival = arrival
        self.categorical_features = categorical_features
        self.handle_unknown = handle_unknown
        self.cost = cost
        self.random_state = random_state

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Let the nodes learn; `groups` [m] says which node holds each row."""
        if self.method not in METHODS:
            raise UnknownName("method", self.method, METHODS)
        rounds: Any = self.rounds
        if not isinstance(rounds, Integral) or rounds < 0:
            raise BadSetting(f"rounds must be a whole number, 0 or more, got {rounds!r}")
        self.__dict__.pop("consensus_", None)  # if this fails, there is no half of two fits
        columns, y = as_columns(self, X, reset=True, y=self._labels(y))
        rng = check_random_state(self.random_state)
        seed = int(rng.randint(2**31 - 1))
        owner = self._owners(columns, len(y), groups, rng)
        self.classes_ = np.unique(y)
        self.nodes_, code = np.unique(owner, return_inverse=True)
        self.schema_ = learn_schema(
            columns, self._names(), self.classes_, self, np.ones(len(y)), self._site()
        )
        x = encoded(self._without_site(columns), self.schema_, self.handle_unknown)
        codes = np.searchsorted(self.classes_, y).astype(np.int32)
        owned = [np.flatnonzero(code == i) for i in range(len(self.nodes_))]
        self.topology_ = self._network(len(owned), seed)
        self._learn(x, codes, pack(x, codes, owned), seed)
        return self

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
            raise BadData(f"no feature is left beside '{self.groups}'")
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

    def _network(self, n: int, seed: int) -> Topology:
        given = self.topology
        if isinstance(given, str):
            options = self.topology_options or {}
            made = topology.alone(1) if n == 1 else topology.named(given, n, seed, **options)
        elif isinstance(given, nx.Graph):
            if set(given.nodes) != set(self.nodes_.tolist()):
                odd = set(given.nodes) ^ set(self.nodes_.tolist())
                raise BadSetting(
                    "the nodes of the graph must be the groups; "
                    f"only one of the two has {sorted(map(str, odd))[0]}"
                )
            made = topology.from_graph(given)
        elif isinstance(given, Topology):
            made = given
        else:
            raise BadSetting(f"topology must be a name, a networkx graph or a Topology: {given!r}")
        if made.n != n:
            raise BadSetting(f"the topology has {made.n} nodes and there are {n} groups")
        return topology.metropolis(made) if self.weigh == "metropolis" else made

    def _agreed(self, x: Array, codes: Array, shards: Shards, seed: int) -> dict[str, Any]:
        if self.model == "tan" and self.method == "crc":
            classes = len(self.classes_)
            parents = tan_structure(
                shards, self.topology_, self.schema_.cardinalities, classes, seed
            )
            found: dict[str, Any] = {"parents": tuple(parents.tolist())}
        else:
            found = agreed(self.schema_, self.model, x, codes)
        return found | (self.model_options or {})

    def _learn(self, x: Array, codes: Array, shards: Shards, seed: int) -> None:
        options = self._agreed(x, codes, shards, seed)
        made = model_for(self.schema_, self.model, **options)
        check_rows(made, x, self.schema_)
        rounds = 0 if self.method == "ml" else int(self.rounds)
        at = sorted({int(r) for r in np.geomspace(1, rounds, RECORDS).round()}) if rounds else []
        run = simulate(
            self._rule(made, len(codes), shards.n),
            shards,
            self.topology_,
            rounds,
            seed=seed,
            at=at,
            probe=metrics.errors("train", x, codes),
            channel=perfect() if self.arrival == 1 else erasure(self.arrival),
            precision="float64",
        )
        values = jax.tree.map(np.asarray, run.state.value)

        def classifier(pick: Any) -> Classifier:
            mine = jax.tree.map(pick, values)
            return Statistics(self.schema_, mine, self.model, options).to_classifier()

        names = self.nodes_.tolist()
        self.node_models_ = {name: classifier(lambda a, i=i: a[i]) for i, name in enumerate(names)}
        self.consensus_ = classifier(lambda a: a.mean(0))
        self.message_bytes_, self.messages_ = run.message_bytes, run.messages
        self.history_ = self._told(at, run.history, names)

    def _rule(self, made: Model, rows: int, nodes: int) -> Method:
        if self.method == "ml":
            return ml(made)
        if self.method == "isolated":
            return isolated(made, lr=self.lr, iterations=self.iterations)
        return crc(
            made,
            lr=self.lr,
            rows=rows,
            nodes=nodes,
            iterations=self.iterations,
            include_self=self.include_self,
            weigh=self.weigh,
        )

    @staticmethod
    def _told(at: list[int], history: dict[str, Any], names: list[Any]) -> pd.DataFrame:
        grid = pd.MultiIndex.from_product([at, names], names=["round", "node"])
        seen = history.get("adapt", {}) if at else {}
        flat = {name: np.asarray(value).reshape(-1) for name, value in seen.items()}
        return pd.DataFrame(flat, index=grid).reset_index()

    def _of(self, node: Any) -> Classifier:
        check_is_fitted(self, "consensus_")
        if node is None:
            return self.consensus_
        if node not in self.node_models_:
            raise UnknownName("node", str(node), map(str, self.node_models_))
        return self.node_models_[node]

    def _encode(self, X: Any) -> Array:
        check_is_fitted(self, "schema_")
        columns, _ = as_columns(self, X, reset=False)
        return encoded(self._without_site(columns), self.schema_, self.handle_unknown)

    def predict_log_proba(self, X: Any, node: Any = None) -> Array:
        """log p(y | x) of the consensus, or of one node's model."""
        return self._of(node).log_proba(self._encode(X))

    def predict_proba(self, X: Any, node: Any = None) -> Array:
        """p(y | x) of the consensus, or of one node's model."""
        return np.exp(self.predict_log_proba(X, node))

    def predict(self, X: Any, node: Any = None) -> Array:
        """The class that the consensus, or one node's model, says."""
        return self._decide(self._of(node), self._encode(X))
