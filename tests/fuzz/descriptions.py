"""Thousands of random descriptions: each gives a result, or one line that says what is wrong.

Every description is read, and where that succeeds its rows are drawn and its method is built. Some
are run, operation by operation, which compiles no program of its own; some of these in all runtimes
and once more with one key changed. A few are compiled as users' are.
"""

import contextlib
import math
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
import tomli_w

from fuzz.drawing import Raw, describe, loosened, mutated, places, put
from fuzz.findings import Findings, complaint, place_of
from peerwise.errors import PeerwiseError
from peerwise.learner import Cell, Outcome, assemble, drawn, expand, run
from peerwise.simulate import simulate
from peerwise.walk import walk

SECTION_OF = {"topology": "network", "channel": "network", "partition": "split"}
SECTION_OF |= {"sizes": "split", "shift": "split"}


class Share(NamedTuple):
    """Of how many descriptions one is mutated, run, run in all runtimes, compiled."""

    mutated: int = 3
    run: int = 20
    agree: int = 3  # of those that are run
    compiled: int = 1000


def as_toml(raw: Raw) -> str:
    """A description as a file would have it."""
    try:
        return tomli_w.dumps(raw)
    except (TypeError, ValueError):
        return repr(raw)


@contextlib.contextmanager
def strict() -> Iterator[None]:
    """Warnings of NumPy are errors: a user would see them and could not mend them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)
        yield


def built(raw: Raw) -> tuple[list[Cell], Any]:
    """The cells of a description, and the parts of the first."""
    cells = expand(raw)
    with strict():
        world = drawn(cells[0], 0)
        return cells, assemble(cells[0], world)


def failure(raw: Raw, check: Any) -> tuple[str, str] | None:
    """Where and how a check breaks down on a description; None if it gives a result or a line."""
    try:
        check(raw)
    except PeerwiseError as error:
        what = complaint(error)
        return (place_of(error), what) if what else None
    except Exception as error:
        return place_of(error), complaint(error) or ""
    return None


def shrunk(raw: Raw, check: Any, where: str, tries: int = 60) -> Raw:
    """The description without whatever the same failure does not need."""
    again = True
    while again and tries > 0:
        again = False
        for place in sorted(places(raw), key=len):
            if tries <= 0:
                break
            tries -= 1
            less = put(raw, place, ...)
            seen = failure(less, check)
            if seen and seen[0] == where:
                raw, again = less, True
                break
    return raw


class Fuzzer:
    """One run of the fuzzer: its draws, counts and findings."""

    def __init__(self, seed: int, share: Share | None = None):
        self.seed, self.share = seed, share or Share()
        self.counts: Counter[str] = Counter()
        self.findings = Findings()

    def try_all(self, count: int, seconds: float = math.inf) -> None:
        """Draw and check so many descriptions."""
        begun = time.perf_counter()
        for number in range(count):
            self.try_one(number)
            if number % 500 == 499:
                spent = time.perf_counter() - begun
                print(f"{number + 1} descriptions in {spent:.0f} s: {self.shown()}", flush=True)
            if time.perf_counter() - begun > seconds:
                break

    def shown(self) -> str:
        """How many descriptions came to what end."""
        return ", ".join(f"{n} {what}" for what, n in self.counts.items())

    def try_one(self, number: int) -> None:
        """Draw and check one description, which the seed and its number decide."""
        rng = np.random.default_rng([self.seed, number])
        raw = loosened(rng, describe(rng))
        self.counts["descriptions"] += 1
        if number % self.share.mutated == self.share.mutated - 1:
            self.counts["with something changed at random"] += 1
            for _ in range(rng.integers(1, 3)):
                raw = mutated(rng, raw)
        parts = self.checked(number, raw, built)
        if parts is None:
            return
        self.counts["built"] += 1
        if number % self.share.run == self.share.run - 1 and light(parts[0][0]):
            self.ran(number, raw, parts)
        if number % self.share.compiled == self.share.compiled - 2 and light(parts[0][0]):
            self.compiled(number, raw, parts)

    def checked(self, number: int, raw: Raw, check: Any) -> Any:
        """What a check gives; None if it said in one line what is wrong."""
        try:
            return check(raw)
        except PeerwiseError as error:
            what, where = complaint(error), place_of(error)
            self.counts["refused in one line"] += 1
        except Exception as error:
            what, where = complaint(error), place_of(error)
        if what and not self.findings.known("crash", where):
            small = shrunk(raw, check, where, 60 if check is built else 6)
            self.findings.add("crash", where, what, self.case(number, small))
        elif what:
            self.findings.add("crash", where, what, "")
        return None

    def case(self, number: int, raw: Raw) -> str:
        """A reproduction, for people."""
        return f"(seed {self.seed}, description {number})\n{as_toml(raw)}"

    def ran(self, number: int, raw: Raw, parts: Any) -> None:
        """Run a description op by op."""
        outcome = self.checked(number, raw, outcome_of)
        if outcome is None:
            return
        self.counts["run"] += 1
        for name in not_finite(outcome):
            self.findings.add("not finite", f"{name} of {_names(raw)}", "", self.case(number, raw))
        if self.counts["run"] % self.share.agree == 0:
            self.agreed(number, raw, parts)

    def agreed(self, number: int, raw: Raw, parts: Any) -> None:
        """Compare the runtimes, op by op."""
        with jax.disable_jit():
            what = self.checked(number, raw, lambda _: disagreement(*parts))
        if what is None:
            return
        self.counts["run in all runtimes"] += 1
        if what:
            self.findings.add("runtimes disagree", _names(raw), what, self.case(number, raw))

    def compiled(self, number: int, raw: Raw, parts: Any) -> None:
        """Compare the runtimes, compiled."""
        what = self.checked(number, raw, lambda _: disagreement(*parts))
        if what is None:
            return
        self.counts["compiled in all runtimes"] += 1
        if what:
            where = f"{_names(raw)}, compiled"
            self.findings.add("runtimes disagree", where, what, self.case(number, raw))


def light(cell: Cell) -> bool:
    """Whether a description may be run: what asks for much would take the time of all others."""
    if "net" in cell and cell["net"]["name"] != "mlp_64":
        return False
    split, run_ = cell["split"], cell["run"]
    small = split["nodes"] <= 3 and run_["rounds"] <= 3 and run_["repetitions"] <= 2
    return small and cell["method"].get("iterations", 1) <= 5 and _few(cell["method"])


def _few(method: Raw) -> bool:
    steps, epochs = method.get("steps") or 0, method.get("epochs", 1)
    return steps <= 10 and np.max(epochs) <= 3


def _names(raw: Raw) -> str:
    method = raw.get("method", "crc")
    return str(method["name"] if isinstance(method, dict) else method)


def outcome_of(raw: Raw) -> Outcome:
    """What a description gives, run op by op."""
    with strict(), jax.disable_jit():
        return run(expand(raw)[0])


def not_finite(outcome: Outcome) -> list[str]:
    """The metrics with a number that is not finite; of rows or classes that are none it may be."""
    return [
        name
        for name, value in outcome.values.items()
        if "|" not in name
        and not name.endswith("class_error")
        and value.dtype.kind == "f"
        and not np.isfinite(value).all()
    ]


def disagreement(cells: list[Cell], parts: Any) -> str:
    """Where walk, simulate(exact=True) and simulate differ; empty if nowhere."""
    s = cells[0]["run"]
    given = parts.method, parts.shards, parts.links, s["rounds"]
    options = {"channel": parts.channel, "precision": s["precision"], "seed": 5}
    with strict():
        oracle, exact = walk(*given, **options), simulate(*given, exact=True, **options)
    named = jax.tree_util.tree_flatten_with_path(oracle.state)[0]
    for (path, theirs), ours in zip(named, jax.tree.leaves(exact.state), strict=True):
        a, b = np.asarray(theirs), np.asarray(ours)
        if not np.array_equal(a, b, equal_nan=a.dtype.kind == "f"):
            apart = np.abs(a.astype(float) - b.astype(float)).max()
            place = jax.tree_util.keystr(path)
            return f"exact differs from walk at {place} by {apart:.3g}, of {np.abs(a).max():.3g}"
    if np.any(np.asarray(oracle.messages) != np.asarray(exact.messages)):
        return f"walk counts {oracle.messages} messages and simulate {exact.messages}"
    return ""
