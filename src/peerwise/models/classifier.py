"""The classifier of statistics: probabilities, decisions, explanations, and synthetic rows."""

from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
import numpy.typing as npt
import pandas as pd

from peerwise import notebook
from peerwise.data.decode import decode
from peerwise.data.encode import encode_rows
from peerwise.errors import BadData, BadSetting, UnknownName
from peerwise.models import family
from peerwise.models.family import Model
from peerwise.models.registry import check_rows
from peerwise.shards import roomy

if TYPE_CHECKING:
    from peerwise.models.algebra import Statistics

SHOWN = 12  # columns, in a notebook
Array = npt.NDArray[Any]
Rows = npt.NDArray[Any] | pd.DataFrame


def _terms_sum(model: Model, s: Any, x: Array) -> Any:
    of_class, of_features = model.terms(s, x)
    return of_class + of_features.sum(-1)


def _sample(model: Model, s: Any, key: Any, rows: int) -> Any:
    return model.sample(key, s, rows)


@cache
def _compiled(function: Any, model: Model, static: tuple[int, ...]) -> Any:
    """The same function of the same model, or field of it, is compiled once."""
    compute = getattr(model, function) if isinstance(function, str) else partial(function, model)
    return jax.jit(compute, static_argnums=static)


def least_cost(log_prob: Array, cost: Any) -> Array:
    """The code of the class of least expected cost; cost[i][j] of saying j where i is true."""
    classes, cost = log_prob.shape[1], np.asarray(cost, float)
    if cost.shape != (classes, classes) or not np.isfinite(cost).all():
        raise BadSetting(
            f"the costs must be finite numbers, {classes} rows (true class) of {classes} (class "
            f"said), got an array of shape {cost.shape}"
        )
    chosen: Array = (np.exp(log_prob) @ cost).argmin(1)
    return chosen


def check_finite(log_prob: Array) -> None:
    """Refuse rows whose numbers are so large that no probability can be computed."""
    wrong = ~np.isfinite(log_prob).all(1)
    if wrong.any():
        raise BadData(
            f"the numbers of row {int(wrong.argmax())} are too large to compute probabilities "
            "with; rescale or drop them"
        )


@dataclass(frozen=True, eq=False)
class Classifier:
    """The classifier that statistics define; NaN is an unknown value.

    Rows are an array of encoded rows, or a frame in the units of the data, whose columns are found
    by name (a category that the schema does not have is an unknown value).

    Unknown values are summed or integrated out, exactly, even if no row that was learnt from had
    any.
    """

    statistics: "Statistics"

    def _run(self, function: Any, *args: Any, static: tuple[int, ...] = ()) -> Any:
        """A function of (model, statistics, ...), or a model's own, in double precision."""
        s = self.statistics
        with jax.enable_x64(True):
            values = jax.tree.map(lambda a: jax.numpy.asarray(a, float), s.values)
            return jax.tree.map(np.asarray, _compiled(function, s.made, static)(values, *args))

    def _checked(self, x: Rows) -> Array:
        schema = self.statistics.schema
        if isinstance(x, pd.DataFrame):
            x = encode_rows(x, replace(schema, missing=True))
        x = np.asarray(x, float)
        if x.ndim != 2 or x.shape[1] != len(schema.features):
            raise BadData(
                f"rows must have {len(schema.features)} features, got an array of shape {x.shape}"
            )
        model = self.statistics.made
        if model.wants == "counts" and np.isnan(x).any():
            raise BadData("counts cannot be missing: a word that is absent counts 0")
        check_rows(model, x, schema)
        return x

    def log_joint(self, x: Rows) -> Array:
        """log p(x, y) [m, c]."""
        x = self._checked(x)
        score = _terms_sum if np.isnan(x).any() else family.log_joint
        wide = np.concatenate([x, np.zeros((roomy(len(x)) - len(x), x.shape[1]))])
        joint: Array = self._run(score, wide)[: len(x)]
        check_finite(joint)
        return joint

    def log_proba(self, x: Rows) -> Array:
        """log p(y | x) [m, c]."""
        joint = self.log_joint(x)
        joint = joint - joint.max(1, keepdims=True)
        return joint - np.log(np.exp(joint).sum(1, keepdims=True))

    def predict(self, x: Rows) -> Array:
        """The most probable class, by name."""
        return np.asarray(self.statistics.schema.classes)[self.log_joint(x).argmax(1)]

    def decide(self, x: Rows, cost: Any) -> Array:
        """The class of least expected cost, by name; cost[i][j] of deciding j where i is true.

        A false alarm that costs 1 beside a miss that costs 10: `[[0, 1], [10, 0]]`.
        """
        return np.asarray(self.statistics.schema.classes)[least_cost(self.log_proba(x), cost)]

    def explain(
        self, row: Array, target: str | None = None, against: str | None = None
    ) -> pd.DataFrame:
        """What each feature of one row adds to the log-odds of its class.

        The log-odds are of `target` (the most probable class) against another (the next). The line
        "(class)" is what is known before the features: class frequencies and, for a full
        covariance, how wide the classes are. The lines add up to the log-odds, exactly; features
        are sorted by how much they add, and a missing one adds 0. In a tree a feature adds what it
        says given its parent, and what children say of a missing parent is counted with it. With
        a full covariance, what two features say together is shared between them.
        """
        schema = self.statistics.schema
        x = self._checked(np.asarray(row, float).reshape(1, -1))
        of_class, of_features = self._run("terms", x)
        joint = (of_class + of_features.sum(-1))[0]
        best = np.argsort(-joint, kind="stable")
        names = [str(c) for c in schema.classes]
        for name in (target, against):
            if name is not None and name not in names:
                raise UnknownName("class", name, names)
        if len(names) < 2:
            raise BadSetting("there is one class only: nothing to explain")
        i = int(best[0]) if target is None else names.index(target)
        j = next(int(k) for k in best if k != i) if against is None else names.index(against)
        if i == j:
            raise BadSetting(f"target and against must be two classes, got {names[i]} twice")
        odds = of_features[0, i] - of_features[0, j]
        order = np.argsort(-np.abs(odds), kind="stable")
        values = decode(x, schema).iloc[0]
        reasons = pd.DataFrame(
            {
                "feature": ["(class)", *(schema.features[k].name for k in order)],
                "value": [None, *(values.iloc[k] for k in order)],
                "log_odds": [float(of_class[0, i] - of_class[0, j]), *odds[order].tolist()],
            }
        )
        reasons.attrs = {
            "target": names[i],
            "against": names[j],
            "log_odds": float(joint[i] - joint[j]),
            "probability": float(np.exp(joint[i] - np.logaddexp.reduce(joint))),
        }
        return reasons

    def sample(self, rows: int, seed: int = 0, *, encoded: bool = False) -> Any:
        """Synthetic rows drawn from the model: a table in the units of the data, or x and y."""
        if rows < 1:
            raise BadSetting(f"rows must be 1 or more, got {rows}")
        x, y = self._run(_sample, jax.random.key(seed), rows, static=(2,))
        return (x, y) if encoded else decode(x, self.statistics.schema, y)

    @property
    def parameters(self) -> dict[str, Any]:
        """Prior, means, variances and category probabilities, as a textbook writes them."""
        return dict(self._run("describe"))

    def _repr_html_(self) -> str:
        """What was learnt, for notebooks: how frequent classes are, and their means."""
        known, schema = self.parameters, self.statistics.schema
        classes = [str(c) for c in schema.classes]
        rows = []
        if "prior" in known:
            rows.append(["(share of rows)", *(f"{p:.3f}" for p in np.ravel(known["prior"]))])
        numbers = [f for f in schema.features if f.kind == "numeric"]
        mean = np.asarray(known.get("mean", np.zeros((0, 0))))
        left = len(schema.features)
        if mean.shape == (len(classes), len(numbers)):
            apart = np.ptp(mean, axis=0)  # in units of all rows
            most = np.argsort(-apart, kind="stable")[:SHOWN]
            for j in most:
                f = numbers[j]
                own = mean[:, j] * (f.scale or 1.0) + (f.center or 0.0)
                rows.append([f.name, *(f"{v:.4g}" for v in own)])
            left -= len(most)
        more = f"; {left} more columns" if left else ""
        caption = f"Means of each class, of the columns that tell classes apart most{more}"
        return notebook.table(["", *classes], rows, caption)
