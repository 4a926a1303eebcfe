"""Recorded arrivals: `record` turns what a channel does into a table, `trace` plays it back."""

from pathlib import Path
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from annotated_types import Ge
from jax.tree_util import Partial

from peerwise.channel.loss import Channel, Members, Sent, keep, luck
from peerwise.core import Array, Links, on_device
from peerwise.declare import declares
from peerwise.errors import BadFile, BadSetting
from peerwise.topology import Topology
from peerwise.topology.links import late_links, whole

LINKS, CHANNEL = 3, 4  # stages of randomness as in `runtime`, a higher layer; a test compares them

MOST = 46340  # nodes: the number of a pair must fit into 32 bits


def _replay(
    pairs: Array,
    q: Array,
    age: Array | None,
    n: Array,
    key: Array,
    t: Array,
    links: Links,
    sent: Sent | None = None,
) -> Links:
    rounds, rows = pairs.shape
    now = jnp.clip(t, 0, rounds - 1)
    src, dst = links.src.astype(jnp.int32), links.dst.astype(jnp.int32)
    pair = src * n + dst
    row = jnp.minimum(jnp.searchsorted(pairs[now], pair), rows - 1)
    listed = (pairs[now, row] == pair) & (src < n) & (dst < n) & (t == now)
    arrived = listed & (luck(key, t, links) < q[now, row])
    if age is None:
        return keep(links, arrived)
    late = jnp.where(listed & (src != dst), age[now, row], 0)
    took = links.weight
    if sent is not None:
        took = jax.lax.fori_loop(
            0,
            age.max() + 1,
            lambda a, w: jnp.where(late == a, sent(t - a, links).weight, w),
            jnp.zeros_like(took),
        )
    aged = links._replace(weight=took, age=late.astype(links.age.dtype))
    return keep(aged, arrived)


def _table(source: Any) -> tuple[pd.DataFrame, str]:
    """The rows of a trace, and what to call it."""
    if isinstance(source, pd.DataFrame):
        return source, "the trace"
    path = Path(source)
    readers: Any = {".csv": pd.read_csv, ".parquet": pd.read_parquet}
    if path.suffix not in readers:
        raise BadFile(f"a trace is a table, .csv or .parquet, got {path}")
    try:
        return readers[path.suffix](path), str(path)
    except FileNotFoundError:
        raise BadFile(f"there is no trace {path}") from None
    except (OSError, ValueError) as error:  # what pandas and pyarrow raise are ValueErrors
        raise BadFile(f"{path} is not a table or is damaged: {error}") from None


def _column(table: pd.DataFrame, name: str, what: str, least: int) -> np.ndarray:
    """A column of whole numbers."""
    values = pd.to_numeric(table[name], errors="coerce").to_numpy(np.float64, na_value=np.nan)
    wrong = np.flatnonzero(~((values >= least) & (values == np.floor(values)) & (values < 2**31)))
    if wrong.size:
        raise BadSetting(
            f"{what}: {name} must be a whole number, {least} or more, got "
            f"{table[name].iloc[wrong[0]]} in row {wrong[0] + 1}"
        )
    return values.astype(np.int64)


def _chance(table: pd.DataFrame, what: str) -> np.ndarray:
    """The probability that each row's message arrives."""
    if "arrived" in table and "q" in table:
        raise BadSetting(f"{what} has both columns, arrived and q; drop one")
    name = "q" if "q" in table else "arrived"
    if name not in table:
        return np.ones(len(table))
    values = pd.to_numeric(table[name], errors="coerce").to_numpy(np.float64, na_value=np.nan)
    right = (values >= 0) & (values <= 1) if name == "q" else np.isin(values, (0, 1))
    if not right.all():
        row = int(np.flatnonzero(~right)[0])
        must = "between 0 and 1" if name == "q" else "0 or 1"
        raise BadSetting(
            f"{what}: {name} must be {must}, got {table[name].iloc[row]} in row {row + 1}"
        )
    return values


def _columns(table: pd.DataFrame, what: str, nodes: int | None) -> tuple[np.ndarray, ...]:
    """Round, src, dst, chance of arrival and age of every row."""
    if missing := [name for name in ("round", "src", "dst") if name not in table]:
        raise BadSetting(
            f"{what} has no column {missing[0]}; it needs round, src and dst, and may have "
            f"arrived or q, and age; found: {', '.join(map(str, table.columns)) or 'none'}"
        )
    if not len(table):
        raise BadSetting(f"{what} is empty; record at least one round")
    rounds = _column(table, "round", what, 1)
    src, dst = _column(table, "src", what, 0), _column(table, "dst", what, 0)
    most = MOST if nodes is None else min(nodes, MOST)
    highest = max(src.max(), dst.max())
    if highest >= most:
        raise BadSetting(
            f"{what} names node {highest}, and there are {most} nodes, numbered from 0 to "
            f"{most - 1}, a server last"
            if nodes is not None
            else f"{what} names node {highest}; there is room for {MOST} nodes in a trace"
        )
    chance = _chance(table, what)
    age = _column(table, "age", what, 0) if "age" in table else np.zeros_like(src)
    early = np.flatnonzero((age >= rounds) & (chance > 0))
    if early.size:
        row = early[0]
        raise BadSetting(
            f"{what}: what arrives in round {rounds[row]} cannot be {age[row]} rounds late, since "
            f"the first is sent in round 1 (row {row + 1})"
        )
    return rounds, src, dst, chance, age


def _last_of(rounds: np.ndarray, what: str) -> int:
    """The last round; a trace that skips a round before it is refused."""
    last = int(rounds.max())
    present = np.unique(rounds)
    if present.size < last:
        gap = int(np.flatnonzero(np.append(present, 0) != np.arange(1, present.size + 2))[0]) + 1
        raise BadSetting(
            f"{what} has no round {gap}, though it goes on to round {last}; rounds count from 1, "
            "and one in which nothing arrived needs a row with arrived = 0"
        )
    return last


@declares("channel")
def trace(
    *,
    source: Annotated[Any, "a .csv or .parquet file (or, in Python, a data frame)"],
    nodes: Annotated[int | None, Ge(1), "how many nodes there are, a server included"] = None,
) -> Channel:
    """A channel that replays a recorded trace: a table with a row for each round, src and dst.

    `source` is a data frame or a .csv or .parquet file. Rounds count from 1. A column `arrived`
    (0 or 1) says whether a message arrived, or a column `q` with which probability; without either,
    every listed message arrived. A column `age` says how many rounds late it came. A pair that is
    not listed in a round did not arrive; a node's message to itself always does. A server is node
    n, the dst of messages to it.

    `nodes` is how many nodes there are, a server included, so that a larger number is refused here;
    without it, only when a run begins. A run cannot be longer than its trace.

    >>> trace(pd.DataFrame({"round": [1, 2, 2], "src": [0, 0, 1], "dst": [1, 1, 0]})).rounds
    2
    """
    table, what = _table(source)
    rounds, src, dst, chance, age = _columns(table, what, nodes)
    n, last = int(max(src.max(), dst.max())) + 1, _last_of(rounds, what)
    pair = src * n + dst
    order = np.lexsort((pair, rounds))
    rounds, pair = rounds[order], pair[order]
    twice = np.flatnonzero((np.diff(rounds) == 0) & (np.diff(pair) == 0))
    if twice.size:
        u, v = divmod(int(pair[twice[0]]), n)
        raise BadSetting(
            f"{what} lists {u} to {v} twice in round {rounds[twice[0]]}; keep one of the rows"
        )
    place = rounds - 1, np.arange(rounds.size) - np.searchsorted(rounds, rounds)
    shape = last, int(place[1].max()) + 1

    def rows(values: np.ndarray, fill: int, kind: Any) -> Array:
        padded: np.ndarray = np.full(shape, fill, kind)
        padded[place] = values
        return on_device(padded)

    late = rows(age[order], 0, np.int32) if age.any() else None
    tape = rows(pair, 2**31 - 1, np.int32), rows(chance[order], 0, np.float32), late
    return Channel(
        Partial(_replay, *tape, on_device(n, np.int32)),
        lag=int(age.max()),
        rounds=last,
        named=(Members("the trace", int(src.max()) + 1, int(dst.max()) + 1, some=True),),
    )


def record(channel: Channel, topology: Topology, rounds: int, seed: Any = 0) -> pd.DataFrame:
    """A table of what a channel does in a run, a row for each round and link, for `trace`.

    `seed` is that of the run (a number or a key). A run with this seed and the trace instead of
    the channel is the same to the last bit. Columns: round (from 1), src, dst,
    arrived (0 or 1), age. A round without links is a row from node 0 to itself.

    >>> from peerwise.channel import erasure
    >>> from peerwise.topology import chain
    >>> record(erasure(0.5), chain(3), rounds=2).shape
    (8, 5)
    """
    channel.check(topology, whole("rounds", rounds, 1))
    topology = late_links(topology, channel.lag)
    key = jax.random.key(seed) if isinstance(seed, int | np.integer) else seed
    on_links, on_channel = (jax.random.fold_in(key, stage) for stage in (LINKS, CHANNEL))

    def one(t: Array) -> tuple[Links, Links]:
        there = topology(on_links, t)
        return there, channel(on_channel, t, there, topology.late(t))

    there, came = jax.jit(lambda ts: jax.lax.map(one, ts))(jnp.arange(rounds))
    real = (np.asarray(there.weight) > 0) | (np.asarray(came.weight) > 0)  # [rounds, e]
    t, link = np.nonzero(real)
    table = pd.DataFrame({"round": t + 1})
    table["src"], table["dst"] = (np.asarray(a)[t, link] for a in (there.src, there.dst))
    table["arrived"] = (np.asarray(came.weight)[t, link] > 0).astype(np.int64)
    table["age"] = np.asarray(came.age)[t, link]
    silent = np.flatnonzero(~real.any(1)) + 1
    if silent.size:
        rest = pd.DataFrame({"round": silent, "src": 0, "dst": 0, "arrived": 1, "age": 0})
        table = pd.concat([table, rest]).sort_values("round", kind="stable", ignore_index=True)
    return table
