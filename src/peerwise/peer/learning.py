"""What a charter says is learnt: units, model and method, without anybody's rows."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from peerwise import data, methods
from peerwise.core import Array, Method, Shard
from peerwise.data.scaling import rescaled
from peerwise.experiments.job import Split, for_nets, make_method, make_net
from peerwise.experiments.setting import NEURAL, PRIVATE
from peerwise.models.family import Model
from peerwise.models.registry import PLAIN, model_for
from peerwise.models.tan import chow_liu
from peerwise.peer.charter import Charter

__all__ = ["Learning", "constant"]


class Learning:
    """The model and the method of a charter; `agreed` is what a first phase found, if any."""

    def __init__(self, charter: Charter):
        self.charter, self.setting = charter, charter.setting()
        self.topology = charter.topology()
        s = self.setting
        by_model = s.model == "tan" or (
            s.model == "multinomial" and "length" not in s.model_options
        )
        # whether something must be agreed before
        self.agrees = charter.units == "agree" or (by_model and s.method not in NEURAL)
        self.private = s.method in PRIVATE and s.epsilon is not None

    def schema(self, agreed: Mapping[str, Any] | None = None) -> data.Schema:
        """The features as the model sees them: with the units given or agreed."""
        schema = self.charter.schema()
        if agreed is None or self.charter.units != "agree":
            return schema
        count, first, second = (np.array(agreed[k], float) for k in ("count", "sum", "square"))
        center = first / np.maximum(count, 1)
        scale = np.sqrt(np.maximum(second / np.maximum(count, 1) - center**2, 0))
        plain = self.setting.model in PLAIN and self.setting.method not in NEURAL
        features = tuple(
            f
            if f.kind != "numeric" or plain
            else replace(f, center=f.center + f.scale * c, scale=f.scale * (s if s > 0 else 1.0))
            for f, c, s in zip(schema.features, center.tolist(), scale.tolist(), strict=True)
        )
        return replace(schema, features=features)

    def encoded(self, x: np.ndarray, agreed: Mapping[str, Any] | None) -> np.ndarray:
        """Rows in the charter's units as the model sees them."""
        before, after = self.charter.schema(), self.schema(agreed)
        both = list(zip(before.features, after.features, strict=True))
        center = np.array([(b.center - a.center) / a.scale for a, b in both])
        scale = np.array([b.scale / a.scale for a, b in both])
        seen = rescaled(x, center, scale) if (center != 0).any() or (scale != 1).any() else x
        if self.setting.method not in NEURAL:
            return seen
        y = np.zeros(len(seen), np.int32)
        return for_nets(Split(seen, y, [], seen[:0], y[:0], after, seen.shape[1:])).x

    def model(self, agreed: Mapping[str, Any] | None = None) -> Model:
        """The model of a method that learns statistics."""
        s, schema = self.setting, self.schema(agreed)
        options: dict[str, Any] = {}
        if agreed is not None and s.model == "tan":
            options["parents"] = tuple(
                chow_liu(np.array(agreed["pairs"]), schema.cardinalities).tolist()
            )
        if agreed is not None and s.model == "multinomial":
            rows = max(float(np.max(agreed["count"])), 1.0)
            options["length"] = max(float(np.sum(agreed["sum"])) / rows, 1.0)
        return model_for(schema, s.model, **{**options, **s.model_options})

    def method(self, agreed: Mapping[str, Any] | None = None, released: Any = None) -> Method:
        """What every node does. `released`: what a private method tells instead of statistics."""
        s, schema = self.setting, self.schema(agreed)
        rows, degree = self.charter.limits.rows or 1, self.topology.slots
        if s.method in NEURAL:
            x = self.encoded(np.zeros((1, len(schema.features))), agreed)
            y = np.zeros(1, np.int32)
            part = Split(x, y, [], x[:0], y[:0], schema, x.shape[1:])
            return make_method(s, make_net(s, part), rows, degree)
        model = self.model(agreed)
        if not self.private or s.method == "private_crc":
            return make_method(s, model, rows, degree)
        draw = released or constant(np.zeros((model.classes, model.size)), 0.0, 0.0)
        if s.method == "robust_nb":
            return methods.robust_nb(model, released=draw)
        cumulative = {"degree": degree} if s.counter == "cumulative" else {}
        return methods.gossip_nb(model, counter=s.counter, released=draw, **cumulative)


def constant(noisy: np.ndarray, size: float, epsilon: float) -> Any:
    """A release that was drawn before."""

    def draw(key: Array, shard: Shard) -> tuple[Array, dict[str, Array]]:
        kind = shard.x.dtype
        told = {"size": size, "noise": 0.0, "epsilon": epsilon}
        return jnp.asarray(noisy, kind), {k: jnp.asarray(v, kind) for k, v in told.items()}

    return draw
