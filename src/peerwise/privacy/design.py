"""How the statistics of a model are released: in which coordinates, with how much noise in each.

A number or a product of numbers is released about the middle of its public range: the sum of
x^2 - h^2 / 2 for |x| <= h, which one row moves by h^2 / 2 and not by h^2. Middles go back in from
the noisy counts, so that released statistics are raw sums like any others, and add up over nodes.
"""

import math
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from peerwise.core import Array, Tree
from peerwise.errors import BadSetting, UnknownName
from peerwise.models.entries import Entries
from peerwise.models.family import Model
from peerwise.privacy import budget
from peerwise.privacy.mechanism import MECHANISMS, gaussian_sigma
from peerwise.privacy.sensitivity import Bound, checked_bounds

KINDS = ("best", *MECHANISMS)  # of noise; best: whichever has less variance


class Design:
    """The coordinates in which a model's statistics are released, phi first, then psi.

    `reach`: how far one row moves each; `middle`: what is taken off for every row that is counted
    by the entry `count`; `column`: the question to which it belongs. A row moves the line of its
    own class and psi, so all classes cost as much as one.
    """

    def __init__(self, model: Model, low: Bound, high: Bound):
        if model.entries is None:
            raise BadSetting(
                f"{model.name} cannot be released with noise: how far one row can change its "
                "statistics is not known; use another model, such as naive_bayes"
            )
        lines, sums = model.entries()
        least, most = _ranges(model, low, high)
        parts = [_coordinates(lines, least, most)]
        groups = [lines.group]
        if sums is not None:
            parts.append(_coordinates(sums, least, most))
            groups.append(sums.group + lines.group.max() + 1)
        self.model, self.lines, self.bounds = model, len(lines.left), (low, high)
        self.entries = lines, sums
        self.reach, self.middle, self.count = (np.concatenate(a) for a in zip(*parts, strict=True))
        _, column = np.unique(np.concatenate(groups), return_inverse=True)
        self.column = column.astype(np.int32)

    def __len__(self) -> int:
        return int(self.column.max()) + 1

    @property
    def size(self) -> int:
        """How many coordinates there are."""
        return len(self.column)

    @cached_property
    def weighed(self) -> np.ndarray:
        """The reach of every value that is released: phi for each class, psi once [c, q + r]."""
        every = np.tile(self.reach, (self.model.classes, 1))
        every[1:, self.lines :] = 0
        return every

    def computed(self, x: np.ndarray) -> np.ndarray:
        """The coordinates of rows in double precision, each row by itself."""
        with jax.enable_x64(True):
            return np.asarray(self._features(jnp.asarray(x, jnp.float64)))

    @cached_property
    def _features(self) -> Any:
        return jax.jit(self.features)

    def features(self, x: Array) -> Array:
        """The coordinates of rows [m, q + r]."""
        phi = self.model.features(x)
        both = phi if self.model.common is None else jnp.concatenate([phi, self.model.common(x)], 1)
        return both - jnp.asarray(self.middle, both.dtype)[None] * phi[:, self.count]

    def raw(self, lines: Any, sums: Any) -> Tree:
        """Statistics of the model from sums of coordinates: [c, q], and [r] of psi."""
        return self._shifted(lines, sums, 1.0)

    def coordinates(self, s: Tree) -> tuple[Any, Any]:
        """The sums of coordinates from statistics: what `raw` undoes."""
        lines, sums = (s["classes"], s["shared"]) if isinstance(s, dict) else (s, None)
        moved = self._shifted(lines, sums, -1.0)
        return (moved["classes"], moved["shared"]) if isinstance(moved, dict) else (moved, None)

    def _shifted(self, lines: Any, sums: Any, sign: float) -> Tree:
        q = self.lines
        middle = sign * self.middle
        kind = lines.dtype
        shift = middle[None, :q].astype(kind) * lines[:, self.count[:q]]
        moved = lines + _rounded(shift)
        if sums is None:
            return moved
        rows = lines.sum(0)[self.count[q:]]
        return {"classes": moved, "shared": sums + _rounded(middle[q:].astype(kind) * rows)}


@lru_cache(maxsize=32)
def design_of(model: Model, low: tuple[float, ...], high: tuple[float, ...]) -> Design:
    """The design of a model whose numbers have these bounds; the same one when asked again."""
    return Design(model, np.array(low), np.array(high))


def _rounded(term: Any) -> Any:
    """The term as it is rounded: compiled or not, it is not fused with a sum."""
    return jnp.where(term == term, term, jnp.nan) if isinstance(term, jax.Array) else term


def _ranges(model: Model, low: Bound, high: Bound) -> tuple[np.ndarray, np.ndarray]:
    """The least and the greatest value of each column of x: of a category those of its codes."""
    number = np.equal(model.cardinalities, 0)
    least, most = np.zeros(len(number)), np.maximum(np.array(model.cardinalities, float) - 1, 0)
    least[number], most[number] = checked_bounds(int(number.sum()), low, high)
    return least, most


@np.errstate(over="ignore", invalid="ignore")  # `noising` refuses what is not finite
def _coordinates(
    e: Entries, least: np.ndarray, most: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Reach, middle and count of entries."""
    cells = e.left < 0
    a, b = (np.where(e.left < 0, 1.0, edge[e.left]) for edge in (least, most))
    c, d = (np.where(e.right < 0, 1.0, edge[e.right]) for edge in (least, most))
    corners = np.stack([a * c, a * d, b * c, b * d])
    bottom, top = corners.min(0), corners.max(0)
    square = (e.left == e.right) & ~cells  # never negative, and 0 where the range holds 0
    bottom = np.where(square, np.where((a <= 0) & (b >= 0), 0.0, np.minimum(a * a, b * b)), bottom)
    middle = np.where(cells, 0.0, (bottom + top) / 2)
    # a middle is a rounded number, and a coordinate must not be beyond its reach
    reach = np.where(cells, 1.0, np.maximum(top - middle, middle - bottom) * (1 + 1e-12))
    return reach, middle, e.counted


class Noising(NamedTuple):
    """The noise of a release: its kind, its scale in each coordinate, its multiplier if Gaussian.

    `scale` is b of the Laplace law or a standard deviation. `norm` is that in which a row moves all
    coordinates over their scales by `sensitivity` at most: 1 for Laplace noise, 2 for Gaussian.
    """

    kind: str
    scale: np.ndarray
    multiplier: float | None
    norm: int
    sensitivity: float
    delta: float

    @property
    def variance(self) -> np.ndarray:
        """Of the noise in each coordinate, of one node."""
        return (2 if self.kind == "laplace" else 1) * self.scale**2


@np.errstate(over="ignore", divide="ignore", invalid="ignore")  # `_finite` says what is wrong
def noising(
    design: Design,
    epsilon: float,
    delta: float,
    kind: str = "best",
    split: str = "even",
    rows: int = 1,
) -> Noising:
    """Noise that makes a release (epsilon, delta)-private; with delta 0 it is Laplace noise.

    `split`: each question gets an equal share of the budget, or ("optimal") one that makes the
    total variance least. "best" takes the kind of noise with the smaller total variance. `rows`:
    how many rows of one person count, where persons are hidden and not rows.
    """
    if kind not in KINDS:
        raise UnknownName("kind of noise", kind, KINDS)
    if kind == "best":
        choices = [noising(design, epsilon, 0.0, "laplace", split, rows)]
        if delta > 0:
            choices.append(noising(design, epsilon, delta, "gaussian", split, rows))
        return min(choices, key=lambda one: _total(design, one))
    epsilon = budget.check_epsilon(epsilon)
    delta, rows = budget.check_delta(delta, kind), budget.check_person_rows(rows)
    if kind == "laplace":
        share = budget.split(epsilon, design, design.weighed, split)
        scale = _finite(rows * design.reach / share[design.column])
        return Noising(kind, scale, None, 1, epsilon / rows, 0.0)
    multiplier = gaussian_sigma(1.0, epsilon, delta)
    share = budget.split_gaussian(multiplier, design, design.weighed, split)
    scale = _finite(rows * design.reach * share[design.column])
    return Noising(kind, scale, multiplier, 2, 1 / multiplier / rows, delta)


def _finite(scale: np.ndarray) -> np.ndarray:
    if not np.isfinite(scale).all():
        raise BadSetting(
            "noise would be larger than any number: bounds are too wide, or epsilon too small"
        )
    return scale


def _total(design: Design, noise: Noising) -> float:
    """The variance of all that is released, in units of what one row can do."""
    share = noise.variance / design.reach**2
    return float(np.where(design.weighed > 0, share, 0).sum())


def default_delta(rows: int | None) -> float:
    """A delta that is small beside one row: a tenth of 1 / rows, 1e-6 where nobody says how many.

    At 1 / rows a mechanism may publish a row as it is.
    """
    if rows is None or rows < 1:
        return 1e-6
    return min(1e-5, 10.0 ** math.floor(math.log10(1 / (10 * rows))))
