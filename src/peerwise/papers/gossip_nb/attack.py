"""Federated naive Bayes among malicious nodes: which way to put releases together withstands what.

A trial deals the rows anew in equal shards, adds each node's noise once, lets a share of the nodes
send something else, and measures the model that the server makes of all it hears.
"""

import math
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from peerwise.core import Array, Shard
from peerwise.errors import BadData, BadSetting, UnknownName
from peerwise.methods.releasing import release
from peerwise.methods.robust_nb import ATTACKS, RULES, aggregate, corrupt, relative
from peerwise.models.family import Model
from peerwise.papers.gossip_nb.trials import Problem, problem, score

SUM = "sum"  # what Federated naive Bayes does


def attack(
    task_name: str | Problem = "adult",
    nodes: int = 100,
    shares: Sequence[float] = (0, 0.01, 0.05, 0.10),
    kinds: Sequence[str] = ATTACKS,
    rules: Sequence[str] = (SUM, *RULES),
    *,
    epsilon: float = math.inf,
    trials: int = 10,
    seed: int = 0,
    trim: float = 0.1,
    fewest: float = 2.0,
    **options: Any,
) -> list[dict[str, Any]]:
    """Accuracy of the aggregated model on the test rows, a record for each share, kind and rule.

    Exactly round(share x nodes) nodes are malicious; where that is none the kind is "none". Rules
    are "sum" (of raw statistics, Algorithm 3 of the Gossip-NB paper) and those of
    `methods.robust_nb`. Categories are never rarer than one row: where most nodes lack one, its
    median is 0. Other options are those of `methods.gossip_nb.release`.
    """
    task = problem(task_name) if isinstance(task_name, str) else task_name
    for rule in rules:
        if rule not in (SUM, *RULES):
            raise UnknownName("rule", rule, (SUM, *RULES))
    if trials < 1 or not all(0 <= share <= 1 for share in shares):
        raise BadSetting(f"trials must be 1 or more and shares 0 to 1, got {trials} and {shares}")
    if not 1 <= 2 * nodes <= len(task.y):
        raise BadData(f"{task.name} has {len(task.y)} rows, not two for each of {nodes} nodes")
    model = task.floored(1)
    cases = [
        (share, kind) for share in shares for kind in (kinds if round(share * nodes) else ["none"])
    ]
    accuracy = np.empty((trials, len(cases), len(rules)))
    with jax.enable_x64(True):
        draw = jax.jit(
            jax.vmap(release(model, epsilon=epsilon, **({"sensitivity": "local"} | options)))
        )
        x_test, y_test = jnp.asarray(task.x_test), jnp.asarray(task.y_test)
        phi = model.features(x_test)
        for trial in range(trials):
            deal, noise, lies = jax.random.split(jax.random.key(_seed(seed, trial)), 3)
            stats, _ = draw(jax.random.split(noise, nodes), _dealt(task, deal, nodes))
            for i, (share, kind) in enumerate(cases):
                bad = jnp.arange(nodes) < round(share * nodes)  # shards are in random order
                for j, rule in enumerate(rules):
                    scored = _compiled(model, kind, rule, trim, fewest)
                    accuracy[trial, i, j] = scored(lies, stats, bad, phi, y_test)
    about = {"task": task.name, "nodes": nodes, "epsilon": epsilon, "trials": trials}
    records: list[dict[str, Any]] = []
    for i, (share, kind) in enumerate(cases):
        for j, rule in enumerate(rules):
            of = accuracy[:, i, j]
            result = {"accuracy": float(of.mean()), "std": float(of.std())}
            records.append({**about, "share": share, "kind": kind, "rule": rule, **result})
    return records


def _seed(seed: int, trial: int) -> int:
    return int(np.random.SeedSequence([seed, trial]).generate_state(1)[0])


def _dealt(task: Problem, key: Array, nodes: int) -> Shard:
    """Equal shards [n, m, ...] of shuffled rows; rows that are left over go to nobody."""
    each = len(task.y) // nodes
    order = np.asarray(jax.random.permutation(key, len(task.y)))[: nodes * each]
    x = jnp.asarray(task.x[order]).reshape(nodes, each, -1)
    return Shard(x, jnp.asarray(task.y[order]).reshape(nodes, each), jnp.ones((nodes, each)))


@cache
def _compiled(
    model: Model, kind: str, rule: str, trim: float, fewest: float
) -> Callable[..., Array]:
    """key, statistics [n, c, q], who is malicious [n], test features, classes -> accuracy."""

    def sent(key: Array, value: Array, bad: Array) -> Array:
        if kind == "none":
            return value
        lie = jax.vmap(partial(corrupt, kind=kind))(jax.random.split(key, len(value)), value)
        return jnp.where(bad[:, None, None], lie, value)

    def scored(key: Array, stats: Array, bad: Array, phi: Array, y: Array) -> Array:
        if rule == SUM:
            s = sent(key, stats, bad).sum(0)
        else:
            shares, sizes = relative(stats)
            heard = sent(key, shares, bad)
            s = aggregate(model, heard, sizes, rule=rule, trim=trim, fewest=fewest)
        return score(model, s, phi, y)

    return jax.jit(scored)
