"""What a node has released about its rows, and how much of its privacy budget is left."""

import hashlib
import json
import math
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from threading import RLock
from typing import Any, Self

import pandas as pd

from peerwise.errors import BadFile, BadSetting, PeerwiseError, UnknownName
from peerwise.privacy import ledger_file
from peerwise.privacy.budget import as_number, check_epsilon
from peerwise.privacy.composition import SLACK, Charge, Spent, check_charge, composed

ACCOUNTANTS = ("basic", "rdp", "pld")  # how releases add up


class Overspent(PeerwiseError):
    """A release would cost more than is left of a node's privacy budget."""


class _Closed:
    """In place of the file of a ledger that was closed."""

    def __init__(self, path: Path):
        self._path = path

    def __getattr__(self, name: str) -> Any:
        raise BadFile(f"the ledger {self._path} is closed; open it again with Ledger.open")

    def close(self) -> None:
        """It is."""


class Ledger:
    """The privacy budget of one node, in a file that only grows; make one with `Ledger.open`.

    A charge is on the disk before it counts, and several processes can charge one file without
    overspending it. What is charged once may be sent any number of times. Keep the file with its
    "-wal" companion: an older copy in its place is a budget spent twice.
    """

    def __init__(self, db: sqlite3.Connection, path: Path, about: Mapping[str, str]):
        self._db: Any = db
        self.path, self._lock = path, RLock()
        self.node = about["node"]
        self.budget = Spent(float(about["epsilon"]), float(about["delta"]))
        self.accountant = about["accountant"]
        self.schema = about["schema"] or None  # sha256 of the schema's text
        self.above: Any = None  # the ledger of the site, which is charged first

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        node: str | None,
        epsilon: float | None = None,
        delta: float | None = None,
        schema: str | None = None,
        accountant: str | None = None,
    ) -> Self:
        """The ledger of `node` at `path`, created with the given budget if there is none.

        With None as the node, any node's ledger is opened, to look at. The budget of a file never
        changes: leave it out to open one, or give the same. `schema` is the text of the
        released rows' schema; a ledger made without one serves any.
        accountant: "basic" adds epsilons up; "rdp" and, tighter still, "pld" know the noise.
        """
        path = Path(path)
        given = {"epsilon": epsilon, "delta": delta, "accountant": accountant}
        if path.is_dir():
            raise BadFile(f"{path} is a folder, not a ledger; give the ledger's file")
        wal = path.with_name(path.name + "-wal")
        if wal.exists() and not path.exists():
            raise BadFile(f"{path} is gone but {wal.name} is there; put back the ledger itself")
        if not path.exists():
            if node is None:
                raise BadSetting(f"there is no ledger {path}; a new one needs the name of its node")
            _check_texts(node=node)
            ledger_file.create(path, {"node": node, "schema": _hash(schema), **_budget(given)})
        elif not path.stat().st_size:
            raise BadFile(f"{path} is empty, not a ledger; give another path")
        db = ledger_file.connect(path)
        try:
            about = ledger_file.verify(db, path)
            if node is not None and about["node"] != node:
                raise BadFile(f"{path} is the ledger of node '{about['node']}', not of '{node}'")
            if schema is not None and about["schema"] not in ("", _hash(schema)):
                raise BadFile(f"{path} is the ledger of another schema; use one ledger for each")
            for name, value in given.items():
                known = about[name] if name == "accountant" else float(about[name])
                if value is not None and known != value:
                    raise BadSetting(
                        f"the {name} of the ledger {path} is {about[name]} and cannot become "
                        f"{value}; leave it out"
                    )
        except BaseException:
            db.close()
            raise
        return cls(db, path, about)

    def check_schema(self, schema: str) -> None:
        """Refuse rows of another schema than the ledger was made for."""
        if self.schema not in (None, _hash(schema)):
            raise BadSetting(f"{self.path} is the ledger of another schema; use one for each")

    def charge(
        self,
        mechanism: str,
        parameters: Mapping[str, Any],
        epsilon: float,
        delta: float = 0.0,
        *,
        data: str,
        group: str | None = None,
        part: str | None = None,
        multiplier: float | None = None,
        inside: bool = False,
        covered: bool = False,
    ) -> int:
        """Pay for a release and return its receipt; Overspent, and nothing paid, if it is too much.

        `data` says what the release is about. Charges of one `group` with different `part`s, which
        must be about disjoint rows, cost as much as the largest part. `multiplier` is the noise
        multiplier of Gaussian noise. When this returns, the charge is on the disk; with `inside`,
        in a transaction that the caller has begun, it is when that ends. A ledger of a site above
        this one is charged first, unless it was already, for all that this is a part of
        (`covered`).
        """
        _check_texts(mechanism=mechanism, data=data)
        _check_texts(**{k: v for k, v in {"group": group, "part": part}.items() if v is not None})
        noise = None if multiplier is None else as_number("multiplier", multiplier)
        cost = as_number("epsilon", epsilon), as_number("delta", delta)
        charge = Charge(*cost, noise, group, part)
        check_charge(charge)
        try:
            text = json.dumps(dict(parameters), sort_keys=True, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise BadSetting(f"the parameters of a charge must be plain values: {error}") from None
        change = nullcontext() if inside else ledger_file.alone(self._db, self.path)
        with self._lock, change:
            charges = self._charges()
            self._afford(charges, charge)
            if self.above is not None and not covered:
                self.above.charge(mechanism, parameters, epsilon, delta, data=data,
                                  multiplier=noise)  # fmt: skip
            row = (len(charges) + 1, _now(), mechanism, text, *cost, noise, data, group, part)
            ledger_file.append(self._db, row)
        return row[0]

    def require_room(
        self,
        epsilon: float,
        delta: float,
        multiplier: float | None,
        parts: Sequence[tuple[str | None, str | None]],
    ) -> None:
        """Overspent if a release about these groups and parts costs too much; pays nothing."""
        with self._lock:
            charges = self._charges()
            for group, part in parts:
                charge = Charge(epsilon, delta, multiplier, group, part)
                self._afford(charges, charge)
                charges.append(charge)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """A transaction for several charges, all of them or none, with none of others between."""
        with self._lock, ledger_file.alone(self._db, self.path):
            yield

    def head(self) -> tuple[int, str]:
        """How many charges there are, and the hash of the last: what others can hold it to."""
        length = self.receipts()
        return length, str(self.hash_at(length))

    def hash_at(self, length: int) -> str | None:
        """The hash of the ledger when it had so many charges; None if it has fewer."""
        with self._lock:
            query = "SELECT hash FROM releases WHERE id = ?", (length,)
            if length == 0:
                query = "SELECT value FROM about WHERE key = ?", ("mark",)  # type: ignore[assignment]
            row = self._db.execute(*query).fetchone()
        return None if row is None else str(row[0])

    def sends(self, receipt: int) -> int:
        """How often a release was handed to somebody."""
        with self._lock:
            query = "SELECT count(*) FROM sends WHERE release = ?"
            return int(self._db.execute(query, (receipt,)).fetchone()[0])

    def receivers(self, receipt: int) -> list[str]:
        """To whom a release was handed, in order."""
        with self._lock:
            query = "SELECT receiver FROM sends WHERE release = ? ORDER BY rowid"
            return [str(to) for (to,) in self._db.execute(query, (receipt,))]

    def sent(self, receipt: int, to: str, *, inside: bool = False) -> None:
        """Note that a release was handed to somebody; it costs nothing more.

        With `inside`, in a transaction that the caller has begun.
        """
        _check_texts(to=to)
        change = nullcontext() if inside else ledger_file.alone(self._db, self.path)
        with self._lock, change:
            try:
                ledger_file.append_send(self._db, (receipt, to, _now()))
            except sqlite3.IntegrityError:
                raise BadSetting(f"there is no release {receipt} in {self.path}") from None

    def spent(self, how: str | None = None) -> Spent:
        """What all releases cost together, by the ledger's own accountant or by another."""
        with self._lock:
            return self._composed(self._charges(), how or self.accountant)

    def total(self) -> Spent:
        """What all releases cost together, as the limit is checked."""
        return self.spent()

    def left(self) -> Spent:
        """What is left of the budget; others than "basic" state epsilon at the whole delta."""
        spent = self.total()
        delta = self.budget.delta - (spent.delta if self.accountant == "basic" else 0.0)
        return Spent(max(self.budget.epsilon - spent.epsilon, 0.0), max(delta, 0.0))

    def table(self) -> pd.DataFrame:
        """Every release: when, how, what it cost, about what, and how often it was sent."""
        with self._lock:
            rows = self._db.execute(
                'SELECT id, time, mechanism, parameters, epsilon, delta, data, "group", part, '
                "(SELECT count(*) FROM sends WHERE release = id) FROM releases ORDER BY id"
            ).fetchall()
        names = ["receipt", "time", "mechanism", "parameters", "epsilon", "delta"]
        names += ["data", "group", "part", "sent"]
        frame = pd.DataFrame(rows, columns=names).set_index("receipt")
        frame["time"] = pd.to_datetime(frame["time"], utc=True)
        frame["parameters"] = [json.loads(text) for text in frame["parameters"]]
        return frame

    def receipts(self) -> int:
        """How many releases were paid for."""
        with self._lock:
            return int(self._db.execute("SELECT count(*) FROM releases").fetchone()[0])

    def paid(self, after: int = 0) -> list[tuple[Any, ...]]:
        """What was paid after so many receipts, as `charge` was given it; parameters as a text."""
        with self._lock:
            return self._db.execute(
                'SELECT mechanism, parameters, epsilon, delta, multiplier, data, "group", part '
                "FROM releases WHERE id > ? ORDER BY id",
                (after,),
            ).fetchall()

    def close(self) -> None:
        """Close the file; all charges are on the disk already."""
        with self._lock:
            self._db.close()
            self._db = _Closed(self.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _charges(self) -> list[Charge]:
        rows = self._db.execute('SELECT epsilon, delta, multiplier, "group", part FROM releases')
        return [Charge(*row) for row in rows]

    def _composed(self, charges: list[Charge], how: str) -> Spent:
        if how not in ACCOUNTANTS:
            raise UnknownName("accountant", how, ACCOUNTANTS)
        if how != "basic" and not self.budget.delta > 0:
            raise BadSetting(f"the accountant {how} needs a budget with delta above 0")
        return composed(charges, self.budget.delta, how)

    def _afford(self, charges: list[Charge], charge: Charge) -> None:
        total = self._composed([*charges, charge], self.accountant)
        limit = self.budget
        if total.epsilon <= limit.epsilon * (1 + SLACK) and total.delta <= limit.delta * (
            1 + SLACK
        ):
            return
        raise Overspent(
            f"node '{self.node}' cannot afford epsilon {charge.epsilon:g}, delta "
            f"{charge.delta:g}: its budget is {_said(limit)}, spent {_said(self.total())}, left "
            f"{_said(self.left())}; with this release all together cost {_with(total, limit)}. "
            "Choose a smaller epsilon or delta (for peers: in a new charter)"
        )


def _said(spent: Spent) -> str:
    return f"epsilon {spent.epsilon:g}, delta {spent.delta:g}"


def _with(total: Spent, limit: Spent) -> str:
    """What all releases would cost, in words where no epsilon is large enough."""
    if math.isinf(total.epsilon):
        return f"a delta above {limit.delta:g} whatever epsilon is, because deltas add up"
    return _said(total)


def check_ledger(ledger: Any) -> None:
    """Refuse what is neither None nor can be charged."""
    if ledger is not None and not callable(getattr(ledger, "charge", None)):
        raise BadSetting(f"ledger must be a Ledger, as Ledger.open gives it, got {ledger!r}")


def unit_hidden(person_rows: int, person: str | None = None) -> str:
    """What a release hides, as an entry of a ledger says it; `person` is the column of persons."""
    if person is not None:
        rows = "row" if person_rows == 1 else "rows"
        return f"person ('{person}', at most {person_rows} {rows} of each)"
    return "row" if person_rows == 1 else f"person of at most {person_rows} rows"


def about_ledger(node: str, budget: Mapping[str, Any], schema: str | None) -> dict[str, str]:
    """The `about` table of a new ledger, for a file that holds other things too."""
    given = {"epsilon": None, "delta": None, "accountant": None, **budget}
    return {"node": node, "schema": _hash(schema), **_budget(given)}


def _budget(given: Mapping[str, Any]) -> dict[str, str]:
    """The budget of a new ledger as texts from which the same numbers are read."""
    if given["epsilon"] is None:
        raise BadSetting("a new ledger needs a budget: give epsilon")
    epsilon, delta = check_epsilon(given["epsilon"]), as_number("delta", given["delta"] or 0.0)
    accountant = given["accountant"] or "basic"
    if accountant not in ACCOUNTANTS:
        raise UnknownName("accountant", accountant, ACCOUNTANTS)
    if not 0 <= delta < 1:
        raise BadSetting(f"delta must be 0 or more and below 1, got {delta}")
    if accountant != "basic" and not delta > 0:
        raise BadSetting(f"the accountant {accountant} needs a delta above 0 (say 1e-6)")
    return {"epsilon": repr(epsilon), "delta": repr(delta), "accountant": accountant}


def _check_texts(**given: Any) -> None:
    """Refuse what the file would keep as a text although its hash is of something else."""
    for name, value in given.items():
        if not isinstance(value, str):
            raise BadSetting(f"{name} must be a text, got {value!r}")


def _hash(schema: str | None) -> str:
    if not isinstance(schema, str | None):
        raise BadSetting("schema must be the text of a schema, as to_json() gives it")
    return "" if schema is None else hashlib.sha256(schema.encode()).hexdigest()


def _now() -> str:
    return datetime.now(UTC).isoformat()
