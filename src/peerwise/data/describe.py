"""How a table was read, for people: every column in a line, and what looks wrong."""

import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from peerwise.data.columns import MISSING, Coded, gaps, without
from peerwise.data.encode import Encoded, encode
from peerwise.data.kinds import WORDS, Raw
from peerwise.data.loaders import Table
from peerwise.data.schema import Feature

Array = npt.NDArray[Any]
NUMBER, CATEGORY, RANK, DROPPED = "number", "category", "name as number", "left out"
LINES = 12  # the most that a run says
SHOWN = 6  # names in a line
FEW = 50  # values of a number that may stand for classes
LEAST = 20  # rows from which on a pattern is no accident
_DATE = re.compile(
    r"\s*(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2}))"
    r"([ T]\d{1,2}:\d{2}.*)?\s*"
)
_ID = re.compile(r"(^|[^a-z])(id|ids|uuid|guid|key|index|number|no|nr)($|[^a-z])|^unnamed:")


class Column(NamedTuple):
    """How one column was read."""

    name: str
    kind: str  # "number", "category", "name as number" (many names, in sorted order), "left out"
    values: int  # how many different ones; 0: not counted
    missing: float  # share of the rows
    about: str = ""  # its range or first categories, or why it was left out
    warning: str = ""


class Reading(NamedTuple):
    """How a table was read."""

    name: str
    rows: int
    target: str
    classes: dict[str, int]  # class -> rows
    columns: tuple[Column, ...]
    warnings: tuple[str, ...]

    def lines(self, most: int = LINES) -> list[str]:
        """The lines that a run prints: the table, its columns by kind, then warnings."""
        few = _listed([f"{c} {n}" for c, n in self.classes.items()])
        out = [f"{self.name}: {self.rows} rows, target {self.target} of {len(self.classes)} classes"
               f" ({few})"]  # fmt: skip
        by_kind = {k: [c for c in self.columns if c.kind == k] for k in (NUMBER, CATEGORY, RANK)}
        heads = ("number/numbers", "category/categories", "list/lists of names used as numbers")
        for head, (kind, columns) in zip(heads, by_kind.items(), strict=True):
            if columns:
                sizes = [f"{c.name} {c.values}" for c in columns]
                names = _runs(columns) if kind == NUMBER else sizes
                out.append(f"  {_count(len(columns), head)}: {_listed(names)}")
        left = sorted((c for c in self.columns if c.kind == DROPPED), key=lambda c: c.about)
        reasons = [(why, list(group)) for why, group in groupby(left, lambda c: c.about)]
        if reasons:
            groups = _listed([f"{_listed(_runs(group), 3)} ({why})" for why, group in reasons], 3)
            out.append(f"  {len(left)} left out: {groups}")
        gappy = sorted((c for c in self.columns if c.missing), key=lambda c: -c.missing)
        if gappy:
            shares = [f"{c.name} {c.missing:.1%}" for c in gappy]
            out.append(f"  missing: {_listed(shares)}")
        room = most - len(out)
        warnings = [f"  warning: {text}" for text in self.warnings]
        if len(warnings) > room:
            more = len(warnings) - room + 1
            warnings = [*warnings[: room - 1], f"  and {more} more: see `peerwise data show`"]
        return out + warnings


def describe(table: Table | Raw, encoded: Encoded | None = None, **how: Any) -> Reading:
    """How `encode` reads a table; `how` are its options, `encoded` its result, if known.

    A column gives the target away if it tells the class in every row: each of its values belongs
    to one class and stands for 5 rows or more on average (numbers: of at most 50 values); or the
    classes lie in ranges of it that do not meet. Such columns, dates, identifiers (values that are
    nearly all different) and free text are warned about and read all the same.
    """
    raw = table if isinstance(table, Raw) else Raw(table)
    encoded = encode(raw, **how) if encoded is None else encoded
    counts = np.bincount(encoded.y, minlength=len(encoded.schema.classes)).tolist()
    columns = _columns(raw, encoded, tuple(how.get("words", WORDS)))
    warnings = [f"column '{c.name}' {c.warning}" for c in columns if c.warning]
    twice = (f"more than one column is called '{n}'; later ones are '{n}.1'" for n in
             raw.table.twice)  # fmt: skip
    return Reading(
        raw.table.name,
        len(encoded.y),
        encoded.schema.target,
        dict(zip(encoded.schema.classes, counts, strict=True)),
        columns,
        (*twice, *warnings),
    )


def _columns(raw: Raw, encoded: Encoded, words: Sequence[str]) -> tuple[Column, ...]:
    place = {f.name: j for j, f in enumerate(encoded.schema.features)}
    reasons = dict(encoded.dropped)
    out = []
    for name in raw.places:
        if name in reasons:
            out.append(Column(name, DROPPED, 0, 0.0, reasons[name]))
            continue
        feature, x = encoded.schema.features[place[name]], encoded.x[:, place[name]]
        frame = isinstance(raw.table.frame, pd.DataFrame)
        column = without(raw.column(name), words) if frame else x
        warning = _odd(name, column, feature, x, encoded.y) if frame else ""
        kind = CATEGORY if feature.kind == "categorical" else RANK if feature.categories else NUMBER
        known = [c for c in feature.categories if c != MISSING]
        values = len(known) if known or not frame else len(pd.unique(x[~np.isnan(x)]))
        about = ", ".join(known[:SHOWN]) if known else f"{np.nanmin(x):g} to {np.nanmax(x):g}"
        out.append(Column(name, kind, values, float(gaps(column).mean()), about, warning))
    return tuple(out)


def _odd(name: str, column: Array | Coded, feature: Feature, x: Array, y: Array) -> str:
    """What looks wrong about a column; "" if nothing does."""
    if _gives_away(x, y, bool(feature.categories)):
        return "tells the target in every row; drop it unless it is known before the target is"
    known = int((~gaps(column)).sum())
    if known < LEAST:
        return ""
    if isinstance(column, Coded) and feature.categories:
        return _odd_text(column.texts, known)
    values = x[~np.isnan(x)]
    if feature.categories or (values % 1).any():
        return ""
    unique = len(pd.unique(values))
    counted = values.max() - values.min() < 1.2 * known
    if unique >= 0.95 * known and (counted or _ID.search(name.lower())):
        return f"looks like an identifier ({unique} whole numbers in {known} rows); drop it"
    return ""


def _odd_text(texts: Sequence[str], known: int) -> str:
    if all(_DATE.fullmatch(t) for t in texts):
        return "holds dates, which are read as names; make numbers of them, or drop it"
    words = float(np.mean([len(t.split()) for t in texts]))
    if words >= 4 and len(texts) >= known / 2:
        return f"looks like free text ({len(texts)} different in {known} rows); drop it"
    if len(texts) >= 0.95 * known:
        return f"looks like an identifier ({len(texts)} different in {known} rows); drop it"
    return ""


def _gives_away(x: Array, y: Array, nominal: bool) -> bool:
    """Whether a column tells the class in every row, and not by accident."""
    if len(y) < LEAST:
        return False
    codes, values = pd.factorize(x, use_na_sentinel=False)
    pairs = len(np.unique(codes.astype(np.int64) * (int(y.max()) + 1) + y))
    if pairs > len(values):  # some value occurs in two classes
        return False
    if len(values) <= (len(y) / 5 if nominal else min(len(y) / 5, FEW)):
        return True
    if np.isnan(x).any() or np.bincount(y).min() < 5:
        return False
    ordered = y[np.argsort(x, kind="stable")]
    return int((np.diff(ordered) != 0).sum()) == int(y.max())


def _runs(columns: Iterable[Column]) -> list[str]:
    """The names of columns, x0, x1, x2 as x0..x2; a few with gaps between them are all named."""
    parts = [(re.fullmatch(r"(.*?)(\d+)", c.name), c.name) for c in columns]
    out: list[str] = []
    for prefix, group in groupby(parts, lambda p: p[0][1] if p[0] else None):
        matches, names = zip(*group, strict=True)
        gaps = prefix is not None and int(matches[-1][2]) - int(matches[0][2]) >= len(names)
        alike = prefix is not None and len(names) > (6 if gaps else 2)
        out += [f"{names[0]}..{names[-1]}"] if alike else names
    return out


def _count(number: int, head: str) -> str:
    """A number of things: "one/many of a kind"."""
    words, _, rest = head.partition(" ")
    one, many = words.split("/")
    return f"{number} {one if number == 1 else many}{' ' * bool(rest)}{rest}"


def _listed(texts: Sequence[str], most: int = SHOWN) -> str:
    """Texts with commas, the last of many left out."""
    more = f", and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more
