"""What leaves a site under a charter, in plain words: what neighbours can work out from letters."""

import math

import networkx as nx

from peerwise.learner.assemble import width_of
from peerwise.learner.firsts import firsts
from peerwise.learner.noise import adds_noise
from peerwise.methods.sealed import fitting
from peerwise.models.registry import first_phase
from peerwise.peer.charter import Charter
from peerwise.peer.described import most_delta, private_methods, spends, sums_of, unit_of
from peerwise.privacy.sealing import partners_wanted
from peerwise.privacy.shares import honest_members, least_members

LEDGER = (
    "The number of releases in this site's privacy ledger and the hash of its last entry go with "
    "every letter, so that neighbours notice if an older copy takes its place."
)


def what_leaves(charter: Charter) -> list[str]:
    """Sentences for whoever decides whether a site takes part; the same before and after."""
    if charter.own_code:
        return [
            "What leaves depends on the charter author's own code, which Peerwise cannot judge: "
            "read it."
        ]
    lines = _private(charter) if adds_noise(charter.cell) else _exact(charter)
    rows = charter.limits.rows
    lines += [
        "Everybody with the charter knows its columns, categories, classes"
        + ("" if charter.budget is None else ", bounds")
        + f", nodes and links{'' if rows is None else f', and that there are about {rows} rows'}. "
        "Neighbours see when letters are sent and how large they are.",
    ]
    return lines


def _exact(charter: Charter) -> list[str]:
    lines = ["No noise: every letter holds exact numbers.", *_open_sums(charter)]
    if charter.cell.method.traits.releases == "sealed":
        lines[0] = "No noise: sums over all nodes are exact."
        lines += [
            _masked(charter),
            *_first(charter),
            "All nodes know the sum over all nodes; all others together can subtract their own "
            "part of it.",
        ]
    elif "net" in charter.cell.sections:
        lines.append(
            "A letter holds the weights of a net. The difference of two letters is a sum of "
            "gradients over this site's rows; if there are few, single rows can be recovered "
            "from it."
        )
    else:
        lines.append(
            "A letter holds statistics: counts, sums and products by class. A neighbour that keeps "
            "two of them can subtract and has this site's update; of a site with one row that is "
            "the row, of one with few rows much of each."
        )
    lines.append(
        "Nothing bounds what can be learnt about a person. For a bound use a private method "
        f"({', '.join(private_methods())}) with [privacy] epsilon."
    )
    return lines


def _open_sums(charter: Charter) -> list[str]:
    """What is added up exactly, and without masks, before anything is learnt."""
    cell, what = charter.cell, []
    if charter.units == "agree":
        what.append("counts, sums and sums of squares of every column")
    phase = first_phase(cell["model"], charter.schema()) if "model" in cell else None
    if phase is not None and "structure" not in firsts(cell, charter.world()):
        what.append(f"counts, from which all derive how {cell['model']['name']} is made")
    return [
        f"First, {each} are added up along the network, without masks: a node with one neighbour "
        "tells it those of its own rows."
        for each in what
    ]


def _private(charter: Charter) -> list[str]:
    assert charter.budget is not None
    cell = charter.cell
    epsilon, _ = spends(cell, charter.limits, charter.budget)
    kind, delta = charter.noise_spent()
    unit = unit_of(cell)
    if cell.method.traits.releases == "sealed":
        return _sealed(charter, epsilon, delta, unit)
    often = (
        "once: all letters are made of that one release and of others'"
        if cell.method.traits.releases == "once"
        else f"in each of {charter.rounds} rounds, which together cost what is said here"
    )
    return [
        f"{kind.capitalize()} noise: epsilon {epsilon:g}, delta {delta:g} for one {unit}, added at "
        f"this site {often}.",
        *_large_delta(charter, delta),
        "Neighbours can work out this site's noised numbers, and roughly what its rows are like as "
        f"a whole. Whether one {unit.partition(' ')[0]} is among them they cannot tell: whatever "
        f"they conclude is at most exp({epsilon:g}) = {_factor(epsilon)} times as likely with it "
        f"as without it"
        + (f", but for a chance of {delta:g}." if delta else "."),
        "The same holds against all nodes together and whoever reads the letters later. "
        + _not_covered(unit),
        LEDGER,
    ]  # fmt: skip


def _not_covered(unit: str) -> str:
    return (
        "Not covered: that this site takes part, several rows of one person"
        + (" beyond those that count" if unit != "row" else "")
        + ", and what is known from elsewhere."
    )


def _large_delta(charter: Charter, delta: float) -> list[str]:
    """That delta is so large that noise may let rows through."""
    rows = charter.limits.rows
    if delta <= most_delta(rows):
        return []
    than = ".001" if most_delta(rows) == 1e-3 else f"a tenth of 1 / {rows}, the rows of the network"
    return [
        f"Warning: delta {delta:g} is more than {than}. A delta of 1 / rows may let single rows "
        "through as they are; set a smaller [privacy] delta, or leave it out."
    ]


def _sealed(charter: Charter, epsilon: float, delta: float, unit: str) -> list[str]:
    table, nodes = charter.cell["method"], len(charter.nodes)
    honest = honest_members(nodes, table["honest"], least_members(nodes, table["least"]))
    return [
        f"Gaussian noise: epsilon {epsilon:g}, delta {delta:g} for one {unit}, in the sums over "
        f"all nodes. This site adds a share: {honest} honest nodes of {nodes} make the whole.",
        *_large_delta(charter, delta),
        _masked(charter),
        *_first(charter),
        *_too_short(charter),
        "All nodes know the sum over all nodes, with its noise. Nobody can be "
        f"sure whether one {unit.partition(' ')[0]} is here: whatever they conclude is at most "
        f"exp({epsilon:g}) = {_factor(epsilon)} times as likely with it as without it, but for a "
        f"chance of {delta:g}.",
        f"That relies on others: if fewer than {honest} nodes are honest, there is less noise "
        "than stated here. " + _not_covered(unit),
        LEDGER,
    ]


def _too_short(charter: Charter) -> list[str]:
    """That so few rounds may end before the first sum, which is paid for all the same."""
    needed = 3 * nx.diameter(charter.graph()) + 1
    if charter.rounds < needed:
        return [
            f"Warning: a sum over this graph can take {needed} rounds, and there are "
            f"{charter.rounds}. If none comes about, nothing is learnt, and the budget is spent; "
            "set [run] rounds higher."
        ]
    links = charter.topology()
    paid = sums_of(charter.cell, links, charter.rounds)
    if paid <= (fit := fitting(charter.rounds, width_of(links))):
        return []
    return [
        f"Warning: the budget pays for {paid} sums, and about {fit} fit into {charter.rounds} "
        "rounds. What does not come about is spent all the same; set [run] rounds higher, or "
        "[method] releases lower."
    ]


def _first(charter: Charter) -> list[str]:
    """What is summed before anything is learnt, and what of the budget it takes."""
    cell = charter.cell
    every = firsts(cell, charter.world())
    if not every:
        return []
    share = cell["method"]["first"]
    spent = f", which together take {share:g} of that budget" if adds_noise(cell) else ""
    listed = "; ".join(first.about for first in every.values())
    return [
        f"Before they learn, the nodes add up {listed}: each by a sealed sum of its own{spent}."
    ]


def _masked(charter: Charter) -> str:
    """What letters of sealed sums hold, and who could read it."""
    nodes = len(charter.nodes)
    colluders = nodes - math.floor(charter.cell["method"]["honest"] * nodes + 1e-9)
    partners = partners_wanted(nodes, min(colluders, nodes - 2))
    if partners == nodes - 1:
        who = "even all others together but one,"
    else:
        who = f"any {colluders} members together, but for a chance below 1e-12,"
    return (
        "First this site sends a public key, signed with its certificate. From then on a letter "
        f"holds uniform numbers: what this site adds to a sum is hidden by masks that it shares "
        f"with {partners} of {nodes - 1} other members and that cancel in the sum. A neighbour, "
        f"and {who} learn no more than the sum over those who do not collude."
    )


def _factor(epsilon: float) -> str:
    return f"{math.exp(epsilon):.3g}" if epsilon < 50 else "beyond measure"
