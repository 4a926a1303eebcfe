"""What a charter describes: the sections of a run file that say what is learnt, as peers need them.

A description may name code of its author (`module:function`). Reading a charter never imports it;
a site that trusts it says so, and only then the description is checked as a whole.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from peerwise.data import Schema
from peerwise.declare import Varies, canonical, declared, filled, find
from peerwise.errors import BadSetting
from peerwise.learner import Cell, World, cell, expand, offered
from peerwise.learner.assemble import width_of
from peerwise.learner.firsts import as_if_nothing, firsts, trust_of
from peerwise.learner.noise import adds_noise
from peerwise.learner.sections import NAMED, SECTIONS
from peerwise.learner.world import is_plain
from peerwise.methods.private_crc import noise_multiplier
from peerwise.methods.sealed import fitting, members
from peerwise.models.registry import blank_model, first_phase
from peerwise.names import entries
from peerwise.peer.terms import ROUNDS, BudgetTerms, FeatureTerms, LimitTerms
from peerwise.privacy.budget import Budget
from peerwise.privacy.composition import SLACK, Charge, composed
from peerwise.privacy.design import default_delta, design_of, noising
from peerwise.privacy.ledger import unit_hidden
from peerwise.privacy.mechanism import gaussian_sigma
from peerwise.privacy.shares import bits_for, shared_noise
from peerwise.topology import Topology

DESCRIPTION = ("method", "model", "net", "privacy", "run")
RUN = ("rounds", "seed", "precision")  # the keys of [run] that peers have; the others simulate
_SIMULATED = {"data": "each node has its own rows", "split": "each node has its own rows",
              "network": "[nodes.NAME] lists who talks to whom"}  # fmt: skip
_PLACES = {"server": "a server", "pooled": "all rows at one place"}
# where the keys of a charter of 0.6 stand now
_ROUNDS = {"count": "[run] rounds", "seed": "[run] seed"}
_METHOD = {
    "method": "[method] name", "model": "[model] name", "model_options": "[model]",
    "net": "[net] name", "net_init": "[net] init", "method_options": "[method]",
    "weigh": "[method] rule", "precision": "[run] precision", "rounds": "[run] rounds",
    "seed": "[run] seed", "common_start": '[method] start = "common"',
    **{key: f"[privacy] {key}" for key in SECTIONS["privacy"]},
}  # fmt: skip


def as_written(given: Any) -> Any:
    """A value as TOML gives it back: lists for tuples, and no key without a value."""
    if isinstance(given, Mapping):
        return {key: as_written(value) for key, value in given.items() if value is not None}
    return [as_written(value) for value in given] if isinstance(given, list | tuple) else given


def own_code(given: Any) -> tuple[str, ...]:
    """Every `module:function` that a description names, each once."""
    if isinstance(given, str):
        return (given,) if ":" in given else ()
    inner = given.values() if isinstance(given, Mapping) else given
    if not isinstance(given, Mapping | list | tuple):
        return ()
    return tuple(dict.fromkeys(name for value in inner for name in own_code(value)))


def _table(section: str, given: Any) -> dict[str, Any]:
    """A section as a table, also where it was written in its short form."""
    if isinstance(given, Mapping):
        return dict(given)
    return {"name" if section in NAMED else next(iter(SECTIONS[section])): given}


def check_moved(raw: Mapping[str, Any]) -> None:
    """Refuse a key that stands elsewhere now, and one that is of simulations."""
    for section, why in _SIMULATED.items():
        if section in raw:
            raise BadSetting(f"[{section}] is only for simulations; remove it: {why}")
    if "rounds" in raw:
        given = raw["rounds"] if isinstance(raw["rounds"], Mapping) else {"count": raw["rounds"]}
        places = [f"{key} is now {_ROUNDS.get(key, f'[pace] {key}')}" for key in given]
        raise BadSetting(f"[rounds] was split: {', '.join(places) or 'use [run] and [pace]'}")
    if "accountant" in _table("privacy", raw.get("privacy", {})):
        raise BadSetting(
            "the accountant is now in [budget], not in [privacy]: move it there. [budget] says "
            "what a node may spend at most, [privacy] what the method spends"
        )
    method = _table("method", raw.get("method", {}))
    name = method.get("name")
    listed = isinstance(name, str) and name in entries("method")
    options = find("method", name).options if listed else {}
    for key in method:
        if key in _METHOD and key not in options:
            raise BadSetting(f"[method] {key} is now {_METHOD[key]}; move it there")
    for key in _table("run", raw.get("run", {})):
        if key in SECTIONS["run"] and key not in RUN:
            raise BadSetting(f"[run] {key} is only for simulations; remove it")


def run_of(run: Any) -> dict[str, Any]:
    """Rounds, seed and precision, whatever the method."""
    values = filled(SECTIONS["run"], _table("run", run), "run", sweeps=False)
    if not 1 <= values["rounds"] <= ROUNDS:
        raise BadSetting(f"[run] rounds must be from 1 to {ROUNDS}, got {values['rounds']}")
    return {key: values[key] for key in RUN}


def cell_of(description: Mapping[str, Any]) -> Cell:
    """The cell of a description whose code may be imported, if peers can run its method."""
    name = _table("method", description["method"]).get("name")
    if isinstance(name, str) and not offered(method := find("method", name), "peer"):
        lacks = _PLACES.get(method.traits.place, _PLACES["pooled"])
        raise BadSetting(
            f"method '{name}' needs {lacks}, which a network of peers does not have; use another, "
            "such as crc or decdiff"
        )
    try:
        cell(description)  # before `expand` makes many cells of what a neighbour sent
    except Varies as varied:
        raise one_value(varied) from None
    return expand(description)[0]


def one_value(varied: Varies) -> BadSetting:
    """The error for a list where one value is expected."""
    return BadSetting(f"{varied} is a list, but a charter describes one run; give one value")


def world_of(
    cell: Cell,
    schema: Schema,
    features: Sequence[FeatureTerms],
    nodes: int,
    limits: LimitTerms,
    budget: BudgetTerms | None,
) -> World:
    """What is known of a network of peers without any rows; `features` are as agreed.

    `schema` may have other units than these.
    """
    spent = None
    if budget is not None and adds_noise(cell):
        spent = Budget(*spends(cell, limits, budget), int(cell["privacy"]["person_rows"]))
    return World(
        np.zeros((1, len(schema.features))), np.zeros(1, np.int32), [np.arange(1)], schema, nodes,
        limits.rows, bounds=_bounds(features, schema), budget=spent,
    )  # fmt: skip


def _bounds(
    features: Sequence[FeatureTerms], schema: Schema
) -> tuple[list[float], list[float]] | None:
    """The public bounds of numbers in the units of a schema; None where some have none."""
    pairs = zip(features, schema.features, strict=True)
    numbers = [(t, f) for t, f in pairs if f.kind == "numeric"]
    if any(t.low is None or t.high is None for t, _ in numbers):
        return None
    edges = [[(b - f.center) / f.scale for b in t.bounds()] for t, f in numbers]
    return [e[0] for e in edges], [e[1] for e in edges]


def check_sealed(cell: Cell, world: World, pace: str, links: Topology, rounds: int) -> None:
    """Refuse sealed sums that could overflow, or on whose noise nobody could rely."""
    if cell.method.traits.releases != "sealed":
        return
    table, nodes = cell["method"], world.nodes
    released = sums_of(cell, links, rounds)
    least, honest = members(nodes, trust_of(cell), released)
    if least < nodes and pace == "deadline":
        raise BadSetting(
            f"[method] least = {table['least']:g} allows sums without some nodes, but with [pace] "
            'mode = "deadline" no sum completes while a node is missing: its neighbours wait out '
            "every deadline, and nodes that drift apart miss each other's letters; set [pace] "
            'mode = "async", or least = 1'
        )
    bits_for(nodes, released)
    as_if_nothing(cell, world)  # whatever is agreed first
    if world.budget is None or not adds_noise(cell):
        return
    # of the features of which some are kept: nobody knows yet which, and how many values they have
    asked = blank_model(cell["model"], world.schema).size
    share = 1 - table["first"] if firsts(cell, world) else 1.0
    multiplier = gaussian_sigma(1.0, world.budget.epsilon, world.budget.delta) / share**0.5
    most = multiplier * math.sqrt(max(released, asked)) * cell["privacy"]["person_rows"]
    # a grid's step is a power of two: beside it a reach of 1 is the least, and one below 1 the most
    reach = np.array([1.0, np.nextafter(1.0, 0.0)])
    shared_noise(reach, most * reach, nodes, honest, released)


def sums_of(cell: Cell, links: Topology, rounds: int) -> int:
    """How many sums a method of sealed sums adds up, over these links in so many rounds."""
    if "releases" not in (table := cell["method"]):
        return 1
    return table["releases"] or fitting(rounds, width_of(links))


def check_cell(
    cell: Cell, schema: Schema, units: str, limits: LimitTerms, budget: BudgetTerms | None
) -> None:
    """Refuse a method that these nodes cannot run, or that tells more than they allow."""
    name, table, facts = cell.method.name, cell["method"], cell.method.facts
    if "net" in facts and schema.missing:
        raise BadSetting(
            f"{name} trains neural networks, which cannot use missing values; set missing = false"
        )
    without = "rows" in cell.method.optional and table.get("m0", True) is not None
    if "rows" in facts and limits.rows is None and not without:
        instead = "; or give method.m0" if "m0" in table else ""
        raise BadSetting(
            f"{name} needs the number of rows in the whole network, which all nodes agree on; "
            f"set limits.rows{instead}"
        )
    if units == "agree" and budget is not None:
        raise BadSetting(
            'units = "agree" computes center and scale from exact sums over rows, which [budget] '
            'does not allow; set units = "given" and give center and scale, or use a method of '
            'sealed sums with [method] units = "sealed", which adds noise'
        )
    if budget is not None and (limits.least_rows > 1 or limits.least_count > 0):
        key = "least_rows" if limits.least_rows > 1 else "least_count"
        raise BadSetting(
            f"limits.{key} depends on a node's exact counts: whether the node takes part would "
            "reveal single rows, which [budget] hides; remove it. Noise protects small nodes too"
        )
    if units == "agree" and table.get("units", "given") != "given":
        raise BadSetting(
            'units = "agree" computes center and scale from open sums, [method] units = "sealed" '
            'from sealed ones; to seal them, set units = "given", which then only says in which '
            "units the bounds are"
        )
    if units == "agree" and is_plain(cell):
        raise BadSetting(
            f"{cell['model']['name']} uses numbers as they are, without center and scale; set "
            'units = "given" and remove center and scale'
        )
    spends = "privacy" in cell and cell["privacy"]["epsilon"] is not None
    if spends and cell.method.traits.releases == "nothing":
        raise BadSetting(
            f"[privacy] gives {name} an epsilon, but {name} does not declare that it releases "
            'anything; remove epsilon, or declare the method with releases = "once"'
        )
    if adds_noise(cell):
        _check_noise(cell, schema)
        _check_budget(cell, limits, budget)
    elif budget is not None:
        raise BadSetting(
            f"[budget] promises privacy, but {name} as configured adds no noise; remove [budget], "
            f"or use one of {', '.join(private_methods())} with [privacy] epsilon"
        )


def private_methods() -> list[str]:
    """The methods of peers that can add noise and spend a budget."""
    return [
        n for n, d in declared("method").items()
        if d.traits.releases != "nothing" and offered(d, "peer")
    ]  # fmt: skip


def _check_noise(cell: Cell, schema: Schema) -> None:
    """Refuse noise that peers cannot draw without a key, or whose size nobody knows."""
    name, model, privacy = cell.method.name, cell["model"]["name"], cell["privacy"]
    phase, sealed = first_phase(cell["model"], schema), cell.method.traits.releases == "sealed"
    if phase is not None and (not sealed or phase.reach is None):
        raise BadSetting(
            f"nodes that learn {model} first agree on an exact sum over rows, which no budget "
            "allows; use another model, such as naive_bayes"
        )
    each_round = cell.method.traits.releases in ("each round", "sealed")
    if own_code(name) and (each_round or "draw" not in cell.method.facts):
        raise BadSetting(
            f"{name} draws its noise from `key`, which other nodes can compute; with [budget], a "
            'method of your own must take the fact `draw` and declare releases = "once"'
        )
    usual = SECTIONS["privacy"]
    for key in ("sensitivity", "bound"):
        if privacy[key] != usual[key].default:
            raise BadSetting(
                f"privacy.{key} is only for simulations; remove it: peers clip each feature to its "
                "public low and high"
            )
    built = blank_model(cell["model"], schema)
    if built.entries is None or ("clip" in cell["method"] and not built.linear):
        raise BadSetting(f"{name} cannot add noise to the statistics of {model}; use naive_bayes")
    if privacy["person"] is None and privacy["person_rows"] > 1:
        raise BadSetting(
            f"privacy.person_rows = {privacy['person_rows']} is how many rows of one person count, "
            "but no column says whose a row is; give privacy.person, or remove person_rows"
        )
    if privacy["person"] == schema.target:
        raise BadSetting(
            f"privacy.person = '{privacy['person']}' is also the target; give the column that says "
            "whose a row is"
        )
    if privacy["person"] in [f.name for f in schema.features]:
        raise BadSetting(
            f"privacy.person = '{privacy['person']}' is also listed as a feature, but the model "
            "must not learn whose row it is; remove that feature"
        )


def unit_of(cell: Cell) -> str:
    """What is hidden: whether one row, or one person, is there."""
    person, rows = cell["privacy"]["person"], cell["privacy"]["person_rows"]
    return "row" if person is None else unit_hidden(rows, person)


def spends(cell: Cell, limits: LimitTerms, budget: BudgetTerms) -> tuple[float, float]:
    """The epsilon and delta that a method spends; delta 0 where its noise must be Laplace's."""
    privacy = cell["privacy"]
    epsilon, delta = float(privacy["epsilon"]), privacy["delta"]
    once = cell.method.traits.releases == "once"
    if once and (privacy["mechanism"] == "laplace" or (delta is None and not budget.delta)):
        return epsilon, 0.0
    if delta is None:
        delta = min(default_delta(limits.rows), budget.delta or 1.0)
    return epsilon, float(delta)


def noise_spent(
    cell: Cell,
    schema: Schema,
    features: Sequence[FeatureTerms],
    limits: LimitTerms,
    budget: BudgetTerms,
) -> tuple[str, float]:
    """The kind of noise, "laplace" or "gaussian", and the delta that it costs."""
    epsilon, delta = spends(cell, limits, budget)
    bounds = _bounds(features, schema)
    if cell.method.traits.releases != "once" or bounds is None:
        return "gaussian", delta
    privacy = cell["privacy"]
    low, high = map(tuple, bounds)
    design = design_of(blank_model(cell["model"], schema), low, high)
    rows = int(privacy["person_rows"])
    noise = noising(design, epsilon, delta, privacy["mechanism"], privacy["split"], rows)
    return noise.kind, noise.delta


def most_delta(rows: int | None) -> float:
    """The most that delta should be: a tenth of 1 / rows, and never above .001.

    At 1 / rows noise may let a row through as it is.
    """
    return min(1e-3, 1 / (10 * rows)) if rows else 1e-3


def _check_budget(cell: Cell, limits: LimitTerms, budget: BudgetTerms | None) -> None:
    epsilon = cell["privacy"]["epsilon"]
    if budget is None:
        raise BadSetting(
            f"{cell.method.name} spends privacy.epsilon = {epsilon:g}; give a budget, as in "
            f"[budget] epsilon = {epsilon:g}"
        )
    if budget.epsilon < epsilon:
        raise BadSetting(
            f"privacy.epsilon = {epsilon:g} is more than budget.epsilon = {budget.epsilon:g}; "
            "lower the one or raise the other"
        )
    _, delta = spends(cell, limits, budget)
    if budget.delta < delta:
        raise BadSetting(
            f"privacy.delta = {delta:g} is more than budget.delta = {budget.delta:g}; lower the "
            "one or raise the other"
        )
    if cell.method.traits.releases != "each round":
        return
    if budget.accountant != "basic":
        rounds = cell["run"]["rounds"]
        multiplier = noise_multiplier(epsilon, delta, rounds)
        charges = [Charge(epsilon, delta, multiplier)] * rounds
        total = composed(charges, budget.delta, budget.accountant).epsilon
        if total > budget.epsilon * (1 + SLACK):
            raise BadSetting(
                f"{rounds} rounds cost epsilon {total:.4g} by the accountant {budget.accountant}, "
                f'more than budget.epsilon = {budget.epsilon:g}; raise it, or take "basic", which '
                "pays for all rounds at once"
            )


def tables_of(description: Mapping[str, Any], cell: Cell | None) -> dict[str, dict[str, Any]]:
    """Every section as a table, with all defaults unless it names code of its author.

    The same at a site that allows that code and at one that does not.
    """
    if cell is not None and not own_code(description):
        tables = {name: dict(cell[name]) for name in DESCRIPTION if name in cell}
        return {**tables, "run": {key: cell["run"][key] for key in RUN}}
    return {name: _full(name, description.get(name, {})) for name in (*description, "run")}


def _full(section: str, given: Any) -> dict[str, Any]:
    if section == "run":
        return run_of(given)
    table = _table(section, given)
    if section not in NAMED:
        return filled(SECTIONS[section], table, section, sweeps=False)
    return table if own_code(table) else dict(canonical(section, table, (section,), sweeps=False))


def flat(name: str, value: Any) -> dict[str, Any]:
    """Nested tables by dotted keys."""
    if not isinstance(value, Mapping):
        return {name: value}
    inner = (flat(f"{name}.{key}" if name else key, v) for key, v in value.items())
    return {key: v for part in inner for key, v in part.items()}
