"""What holds for every model: sums, scales, a start that knows nothing, guards, draws."""

from functools import cache, partial
from typing import NamedTuple

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import compiled, in64
from peerwise import models
from peerwise.models import log_joint, log_posterior, statistics
from peerwise.models.family import by_class
from peerwise.names import entries

CLASSES, M = 3, 240


class Case(NamedTuple):
    """Arguments of a model, what its rows are, and what spoils its statistics."""

    cardinalities: tuple[int, ...] = (0, 3, 0, 2)
    options: dict = {}  # noqa: RUF012
    kind: str = "mixed"
    spoil: tuple = ()  # part of the statistics, place, value: one thing that is impossible
    open: bool = True  # it can have missing values
    twice: bool = True  # and is tested with them everywhere: those that do it in their own way


CASES = {
    "naive_bayes": Case(spoil=("classes", (1, 3), 0.0)),  # x^2 below the square of the mean
    "shared_naive_bayes": Case(spoil=("shared", (0,), 0.0), twice=False),
    "qda": Case(spoil=("classes", (1, 4), 1e4)),  # x_1 x_2 far beyond both squares
    "lda": Case(spoil=("shared", (1,), 1e4), twice=False),
    "tan": Case(options={"parents": (-1, -1, -1, 1)}, spoil=("classes", (2, -1), -0.5)),
    "multinomial": Case(
        (0,) * 4, {"length": 8.0}, "counts", spoil=("classes", (2, 2), -0.5), open=False
    ),
    "bernoulli": Case((0, 2, 0, 2), {}, "binary", spoil=("classes", (1, 1), 1e3)),
}
EVERY = [
    (name, missing)
    for name, case in CASES.items()
    for missing in (False, True)[: 1 + (case.open and case.twice)]
]
every_model = pytest.mark.parametrize(
    ("name", "missing"), EVERY, ids=[f"{n}, with holes" if m else n for n, m in EVERY]
)
each_name = pytest.mark.parametrize("name", CASES)


def made(name, missing=False, classes=CLASSES):
    case = CASES[name]
    return getattr(models, name)(case.cardinalities, classes, missing, **case.options)


@cache
def drawing(model):
    return jax.jit(model.sample, static_argnums=2)


def rows(name, seed=0, m=M, share_missing=0.0):
    """Rows of the kind that a model is about; every class and category occurs, nothing is alike."""
    rng = np.random.default_rng(seed)
    y = np.arange(m) % CLASSES
    case = CASES[name]
    if case.kind == "counts":
        x = rng.poisson(np.array([[3, 1, 2, 2], [1, 3, 2, 2], [1, 1, 4, 2.0]])[y])
    elif case.kind == "binary":
        x = (
            rng.random((m, 4))
            < np.array([[0.7, 0.3, 0.5, 0.4], [0.3, 0.6, 0.4, 0.4], [0.5] * 4])[y]
        )
    else:
        shared = rng.normal(size=m)
        x = np.column_stack(
            [
                1 + 0.7 * y + shared + 0.6 * rng.normal(size=m),
                (y + rng.integers(3, size=m) * rng.integers(2, size=m)) % 3,
                -0.5 * y + shared * (0.5 + 0.3 * y) + 0.5 * rng.normal(size=m),
                rng.integers(2, size=m),
            ]
        )
        x[:, 3] = np.where(rng.random(m) < 0.4, (x[:, 1] + y) % 2, x[:, 3])
    return np.where(rng.random(x.shape) < share_missing, np.nan, x.astype(float)), y


def summed(model, x, y, weight=None):
    return in64(statistics, model, x, y, np.ones(len(y)) if weight is None else weight)


def plus(*trees):
    return jax.tree.map(lambda *a: np.sum(a, 0), *trees)


def close(a, b, tolerance=1e-10):
    jax.tree.map(partial(np.testing.assert_allclose, rtol=tolerance, atol=tolerance), a, b)


def test_there_is_a_case_for_every_model():
    assert CASES.keys() == entries("model").keys()


# --- sums


@every_model
@settings(max_examples=5)
@given(seed=st.integers(0, 2**32 - 1), parts=st.integers(1, 8))
def test_statistics_of_any_split_add_up_to_those_of_the_whole(name, missing, seed, parts):
    model = made(name, missing)
    x, y = rows(name, seed, share_missing=0.2 * missing)
    owner = np.random.default_rng(seed).integers(parts, size=M)  # a part may hold no row
    total = plus(*(summed(model, x, y, (owner == v).astype(float)) for v in range(parts)))
    close(total, summed(model, x, y))


@every_model
def test_a_weight_counts_as_repetition(name, missing):
    model = made(name, missing)
    x, y = rows(name, 1, share_missing=0.2 * missing)
    times = np.random.default_rng(1).integers(0, 4, size=M)
    repeated = plus(*(summed(model, x, y, (times > i).astype(float)) for i in range(3)))
    close(summed(model, x, y, times.astype(float)), repeated)


@every_model
def test_rows_of_weight_0_are_as_good_as_absent(name, missing):
    model = made(name, missing)
    x, y = rows(name, 2, share_missing=0.2 * missing)
    weight = (np.arange(M) < 90).astype(float)
    other = np.where(weight[:, None] > 0, x, 1e6), np.where(weight > 0, y, 2)
    got = summed(model, x, y, weight)
    jax.tree.map(np.testing.assert_array_equal, got, summed(model, *other, weight))
    assert by_class(got)[:, 0].tolist() == [30, 30, 30]


@pytest.mark.parametrize("name", ["naive_bayes", "lda"])
def test_padding_adds_nothing(name):
    model = made(name)
    x, y = rows(name, 2)
    close(summed(model, x, y, (np.arange(M) < 90).astype(float)), summed(model, x[:90], y[:90]))


@every_model
def test_statistics_have_the_size_that_the_model_says(name, missing):
    model = made(name, missing)
    s = summed(model, *rows(name, 3))
    assert by_class(s).shape == (CLASSES, model.size)
    assert isinstance(s, dict) == (model.shared > 0)
    if model.shared:
        assert s["shared"].shape == (model.shared,)
    np.testing.assert_array_equal(by_class(s)[:, 0], [80, 80, 80])  # column 0 counts rows


@pytest.mark.parametrize("d", [1, 2, 5])
def test_symmetric_second_moments_are_stored_once(d):
    numbers, products = (0,) * d, d * (d + 1) // 2
    sizes = {
        "naive_bayes": (1 + 2 * d, 0),
        "shared_naive_bayes": (1 + d, d),
        "qda": (1 + d + products, 0),
        "lda": (1 + d, products),
        "multinomial": (1 + d, 0),
        "bernoulli": (1 + d, 0),
    }
    for name, expected in sizes.items():
        model = getattr(models, name)(numbers, 2)
        assert (model.size, model.shared) == expected, name


# --- parameters


@every_model
@pytest.mark.parametrize("factor", [1e-6, 3.0, 1e6])
def test_scaled_statistics_have_the_same_parameters(name, missing, factor):
    model = made(name, missing)
    s = summed(model, *rows(name, 4, share_missing=0.2 * missing))
    ours, scaled = (in64(model.theta, jax.tree.map(lambda a, k=k: a * k, s)) for k in (1, factor))
    close(scaled.weight, ours.weight, 1e-9)
    if model.shared:
        close(scaled.shared, ours.shared, 1e-9)
    assert scaled.guards == ours.guards == 0


@pytest.mark.some("holes")
@every_model
def test_the_uniform_start_knows_nothing(name, missing):
    model = made(name, missing)
    s = in64(lambda: model.uniform(1000.0, np.float64))
    x, _ = rows(name, 5, share_missing=0.3 * missing)
    close(np.exp(in64(log_posterior, model, s, x)), np.full((M, CLASSES), 1 / CLASSES), 1e-12)
    assert by_class(s)[:, 0].sum() == pytest.approx(1000, rel=1e-12)
    theta = in64(model.theta, s)
    assert theta.guards == 0
    assert (theta.weight == theta.weight[:1]).all()


@every_model
def test_the_uniform_start_of_rows_beside_statistics_of_rows_weighs_as_much(name, missing):
    """Worth m0 rows: its class counts add to those of as many rows."""
    model = made(name, missing)
    start = in64(lambda: model.uniform(float(M), np.float64))
    s = plus(start, summed(model, *rows(name, 5)))
    close(in64(model.describe, s)["prior"], np.full(CLASSES, 1 / CLASSES))
    close(by_class(s)[:, 0].sum(), 2 * M)


@pytest.mark.some("holes")
@every_model
def test_terms_add_up_to_the_joint(name, missing):
    """By class and feature, with and without holes."""
    model = made(name, missing)
    for share in (0.0, 0.3)[: 1 + missing]:
        x, y = rows(name, 6, share_missing=share)
        s = summed(model, x, y)
        of_class, of_features = in64(model.terms, s, x)
        assert of_features.shape == (M, CLASSES, 4)
        close(of_class + of_features.sum(-1), in64(log_joint, model, s, x))


@each_name
def test_terms_of_holes_are_the_same_in_both_kinds_of_model(name):
    """A model that was made without missing values can meet them all the same."""
    if not CASES[name].open:
        pytest.skip("counts are never missing")
    plain, open_ = made(name), made(name, True)
    x, y = rows(name, 7)
    holes = rows(name, 7, share_missing=0.3)[0]
    close(
        in64(plain.terms, summed(plain, x, y), holes),
        in64(open_.terms, summed(open_, x, y), holes),
    )


@every_model
def test_posteriors_are_normalised_joints(name, missing):
    model = made(name, missing)
    x, y = rows(name, 8, share_missing=0.2 * missing)
    s = summed(model, x, y)
    joint = in64(log_joint, model, s, x)
    close(in64(log_posterior, model, s, x), joint - np.logaddexp.reduce(joint, 1)[:, None])


# --- guards


@each_name
def test_one_impossible_thing_is_one_guard(name):
    model, (part, place, value) = made(name), CASES[name].spoil
    s = summed(model, *rows(name, 9))
    assert in64(model.theta, s).guards == 0
    array = s[part] if isinstance(s, dict) else s
    array[place] = value
    assert in64(model.theta, s).guards == 1


def shaken(s, x, y):
    """Every entry up to twice as large, or a little negative; there are rows left in all."""
    rng = np.random.default_rng(1)
    return jax.tree.map(lambda a: a * rng.uniform(-0.2, 2, a.shape), s)


def moved(s, x, y):
    """What a huge step of calibration does: rows go from one class to another, beyond nothing."""
    change = np.random.default_rng(2).normal(size=by_class(s).shape) * 300
    change -= change.mean(0)
    return {**s, "classes": s["classes"] + change} if isinstance(s, dict) else s + change


SPOILT = {
    "shaken": shaken,
    "moved": moved,
    "nothing at all": lambda s, x, y: jax.tree.map(np.zeros_like, s),
}


@every_model
@pytest.mark.parametrize("spoil", SPOILT)
def test_spoiled_statistics_have_finite_parameters_and_are_left_alone(name, missing, spoil):
    model = made(name, missing)
    x, y = rows(name, 10)
    s = SPOILT[spoil](summed(model, x, y), x, y)
    before = jax.tree.map(np.copy, s)
    theta = in64(model.theta, s)
    assert all(np.isfinite(a).all() for a in jax.tree.leaves(theta))
    assert theta.guards > 0
    assert np.isfinite(in64(log_joint, model, s, x)).all()
    told = in64(model.describe, s)
    assert told["prior"].sum() == pytest.approx(1)
    if "cov" in told:
        cov = told["cov"]
        # to rounding, where a mean is huge and so is an eigenvalue
        assert np.linalg.eigvalsh(cov).min() > 0.99e-3 - 1e-12 * np.abs(cov).max()
    jax.tree.map(np.testing.assert_array_equal, s, before)


@every_model
def test_less_than_no_rows_in_all_are_finite(name, missing):
    """Where more was taken out than there was."""
    model = made(name, missing)
    x, y = rows(name, 10)
    s = summed(model, x, y)
    rng = np.random.default_rng(0)
    noise = jax.tree.map(lambda a: rng.normal(-1, size=a.shape) * 50, s)
    for spoilt in (jax.tree.map(np.negative, s), noise):
        theta = in64(model.theta, spoilt)
        assert theta.guards > 0
        assert all(np.isfinite(a).all() for a in jax.tree.leaves(theta))


@pytest.mark.parametrize("name", ["naive_bayes", "shared_naive_bayes"])
def test_one_number_and_no_rows_are_finite(name):
    """What a node without rows holds: compiled, 0 / n / variance must not become 0 / 0."""
    for missing in (False, True):
        model = getattr(models, name)((0,), 2, missing)
        s = in64(lambda model=model: model.prior(0.0))
        assert all(np.isfinite(a).all() for a in jax.tree.leaves(in64(model.theta, s)))


# --- precision and identity


@each_name
def test_one_model_serves_both_precisions(name):
    """Constants of a model must not be bound to the precision that asked first."""
    model = made(name)
    x, y = rows(name, 11)

    for _ in range(2):
        double = summed(model, x, y)
        rows32 = x.astype(np.float32)
        single = compiled(statistics, model)(rows32, y, np.ones(M, np.float32))
        pairs = [
            *zip(jax.tree.leaves(single), jax.tree.leaves(double), strict=True),
            (compiled(log_posterior, model)(single, rows32), in64(log_posterior, model, double, x)),
        ]
        for a, b in pairs:
            assert (a.dtype, b.dtype) == (np.float32, np.float64)
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=2e-4)


@each_name
def test_the_same_arguments_give_the_same_model(name):
    case = CASES[name]
    again = getattr(models, name)(list(case.cardinalities), np.int64(CLASSES), **case.options)
    assert again is made(name)
    if case.open:
        assert made(name, True) is not made(name)
    assert made(name, classes=4) is not made(name)


# --- draws


DRAWN = 84 * M  # 20,160


@cache
def drawn(name):
    """Parameters, and many rows drawn from them."""
    model = made(name)
    s = summed(model, *rows(name, 12), np.where(np.arange(M) % CLASSES == 0, 2.0, 1.0))
    with jax.enable_x64(True):
        x, y = drawing(model)(jax.random.key(1), s, DRAWN)
    return model, s, in64(model.describe, s), np.asarray(x), np.asarray(y)


def summed_in_parts(model, x, y):
    """Statistics of many rows, M at a time."""
    return plus(*(summed(model, x[i : i + M], y[i : i + M]) for i in range(0, len(y), M)))


def near(a, b, deviation):
    """Within 5 standard deviations of a mean over draws."""
    assert (np.abs(a - b) <= 5 * np.asarray(deviation)).all(), np.abs(a - b) / deviation


@pytest.mark.some("qda", "tan")
@each_name
def test_frequencies_of_draws_are_the_probabilities(name):
    _, _, told, x, y = drawn(name)
    case = CASES[name]
    p = told["prior"]
    close(p, [0.5, 0.25, 0.25])  # class 0 weighs twice
    near(np.bincount(y) / DRAWN, p, np.sqrt(p * (1 - p) / DRAWN))
    for c in range(CLASSES):
        mine = x[y == c]
        n = len(mine)
        if case.kind == "counts":
            assert (mine.sum(1) == 8).all()  # rows of the public length
            q = told["prob"][c]
            near(mine.mean(0) / 8, q, np.sqrt(q * (1 - q) / (8 * n)))
            covariance = np.diag(q) - np.outer(q, q)
            near(np.cov(mine.T) / 8, covariance, 3 * np.sqrt(1 / n))
        elif case.kind == "binary":
            q = told["prob"][c]
            assert set(np.unique(mine)) == {0.0, 1.0}
            near(mine.mean(0), q, np.sqrt(q * (1 - q) / n))
        else:
            for i, table in told["prob"].items():
                levels = np.arange(case.cardinalities[i])
                if table.ndim == 2:
                    q = table[c]
                    near((mine[:, [i]] == levels).mean(0), q, np.sqrt(q * (1 - q) / n))
                    continue
                for v in range(3):  # given each category of the parent, column 1
                    given_v = mine[mine[:, 1] == v]
                    q = table[c, :, v]
                    deviation = np.sqrt(q * (1 - q) / len(given_v))
                    near((given_v[:, [i]] == levels).mean(0), q, deviation)


@pytest.mark.parametrize("name", [n for n, case in CASES.items() if case.kind == "mixed"])
def test_means_and_covariances_of_draws_are_the_parameters(name):
    _, _, told, x, y = drawn(name)
    for c in range(CLASSES):
        mine = x[y == c][:, [0, 2]]
        if "cov" in told:
            cov = np.broadcast_to(told["cov"], (CLASSES, 2, 2))[c]
        else:
            cov = np.diag(told["var"][c])
        n, var = len(mine), np.diag(cov)
        near(mine.mean(0), told["mean"][c], np.sqrt(var / n))
        near(np.cov(mine.T), cov, np.sqrt((np.outer(var, var) + cov**2) / n))


@each_name
def test_what_is_learnt_from_draws_is_what_they_were_drawn_from(name):
    model, s, told, x, y = drawn(name)
    learnt = summed_in_parts(model, x, y)
    again = in64(model.describe, learnt)
    jax.tree.map(partial(np.testing.assert_allclose, atol=0.08, rtol=0.08), again, told)
    x, _ = rows(name, 12)
    ours, theirs = (np.exp(in64(log_posterior, model, t, x)) for t in (s, learnt))
    assert np.abs(ours - theirs).mean() < 0.02


@each_name
def test_draws_come_from_the_key_alone(name):
    model, s, _, x, y = drawn(name)
    with jax.enable_x64(True):
        same, other = (drawing(model)(jax.random.key(k), s, DRAWN)[0] for k in (1, 2))
    np.testing.assert_array_equal(same, x)
    assert not np.array_equal(other, x)
    assert x.shape == (DRAWN, 4)
    assert y.shape == (DRAWN,)
