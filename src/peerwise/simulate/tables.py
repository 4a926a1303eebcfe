"""The tables of every part: its links, its slots, where its senders are, who gives what to whom."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from peerwise.core import Links
from peerwise.simulate.exchange import Letters, Mail, Part, Route
from peerwise.simulate.parts import Division
from peerwise.topology import Topology


class Tables(NamedTuple):
    """What the parts of a network know; every array has a first axis of parts."""

    topology: Topology  # the links that a part hears, with the numbers of both ends
    here: Part
    held: np.ndarray  # [parts, rows] whose message is in each row of a kept page; n: nobody's
    links: np.ndarray  # [parts, e] the number of each link in the network; none: past the last
    crossing: int  # messages that other parts need, in the round with most of them
    exchanged: int  # messages that cross in a round, with padding


class _Wanted(NamedTuple):
    """Rows that parts want: all of them at once, by graph."""

    graph: np.ndarray  # [w]
    by: np.ndarray  # [w] the part
    row: np.ndarray  # [w] whose: the number of a node, or of a link


class _Rows(NamedTuple):
    """Where rows lie that parts may want."""

    part: np.ndarray  # [n] of each
    place: np.ndarray  # [n] there
    room: int  # rows of a part
    parts: int


def tables_of(topology: Topology, cut: Division, replies: str | None = None) -> Tables:
    """The tables of all parts; with those for replies that are "summed" or "kept"."""
    links = [np.asarray(a) for a in topology.links]
    graphs, parts, p = links[0].shape[0], cut.parts, cut.numbers.shape[1]
    if topology.server:  # everybody hears everybody: each part has all links
        by_part = [np.broadcast_to(a, (parts, *a.shape)) for a in links]
        table: Any = tuple((_each(n, parts), _each(t, parts)) for n, t in topology.table)
        route = Route((), (), parts, True)
        part = _each(cut.order[np.minimum(links[0], cut.n - 1)], parts)
        before = None if topology.before is None else _each(topology.before, parts)
        needed, placed = (parts - 1) * cut.n, None
        hearer, numbers, mail = part, _each(np.arange(links[0].shape[1]), parts), None
    else:
        (graph, link), local, e = _shared_out(topology, cut)
        by_part = _own_links(links, cut, (graph, link), local, e)
        table = _own_slots(topology, cut, local)
        src, dst = (a[graph, link] for a in links[:2])
        wanted = _Wanted(graph, cut.part[dst], src)
        nodes = _Rows(cut.part, cut.place, p, parts)
        route, place, placed = _route(nodes, graphs, wanted)
        there = wanted.by, graph, local[graph, link]
        part, hearer = np.zeros((2, parts, graphs, e), np.int32)
        part[there], hearer[there] = place, cut.place[dst]
        numbers = np.full((parts, e), links[0].shape[1])
        numbers[there[0], there[2]] = link  # of the last graph, if there are several
        mail = _mail(topology, cut, link, local[0], e) if replies == "kept" else None
        needed = _needed(cut, wanted)
        before = None
        if topology.before is not None:
            old = np.asarray(topology.before)
            before = np.zeros((parts, graphs, e, old.shape[-1]), old.dtype)
            before[there] = old[graph, link]
    letters = _letters(topology, cut) if replies == "summed" else None
    order = _each(cut.order, parts)
    here = Part(cut.numbers, part, hearer, route, order, letters, mail, graphs == 1)
    every = _each(topology.every, parts)
    cut_links = replace(
        topology, links=Links(*by_part), table=table, every=every, before=before, back=None
    )
    # with the axis of parts the last of a route's tables are its rows
    rows = (parts - 1) * p if route.gather else sum(g.shape[-1] for g in route.give)
    held = _held(cut, route, placed)
    return Tables(cut_links, here, held, numbers, needed, rows * parts)


def _each(array: Any, parts: int) -> np.ndarray:
    array = np.asarray(array)
    return np.broadcast_to(array, (parts, *array.shape))


def _shared_out(
    topology: Topology, cut: Division
) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray, int]:
    """Links that stand in a slot, each one's number in the part that hears it, and the most."""
    dst = np.asarray(topology.links.dst)
    real = np.zeros(dst.shape, bool)
    for _, table in topology.table:
        slots = np.asarray(table)
        graph = np.nonzero(slots >= 0)[0]
        real[graph, slots[slots >= 0]] = True
    graph, link = np.nonzero(real)
    key = graph * cut.parts + cut.part[dst[graph, link]]
    order = np.argsort(key, kind="stable")
    count = np.bincount(key, minlength=dst.shape[0] * cut.parts)
    rank = np.arange(key.size) - np.repeat(np.cumsum(count) - count, count)
    local = np.full(dst.shape, -1, np.int64)
    local[graph[order], link[order]] = rank
    return (graph, link), local, max(cut.blocks.links, int(count.max()))


def _own_links(
    links: Sequence[np.ndarray], cut: Division, real: Any, local: np.ndarray, e: int
) -> list[np.ndarray]:
    graph, _ = real
    by = cut.part[links[1][real]]
    by_part = [np.zeros((cut.parts, a.shape[0], e), a.dtype) for a in links]
    for to, a in zip(by_part, links, strict=True):
        to[by, graph, local[real]] = a[real]
    return by_part


def _own_slots(topology: Topology, cut: Division, local: np.ndarray) -> Any:
    """Buckets of places, and the part's links in their slots."""
    tables = []
    for b, (members, table) in enumerate(topology.table):
        here = np.flatnonzero(cut.bucket == b).astype(np.int32)
        row_of = np.full(cut.n + 1, -1)
        row_of[np.asarray(members)] = np.arange(len(members))
        row = row_of[cut.numbers[:, here]]  # [parts, b]
        slots = np.asarray(table)[:, row]  # [graphs, parts, b, k]
        there = (row >= 0)[None, :, :, None] & (slots >= 0)
        graph = np.arange(slots.shape[0])[:, None, None, None]
        slots = np.where(there, local[graph, np.maximum(slots, 0)], -1)
        tables.append((_each(here, cut.parts), np.moveaxis(slots, 0, 1).astype(np.int32)))
    return tuple(tables)


def _route(
    rows: _Rows, graphs: int, wanted: _Wanted
) -> tuple[Route, np.ndarray, tuple[np.ndarray, ...] | None]:
    """How rows come to the parts that want them, the place of each, and (fixed) who lies where.

    Where every part would be sent as much as if all were given everything, they are.
    """
    parts, p, n = rows.parts, rows.room, rows.part.size
    home = rows.part[wanted.row]
    away = home != wanted.by
    shift = (wanted.by - home)[away] % parts
    graph, by, row = (a[away] for a in wanted)
    code = ((graph * parts + by) * parts + shift) * n + row
    first, which = np.unique(code, return_inverse=True)
    group, row = first // n, first % n
    count = np.bincount(group, minlength=graphs * parts * parts)
    rank = np.arange(first.size) - np.repeat(np.cumsum(count) - count, count)
    width = count.reshape(-1, parts).max(0, initial=0)  # of each shift
    if width.sum() >= (parts - 1) * p:
        return Route((), (), parts, True), home * p + rows.place[wanted.row], None
    graph, by, shift = group // parts**2, group // parts % parts, group % parts
    offset = p + np.cumsum(width) - width
    at = (offset[shift] + rank).astype(np.int64)
    place = rows.place[wanted.row].copy()
    place[away] = at[which]
    give = []
    shifts = np.flatnonzero(width)
    for step in shifts:
        here = shift == step
        go = np.zeros((parts, graphs, width[step]), np.int32)
        go[(by[here] - step) % parts, graph[here], rank[here]] = rows.place[row[here]]
        give.append(go)
    route = Route(tuple(give), tuple(int(s) for s in shifts), parts, False)
    return route, place, (by, at, row) if graphs == 1 else None


def _needed(cut: Division, wanted: _Wanted) -> int:
    """Messages that cross in the round with most of them, once for every part that needs one."""
    away = cut.part[wanted.row] != wanted.by
    code = (wanted.graph[away] * cut.parts + wanted.by[away]) * cut.n + wanted.row[away]
    return int(np.bincount(np.unique(code) // (cut.parts * cut.n)).max(initial=0))


def _held(cut: Division, route: Route, placed: Any) -> np.ndarray:
    if route.gather:
        return _each(cut.numbers.reshape(-1), cut.parts)
    own = cut.numbers
    if placed is None:
        return own
    rows = sum(give.shape[-1] for give in route.give)
    held = np.concatenate([own, np.full((cut.parts, rows), cut.n, own.dtype)], 1)
    by, at, node = placed
    held[by, at] = node
    return held


def _mail(topology: Topology, cut: Division, link: np.ndarray, local: np.ndarray, e: int) -> Mail:
    """Answers to the links of a fixed graph, each to the link by which it goes."""
    dst, back = np.asarray(topology.links.dst)[0], np.asarray(topology.back)[0]
    answers = _Rows(cut.part[dst], local, e, cut.parts)
    wanted = _Wanted(np.zeros_like(link), cut.part[dst[link]], back[link])
    route, place, _ = _route(answers, 1, wanted)
    row = np.zeros((cut.parts, e), np.int32)
    row[wanted.by, local[link]] = place
    return Mail(route, row)


def _letters(topology: Topology, cut: Division) -> Letters:
    """Replies along the links of a fixed graph with one bucket of nodes."""
    nodes, table = (np.asarray(a) for a in topology.table[0])
    slots = np.full((cut.n, table.shape[-1]), -1)
    slots[nodes] = table[0]
    node, slot = np.nonzero(slots >= 0)
    link = slots[node, slot]
    src, weight = (np.asarray(a)[0] for a in (topology.links.src, topology.links.weight))
    there = weight[link] > 0
    node, slot, other = node[there], slot[there], src[link[there]]
    # (node, other) is met as (other, node) once: there `slot` is that of the one who replies
    pair, mirror = node * cut.n + other, other * cut.n + node
    by_pair = np.argsort(pair)
    back = slot[by_pair[np.searchsorted(pair[by_pair], mirror)]]
    # a reply: `node` says it to `other`, who stands in its slot; `back` is node's slot there
    wanted = _Wanted(slot, cut.part[other], node)
    k = table.shape[-1]
    route, place, _ = _route(_Rows(cut.part, cut.place, cut.numbers.shape[1], cut.parts), k, wanted)
    order = np.lexsort((node, slot, wanted.by))
    key = (wanted.by * k + slot)[order]
    count = np.bincount(key, minlength=cut.parts * k)
    rank = np.arange(key.size) - np.repeat(np.cumsum(count) - count, count)
    shape = cut.parts, k, max(1, int(count.max()))
    row, into = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
    to = np.full(shape, cut.numbers.shape[1], np.int32)
    where = wanted.by[order], slot[order], rank
    row[where], to[where], into[where] = place[order], cut.place[other[order]], back[order]
    used = np.full(cut.parts, slot.max(initial=-1) + 1, np.int32)
    return Letters(route, row, to, into, used)
