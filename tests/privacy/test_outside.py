"""An outside check: diffprivlib's private Gaussian naive Bayes on the same rows and budgets."""

import importlib.util
import sys
import warnings
from functools import cache, partial
from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import ks_2samp, kstest, laplace
from sklearn.naive_bayes import GaussianNB

from peerwise import topology as topologies
from peerwise.methods import federated_nb
from peerwise.methods.releasing import release
from peerwise.models import log_posterior, naive_bayes
from peerwise.privacy import private_statistics, public_schema
from peerwise.shards import pack
from peerwise.simulate import simulate

SEEDS, ROWS, CLASSES, FEATURES = 25, 1500, 3, 4
BOUND = 4.0  # public: of every number, on both sides
FOREST = "diffprivlib.models.forest"


@pytest.fixture(scope="module")
def theirs():
    """diffprivlib's GaussianNB, where it is installed.

    Its models.forest takes names from scikit-learn's trees that newer versions no longer have, and
    with it nothing of diffprivlib can be imported. A stand-in for that one module, of which naive
    Bayes uses nothing, lets the rest be imported; all of it is forgotten afterwards.
    """
    if importlib.util.find_spec("diffprivlib") is None:
        pytest.skip("diffprivlib is not installed")
    before = set(sys.modules)
    stand_in = ModuleType(FOREST)
    stand_in.RandomForestClassifier = type("RandomForestClassifier", (), {})
    stand_in.DecisionTreeClassifier = type("DecisionTreeClassifier", (), {})
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setitem(sys.modules, FOREST, stand_in)
        yield importlib.import_module("diffprivlib.models").GaussianNB
    for name in set(sys.modules) - before:
        if name.partition(".")[0] == "diffprivlib":
            del sys.modules[name]


def rows(seed, m=ROWS):
    """Rows within the public bounds, classes that overlap."""
    rng = np.random.default_rng(seed)
    y = rng.integers(CLASSES, size=m)
    centers = np.random.default_rng(99).uniform(-2, 2, (CLASSES, FEATURES))
    return np.clip(rng.normal(centers[y], 1.0), -BOUND, BOUND), y


X, Y = rows(0)
X_TEST, Y_TEST = rows(1, 4000)
MODEL = naive_bayes((0,) * FEATURES, CLASSES)


_said = jax.jit(jax.vmap(lambda s: log_posterior(MODEL, s, jnp.asarray(X_TEST)).argmax(1)))


def accuracy_of(statistics):
    """Of the models that noisy statistics make [k, c, q], on the test rows."""
    with jax.enable_x64(True):
        return (np.asarray(_said(statistics)) == Y_TEST).mean(1)


@cache
def ours(epsilon):
    """Federated naive Bayes with one node and bounded sensitivity, by seed."""
    draw = release(MODEL, epsilon=epsilon, sensitivity="bounded", bounds=(-BOUND, BOUND))
    method = federated_nb(MODEL, draw)
    shards = [pack(X, Y, [np.arange(len(Y))])] * SEEDS
    graphs = [topologies.server(1)] * SEEDS
    run = simulate(method, shards, graphs, 1, seed=list(range(SEEDS)), precision="float64")
    return accuracy_of(np.asarray(run.state.value)[:, 0])


def released(epsilon):
    """Real releases, of which no seed repeats the noise."""
    names = [f"x{i}" for i in range(FEATURES)]
    bounds = dict.fromkeys(names, (-BOUND, BOUND))
    schema = public_schema(bounds, ("a", "b", "c"))
    draw = partial(private_statistics, schema=schema, epsilon=epsilon, bounds=bounds)
    return [draw(X / BOUND, Y).statistics for _ in range(SEEDS)]


def fitted(make, epsilon, x=X, y=Y, seed=0):
    bounds = (np.full(FEATURES, -BOUND), np.full(FEATURES, BOUND))
    return make(epsilon=epsilon, bounds=bounds, random_state=seed).fit(x, y)


@cache
def outside(make, epsilon):
    return np.array([fitted(make, epsilon, seed=s).score(X_TEST, Y_TEST) for s in range(SEEDS)])


PLAIN = GaussianNB().fit(X, Y).score(X_TEST, Y_TEST)


@pytest.mark.some("1.0")
@pytest.mark.parametrize("epsilon", [1.0, 10.0])
def test_ours_is_no_worse_than_theirs_at_the_same_budget(theirs, epsilon):
    mine, other = ours(epsilon), outside(theirs, epsilon)
    assert PLAIN > 0.8
    assert mine.mean() >= other.mean() - 0.05
    assert mine.mean() <= PLAIN + 0.01  # nobody gains by noise


def test_real_releases_are_as_accurate_as_simulated_ones_and_as_theirs(theirs):
    """The noise of OpenDP; numbers are scaled to +-1, which changes no classifier."""
    values = np.stack([s.values for s in released(1.0)])
    unit = BOUND ** np.repeat([0, 1, 2], [1, FEATURES, FEATURES])
    found = accuracy_of(values * unit)
    spread = np.hypot(found.std(), ours(1.0).std()) / np.sqrt(SEEDS)
    assert abs(found.mean() - ours(1.0).mean()) < 4 * spread + 0.01
    assert found.mean() >= outside(theirs, 1.0).mean() - 0.05


def test_with_a_large_budget_both_are_scikit_learns(theirs):
    for found in (ours(1e6), outside(theirs, 1e6)):
        np.testing.assert_allclose(found, PLAIN, atol=0.005)


def test_theirs_shows_which_classes_a_node_has_and_ours_does_not(theirs):
    """Of rows of two classes, their model has two classes; our noise is in all three."""
    some = Y < 2
    made = fitted(theirs, 1.0, X[some], Y[some])
    assert made.classes_.tolist() == [0, 1]
    assert made.theta_.shape == (2, FEATURES)
    draw = release(MODEL, epsilon=1.0, sensitivity="bounded", bounds=(-BOUND, BOUND))
    method = federated_nb(MODEL, draw)
    shard = jax.tree.map(jnp.asarray, pack(X[some], Y[some], [np.arange(some.sum())]).of(0))
    init = jax.jit(jax.vmap(method.init, in_axes=(0, None)))
    noisy = np.asarray(init(jax.random.split(jax.random.key(0), 2000), shard).value)
    assert noisy.shape == (2000, CLASSES, 1 + 2 * FEATURES)
    assert (noisy[:, 2] != 0).all()
    # the class without rows has noise of the very same law as any other: nothing tells it apart
    counts = noisy[:, :, 0] - np.bincount(Y[some], minlength=CLASSES)
    assert kstest(counts[:, 2], laplace(scale=1 + 2 * FEATURES).cdf).pvalue > 1e-3
    assert ks_2samp(counts[:, 2], counts[:, 0]).pvalue > 1e-3
