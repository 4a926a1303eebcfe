"""One site as its peer finds it: its rows, which of them are new, and what its ledger allows."""

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from peerwise import data
from peerwise.channel import Channel
from peerwise.data.discreet import discreet
from peerwise.errors import BadFile, BadSetting
from peerwise.node import Letter
from peerwise.peer.charter import Charter
from peerwise.peer.options import PATIENCE
from peerwise.peer.plan import Plan
from peerwise.peer.site import about_run, charged_as, open_site_ledger
from peerwise.peer.store import FILE
from peerwise.privacy import Ledger, Spent
from peerwise.privacy.rows import (
    Part,
    known_parts,
    parts_of,
    released_parts,
    row_hashes,
    share_rows,
)


class Site:
    """What `peerwise peer run` is given: a node's files and what is its own business."""

    def __init__(
        self,
        charter: Path,
        node: str,
        rows: Path,
        state: Path,
        keys: Path,
        *,
        listen: str | None = None,
        held_out: float = 0.0,
        linger: float = 600.0,
        patience: float = PATIENCE,
        metrics: int | None = None,
        channel: Channel | Mapping[str, Any] | None = None,
        quiet: bool = False,
        allowed: Collection[str] = (),
        passphrase: bytes | None = None,
        ledger: Path | None = None,
        site: str | None = None,
        appended: bool = False,
        dry: bool = False,
    ):
        self.charter = Charter.load(charter, allowed)
        self.charter.index(node)
        self.node, self.state, self.keys, self.listen = node, state, keys, listen
        self.passphrase = passphrase
        self.patience = patience
        self.linger, self.metrics, self.channel, self.quiet = linger, metrics, channel, quiet
        if not 0 <= held_out < 1:
            raise BadSetting(f"--held-out must be at least 0 and less than 1, got {held_out}")
        table = load_rows(rows, self.charter.target)
        self.mark = mark_of(rows, held_out, appended)
        self.ledger: Ledger | None = None
        self.parts: tuple[Part, ...] = ()
        if dry and ledger is None:  # nothing is drawn: nothing is paid for
            pass
        elif self.charter.budget is not None:
            epsilon = self.charter.cell["privacy"]["epsilon"]
            nodes = self.charter.nodes
            self.ledger = open_site_ledger(ledger, epsilon, node, nodes, site, state)
            table = self._parted(table, appended)
        elif ledger is not None or site is not None or appended:
            raise BadSetting(
                "--ledger, --site and --appended are for charters with a [budget]; leave them out"
            )
        self.table, self.kept = _held_out(table, self.charter.apart(table, held_out))

    def _parted(self, table: data.Table, appended: bool) -> data.Table:
        """The rows to learn from, once it is known which of them were released before."""
        if self.charter.cell["privacy"]["person"] is not None:
            if appended:
                raise BadSetting(
                    "--appended counts a release for the new rows alone, but with [privacy] person "
                    "a person may have old rows and new ones; leave --appended out: then every "
                    "release counts for all rows"
                )
            return table
        assert self.ledger is not None
        frame: Any = table.frame
        if not hasattr(frame, "iloc"):
            return table
        hashes = row_hashes(frame.assign(**{table.target: table.labels}))
        given = [json.loads(row[1]) for row in self.ledger.paid()]
        released = released_parts(given)
        known = known_parts(released, hashes)
        parts = parts_of(known, hashes)
        ours = about_run(self.charter.hash, self.mark)
        begun = next((released_parts([one]) for one in given if one.get("state") == ours), None)
        if begun is not None:  # it goes on with the rows that it began with
            self.parts = tuple(sorted(begun))
        elif not share_rows(parts, released):
            self.parts = tuple(parts)
        if not appended:
            return table
        if begun is None:
            if why := _nothing_appended(known, parts, bool(self.parts)):
                raise BadSetting(
                    "--appended learns only from rows that were added at the end of the file since "
                    f"its last release, and {why}"
                )
            self.parts = self.parts[-1:]
        first = self.parts[0].first
        return table._replace(
            frame=frame.iloc[first:].reset_index(drop=True), labels=table.labels[first:]
        )

    def plan(self) -> Plan:
        """What the peer runs."""
        return Plan(self.charter, self.node, self.table, channel=self.channel)


def _nothing_appended(known: Sequence[Part], parts: Sequence[Part], disjoint: bool) -> str | None:
    """Why a file has no rows that are known to be new; None where it has."""
    if not known:
        return "no release is known of this file or of what it begins with; were its rows changed?"
    if len(parts) == len(known):
        return "there are none"
    if not disjoint:
        return (
            f"rows after row {known[-1].last} were released before and have been changed since, so "
            "that an old row may be among the new ones; put the old rows back as they were, or "
            "leave --appended out: then the release counts for all rows"
        )
    return None


@discreet()
def load_rows(path: Path, target: str) -> data.Table:
    """A node's own file, which must have the column to predict; errors quote no cell of it."""
    if not path.exists():
        raise BadFile(f"there is no data file {path}")
    return data.load(path, target=target)


def mark_of(rows: Path, held_out: float, appended: bool) -> str:
    """What a peer learns from: its file, the share kept apart, and whether new rows alone."""
    file = hashlib.sha256(rows.read_bytes()).hexdigest()
    return f"{file}:{held_out:g}{':appended' if appended else ''}"


def _held_out(table: data.Table, apart: np.ndarray) -> tuple[data.Table, data.Table | None]:
    """The rows to learn from, and those apart, to look at and never to learn from."""
    if not apart.any():
        return table, None

    def part(rows: np.ndarray) -> data.Table:
        frame: Any = table.frame
        frame = frame[rows].reset_index(drop=True) if hasattr(frame, "iloc") else frame[rows]
        return table._replace(frame=frame, labels=table.labels[rows])

    return part(~apart), part(apart)


def dry_run(site: Site) -> tuple[Plan, dict[str, Letter]]:
    """What would go to whom in the first round, with nothing sent, drawn or kept.

    Of sealed sums the first round after the keys.
    """
    plan = site.plan()
    node = plan.node(1 if plan.learning.sealed else 0)
    letters = node.letters(node.shape() if plan.private else node.begin(), 0)
    return plan, {plan.charter.names[j]: letter for j, letter in letters.items()}


def require_room(site: Site) -> Spent | None:
    """What is left in the site's ledger, refused where its peer's charge has no room; pay nothing.

    A state that exists is gone on with: what it releases was paid for, or it says what is lacking.
    """
    if site.ledger is None or (site.state / FILE).exists():
        return None
    with suppress(_Allowed):
        site.plan().begin(0, None, _Asking(site))  # type: ignore[arg-type]
    return site.ledger.left()


class _Allowed(Exception):
    """There is room for a charge."""


class _Asking:
    """In place of a ledger: says whether the site's has room, before any noise is drawn."""

    def __init__(self, site: Site):
        self._site, self.above = site, self
        assert site.charter.budget is not None
        self.accountant = site.charter.budget.accountant

    def check_schema(self, schema: str) -> None:
        """Rows of any schema."""

    def charge(
        self, mechanism: str, parameters: Any, epsilon: float, delta: float = 0.0, *,
        multiplier: float | None = None, **_: Any,
    ) -> None:  # fmt: skip
        """End here, with Overspent or _Allowed."""
        assert self._site.ledger is not None
        self._site.ledger.require_room(epsilon, delta, multiplier, charged_as(self._site.parts))
        raise _Allowed
