"""What the papers' claims share: a claim, the numbers it speaks of, and how they are listed."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from peerwise.papers.records import by_fields
from peerwise.study.results import Claim, Record


def claim(name: str, text: str, rule: str, ours: str, paper: str, held: Any) -> Claim:
    """A claim, held or not."""
    return Claim(name=name, claim=text, rule=rule, ours=ours, paper=paper, held=bool(held))


def measured(checks: Iterable[Callable[[], Claim]]) -> list[Claim]:
    """What checks give; one that asks for a number that was not measured is left out."""
    claimed = []
    for check in checks:
        with suppress(KeyError):
            claimed.append(check())
    return claimed


def numbers(records: Iterable[Record], *keys: str, **only: Any) -> dict[Any, float]:
    """Values by some fields and settings, of those records alone that have what `only` says."""
    wanted, found = tuple(only.values()), by_fields(records, *only, *keys)
    return {
        key[len(only) :]: r.value
        for key, r in found.items()
        if key[: len(only)] == wanted and r.value is not None
    }


def listed(values: Mapping[Any, float], digits: str = ".3f", named: str = "{}") -> str:
    """Names and numbers, one after the other."""
    return ", ".join(f"{named.format(name)} {value:{digits}}" for name, value in values.items())


def all_but(every: int, missed: Iterable[str]) -> str:
    """How many of all, and which are not among them."""
    missed = list(missed)
    return f"{every - len(missed)} of {every}" + (f"; not: {', '.join(missed)}" if missed else "")
