"""Every metric that has a name against scikit-learn or a formula in NumPy."""

import jax
import numpy as np
import pytest
from sklearn import metrics as sk

from independent.cases import random_cases
from peerwise.core import State
from peerwise.declare import find
from peerwise.methods import crc
from peerwise.models import naive_bayes
from peerwise.names import entries

NODES, ROWS, CLASSES, BINS = 4, 60, 3, 7


def case(seed):
    """What four nodes say of 60 rows, with equal scores among them, and the classes."""
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(CLASSES), rng.integers(CLASSES, size=ROWS - CLASSES)])
    score = rng.normal(size=(NODES, ROWS, CLASSES)).round(1) + np.eye(CLASSES)[y][None]
    prob = np.exp(score) / np.exp(score).sum(-1, keepdims=True)
    return prob.astype(np.float32), y.astype(np.int32)


# --- of one node: p [m, c] and y -> a number


def auroc(p, y):
    return np.mean([sk.roc_auc_score(y == c, p[:, c]) for c in range(CLASSES)])


def auprc(p, y):
    return np.mean([sk.average_precision_score(y == c, p[:, c]) for c in range(CLASSES)])


def brier(p, y):
    return ((p - np.eye(CLASSES)[y]) ** 2).sum(1).mean()


def ece(p, y, bins=15):
    sure, right = p.max(1), p.argmax(1) == y
    # the bin (low, high] that a confidence is in
    place = np.searchsorted(np.linspace(0, 1, bins + 1)[1:-1].astype(np.float32), sure)
    gaps = [
        abs(right[place == b].mean() - sure[place == b].mean()) * (place == b).mean()
        for b in np.unique(place)
    ]
    return sum(gaps)


OF_A_NODE = {
    "auroc": auroc,
    "auprc": auprc,
    "balanced_accuracy": lambda p, y: sk.balanced_accuracy_score(y, p.argmax(1)),
    "brier": brier,
    "ece": ece,
    "nll": lambda p, y: sk.log_loss(y, p / p.sum(1, keepdims=True), labels=range(CLASSES)),
}


# --- of a network: p [n, m, c], y -> what is recorded


def errors(p, y):
    right = np.take_along_axis(p, y[None, :, None], -1)[..., 0]
    return {
        "test_error": (p.argmax(-1) != y[None]).mean(1),
        "test_soft_error": (1 - right).mean(1),
        "test_log_loss": -np.log(right).mean(1),
    }


def class_errors(p, y):
    wrong = p.argmax(-1) != y[None]
    by_class = np.stack([wrong[:, y == c].mean(1) for c in range(CLASSES)], 1)
    return {**errors(p, y), "test_class_error": by_class}


def calibration(p, y):
    return {
        "test_ece": [ece(node, y, BINS) for node in p],
        "test_brier": [brier(node, y) for node in p],
        "test_nll": [OF_A_NODE["nll"](node, y) for node in p],
        "test_entropy": -(p * np.log(p)).sum(-1).mean(1),
    }


def fairness(p, y):
    error = np.sort(errors(p, y)["test_error"])
    return {"worst_node": error[-2:].mean(), "node_span": error[-1] - error[0]}


def consensus(p, y):
    values = np.log(p).reshape(NODES, -1)
    mean = values.mean(0)
    apart = np.sqrt(((values - mean) ** 2).sum(1).mean())
    return {"consensus_distance": apart / np.linalg.norm(mean)}


OF_A_NETWORK = {
    "errors": (errors, {}),
    "class_errors": (class_errors, {}),
    "calibration": (calibration, {"bins": BINS}),
    "fairness": (fairness, {"share": 0.5}),
    "consensus": (consensus, {}),
    "guards": (lambda p, y: {"guards": np.arange(NODES)}, {}),
}


OF_A_DEPLOYMENT = {"clock"}  # reads no model: tests/metrics/test_clock.py works it out by events


def test_every_metric_has_a_reference():
    known = OF_A_NODE.keys() | OF_A_NETWORK.keys() | OF_A_DEPLOYMENT
    assert known == entries("metric").keys()
    assert not OF_A_NODE.keys() & OF_A_NETWORK.keys()


@random_cases()
@pytest.mark.parametrize("name", OF_A_NODE)
def test_a_metric_of_a_node(name, seeds):
    known = find("metric", name)
    program = jax.jit(known.make)
    for seed in seeds:
        p, y = case(seed)
        value = program(np.log(p[0]), y)
        assert float(value) == pytest.approx(OF_A_NODE[name](p[0].astype(float), y), abs=3e-5)


# a method whose nodes' values are log p of every row
SAYS = crc(naive_bayes((0,), CLASSES), m0=1.0)._replace(predict=lambda key, value, x: value)


@random_cases(2)
@pytest.mark.parametrize("name", OF_A_NETWORK)
def test_a_metric_of_a_network(name, seeds):
    known, (reference, options) = find("metric", name), OF_A_NETWORK[name]
    program = jax.jit(lambda probe, state: probe(SAYS, state))
    for seed in seeds:
        p, y = case(seed)
        facts = {"x_test": np.zeros((ROWS, 1), np.float32), "y_test": y, "classes": CLASSES}
        probe = known.make(**{f: facts[f] for f in known.facts}, **options)
        state = State(np.log(p), {"guards": np.arange(NODES)})
        seen, wanted = program(probe, state), reference(p.astype(float), y)
        assert seen.keys() == wanted.keys()
        for key, value in wanted.items():
            np.testing.assert_allclose(seen[key], value, rtol=1e-4, atol=2e-5, err_msg=key)
