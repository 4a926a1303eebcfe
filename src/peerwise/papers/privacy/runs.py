"""The pieces of work of the study: many draws of the noise at once, and diffprivlib one by one."""

import importlib
import importlib.util
import sys
import warnings
from functools import cache, partial
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from peerwise import data as data_sets
from peerwise.core import Array, Tree
from peerwise.data.schema import Schema
from peerwise.errors import BadData
from peerwise.models.family import Model, log_joint, statistics
from peerwise.models.registry import model_for
from peerwise.papers.items import Arrays, settings_of
from peerwise.privacy.aware import denoised
from peerwise.privacy.design import Design, default_delta, noising

SEED = 1  # of the split into rows to learn from and to test on
FEW = 500  # rows to test on; with fewer, the tenths of the rows are taken in turn
FOREST = "diffprivlib.models.forest"
AWARE = ("released",)  # functions whose numbers change with the noise-aware models


class Rows(NamedTuple):
    """Rows to learn from and to test on, numbers within their public bounds."""

    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    schema: Schema


def tenths(rows: int) -> int:
    """How many tenths of the rows are tested on in turn: all where one has a few rows only."""
    return 10 if rows // 10 < FEW else 1


@cache
def rows_of(name: str, bound: float, test_rows: int, turn: int = 0) -> Rows:
    """Nine rows in ten to learn from; center and scale of these, as if they had been published.

    `turn`: which tenth, counted from the end, is tested on.
    """
    drop = settings_of("privacy")["leaks"].get(name, ())
    encoded = data_sets.encode(data_sets.load(name), typing="manifest", drop=drop)
    order = np.random.default_rng(SEED).permutation(len(encoded.y))
    order = np.roll(order, turn * (len(order) - len(order) * 9 // 10))
    cut = len(order) * 9 // 10
    train, test = order[:cut], order[cut:][:test_rows]
    learnt, schema = data_sets.standardise(encoded.x[train], encoded.schema)
    number = np.equal(schema.cardinalities, 0)
    before = np.array([(f.center, f.scale) for f in schema.features]).T
    raw = np.array([(f.center, f.scale) for f in encoded.schema.features]).T
    held = (encoded.x[test] * raw[1] + raw[0] - before[0]) / before[1]
    held = np.where(number[None], held, encoded.x[test])

    def within(x: np.ndarray) -> np.ndarray:
        x = np.where(number[None], np.clip(x, -bound, bound), x)
        return np.where(np.isnan(x), np.where(number, 0.0, -1.0)[None], x)

    schema = Schema(schema.features, schema.classes, schema.target, missing=False)
    if len(schema.classes) != 2:
        raise BadData(f"AUC is of two classes, and '{name}' has {len(schema.classes)}")
    return Rows(within(learnt), encoded.y[train], within(held), encoded.y[test], schema)


def scores(log_odds: Array, y: Array) -> Array:
    """Accuracy and the area under the ROC curve, ties counted half."""
    order = jnp.sort(log_odds)
    rank = (jnp.searchsorted(order, log_odds, side="left")
            + jnp.searchsorted(order, log_odds, side="right") + 1) / 2  # fmt: skip
    positive = (y == 1).astype(log_odds.dtype)
    many, few = positive.sum(), (1 - positive).sum()
    area = ((rank * positive).sum() - many * (many + 1) / 2) / (many * few)
    return jnp.stack([((log_odds > 0) == (y == 1)).mean(), area])


def released(
    data: str,
    nodes: int,
    epsilons: list[float],
    draws: int,
    bound: float,
    test_rows: int,
    model: str = "naive_bayes",
    turns: int | None = None,
) -> Arrays:
    """Accuracy and AUC [2, epsilons, draws] of the plain and of the noise-aware model.

    The draws are shared by so many `turns`, in each of which another tenth of the rows is tested
    on; by default one, or ten where rows are few.

    The noise of a sum over nodes is drawn in one: of Gaussian noise a Gaussian draw, of Laplace
    noise the difference of two Gamma draws (`summed_laplace`).
    """
    rows = rows_of(data, bound, test_rows)
    turns = turns or tenths(len(rows.y) * 10 // 9)
    built = model_for(rows.schema, model)
    design = Design(built, -bound, bound)
    delta = default_delta(len(rows.y))
    plain, aware = (np.empty((2, len(epsilons), draws)) for _ in range(2))
    kinds, clean = [], []
    with jax.enable_x64(True):
        run = _compiled(built, design, bound)
        for turn in range(turns):
            rows = rows_of(data, bound, test_rows, turn)
            exact = statistics(
                built, jnp.asarray(rows.x), jnp.asarray(rows.y), jnp.ones(len(rows.y))
            )
            test = jnp.asarray(rows.x_test), jnp.asarray(rows.y_test)
            clean.append(scores(_log_odds(built, exact, test[0]), test[1]))
            for i, epsilon in enumerate(epsilons):
                noise = noising(design, epsilon, delta)
                kinds.append(noise.kind)
                keys = jax.random.split(jax.random.key(i), draws)[turn::turns]
                scored = run(
                    keys, exact, jnp.asarray(noise.scale), jnp.asarray(noise.variance * nodes),
                    float(nodes), noise.kind == "gaussian", test,
                )  # fmt: skip
                plain[:, i, turn::turns] = np.asarray(scored[0]).T
                aware[:, i, turn::turns] = np.asarray(scored[1]).T
    return {
        "plain": plain,
        "aware": aware,
        "none": np.mean(jax.device_get(clean), 0),
        "gaussian": np.equal(kinds[: len(epsilons)], "gaussian"),
        "delta": np.array([delta]),
    }


def _log_odds(model: Model, s: Tree, x: Array) -> Array:
    joint = log_joint(model, s, x)
    return joint[:, 1] - joint[:, 0]


@cache
def _compiled(model: Model, design: Design, bound: float) -> Any:
    q, r = design.lines, design.size - design.lines

    @partial(jax.jit, static_argnums=5)
    def run(
        keys: Array, exact: Tree, scale: Array, variance: Array, nodes: Array, gaussian: bool,
        test: tuple[Array, Array],
    ) -> Any:  # fmt: skip
        def unit(key: Array, shape: tuple[int, ...]) -> Array:
            if gaussian:
                return jnp.sqrt(nodes) * jax.random.normal(key, shape)
            one, two = jax.random.split(key)
            return jax.random.gamma(one, nodes, shape) - jax.random.gamma(two, nodes, shape)

        lines, sums = design.coordinates(exact)

        def one(key: Array) -> tuple[Array, Array]:
            own, other = jax.random.split(key)
            noisy = lines + scale[None, :q] * unit(own, lines.shape)
            more = None if sums is None else sums + scale[q:] * unit(other, (r,))
            s = design.raw(noisy, more)
            known = denoised(design, variance, s)
            plain, better = (
                scores(_log_odds(model, each, test[0]), test[1]) for each in (s, known)
            )
            return plain, better

        return jax.lax.map(one, keys)

    return run


@cache
def _their_model() -> Any:
    """diffprivlib's GaussianNB.

    Its models.forest takes names from scikit-learn's trees that newer versions no longer have; a
    stand-in for that one module, of which naive Bayes uses nothing, lets the rest be imported.
    """
    if importlib.util.find_spec("diffprivlib") is None:
        raise BadData("diffprivlib is not installed; `pip install diffprivlib` for this comparison")
    stand_in: Any = ModuleType(FOREST)
    stand_in.RandomForestClassifier = type("RandomForestClassifier", (), {})
    stand_in.DecisionTreeClassifier = type("DecisionTreeClassifier", (), {})
    sys.modules.setdefault(FOREST, stand_in)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module("diffprivlib.models").GaussianNB


def theirs(data: str, epsilons: list[float], draws: int, bound: float, test_rows: int) -> Arrays:
    """Accuracy and AUC [2, epsilons, draws] of diffprivlib's GaussianNB on all rows at one place.

    It knows numbers alone: a category becomes as many columns of 0 and 1 as it has values.
    """
    rows = rows_of(data, bound, test_rows)
    turns = tenths(len(rows.y) * 10 // 9)
    levels = np.array(rows.schema.cardinalities)

    def numbers(x: np.ndarray) -> np.ndarray:
        parts = [x[:, [j]] if r == 0 else (x[:, [j]] == np.arange(r)).astype(float)
                 for j, r in enumerate(levels)]  # fmt: skip
        return np.concatenate(parts, 1)

    width = np.where(levels == 0, 1, levels)
    number = np.repeat(levels == 0, width)
    low, high = np.where(number, -bound, 0.0), np.where(number, bound, 1.0)
    make = _their_model()
    scored = np.empty((2, len(epsilons), draws))
    for turn in range(turns):
        rows = rows_of(data, bound, test_rows, turn)
        x, x_test = numbers(rows.x), numbers(rows.x_test)
        for i, epsilon in enumerate(epsilons):
            for t in range(turn, draws, turns):
                with warnings.catch_warnings(), np.errstate(all="ignore"):
                    warnings.simplefilter("ignore")
                    model = make(epsilon=epsilon, bounds=(low, high), random_state=1000 * i + t)
                    joint = model.fit(x, rows.y)._joint_log_likelihood(x_test)
                odds = np.nan_to_num(joint[:, 1] - joint[:, 0], posinf=1e300, neginf=-1e300)
                with jax.enable_x64(True):
                    scored[:, i, t] = jax.device_get(_scored(odds, rows.y_test))
    return {"diffprivlib": scored}


_scored = jax.jit(scores)
