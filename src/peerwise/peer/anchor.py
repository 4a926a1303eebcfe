"""What a ledger holds, once more in a file that no backup of the state takes back.

A state that is restored has an old ledger in it, and what was released since would be forgotten.
Every charge is in the anchor before the transaction ends in which it was made, and so before
anything leaves; a peer that starts puts back into its ledger what only the anchor knows.
"""

import json
import os
from pathlib import Path
from typing import Any

from peerwise.errors import BadFile
from peerwise.privacy import Ledger

ENDING = ".anchor"
PAID = ("mechanism", "parameters", "epsilon", "delta", "multiplier", "data", "group", "part")


class Anchor:
    """The charges about one data file, a line of JSON each, in the order of the ledger."""

    def __init__(self, path: Path, data: str):
        self.path, self._data = path, data
        self._known = len(self.charges())

    def charges(self) -> list[dict[str, Any]]:
        """All charges that were ever made about these data."""
        try:
            lines = self.path.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []
        except (OSError, UnicodeDecodeError) as error:
            raise BadFile(f"cannot read the anchor {self.path}: {error}") from None
        charges = []
        for number, line in enumerate(lines, 1):
            try:
                one = json.loads(line)
                about = one.pop("rows")
                if set(one) != set(PAID):
                    raise ValueError("keys are missing")
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                if not line.endswith("}"):  # a crash while it was written, and nothing left then
                    continue
                raise BadFile(
                    f"the anchor {self.path} is damaged in line {number}: {error}"
                ) from None
            if about == self._data:
                charges.append(one)
        return charges

    def mend(self, ledger: Ledger) -> int:
        """Put charges that a ledger has lost back into it; how many."""
        lost = self.charges()[ledger.receipts() :]
        for one in lost:
            mechanism, parameters = one.pop("mechanism"), json.loads(one.pop("parameters"))
            epsilon, delta = one.pop("epsilon"), one.pop("delta")
            ledger.charge(mechanism, parameters, epsilon, delta, **one)
        return len(lost)

    def note(self, ledger: Ledger) -> None:
        """Write down the charges that are new, on the disk when this returns."""
        rows = ledger.paid(self._known)
        if not rows:
            return
        named = [dict(zip(PAID, row, strict=True)) for row in rows]
        lines = [json.dumps({"rows": self._data, **one}) for one in named]
        try:
            with open(self.path, "a+b", opener=_private) as file:
                size = file.seek(0, os.SEEK_END)
                if size:  # half a line of a crash is no beginning for the next
                    file.seek(size - 1)
                    if file.read(1) != b"\n":
                        file.write(b"\n")
                file.write("".join(f"{line}\n" for line in lines).encode())
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise BadFile(
                f"cannot write the anchor {self.path}: {error.strerror}; nothing is released "
                "without it"
            ) from None
        self._known += len(rows)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
