"""What a node learns with under a charter: its own rows, and the learner that they make."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from peerwise import data
from peerwise.core import Array, Shard, Tree
from peerwise.data.scaling import under
from peerwise.learner import Assembled, World, assemble
from peerwise.learner.assemble import facts_of
from peerwise.learner.firsts import as_if_nothing, decided, firsts
from peerwise.learner.noise import adds_noise
from peerwise.learner.world import as_read
from peerwise.models.family import Model
from peerwise.models.registry import first_phase
from peerwise.peer.charter import Charter
from peerwise.peer.described import spends, world_of
from peerwise.privacy.aware import Noise, Noised
from peerwise.privacy.design import Design, noising

SAME = 64 * np.finfo(np.float64).eps  # a variance beside the mean square that is rounding alone
NO_INFLUENCE = 1e300  # the scale of a column that is the same everywhere: any value of it is then 0


class Learning:
    """The learner of a charter; `agreed` is what its first phases summed up, if it has any."""

    def __init__(self, charter: Charter):
        self.charter, self.cell = charter, charter.cell
        self.firsts = tuple(firsts(self.cell, charter.world()))  # that are sealed sums
        self.phase = None
        if "model" in self.cell and "structure" not in self.firsts:
            self.phase = first_phase(self.cell["model"], charter.schema())
        self.agrees = charter.units == "agree" or self.phase is not None
        self.private = adds_noise(self.cell)
        self.sealed = self.cell.method.traits.releases == "sealed"
        self.releases = self.cell.method.traits.releases if self.private else "nothing"

    def count(self) -> Callable[[Shard], dict[str, Tree]]:
        """What a node adds to the sums of the first phase."""
        return _count(self.charter.units == "agree", self.phase and self.phase.count)

    def schema(self, agreed: Mapping[str, Any] | None = None) -> data.Schema:
        """The features as the model sees them: with the units given or agreed."""
        schema = self.charter.schema()
        if agreed is None or "units" not in agreed:
            return schema
        sums = agreed["units"]
        count, first, second = (np.array(sums[k], float) for k in ("count", "sum", "square"))
        center, square = first / np.maximum(count, 1), second / np.maximum(count, 1)
        variance = square - center**2
        constant = variance <= SAME * square  # not exactly 0: the sums are rounded
        scale = np.where(constant, NO_INFLUENCE, np.sqrt(np.where(constant, 1, variance)))
        features = tuple(
            f
            if f.kind != "numeric"
            else replace(f, center=f.center + f.scale * c, scale=f.scale * s)
            for f, c, s in zip(schema.features, center.tolist(), scale.tolist(), strict=True)
        )
        return replace(schema, features=features)

    def world(
        self,
        x: np.ndarray,
        y: np.ndarray,
        agreed: Mapping[str, Any] | None = None,
        draw: Any = None,
        exact: bool = False,
    ) -> World:
        """Rows in the charter's units, all of one node, as the method reads them.

        As far as is agreed. `exact`: in double precision, whatever the method computes in.
        """
        before, after = self.charter.schema(), self.schema(agreed)
        seen = under(x, before, after)
        sums = None if agreed is None or self.phase is None else np.asarray(agreed["model"])
        charter = self.charter
        about = charter.features, len(charter.nodes), charter.limits, charter.budget
        world = world_of(self.cell, after, *about)._replace(
            x=seen, y=y, owned=[np.arange(len(y))], links=charter.topology(), sums=sums, draw=draw
        )
        world = as_read(self.cell, world)
        known = {} if agreed is None else agreed.get("first", {})
        for name in self.firsts:
            if name in known:
                world = decided(self.cell, world, name, np.asarray(known[name]))
        world = world._replace(settled=len(known) == len(self.firsts))
        if exact:
            return world
        return world._replace(x=world.x.astype(charter.precision, copy=False))

    def encoded(self, x: np.ndarray, agreed: Mapping[str, Any] | None) -> np.ndarray:
        """Rows in the charter's units as the method reads them."""
        return self.world(x, np.zeros(len(x), np.int32), agreed).x

    def assembled(self, world: World) -> Assembled:
        """The method of a node with these rows, its shard and its links.

        A release with noise is never drawn here, for it would come from a key that others know:
        where the world has none, a blank one shows its shape.
        """
        if self.releases == "once" and world.draw is None:
            model = self.model(world)
            blank: Tree = np.zeros((model.classes, model.size))
            if model.shared:
                blank = {"classes": blank, "shared": np.zeros(model.shared)}
            world = world._replace(draw=constant(blank, 0.0, 0.0, self.noise(model)))
        return assemble(self.cell, world)

    def noise(self, model: Model) -> Noise | None:
        """What all nodes know of the noise in a release; None where models do not use it."""
        charter, privacy = self.charter, self.cell["privacy"]
        if charter.budget is None or not privacy["aware"]:
            return None
        epsilon, delta = spends(self.cell, charter.limits, charter.budget)
        numbers = [f for f in charter.features if f.kind == "numeric"]
        low, high = (
            np.array([(f.bounds()[i] - f.center) / f.scale for f in numbers]) for i in (0, 1)
        )
        design = Design(model, low, high)
        rows = int(privacy["person_rows"])
        noise = noising(design, epsilon, delta, privacy["mechanism"], privacy["split"], rows)
        return Noise(design, noise.variance)

    def blank(self, agreed: Mapping[str, Any] | None) -> Assembled:
        """The same for one row of zeros: what is learnt has the shapes of any node's.

        As if sums were 0 that are not agreed.
        """
        x = np.zeros((1, len(self.charter.features)))
        world = self.world(x, np.zeros(1, np.int32), agreed)
        return self.assembled(as_if_nothing(self.cell, world))

    def model(self, world: World) -> Model:
        """The model of a method that learns statistics."""
        model: Model = facts_of(self.cell, world, None, world.links)["model"]
        return model


@cache
def _count(
    units: bool, phase: Callable[[Shard], Tree] | None
) -> Callable[[Shard], dict[str, Tree]]:
    """Counts, sums and sums of squares of every feature for units, and what the model counts."""

    def count(shard: Shard) -> dict[str, Tree]:
        sums: dict[str, Tree] = {} if phase is None else {"model": phase(shard)}
        if units:
            known = ~jnp.isnan(shard.x)
            x, w = jnp.where(known, shard.x, 0), shard.weight[:, None]
            sums["units"] = {
                "count": (known * w).sum(0), "sum": (x * w).sum(0), "square": (x * x * w).sum(0)
            }  # fmt: skip
        return sums

    return count


def constant(noisy: Tree, size: float, epsilon: float, noise: Noise | None = None) -> Any:
    """A release that was drawn before."""

    def draw(key: Array, shard: Shard) -> tuple[Array, dict[str, Array]]:
        kind = shard.x.dtype
        about = {"size": size, "noise": 0.0, "epsilon": epsilon}
        values = jax.tree.map(lambda a: jnp.asarray(a, kind), noisy)
        return values, {k: jnp.asarray(v, kind) for k, v in about.items()}

    return Noised(draw, noise)
