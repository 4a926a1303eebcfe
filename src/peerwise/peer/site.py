"""The privacy ledger of a whole site, over all charters, methods and states.

Every charge is in it before noise is drawn, and counts against the site's own cap. A charge is
settled once the state that it was made for is on the disk; only then anything leaves. After a crash
in between, nothing has left, and the same charge is used again. A state that is taken back finds
settled charges that it lacks, and puts them back into its own ledger.

Of each term of a sealed sum its hash is noted, too, before the term leaves: a state that was taken
back lacks one, and its peer adds no other under the same mask.

With every letter goes how many releases the ledger has and the hash of its last entry. A ledger
that was taken back has fewer, or another hash where it was: neighbours refuse such letters.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from peerwise.errors import BadFile, BadSetting, PeerwiseError
from peerwise.peer.protocol.messages import BadLetter, Place
from peerwise.privacy import Ledger
from peerwise.privacy.rows import GROUP, Part, released_parts, share_rows
from peerwise.privacy.sealing import Reused

LEFT = "neighbours"  # how the note begins that a settled charge was sent


class Head(NamedTuple):
    """How many releases a ledger has, and the hash of its last entry."""

    length: int
    hash: str

    def __str__(self) -> str:
        return f"{self.length}:{self.hash}"

    @classmethod
    def of(cls, text: Any) -> "Head":
        """The head that a text is; BadLetter where it is none."""
        length, _, mark = text.partition(":") if isinstance(text, str) else ("", "", "")
        if not (length.isascii() and length.isdecimal() and len(length) <= 9 and len(mark) == 64):
            raise BadLetter(
                "the letter does not state its sender's privacy ledger, as [budget] asks"
            )
        return cls(int(length), mark)


class Drawn(PeerwiseError):
    """Noise that was drawn a second time for one charge."""

    def __init__(self, ledger: Path):
        super().__init__(
            f"the ledger {ledger} says that a copy of this state has drawn noise for the same "
            "charge: nothing was sent; go on with the copy that has done more rounds, and remove "
            "this one"
        )


def about_run(charter: str, data: str) -> str:
    """What a ledger calls one run of a node: its charter, and what it learns from."""
    return f"{charter}:{data}"


def charged_as(parts: Sequence[Part]) -> list[tuple[str | None, str | None]]:
    """The group and the part of each charge for a release; of all rows where none are known."""
    return [(GROUP, part.name) for part in parts] or [(None, None)]


def released(ledger: Ledger) -> set[Part]:
    """The parts of the site's rows that were released."""
    return released_parts(json.loads(row[1]) for row in ledger.paid())


Paid = tuple[int, tuple[Any, ...]]  # a receipt, and what was paid for
ADDED = {"state", "node", "made", "rows"}  # what a site's ledger says of a charge beyond its peer's


def _of_site(row: tuple[Any, ...]) -> bool:
    """Whether a charge stands in, or was copied from, the ledger of a site."""
    return "state" in json.loads(row[1])


def to_show(about: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a charge without hashes of rows, which who guesses rows could compare.

    Nor with the secret of the state, which keeps the ledger's own hash from such guesses.
    """
    return {key: value for key, value in about.items() if key not in {"state", "rows", "made"}}


def _what(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """What was paid for, in the words of the peer."""
    about = {key: value for key, value in json.loads(row[1]).items() if key not in ADDED}
    return row[0], json.dumps(about, sort_keys=True), *row[2:4]


class SiteBook:
    """What one state of a peer writes into the ledger of its site.

    `about` names the charter and the data; `parts` are the parts of the rows, none where they are
    not known: then a charge counts for every row. `made` tells this state from others of the same
    charter and data, which draw noise of their own; `draw` tells its draw from that of a copy.
    """

    def __init__(
        self,
        ledger: Ledger,
        about: str,
        node: str,
        parts: Sequence[Part] = (),
        made: str = "",
        draw: str = "",
    ):
        self.ledger, self._about, self._node, self._parts = ledger, about, node, parts
        self._made, self.draw = made, draw
        self._unsettled: list[int] = []
        self.terms: list[str] = []  # of sealed sums, that are not noted yet
        self._counted: tuple[int, list[int]] = 0, []  # entries, and the last one of each release

    def charge(
        self, mechanism: str, parameters: Mapping[str, Any], epsilon: float, delta: float, *,
        data: str, multiplier: float | None = None,
    ) -> None:  # fmt: skip
        """Pay for a release, or find that it was paid for and never left."""
        about = {**parameters, "state": self._about, "node": self._node, "made": self._made}
        with self.ledger.alone():
            if share_rows(self._parts, released(self.ledger)):
                raise BadSetting(
                    f"since this peer started, {self.ledger.path} was charged for a release about "
                    "some of the same rows; run the same command again, which counts them anew"
                )
            if self._parts:
                about["rows"] = [list(part) for part in self._parts]
            text = json.dumps(about, sort_keys=True)
            paid = (mechanism, text, float(epsilon), float(delta), multiplier)
            receipts = [
                receipt for receipt, row in self._mine()
                if row[:5] == paid and not self.ledger.sends(receipt)
            ]  # fmt: skip
            charged = charged_as(self._parts)
            if len(receipts) != len(charged):
                receipts = [
                    self.ledger.charge(
                        mechanism, about, epsilon, delta, data=f"{self._node}: {data}", group=group,
                        part=part, multiplier=multiplier, inside=True,
                    )
                    for group, part in charged
                ]  # fmt: skip
        self._unsettled += receipts

    def settle(self) -> None:
        """Note that what was paid for is on the disk and may leave."""
        receipts, self._unsettled = self._unsettled, []
        if receipts:
            with self.ledger.alone():
                for receipt in receipts:
                    if self._is_of_this_draw(receipt):
                        continue
                    if self._left(receipt):
                        raise Drawn(self.ledger.path)
                    self.ledger.sent(receipt, f"{LEFT} {self.draw}".rstrip(), inside=True)
        while self.terms:
            term = self.terms[0]
            with self.ledger.alone():  # a copy of this state may have come first
                if (other := self.instead_of(term)) is not None:
                    self.terms.clear()
                    raise Reused(other)
                self.ledger.sent(self._mine()[0][0], term, inside=True)  # all sums are one charge
            self.terms.pop(0)

    def _left(self, receipt: int) -> list[str]:
        """The notes that what was paid for has left: one for the draw that did."""
        return [to for to in self.ledger.receivers(receipt) if to.startswith(LEFT)]

    def _is_of_this_draw(self, receipt: int) -> bool:
        """Whether what was paid for has left, and was the draw of this state, not of a copy."""
        return f"{LEFT} {self.draw}".rstrip() in self._left(receipt)

    def reach(self, t: int) -> None:
        """Note that this state has drawn noise up to a round; refused if a copy of it has.

        Before the round is on the disk: after a crash in between its update is left out, and not
        drawn again.
        """
        with self.ledger.alone():
            if self.drawn() >= t:
                raise Drawn(self.ledger.path)
            self.ledger.sent(self._mine()[0][0], f"{self._round}{t}", inside=True)

    def drawn(self) -> int:
        """The round up to which this state, or a later one that it was put back from, drew noise.

        0 where none is noted.
        """
        left = [to for i, _ in self._mine() for to in self.ledger.receivers(i)]
        rounds = [to.removeprefix(self._round) for to in left if to.startswith(self._round)]
        return max(map(int, rounds), default=0)

    @property
    def lock(self) -> Path:
        """The file that a process holds which runs with this state, or with a copy of it."""
        mark = hashlib.sha256(self._made.encode()).hexdigest()[:16]
        path = self.ledger.path.resolve()
        return path.with_name(f"{path.name}.{mark}.lock")

    @property
    def _round(self) -> str:
        """How a note begins that says up to which round this state drew noise."""
        return f"noise of the state of {self._made} up to round "

    def lacking(self, terms: set[str], key: str) -> list[str]:
        """The terms that left under a key and that a state lacks; what it has is noted."""
        left = self.left(key)
        for term in terms:
            if (other := self.instead_of(term)) is not None:
                raise Reused(other)
        self.terms += sorted(terms.difference(left))
        self.settle()
        return [to for to in left if to not in terms]

    def instead_of(self, term: str) -> int | None:
        """The round of a term, if another one left for the same sum."""
        about, _, _ = term.rpartition(" ")
        others = set(self.left(f"{about} ")) - {term}
        return int(about.rpartition(" ")[2]) if others else None

    def left(self, begin: str) -> list[str]:
        """The terms that left and that begin so."""
        every = (to for i, _ in self._mine() for to in self.ledger.receivers(i))
        return [to for to in every if to.startswith(begin)]

    def mend(self, ledger: Ledger) -> int:
        """Put charges that left the site and that a state's ledger lacks into it; how many.

        Charges that the state has and that are not settled, because of a crash, are settled.
        """
        width = max(len(self._parts), 1)  # one release is as many charges as there are parts
        there = Counter(row[1] for row in ledger.paid())
        # those that the state's ledger has no copy of; that of its own draw never has one
        charges = []
        for receipt, row in sorted(
            self._mine()[::width], key=lambda c: self._is_of_this_draw(c[0])
        ):
            if there[row[1]]:
                there[row[1]] -= 1
            else:
                charges.append((receipt, row))
        charges.sort()
        taken = self._taken(charges, ledger)
        self._unsettled += (part for receipt in taken for part in range(receipt, receipt + width))
        self.settle()
        charges = [(receipt, row) for receipt, row in charges if receipt not in taken]
        lost = [
            row for receipt, row in charges
            if self.ledger.sends(receipt) and not self._is_paid_by_round(row, ledger)
        ]  # fmt: skip
        for mechanism, text, epsilon, delta, multiplier, data, *_ in lost:
            ledger.charge(
                mechanism, json.loads(text), epsilon, delta, data=data, multiplier=multiplier,
                covered=True,
            )  # fmt: skip
        return len(lost)

    def _taken(self, charges: Sequence[Paid], ledger: Ledger) -> list[int]:
        """The charges that paid for what the state's own ledger has; Drawn if copies have them.

        A state that was put back to before it began has paid again, and drawn for the last charge.
        """
        by_round = ledger.accountant != "basic"  # the state's own ledger; the site pays for all
        own = Counter(
            None if by_round else _what(row) for row in ledger.paid() if not _of_site(row)
        )
        taken = []
        for what, count in own.items():
            some = [
                receipt for receipt, row in charges
                if self._is_own(row) and (by_round or _what(row) == what)
            ]  # fmt: skip
            wanted = min(count, len(some), 1 if by_round else count)
            drawn = [receipt for receipt in some if self._is_of_this_draw(receipt)]
            free = [receipt for receipt in some if not self.ledger.sends(receipt)]
            if len(found := [*drawn, *free][:wanted]) < wanted:
                raise Drawn(self.ledger.path)
            taken += found
        return taken

    def _is_own(self, row: tuple[Any, ...]) -> bool:
        """Whether a charge is of this state, or of a copy of it."""
        return bool(json.loads(row[1]).get("made") == self._made)

    def _is_paid_by_round(self, row: tuple[Any, ...], ledger: Ledger) -> bool:
        """Whether a charge is this state's own for all rounds, and it pays for each by itself."""
        for_all = "rounds" in json.loads(row[1])
        return self._is_own(row) and for_all and ledger.accountant != "basic"

    def head(self) -> Head:
        """How many releases the ledger has, and the hash of its last entry.

        A release is one, about however many parts of the rows: neighbours would see by the number
        of its entries whether earlier rows were changed.
        """
        ends = self._ends()
        return Head(len(ends), str(self.ledger.hash_at(ends[-1] if ends else 0)))

    def _ends(self) -> list[int]:
        """The last entry of each release, in order."""
        if self._counted[0] != (length := self.ledger.receipts()):
            ends, rows = [0], self.ledger.paid()
            while ends[-1] < len(rows):
                about = json.loads(rows[ends[-1]][1])
                parts = about.get("rows") if _of_site(rows[ends[-1]]) else None
                ends.append(ends[-1] + (len(parts) if parts else 1))
            self._counted = length, ends[1:]
        return self._counted[1]

    def check(self, head: str | None) -> None:
        """Refuse a ledger that is not a continuation of what neighbours were told of it."""
        if head is None:
            return
        before, ends = Head.of(head), [0, *self._ends()]
        if before.length >= len(ends) or self.ledger.hash_at(ends[before.length]) != before.hash:
            raise BadFile(
                f"the ledger {self.ledger.path} is an old copy or another ledger: neighbours know "
                "of charges that it lacks, and those releases would not count; put back the newest "
                "copy"
            )

    def _mine(self) -> list[tuple[int, tuple[Any, ...]]]:
        """Receipts and charges of this charter and these data, in order."""
        rows = enumerate(self.ledger.paid(), start=1)
        return [(i, row) for i, row in rows if json.loads(row[1]).get("state") == self._about]


class Watch:
    """What neighbours have told of their ledgers."""

    def __init__(self, asked: bool):
        self._asked = asked
        self.heads: dict[str, tuple[Place, Head]] = {}
        self.news: dict[str, tuple[Place, Head]] = {}  # what is not on the disk yet

    def take(self, sender: str, place: Place, written: Any) -> None:
        """Refuse a letter whose sender's ledger went back, or that does not tell of it."""
        if not self._asked:
            return
        written = written if isinstance(written, dict) else {}
        head = Head.of(written.get("ledger"))
        if sender in self.heads:
            since, known = self.heads[sender]
            if place <= since:
                return
            before = Head.of(written["ledger_before"]) if "ledger_before" in written else None
            same = head == known or head.length > known.length
            if not same or (before and before.length == known.length and before != known):
                raise BadLetter(
                    f"the privacy ledger of {sender} went back: in round {since.round} it had "
                    f"{known.length} releases, and the one shown now, with {head.length}, does not "
                    "continue it; the site must put back the newest copy"
                )
        self.heads[sender] = self.news[sender] = place, head


def open_site_ledger(
    path: Any,
    epsilon: float,
    node: str,
    nodes: Collection[str] = (),
    site: str | None = None,
    state: Path | None = None,
) -> Ledger:
    """The ledger of a site, which must be there: its cap is for the site to set, not a charter.

    Refused if it is another site's: not of the name `site`, where that is said; otherwise paid from
    by another node, or named after another of the `nodes` of the charter. Refused, too, inside the
    folder of the peer's `state`.
    """
    if path is not None and state is not None and path.resolve().is_relative_to(state.resolve()):
        raise BadSetting(
            f"the ledger {path} is in the state folder {state}: whoever restores an older state "
            "would restore an older ledger with it, and give its budget back; move the ledger out "
            "of any state folder"
        )
    if path is None or not path.exists():
        where = "--ledger FILE" if path is None else str(path)
        raise BadSetting(
            f"this charter spends epsilon {epsilon:g} of the site's privacy budget, and there is "
            f"no ledger ({where}); make one ledger for the whole site, outside any state folder, "
            "with `peerwise ledger FILE --new SITE --epsilon CAP --delta CAP`, and give --ledger "
            "FILE"
        )
    ledger = Ledger.open(path, node=site)
    if site is not None or ledger.node == node:
        return ledger
    owners = {json.loads(row[1]).get("node") for row in ledger.paid()} - {None}
    owners = owners or {ledger.node} & set(nodes)
    if owners and node not in owners:
        ledger.close()
        raise BadFile(
            f"the ledger {path} is that of site '{ledger.node}', for its node '{min(owners)}' and "
            f"not '{node}'; give the ledger of this site, or --site '{ledger.node}' if both nodes "
            "are of that site"
        )
    return ledger
