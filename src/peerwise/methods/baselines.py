"""scikit-learn's classifiers on the pooled rows, for comparison with ours."""

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from peerwise.combine.weigh import alone
from peerwise.core import Array, Message, Method, Shard, State, Tree
from peerwise.declare import declares
from peerwise.errors import BadData


class Pooled(NamedTuple):
    """All rows at one place, categories one-hot."""

    x: np.ndarray
    y: np.ndarray
    classes: int


def one_hot(x: np.ndarray, cardinalities: Sequence[int]) -> np.ndarray:
    """Numbers as they are, categories one-hot, column by column."""
    if not any(cardinalities):
        return x
    parts = [
        x[:, i, None] if r == 0 else (x[:, i, None] == np.arange(r)).astype(float)
        for i, r in enumerate(cardinalities)
    ]
    return np.concatenate(parts, 1).astype(x.dtype)


@declares("method", place="pooled", rounds=0)
def gaussian_nb(pooled: Pooled) -> Method:
    """scikit-learn's GaussianNB, on numbers and one-hot categories."""
    from sklearn.naive_bayes import GaussianNB

    return _fitted(GaussianNB(), pooled)


@declares("method", place="pooled", rounds=0)
def sklearn_qda(pooled: Pooled) -> Method:
    """scikit-learn's QDA with a shrinkage of 0.01, on numbers and one-hot categories."""
    from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis

    return _fitted(QuadraticDiscriminantAnalysis(solver="eigen", shrinkage=0.01), pooled)


@declares("method", place="pooled", rounds=0)
def sklearn_lda(pooled: Pooled) -> Method:
    """scikit-learn's LDA, on numbers and one-hot categories."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    return _fitted(LinearDiscriminantAnalysis(), pooled)


@declares("method", place="pooled", rounds=0)
def logistic_regression(pooled: Pooled) -> Method:
    """scikit-learn's logistic regression, on numbers and one-hot categories."""
    from sklearn.linear_model import LogisticRegression

    return _fitted(LogisticRegression(max_iter=1000), pooled)


def _fitted(classifier: Any, pooled: Pooled) -> Method:
    """A method that learns nothing and predicts as a classifier fitted to the pooled rows."""
    with warnings.catch_warnings():
        # the discriminants warn of collinear columns, which one-hot ones always are
        warnings.simplefilter("ignore")
        try:
            classifier.fit(pooled.x.astype(float), pooled.y)
        except ValueError as error:  # NumPy's LinAlgError is one, too
            name = type(classifier).__name__
            reason = " ".join(str(error).split())
            raise BadData(f"scikit-learn's {name} could not be fitted: {reason}") from None

    def log_proba(x: np.ndarray) -> np.ndarray:
        out = np.full((len(x), pooled.classes), -np.inf, x.dtype)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            out[:, classifier.classes_] = classifier.predict_log_proba(np.asarray(x, float))
        return out

    def predict(key: Array, value: Tree, x: Array) -> Array:
        shape = jax.ShapeDtypeStruct((x.shape[0], pooled.classes), x.dtype)
        return jax.pure_callback(log_proba, shape, x, vmap_method="sequential")

    def init(key: Array, shard: Shard) -> State:
        return State(jnp.zeros((), shard.x.dtype), {})

    def message(key: Array, state: State) -> Message:
        return Message(state.value, {})

    def adapt(key: Array, state: State, shard: Shard) -> State:
        return state

    return Method(init, message, alone(), adapt, predict)
