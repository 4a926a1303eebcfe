"""Thousands of random descriptions: each gives a result, or one line that says what is wrong.

Every description is read, and where that succeeds its rows are drawn and its method is built. Some
are run, operation by operation, which compiles no program of its own; some of these in all runtimes
and once more with one key changed. A few are compiled as users' are.
"""

import contextlib
import importlib
import math
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple
from unittest import mock

import jax
import numpy as np
import tomli_w

from fuzz.drawing import Raw, describe, loosened, mutated, places, put
from fuzz.findings import Findings, complaint, place_of
from peerwise import runtime
from peerwise.errors import PeerwiseError
from peerwise.learner import Cell, Outcome, assemble, drawn, expand, run
from peerwise.simulate import simulate
from peerwise.walk import walk

SECTION_OF = {"topology": "network", "channel": "network", "partition": "split"}
SECTION_OF |= {"sizes": "split", "shift": "split"}


class Share(NamedTuple):
    """Of how many descriptions one is changed at random; of how many that can be built one is
    traced or run.

    `whole`: of how many that are run one is run as a study does, with all repetitions side by side.
    """

    mutated: int = 3
    traced: int = 4
    run: int = 25
    whole: int = 5
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
        if not light(parts[0][0]):
            return
        self.counts["small enough to be run"] += 1
        if self.counts["small enough to be run"] % self.share.traced == 0:
            if self.checked(number, raw, lambda _: traced(*parts)) is None:
                return
            self.counts["traced"] += 1
        if self.counts["small enough to be run"] % self.share.run == 0:
            self.ran(number, raw, parts)
        if self.counts["small enough to be run"] % self.share.compiled == 0:
            self.compared(number, raw, parts, "compiled and run in two runtimes")

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
        """Run a description operation by operation."""
        with jax.disable_jit():
            self.compared(number, raw, parts, "run in two runtimes")
        if self.counts["run in two runtimes"] % self.share.whole == 0:
            outcome = self.checked(number, raw, outcome_of)
            if outcome is not None:
                self.counts["run as a study does"] += 1
                self.finite(number, raw, outcome.values)

    def compared(self, number: int, raw: Raw, parts: Any, how: str) -> None:
        """Run a description in two runtimes."""
        seen = self.checked(number, raw, lambda _: both_runtimes(*parts))
        if seen is None:
            return
        self.counts[how] += 1
        if seen.apart:
            where = f"{_names(raw)}, {how}"
            self.findings.add("runtimes disagree", where, seen.apart, self.case(number, raw))
        self.finite(number, raw, seen.values)

    def finite(self, number: int, raw: Raw, values: dict[str, np.ndarray]) -> None:
        """Note metrics with a number that is not finite; of rows that are none it may be."""
        for name, value in values.items():
            if "|" in name or name.endswith("class_error") or np.isfinite(value).all():
                continue
            self.findings.add("not finite", f"{name} of {_names(raw)}", "", self.case(number, raw))


def light(cell: Cell) -> bool:
    """Whether a description may be run: what asks for much would take the time of all others."""
    if "net" in cell and cell["net"]["name"] != "mlp_64":
        return False
    split, run_ = cell["split"], cell["run"]
    small = split["nodes"] <= 5 and run_["rounds"] <= 3 and run_["repetitions"] <= 2
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


def traced(cells: list[Cell], parts: Any) -> list[Any]:
    """The program of a description, begun and one chunk of rounds, as JAX would compile it."""
    simulator = importlib.import_module("peerwise.simulate.run")
    programs: list[Any] = []

    def instead(function: Any) -> Any:
        def call(plan: Any, axes: Any, *given: Any) -> Any:
            program, shape = jax.make_jaxpr(partial(function, plan, axes), return_shape=True)(
                *given
            )
            programs.append(program)
            return jax.tree.map(_nothing, shape)

        return call

    s = cells[0]["run"]
    options = {"channel": parts.channel, "precision": s["precision"], "probe": parts.probe}
    with (
        strict(),
        mock.patch.object(simulator, "begin_all", instead(simulator.begin_all)),
        mock.patch.object(simulator, "advance_all", instead(simulator.advance_all)),
        mock.patch.object(runtime, "check_losses", return_value=None),  # there are none
    ):
        given = parts.method, parts.shards, parts.links, s["rounds"]
        simulate(*given, stages=tuple(s["stages"]), **options)
    return programs


def _nothing(shape: Any) -> Any:
    if jax.dtypes.issubdtype(shape.dtype, jax.dtypes.prng_key):
        return jax.random.split(jax.random.key(0), shape.shape)
    return np.zeros(shape.shape, shape.dtype)


class Seen(NamedTuple):
    """What two runtimes gave."""

    apart: str  # where they differ; empty if nowhere
    values: dict[str, np.ndarray]  # what was measured


def both_runtimes(cells: list[Cell], parts: Any) -> Seen:
    """What walk and simulate(exact=True) give, to the bit."""
    s = cells[0]["run"]
    given = parts.method, parts.shards, parts.links, s["rounds"]
    options = {"channel": parts.channel, "precision": s["precision"], "seed": 5}
    options |= {"probe": parts.probe, "stages": tuple(s["stages"])}
    with strict():
        oracle, exact = walk(*given, **options), simulate(*given, exact=True, **options)
    history = {k: np.asarray(v) for seen in oracle.history.values() for k, v in seen.items()}
    if np.any(np.asarray(oracle.messages) != np.asarray(exact.messages)):
        counted = f"walk counts {oracle.messages} messages and simulate {exact.messages}"
        return Seen(counted, history)
    return Seen(_apart(oracle.state, exact.state), history)


def _apart(theirs: Any, ours: Any) -> str:
    named = jax.tree_util.tree_flatten_with_path(theirs)[0]
    for (path, one), two in zip(named, jax.tree.leaves(ours), strict=True):
        a, b = np.asarray(one), np.asarray(two)
        if not np.array_equal(a, b, equal_nan=a.dtype.kind == "f"):
            by = np.abs(a.astype(float) - b.astype(float)).max()
            place = jax.tree_util.keystr(path)
            return f"simulate differs from walk at {place} by {by:.3g}, of {np.abs(a).max():.3g}"
    return ""
