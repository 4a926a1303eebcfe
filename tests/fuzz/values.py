"""Random values that a declaration allows, and values that it does not."""

import datetime
import math
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import numpy as np

from peerwise.options import Option

# what a TOML file can say where something else is expected
ODD: list[Any] = [
    True, False, 0, 1, -1, 2**31, 2**63, 2**100, 0.5, -1.5, 1e-300, 1e308, -0.0, math.inf,
    -math.inf, math.nan, "", "x", "0.5", "crc", "ring", "own:thing", "[/]", "é\n", [], [[]], [1, 2],
    ["a", "a"], [math.nan], {}, {"name": "x"}, {"name": 1}, {"name": ["ring", "chain"]}, {"x": 1},
    datetime.date(1979, 5, 27), datetime.datetime(1979, 5, 27, 7, 32), datetime.time(7, 32),
]  # fmt: skip


def pick(rng: np.random.Generator, options: Any) -> Any:
    """One of several things."""
    several = list(options)
    return several[int(rng.integers(len(several)))]


def _ends(check: Any) -> dict[str, Any]:
    marks = get_args(check)[1:] if get_origin(check) is Annotated else ()
    return {
        end: value
        for mark in marks
        for end in ("gt", "ge", "lt", "le")
        if (value := getattr(mark, end, None)) is not None
    }


def _whole(rng: np.random.Generator, ends: dict[str, Any]) -> int:
    low = int(ends.get("ge", ends.get("gt", -2) + 1 if "gt" in ends else -2))
    high = int(ends.get("le", ends["lt"] - 1 if "lt" in ends else low + 5))
    return int(min(low + pick(rng, (0, 0, 1, 2, 3, 5)), high))


def _number(rng: np.random.Generator, ends: dict[str, Any]) -> float | int:
    low = ends.get("ge", ends.get("gt", -3.0))
    high = ends.get("le", ends.get("lt", max(low, 0) + 100.0))
    high = min(high, 1e6)
    edges = [ends[e] for e in ("ge", "le") if e in ends and math.isfinite(ends[e])]
    inner = [low + (high - low) * rng.uniform(0.01, 0.99)]
    if low >= 0:  # small numbers are as likely as large ones
        inner.append(math.exp(rng.uniform(math.log(max(low, 1e-4) * 1.01), math.log(high * 0.99))))
    value = pick(rng, inner * 3 + edges)
    return round(float(value), 6) if low <= round(float(value), 6) <= high else float(value)


def draw(rng: np.random.Generator, check: Any) -> Any:
    """A value of a type within its bounds; None where the type allows nothing else."""
    ends: dict[str, Any] = {}
    while get_origin(check) is Annotated:
        ends, check = {**_ends(check), **ends}, get_args(check)[0]
    if get_origin(check) in (Union, type(int | None)):
        kinds = [a for a in get_args(check) if a is not type(None)]
        kind = pick(rng, kinds)
        return draw(rng, Annotated[(kind, *_marks(ends))] if ends else kind)
    if get_origin(check) is Literal:
        return pick(rng, get_args(check))
    if get_origin(check) is tuple:
        inner = get_args(check)
        if len(inner) == 2 and inner[1] is ...:
            return [draw(rng, inner[0]) for _ in range(rng.integers(0, 3))]
        return sorted(draw(rng, a) for a in inner)
    if check is bool:
        return bool(rng.integers(2))
    if check is int:
        return _whole(rng, ends)
    if check is float:
        return _number(rng, ends)
    return None


def _marks(ends: dict[str, Any]) -> list[Any]:
    import annotated_types as at

    return [getattr(at, end.capitalize())(value) for end, value in ends.items()]


def value_of(rng: np.random.Generator, option: Option) -> Any:
    """A value for an option that names nothing; None leaves its default."""
    return draw(rng, option.check)


def wrong(rng: np.random.Generator) -> Any:
    """Something that is seldom right."""
    return pick(rng, ODD)
