"""Metrics by name against scikit-learn and the metrics of this package."""

import jax
import numpy as np
import pytest
from sklearn import metrics as sk

from peerwise import metrics
from peerwise.declare import find

RNG = np.random.default_rng(0)
SCORE = RNG.normal(size=(200, 3)).round(1)  # with ties
PROB = np.exp(SCORE) / np.exp(SCORE).sum(1, keepdims=True)
PROB = PROB.round(2) + 0.001
PROB /= PROB.sum(1, keepdims=True)
Y = np.where(RNG.random(200) < 0.6, PROB.argmax(1), RNG.integers(0, 3, 200))
HOT = np.eye(3)[Y]
LOG = np.log(PROB).astype(np.float32)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("auroc", lambda: sk.roc_auc_score(HOT, LOG, average="macro")),
        ("auprc", lambda: sk.average_precision_score(HOT, LOG, average="macro")),
        ("balanced_accuracy", lambda: sk.balanced_accuracy_score(Y, PROB.argmax(1))),
        ("brier", lambda: metrics.brier(Y, PROB)),
        ("nll", lambda: sk.log_loss(Y, PROB)),
        ("ece", lambda: metrics.ece(Y, PROB)),
    ],
)
def test_a_listed_metric_is_what_others_compute(name, wanted):
    value = jax.jit(find("metric", name).make)(LOG, Y.astype(np.int32))
    assert float(value) == pytest.approx(wanted(), abs=2e-5)


def test_the_worst_nodes_and_the_span_are_those_of_the_errors():
    class Method:
        """Predicts with probabilities to the power of a node's number."""

        @staticmethod
        def predict(key, value, x):
            return LOG * value

    class State:
        value = np.array([1.0, -1.0, 1.0, 1.0], np.float32)  # the second is always wrong

    make = find("metric", "fairness").make
    error = 1 - (PROB.argmax(1) == Y).mean()
    worst = 1 - (PROB.argmin(1) == Y).mean()
    seen = make(np.zeros((200, 1), np.float32), Y.astype(np.int32), share=0.5)(Method, State)
    assert float(seen["worst_node"]) == pytest.approx((worst + error) / 2, abs=1e-3)
    assert float(seen["node_span"]) == pytest.approx(worst - error, abs=1e-3)
