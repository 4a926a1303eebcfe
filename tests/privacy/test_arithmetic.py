"""Removing a row moves no release by more than its declared sensitivity, in floating point."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peerwise.core import Shard
from peerwise.learner.firsts import _moments, _of_shard
from peerwise.methods.private_crc import clipped_update
from peerwise.methods.sealed import Trust
from peerwise.methods.sealed_total import sealed_total, shape_of
from peerwise.models import naive_bayes
from peerwise.models.registry import first_phase, model_for
from peerwise.privacy import (
    Tape,
    gaussian_sigma,
    private_bounds,
    private_statistics,
    public_schema,
)
from peerwise.privacy.budget import Budget
from peerwise.privacy.design import Design, noising
from peerwise.privacy.release import exact_coordinates
from peerwise.privacy.selection import class_counts
from peerwise.privacy.sums import exact_update

D, CLIP = 6, 1.0
MODEL = naive_bayes((0,) * D, 2)
HOSTILE = (np.nan, np.inf, -np.inf, 1e300, -1e25, 5e-324, -0.0, 1.0, 3.0)
KINDS = ("naive_bayes", "shared_naive_bayes", "qda", "lda", "bernoulli", "multinomial")
PLAIN = {"bernoulli": {}, "multinomial": {"length": 9.0}}  # of numbers alone, without gaps


def features(x):
    with jax.enable_x64(True):
        return np.asarray(MODEL.features(jnp.asarray(x, jnp.float64)))


def some_rows(seed, m, dtype, hostile=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(0, 3, (m, D)).astype(dtype)
    if hostile:
        at = rng.integers(0, m, hostile)
        with np.errstate(over="ignore"):
            x[at, rng.integers(0, D, hostile)] = rng.choice(HOSTILE, hostile).astype(dtype)
    return x, rng.integers(0, 2, m).astype(np.int32)


def weight_of(seed):
    rng = np.random.default_rng(seed)
    with jax.enable_x64(True):
        start = MODEL.uniform(10.0, jnp.float64)
        value = start + jnp.asarray(rng.normal(0, 0.1, start.shape))
        return np.asarray(MODEL.theta(value).weight)


def moved(x, y, weight, clip, i):
    whole = exact_update(features, x, y, weight, clip)
    return whole - exact_update(features, np.delete(x, i, 0), np.delete(y, i), weight, clip)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_row_of_a_million_moves_an_update_by_clip_at_most(dtype):
    x, y = some_rows(0, 10**6, dtype)
    weight = weight_of(1)
    whole = exact_update(features, x, y, weight, CLIP)
    for i in range(3 if dtype == np.float32 else 1):
        rest = exact_update(features, np.delete(x, i, 0), np.delete(y, i), weight, CLIP)
        assert np.linalg.norm(whole - rest) <= CLIP


@pytest.mark.full  # the test above stands for it: what an update without a grid does in float32
def test_without_a_grid_it_does_not_hold_in_float32():
    x, y = some_rows(0, 10**6, np.float32)
    value = MODEL.uniform(10.0, jnp.float32)
    update = jax.jit(clipped_update(MODEL, CLIP))

    def of(x, y):
        return np.asarray(update(value, Shard(x, y, np.ones(len(y), np.float32)))[0], float)

    apart = max(
        np.linalg.norm(of(x, y) - of(np.delete(x, i, 0), np.delete(y, i))) for i in range(3)
    )
    assert apart > CLIP


UPDATES = {
    "seed": st.integers(0, 2**20),
    "clip": st.sampled_from([1e-3, 0.37, 1.0, 5.0, 1e4]),
    "dtype": st.sampled_from([np.float32, np.float64]),
    "hostile": st.booleans(),
}


def holds_for_updates(seed, m, clip, dtype, hostile):
    x, y = some_rows(seed, m, dtype, hostile=m // 3 if hostile else 0)
    with np.errstate(all="ignore"):
        x[seed % m] *= 1e18  # as far as float32 goes before it overflows
        y[m // 2] = -1
        for i in {seed % m, 0, m // 2}:
            apart = moved(x, y, weight_of(seed), clip, i)
            assert np.linalg.norm(apart) <= clip
            assert i != m // 2 or not apart.any()


@settings(max_examples=40, deadline=None)
@given(m=st.integers(1, 3000), **UPDATES)
def test_any_row_moves_an_update_by_clip_at_most(m, **case):
    holds_for_updates(m=m, **case)


@pytest.mark.full  # the one above stands for it
@settings(max_examples=12, deadline=None)
@given(m=st.integers(10**5, 10**6), **UPDATES)
def test_any_row_of_up_to_a_million_moves_an_update_by_clip_at_most(m, **case):
    holds_for_updates(m=m, **case)


def schema_of(missing=False, numbers=False):
    columns = {f"x{i}": (-1.0 - i, 2.0) for i in range(D)}
    columns |= {} if numbers else {"c": ("a", "b", "d")}
    schema = public_schema(columns, ("no", "yes"))
    return columns, schema.__class__(schema.features, schema.classes, schema.target, missing)


RELEASES = {
    "seed": st.integers(0, 2**20),
    "model": st.sampled_from(KINDS),
    "split": st.sampled_from(["even", "optimal"]),
    "kind": st.sampled_from(["laplace", "gaussian"]),
    "missing": st.booleans(),
    "dtype": st.sampled_from([np.float32, np.float64]),
}


@settings(max_examples=40, deadline=None)
@given(m=st.integers(1, 400), **RELEASES)
def test_any_row_moves_a_release_by_its_sensitivity_at_most(m, **case):
    holds_for_releases(m=m, **case)


@pytest.mark.full  # the one above stands for it
@settings(max_examples=12, deadline=None)
@given(m=st.integers(10**5, 10**6), **RELEASES)
def test_any_row_of_up_to_a_million_moves_a_release_by_its_sensitivity_at_most(m, **case):
    holds_for_releases(m=m, **case)


def holds_for_releases(seed, m, model, split, kind, missing, dtype):
    plain, of_model = model in PLAIN, PLAIN.get(model, {})
    columns, schema = schema_of(missing and not plain, plain)
    x, y = some_rows(seed, m, dtype, hostile=m)
    rng = np.random.default_rng(seed)
    if not plain:
        x = np.concatenate([x, rng.integers(-1, 4, (m, 1)).astype(dtype)], 1)
    built = model_for(schema, model, **of_model)
    options = {"epsilon": 0.7, "delta": 1e-6 if kind == "gaussian" else 0.0, "mechanism": kind}

    def released(x, y):
        shapes = [(built.classes, built.size), *([(built.shared,)] if built.shared else [])]
        made = private_statistics(
            x, y, schema, bounds=columns, model=model, model_options=of_model, split=split,
            noise=Tape([np.zeros(shape) for shape in shapes]), **options,
        )  # fmt: skip
        lines, sums = design.coordinates(made.statistics.values)
        return made, np.append(lines, [] if sums is None else sums)

    low, high = -np.ones(D), np.ones(D)
    design = Design(built, low, high)
    made, whole = released(x, y)
    every = np.concatenate([np.tile(made.scale[: design.lines], 2), made.scale[design.lines :]])
    for i in {0, seed % m}:
        _, less = released(np.delete(x, i, 0), np.delete(y, i))
        apart = np.linalg.norm((whole - less) / every, ord=made.noising.norm)
        assert apart <= made.noising.sensitivity * (1 + 1e-9)  # the way back from raw sums rounds


def first_sum(kind, gaps=False):
    """What a network sums before it learns, of rows with a category beside the numbers."""
    cardinalities, ends = (0,) * D + (3,), ((-1.0,) * D, (2.0,) * D)
    if kind == "features":
        count, reach = class_counts(cardinalities, 2, *ends), (D + 1) ** 0.5
        return _of_shard(count), reach
    if kind == "units":
        # of u and u^2 - 1/2 the squares are 5/4 together, and 1 for how many rows there are
        reach = (9 / 4 * D) ** 0.5 if gaps else (1 + 5 / 4 * D) ** 0.5
        return _moments(tuple(range(D)), *ends, gaps), reach
    phase = first_phase({"name": "tan", "parents": None}, schema_of_texts())
    return phase.count, phase.reach


def schema_of_texts():
    return public_schema({f"c{i}": ("a", "b", "d") for i in range(D)}, ("no", "yes"))


def sum_of(kind, gaps=False):
    """The same as a sealed sum of three nodes, of rows, and how far its noise lets one move it."""
    count, reach = first_sum(kind, gaps)
    width = D if kind == "structure" else D + 1
    like = shape_of(count, width)
    sealed = sealed_total(count, like, Budget(1.0, 1e-6), reach, 3, Trust()).adapt
    whole = gaussian_sigma(1.0, 1.0, 1e-6)
    covered = sealed.grid.std * sealed.grid.step * sealed.grid.honest**0.5 / whole
    return lambda x, y: sealed.exact(None, x, y) * sealed.grid.step, covered


FIRST = {
    "seed": st.integers(0, 2**20),
    "kind": st.sampled_from(["features", "units", "structure"]),
    "gaps": st.booleans(),
}


@settings(max_examples=30, deadline=None)
@given(m=st.integers(1, 200), **FIRST)
def test_any_row_moves_a_first_sum_by_what_its_noise_covers(m, **case):
    holds_for_first_sums(m=m, **case)


@pytest.mark.full  # the one above stands for it
@settings(max_examples=8, deadline=None)
@given(m=st.integers(10**5, 10**6), **FIRST)
def test_any_row_of_up_to_a_million_moves_a_first_sum_by_what_its_noise_covers(m, **case):
    holds_for_first_sums(m=m, **case)


def holds_for_first_sums(seed, m, kind, gaps):
    of, covered = sum_of(kind, gaps)
    x, y = rows_for(kind, seed, m, gaps)
    whole = of(x, y)
    for i in {0, seed % m}:
        alone = of(x[i : i + 1], y[i : i + 1])
        np.testing.assert_array_equal(whole - of(np.delete(x, i, 0), np.delete(y, i)), alone)
        assert np.linalg.norm(alone / covered) <= 1


def rows_for(kind, seed, m, gaps=False):
    rng = np.random.default_rng(seed)
    if kind == "structure":
        return rng.integers(-1, 3, (m, D)).astype(float), rng.integers(-1, 2, m).astype(np.int32)
    x = np.clip(rng.normal(0, 3, (m, D)), -1, 2)
    x[rng.random((m, D)) < 0.2] = np.nan if gaps else -1.0
    x[rng.random((m, D)) < 0.2] = 2.0
    category = rng.integers(-1, 3, (m, 1)).astype(float)
    return np.concatenate([x, category], 1), rng.integers(-1, 2, m).astype(np.int32)


@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(
        st.one_of(st.floats(width=64), st.sampled_from([None, "x", "1", 10**400, 1e6, -1e6])),
        min_size=1, max_size=30,
    ),
    dtype=st.sampled_from([object, float, np.float32]),
)  # fmt: skip
def test_any_value_moves_the_counts_of_private_bounds_by_one(values, dtype):
    if dtype is not object:
        values = [v if isinstance(v, float) else 0.5 for v in values]
    seen = []

    def noise(kind, counts, scale):
        seen.append((kind, counts, scale))
        return counts

    with np.errstate(over="ignore"):
        cells = np.array(values, dtype)
    private_bounds(cells, epsilon=0.5, noise=noise)
    private_bounds(cells[1:], epsilon=0.5, noise=noise)
    (kind, whole, scale), (_, less, _) = seen
    assert (kind, scale) == ("laplace", 2.0)
    assert np.abs(whole - less).sum() <= 1


@pytest.mark.full  # the one above stands for it
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_row_of_a_million_moves_a_release_by_its_sensitivity_at_most(dtype):
    built = naive_bayes((0,) * D, 2)
    design = Design(built, -1.0, 1.0)
    made = noising(design, 1.0, 1e-6, "gaussian", "optimal")
    x, y = some_rows(3, 10**6, dtype)
    x = np.clip(x.astype(float), -1, 1)
    whole, _ = exact_coordinates(design, x, y)
    for i in range(3):
        less, _ = exact_coordinates(design, np.delete(x, i, 0), np.delete(y, i))
        assert np.linalg.norm((whole - less) / made.scale) <= made.sensitivity
        assert (np.abs(whole - less) <= design.reach).all()
