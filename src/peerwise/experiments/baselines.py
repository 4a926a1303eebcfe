"""scikit-learn's classifiers on the pooled rows: what ours are measured beside."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.discriminant_analysis import (
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from peerwise.errors import BadData
from peerwise.metrics.probes import LEAST

__all__ = ["BASELINES", "baseline", "one_hot"]


def gaussian_nb() -> Any:
    """scikit-learn's GaussianNB, on numbers and one-hot categories."""
    return GaussianNB()


def sklearn_qda() -> Any:
    """scikit-learn's QDA with a shrinkage of 0.01, on numbers and one-hot categories."""
    return QuadraticDiscriminantAnalysis(solver="eigen", shrinkage=0.01)


def sklearn_lda() -> Any:
    """scikit-learn's LDA, on numbers and one-hot categories."""
    return LinearDiscriminantAnalysis()


def logistic_regression() -> Any:
    """scikit-learn's logistic regression, on numbers and one-hot categories."""
    return LogisticRegression(max_iter=1000)


# name -> how it is made
BASELINES: dict[str, Callable[[], Any]] = {
    "gaussian_nb": gaussian_nb,
    "sklearn_qda": sklearn_qda,
    "sklearn_lda": sklearn_lda,
    "logistic_regression": logistic_regression,
}


def one_hot(x: np.ndarray, cardinalities: Sequence[int]) -> np.ndarray:
    """Numbers as they are, categories one-hot, column by column."""
    if not any(cardinalities):
        return x
    parts = [
        x[:, i, None] if r == 0 else (x[:, i, None] == np.arange(r)).astype(float)
        for i, r in enumerate(cardinalities)
    ]
    return np.concatenate(parts, 1).astype(x.dtype)


def _scores(log_prob: np.ndarray, y: np.ndarray, name: str) -> dict[str, float]:
    prob = np.exp(log_prob[np.arange(len(y)), y])
    return {
        f"{name}_error": float((log_prob.argmax(1) != y).mean()),
        f"{name}_soft_error": float((1 - prob).mean()),
        f"{name}_log_loss": float(-np.log(np.maximum(prob, LEAST)).mean()),
    }


def _one(name: str, part: Any) -> dict[str, float]:
    cardinalities = part.schema.cardinalities
    if np.isnan(part.x).any() or np.isnan(part.x_test).any():
        raise BadData(f"{name} of scikit-learn cannot use missing values")
    made = BASELINES[name]()
    with warnings.catch_warnings():
        # one-hot columns are collinear by nature, which the discriminants say every time
        warnings.filterwarnings("ignore", message=".*(collinear|full rank).*")
        warnings.filterwarnings("ignore", category=ConvergenceWarning)
        warnings.filterwarnings("ignore", category=RuntimeWarning)
        try:
            made.fit(one_hot(part.x, cardinalities).astype(float), part.y)
        except np.linalg.LinAlgError as error:
            raise BadData(f"{name} of scikit-learn could not be fitted: {error}") from None
        found: dict[str, float] = {}
        for name_, x, y in (("train", part.x, part.y), ("test", part.x_test, part.y_test)):
            told = np.full((len(y), len(part.schema.classes)), -np.inf)
            told[:, made.classes_] = made.predict_log_proba(one_hot(x, cardinalities).astype(float))
            found |= _scores(told, y, name_)
    return found


def baseline(name: str, parts: Sequence[Any]) -> dict[str, np.ndarray]:
    """Errors and log-loss of a classifier fitted to the pooled rows of every repetition."""
    each = [_one(name, part) for part in parts]
    return {k: np.array([found[k] for found in each])[:, None, None] for k in each[0]}
