"""What a user says is public about columns, or finds out with noise."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from peerwise.errors import BadSetting
from peerwise.peer.drafting import Known


def read_known(
    bounds: Sequence[str] | None, categories: Sequence[str] | None, classes: str | None
) -> Known:
    """Bounds from COLUMN=LOW:HIGH, categories from COLUMN=A,B and classes from A,B."""
    ranges: dict[str, tuple[float, float]] = {}
    for text in bounds or ():
        name, _, pair = text.rpartition("=")
        try:
            low, high = map(float, pair.split(":"))
        except ValueError:
            low, high = 1.0, 0.0
        if not name or not float("-inf") < low < high < float("inf"):
            raise BadSetting(
                f"--bound must be COLUMN=LOW:HIGH with finite numbers, low below high, such as "
                f"age=0:120, got '{text}'"
            )
        _check_new(name, "--bound", ranges)
        ranges[name] = (low, high)
    lists: dict[str, list[str]] = {}
    for text in categories or ():
        name, sign, values = text.rpartition("=")
        if not sign or not name or len(values.split(",")) < 2:
            raise BadSetting(
                f"--categories must be COLUMN=A,B with two or more, such as smoker=no,yes, got "
                f"'{text}'"
            )
        _check_new(name, "--categories", lists)
        if name in ranges:
            raise BadSetting(f"'{name}' has --bound and --categories; give one of them")
        lists[name] = values.split(",")
    return Known(ranges, lists, classes.split(",") if classes else ())


def _check_new(name: str, option: str, given: Mapping[str, Any]) -> None:
    if name in given:
        raise BadSetting(f"{option} is there twice for '{name}'; give it once")


def check_ledger(epsilon: float | None, path: Path | None, site: str | None) -> None:
    """Refuse bounds to be found without their site's ledger, and a ledger without such bounds."""
    if epsilon is None and (path is not None or site is not None):
        raise BadSetting("--ledger and --site are used only with --bounds-epsilon here; give all")
    if epsilon is not None and not 0 < epsilon < math.inf:
        raise BadSetting(
            f"--bounds-epsilon must be a finite number greater than 0, got {epsilon:g}"
        )
    if epsilon is not None and (path is None or not path.exists()):
        raise BadSetting(
            "--bounds-epsilon is charged to the ledger of the site that holds the sample's rows; "
            "give --ledger FILE (`peerwise ledger FILE --new SITE` creates one)"
        )
    if path is not None and site is not None:
        from peerwise.privacy import Ledger

        Ledger.open(path, node=site).close()


def unbounded(table: Any, known: Known, columns: Mapping[str, str]) -> list[str]:
    """The columns of which neither bounds nor categories are known."""
    import pandas as pd

    names = [str(c) for c in table.frame] if isinstance(table.frame, pd.DataFrame) else []
    return [
        n for n in names
        if n not in known.bounds and n not in known.categories and columns.get(n) != "drop"
    ]  # fmt: skip


def found_bounds(
    table: Any,
    known: Known,
    wanted: Sequence[str],
    epsilon: float,
    path: Path,
    person: tuple[str, int] | None = None,
) -> tuple[Known, str]:
    """The same with bounds of other columns, found with noise, and whose ledger paid for them."""
    from peerwise.data.each_row import read_each
    from peerwise.data.schema import Feature, Schema
    from peerwise.peer.own_rows import first_rows
    from peerwise.privacy import Ledger, private_bounds

    rows = 1
    if person is not None:
        table, rows = first_rows(table, *person), person[1]
    features = tuple(Feature(n, "numeric") for n in wanted)
    x = read_each(table, Schema(features, ("a", "b"), table.target)).x
    bounds = dict(known.bounds)
    share = epsilon / len(wanted)
    with Ledger.open(path, node=None) as ledger:
        ledger.require_room(share, 0.0, None, [(None, None)] * len(wanted))
        for j, name in enumerate(wanted):  # a row is in every column: their costs add up
            bounds[name] = private_bounds(
                x[:, j], epsilon=share, ledger=ledger, data=f"bounds of '{name}'",
                person_rows=rows, person=None if person is None else person[0],
            )  # fmt: skip
        paid = f"charged to the ledger of '{ledger.node}': epsilon {epsilon:g} for these bounds"
    return known._replace(bounds=bounds), paid


def told_bounds(wanted: Sequence[str], bounds: Mapping[str, tuple[float, float]]) -> list[str]:
    """What bounds were found, in sentences; some are so wide that noise hid the numbers."""
    from peerwise.privacy.bounds import LARGEST

    lines = []
    for name in wanted:
        low, high = bounds[name]
        line = f"column '{name}': bounds {low:g} to {high:g} were found, with noise"
        if high - low >= 2 * LARGEST:
            line += (
                ", the widest that there are: the sample has too few rows for this epsilon. In "
                "the training noise will then hide the column; give --bound "
                f"{name}=LOW:HIGH or --column {name}=drop"
            )
        lines.append(line)
    return lines
