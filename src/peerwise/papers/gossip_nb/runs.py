"""The pieces of work behind the figures of the Gossip-NB paper; each gives plain arrays."""

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.sparse import coo_array

from peerwise import learner, metrics, topology
from peerwise.methods.gossip_nb import federated_nb, gossip_nb
from peerwise.methods.releasing import never_silent, release
from peerwise.models.family import Model
from peerwise.papers.gossip_nb.attack import attack
from peerwise.papers.gossip_nb.trials import Problem, federated, problem, score, vaidya, vanilla
from peerwise.papers.items import Arrays, Description
from peerwise.privacy.budget import Queries
from peerwise.shards import Shards, pack
from peerwise.simulate import simulate

PARAMETERS = 12  # of each kind that are followed over the iterations


def accuracy(data: str, nodes: int, epsilons: list[float], trials: int, **options: Any) -> Arrays:
    """Figures 2 and 4: Federated naive Bayes [epsilons, trials]."""
    return {"accuracy": federated(problem(data), nodes, epsilons, trials, **options)}


def central(data: str, epsilons: list[float], trials: int, seed: int = 0) -> Arrays:
    """Figure 2: the centralised baseline [epsilons, trials], and naive Bayes without noise."""
    task = problem(data)
    noisy = vaidya(task, epsilons, trials, seed=seed)
    return {"accuracy": noisy, "vanilla": np.array([vanilla(task)])}


def clamping(data: str, nodes: int, epsilons: list[float], trials: int, seed: int = 0) -> Arrays:
    """Accuracy when nodes make their counts positive before sending, as the authors' code does."""
    return accuracy(data, nodes, epsilons, trials, clamp_at_node=True, seed=seed)


def sensitivity(data: str, nodes: list[int], trials: int, seed: int = 0) -> Arrays:
    """Figure 3: the largest |x| of a class at a node, relative to that of all rows."""
    task = problem(data)
    queries = task.queries
    x = np.abs(task.x[:, queries.numeric])
    rng = np.random.default_rng(seed)
    classes = queries.classes
    whole = np.stack([x[task.y == c].max(0) for c in range(classes)])  # [c, d]
    quantiles = {}
    for n in nodes:
        ratios = []
        for _ in range(trials):
            order = rng.permutation(len(task.y))
            place = (np.arange(len(order)) * n // len(order)) * classes + task.y[order]
            top = np.zeros((n * classes, x.shape[1]))
            np.maximum.at(top, place, x[order])
            ratios.append((top.reshape(n, classes, -1) / np.maximum(whole, 1e-300)).ravel())
        quantiles[f"n{n}"] = np.quantile(np.concatenate(ratios), np.linspace(0, 1, 101))
    return quantiles


def _log_uniform_sizes(rng: np.random.Generator, rows: int) -> np.ndarray:
    """Sizes log-uniform on [2, rows / 5] until all rows are dealt."""
    sizes: list[int] = []
    left = rows
    while left >= 2:
        size = int(np.exp(rng.uniform(np.log(2), np.log(rows / 5))))
        size = min(size, left)
        if left - size == 1:  # nobody holds a single row
            size = left
        sizes.append(size)
        left -= size
    return np.array(sizes)


@lru_cache(maxsize=1)
def _scorer(data: str) -> Any:
    """Accuracy of the models that many statistics make [k, c, q] -> [k]."""
    task = problem(data)
    with jax.enable_x64(True):
        phi, y = task.model.features(jnp.asarray(task.x_test)), jnp.asarray(task.y_test)

        return jax.jit(lambda sums: jax.lax.map(lambda s: score(task.model, s, phi, y), sums))


def threshold(data: str, runs: int, seed: int = 0) -> Arrays:
    """Figure 5: what leaving out the noisiest nodes does; sizes and budgets are log-uniform.

    For each run the nodes' sizes, budgets and relative errors (equation 28), and the accuracy with
    the k least noisy nodes for some k; padded with NaN to one length.
    """
    task = problem(data)
    queries = task.queries
    with jax.enable_x64(True):
        features = np.asarray(task.model.features(jnp.asarray(task.x)))
    attacks: list[tuple[np.ndarray, ...]] = []
    for r in range(runs):
        rng = np.random.default_rng([seed, r])
        sizes = _log_uniform_sizes(rng, len(task.y))
        owner = np.repeat(np.arange(len(sizes)), sizes)
        order = rng.permutation(len(task.y))[: len(owner)]
        budgets = np.exp(rng.uniform(np.log(1e-2), np.log(1e1), len(sizes)))
        exact, reach = _node_sums(task, queries, features, order, owner)
        # nodes of any size at once, where `release` would compile for every group of sizes
        noise = rng.laplace(size=exact.shape) * reach * len(queries) / budgets[:, None, None]
        where = exact != 0
        errors = (np.abs(noise) / np.where(where, np.abs(exact), np.inf)).sum((1, 2))
        least = np.argsort(errors)
        total = (exact + noise)[least].cumsum(0)
        kept = np.unique(np.geomspace(1, len(sizes), 24).round().astype(int))
        with jax.enable_x64(True):
            scores = np.asarray(_scorer(data)(jnp.asarray(total[np.resize(kept - 1, 24)])))
        curves = kept, errors[least][kept - 1], scores[: len(kept)]
        attacks.append((sizes, budgets, errors, *curves))
    names = ("sizes", "budgets", "errors", "kept", "limits", "accuracy")
    return dict(zip(names, map(_padded, zip(*attacks, strict=True)), strict=True))


def _node_sums(
    task: Problem, queries: Queries, features: np.ndarray, order: np.ndarray, owner: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Statistics [n, c, q] of nodes that hold rows `order`, and their local sensitivities."""
    n, c = int(owner[-1]) + 1, queries.classes
    place = owner * c + task.y[order]
    member = coo_array((np.ones(len(order)), (place, np.arange(len(order)))), (n * c, len(order)))
    exact = member.tocsr() @ features[order]
    top = np.zeros((n * c, len(queries.numeric)))
    np.maximum.at(top, place, np.abs(task.x[order][:, queries.numeric]))
    reach = np.ones((n, c, queries.size))
    reach[..., queries.first] = top.reshape(n, c, -1)
    reach[..., queries.second] = top.reshape(n, c, -1) ** 2
    with jax.enable_x64(True):
        reach = np.asarray(never_silent(jnp.asarray(reach)))
    return exact.reshape(n, c, -1), reach


def _padded(rows: Sequence[np.ndarray]) -> np.ndarray:
    wide = np.full((len(rows), max(map(len, rows))), np.nan)
    for i, row in enumerate(rows):
        wide[i, : len(row)] = row
    return wide


@lru_cache(maxsize=4)
def _each(draw: Any) -> Any:
    return jax.jit(jax.vmap(draw))


def _released(draw: Any, shards: Shards, seed: int) -> np.ndarray:
    """The sum of what all nodes release, added in their order."""
    with jax.enable_x64(True):
        key = jax.random.key(seed)
        parts = []
        for group in shards.groups:
            keys = jax.vmap(lambda i: jax.random.fold_in(key, i))(jnp.asarray(group.nodes))
            shard = jax.tree.map(jnp.asarray, group.shard)
            parts.append(jax.device_get(_each(draw)(keys, shard)[0]))
    order = np.argsort(np.concatenate([g.nodes for g in shards.groups]))
    return np.concatenate(parts)[order].sum(0)


def _followed(model: Model, s: Any) -> dict[str, Any]:
    """Some parameters of each kind, for Figure 7."""
    parameters = model.describe(s)
    kinds = {"prior": parameters["prior"]}
    if parameters.get("prob"):
        cells = [table.reshape(-1) for table in parameters["prob"].values()]
        kinds["category"] = jnp.concatenate(cells)[:PARAMETERS]
    if "mean" in parameters and parameters["mean"].size:
        kinds["mean"] = parameters["mean"].reshape(-1)[:PARAMETERS]
        kinds["std"] = jnp.sqrt(parameters["var"]).reshape(-1)[:PARAMETERS]
    return kinds


def gossip(
    data: str,
    nodes: int,
    epsilon: float,
    rounds: int,
    seeds: int,
    counter: Any = "printed",
    test_rows: int = 2000,
    clamp_at_node: bool = False,
) -> Arrays:
    """Figures 6 and 7: quartiles of the nodes' accuracy by iteration, and Federated's.

    `accuracy` [seeds, rounds, 3] and `federated` [seeds]; of each kind of parameters the quartiles
    over seeds [3, rounds, parameters] of the nodes' median beside Federated's, and how far the
    kind is from Federated's, `apart_KIND` [seeds, rounds]. A seed deals the rows, draws the noise
    and who pushes to whom.
    """
    task = problem(data)
    draw = release(task.model, epsilon=epsilon, sensitivity="local", clamp_at_node=clamp_at_node)
    ours, theirs = gossip_nb(task.model, draw, counter=counter), federated_nb(task.model, draw)
    runs = []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        owned = np.array_split(rng.permutation(len(task.y)), nodes)
        shards = pack(task.x, task.y, owned)
        rows = rng.permutation(len(task.y_test))[:test_rows]
        probe = metrics.together(
            metrics.errors("test", task.x_test[rows], task.y_test[rows]), _parameters_of(task.model)
        )
        how: Any = {"seed": seed, "probe": probe, "precision": "float64"}
        pushes = topology.pushes(nodes, rounds=rounds, seed=seed)
        done = simulate(ours, shards, pushes, rounds, at=range(1, rounds + 1), **how)
        goal = simulate(theirs, shards, topology.server(nodes), 1, at=[1], **how)
        runs.append(_beside(done.history["adapt"], goal.history["adapt"]))
    arrays = {name: np.stack([run[name] for run in runs]) for name in runs[0]}
    return {n: np.nanpercentile(a, _QUARTILES, axis=0) if n in _KINDS else a
            for n, a in arrays.items()}  # fmt: skip


_QUARTILES = [25, 50, 75]
_KINDS = {"prior": False, "category": False, "mean": True, "std": True}  # shown as a ratio


def _beside(ours: Any, theirs: Any) -> Arrays:
    """One run of gossip beside Federated on the same rows."""
    accuracy = 1 - np.asarray(ours["test_error"])
    arrays = {
        "accuracy": np.percentile(accuracy, _QUARTILES, axis=1).T,
        "federated": 1 - np.asarray(theirs["test_error"])[0, 0],
    }
    for kind in (k for k in _KINDS if k in ours):
        median = np.nanmedian(np.asarray(ours[kind]), axis=1)  # [rounds, parameters]
        goal = np.asarray(theirs[kind])[0, 0]
        away = np.abs(median - goal) / np.maximum(np.abs(goal), 1e-12)
        arrays[f"apart_{kind}"] = np.median(away, axis=1)
        arrays[kind] = median / goal if _KINDS[kind] else median - goal
    return arrays


@lru_cache(maxsize=4)
def _parameters_of(model: Model) -> Any:
    """A metric: some parameters of every node; the same one for a model, so one program."""

    def parameters(method: Any, state: Any) -> Any:
        value = state.value
        s = value["estimate"] if isinstance(value, dict) else value
        return jax.vmap(partial(_followed, model))(s)

    return jax.tree_util.Partial(parameters)


def errors(description: Description) -> Arrays:
    """Test error of every node after the last round, [repetitions, nodes]."""
    return {"error": learner.run(learner.cell(description)).values["test_error"][:, -1]}


def attacked(data: str, nodes: int, trials: int, epsilon: float | None, seed: int = 0) -> Arrays:
    """Accuracy under attack, by rule, kind and share of attackers; see `gossip_attack`."""
    budget = np.inf if epsilon is None else epsilon
    records = attack(data, nodes=nodes, trials=trials, epsilon=budget, seed=seed)
    return {k: np.array([record[k] for record in records]) for k in records[0]}


def bias(data: str, nodes: int, epsilon: float, trials: int, seed: int = 0) -> Arrays:
    """Summed statistics on average over trials, clamped at nodes and not, and without noise."""
    draws = {}
    task = problem(data)
    model = task.model
    owned = np.array_split(np.random.default_rng(seed).permutation(len(task.y)), nodes)
    shards = pack(task.x, task.y, owned)
    for name, clamp in (("plain", False), ("clamped", True)):
        draw = release(model, epsilon=epsilon, sensitivity="local", clamp_at_node=clamp)
        sums = [_released(draw, shards, seed + t) for t in range(trials)]
        draws[name] = np.mean(sums, axis=0)
    draws["exact"] = _released(release(model), shards, seed)
    return draws
