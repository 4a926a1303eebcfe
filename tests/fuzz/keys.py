"""Keys that change nothing: every option is given two values, in a description that uses it.

A key must change some result in some description, or its declaration says that something is read
which is not. Rules are tried on a server, too, where a key may also be refused.
"""

import math
import time
from collections import Counter
from typing import Any

import jax
import numpy as np

from fuzz.descriptions import SECTION_OF, Fuzzer, as_toml, built, light, outcome_of, traced
from fuzz.drawing import (
    ABOUT,
    COLUMNS,
    NODES,
    ROWS,
    TEST_ROWS,
    Raw,
    option_value,
    put,
    section_value,
    thing,
)
from peerwise.declare import declared, find, section
from peerwise.errors import PeerwiseError
from peerwise.learner import Outcome, expand
from peerwise.learner.sections import SECTIONS
from peerwise.names import KINDS
from peerwise.update.training import Training

Key = tuple[str, str, str]  # kind or section, name, option
TRAINING = "training"  # options of training, which many methods have in common
SERVER = "rule on a server"
# options that change nothing here, each with the reason
EXEMPT: dict[Key, str] = {
    ("privacy", "", "person"): "of peers: refused in a simulation",
    ("privacy", "", "person_rows"): "of peers: says how many rows of a person count",
    ("channel", "erasure", "by"): "for arrays, which only Python can give",
    ("channel", "trace", "source"): "there is one trace",
    ("channel", "trace", "nodes"): "refuses a trace of other nodes",
    (SERVER, "equal", "include_self"): "a node always counts on a server, as its line says",
    ("data", "", "source"): "always given",
    ("data", "", "target"): "always given",
    ("data", "", "typing"): "of these files no source declares kinds",
    ("split", "", "test"): "no table here has test rows of its own",
}
# without which a key means nothing: places of the description and what stands there
CONTEXT: dict[Key, Raw] = {
    ("method", "robust_nb", "trim"): {"method": {"middle": "trimmed_mean"}},
    (TRAINING, "decavg", "patience"): {"method": {"validation": 0.4, "epochs": 3, "lr": 0.5}},
    ("model", "naive_bayes", "normalise"): {"data": {"source": "mixed.csv"}},
    ("model", "tan", "parents"): {"data": {"source": "binary.csv"}},
    ("net", "mlp_64", "samples"): {"net": {"bayesian_layers": 1}},
    ("net", "mlp_64", "moved"): {"data": {"source": "pixels", "scale": "unit"}},
    ("topology", "regular", "k"): {"split": {"nodes": 5, "rows": 4}},
    ("topology", "small_world", "k"): {"split": {"nodes": 5, "rows": 4}},
    ("topology", "small_world", "p"): {"split": {"nodes": 5, "rows": 4}},
    ("partition", "dirichlet_by_class", "least"): {"split": {"partition": {"alpha": 0.1}}},
    ("data", "", "missing"): {"data": {"source": "holes.csv"}, "split": {"rows": 12}},
    ("data", "", "missing_words"): {"data": {"source": "mixed.csv", "missing": "missing"}},
    ("data", "", "public"): {"data": {"source": "counts.csv", "distinct": 11}},
    ("data", "", "scale"): {"data": {"source": "pixels"}},
    ("network", "", "fixed"): {"split": {"nodes": 5, "rows": 4}, "run": {"repetitions": 2}},
    ("privacy", "", "delta"): {"method": {"name": "private_crc"}, "privacy": {"epsilon": 1.0}},
    ("privacy", "", "mechanism"): {"method": {"name": "gossip_nb"}, "privacy": {"epsilon": 1e5}},
    ("privacy", "", "split"): {"method": {"name": "gossip_nb"}, "privacy": {"epsilon": 1e5}},
    ("privacy", "", "aware"): {"method": {"name": "gossip_nb"}, "privacy": {"epsilon": 100.0}},
    # noise that leaves something of so few rows
    ("privacy", "", "bound"): {"method": {"name": "gossip_nb"}, "privacy": {"epsilon": 1e5}},
    ("privacy", "", "sensitivity"): {
        "method": {"name": "gossip_nb"}, "privacy": {"epsilon": 1e5},
    },
    ("run", "", "by"): {"data": {"source": "mixed.csv"}},
}  # fmt: skip
# two values that must differ, where most that may be drawn do not in so small a network
VALUES: dict[Key, tuple[Any, Any]] = {
    (TRAINING, "decavg", "patience"): (1, 5),
    ("net", "mlp_64", "moved"): (True, False),
    ("topology", "regular", "k"): (2, 4),
    ("topology", "small_world", "k"): (2, 4),
    ("topology", "small_world", "p"): (0.0, 1.0),
    ("partition", "dirichlet_by_class", "least"): (0, 4),
    ("partition", "zipf", "least"): (0, 2),
    ("partition", "zipf", "gini"): ([0.0, 1.0], [0.0, 0.1]),
    ("metric", "fairness", "share"): (0.1, 1.0),
    ("data", "", "missing"): ("category", "missing"),
    ("data", "", "missing_words"): (["NA"], ["?"]),
    ("data", "", "public"): (True, False),
    ("data", "", "scale"): ("all", "unit"),
    ("network", "", "fixed"): (True, False),
    ("privacy", "", "bound"): (1.0, 5.0),
    ("privacy", "", "mechanism"): ("laplace", "gaussian"),
    ("run", "", "by"): (["k"], []),
}


def every_key() -> list[Key]:
    """Every option of everything that can be named, and of every section."""
    common = set(section(Training))
    keys = [
        (kind, name, option)
        for kind in KINDS
        for name, known in declared(kind).items()
        for option in known.options
        if not (kind == "method" and option in common) and (kind, name) not in LIKE_MLP
    ]
    keys += [(SERVER, name, option) for kind, name, option in keys if kind == "rule"]
    keys += [(TRAINING, "decavg", option) for option in common]
    return keys + [(part, "", option) for part, options in SECTIONS.items() for option in options]


# nets that share their options with mlp_64
LIKE_MLP = {("net", name) for name in ("mlp", "mlp_200", "cnn", "cnn_dropout", "lenet")}


def same(a: Outcome, b: Outcome) -> bool:
    """Whether two outcomes are equal to the bit."""
    numbers = (a.bytes_per_link, a.messages) == (b.bytes_per_link, b.messages)
    if not numbers or a.values.keys() != b.values.keys():
        return False
    return all(np.array_equal(a.values[k], b.values[k], equal_nan=True) for k in a.values)


class KeyFuzzer(Fuzzer):
    """Looks for keys that change nothing although what has them is used."""

    def __init__(self, seed: int):
        super().__init__(seed)
        self.tries: Counter[Key] = Counter()
        self.changed: set[Key] = set()
        self.refused: set[Key] = set()  # a value of it was refused, so that it was read
        self.last: dict[Key, str] = {}
        self.every = every_key()

    def try_all(self, count: int, seconds: float = math.inf) -> None:
        """Change every key in up to so many descriptions, until it changes a result."""
        begun = time.perf_counter()
        for turn in range(count):
            for place, key in enumerate(self.every):
                if key in self.changed or time.perf_counter() - begun > seconds:
                    continue
                self.try_key(turn, place, key)
                if place % 25 == 24:
                    print(f"{place + 1} keys: {self.shown()}", flush=True)
            spent = time.perf_counter() - begun
            done = f"{len(self.changed)} of {len(self.every)} keys changed a result"
            print(f"turn {turn + 1}, {spent:.0f} s: {done}", flush=True)
        for key in self.every:
            if key in self.changed or key in EXEMPT:
                continue
            if key[0] == SERVER and key in self.refused:
                continue
            self.findings.add("unread key", " ".join(key), "", self.last.get(key, "never ran"))

    def shown(self) -> str:
        """How many keys came to what end."""
        counted = super().shown()
        return f"{len(self.every)} keys, {len(self.changed)} changed a result, {counted}"

    def try_key(self, turn: int, place: int, key: Key) -> None:
        """One description with two values of a key."""
        rng = np.random.default_rng([self.seed, turn, place])
        for _ in range(8):  # until both can run
            pair = two_values(rng, key, 0.0 if turn == 0 else 0.3)
            if pair is None:
                continue
            self.last[key] = as_toml(pair[0]) + "---\n" + as_toml(pair[1])
            programs = [self.checked(place, raw, program_of) for raw in pair]
            if None in programs:
                self.refused.add(key)
                continue
            self.counts["pairs compared"] += 1
            if programs[0] != programs[1]:
                self.changed.add(key)
            else:  # what is measured, other repetitions, noise that is not drawn by JAX
                outcomes = [self.checked(place, raw, outcome_of) for raw in pair]
                self.counts["pairs run"] += 1
                if None not in outcomes and not same(*outcomes):
                    self.changed.add(key)
            return


def program_of(raw: Raw) -> list[Any]:
    """All that a description makes: rows, links, and the program that would run, as text.

    Options are constants of a node's functions, so that another value is another program.
    """
    cells, parts = built(raw)
    program = traced(cells, parts)
    arrays = jax.tree.leaves((parts.shards, parts.links, parts.channel, parts.probe))
    constants = [*arrays, *(c for closed in program for c in closed.consts)]
    return [np.asarray(a).tobytes() for a in constants] + [str(closed) for closed in program]


def user_of(rng: np.random.Generator, kind: str, name: str) -> str:
    """A method that uses a thing."""
    if kind == "method":
        return name
    if kind in (TRAINING, "net", "loss"):
        return "decavg"
    if kind in ("rule", SERVER):
        return "ba_bfl" if "barycenter" in name else "crc"
    if kind == "privacy":
        draws = [m for m, d in declared("method").items() if {"draw", "budget"} & set(d.facts)]
        return str(rng.choice(draws))
    return "crc"


def _into(table: Raw, values: Raw) -> None:
    """Put values into a table, however deep."""
    for name, value in values.items():
        if isinstance(value, dict):
            _into(table.setdefault(name, {}), value)
        else:
            table[name] = value


def base(rng: np.random.Generator, method: str, share: float) -> Raw:
    """A small description of a method, in which most is as it is by default."""
    raw: Raw = {
        "data": {"source": "numbers.csv", "target": "y"},
        "split": {"nodes": NODES, "rows": ROWS, "test_rows": TEST_ROWS},
        "run": {"rounds": 3, "repetitions": 1},
        "method": thing(rng, "method", method, share=share),
    }
    if method == "ba_bfl":
        raw["net"] = {"name": "mlp_64", "bayesian_layers": 1, "samples": 3}
    return raw


def two_values(rng: np.random.Generator, key: Key, share: float) -> tuple[Raw, Raw] | None:
    """A description in which a thing is used, with two values of its key; None: it was in vain."""
    kind, name, option = key
    raw = base(rng, user_of(rng, kind, name), share)
    place: tuple[str, ...] = (kind, option)
    if not name:
        if kind == "data":
            raw["data"]["source"] = str(rng.choice(["mixed.csv", "holes.csv"]))
        table = raw.setdefault(kind, {})
        drawn_ = [section_value(rng, kind, option, raw) for _ in range(2)]
        default = SECTIONS[kind][option].default
    else:
        known = {SERVER: "rule", TRAINING: "method"}.get(kind, kind)
        table = thing(rng, known, name, share=share)
        drawn_ = [option_value(rng, known, name, option) for _ in range(2)]
        declared_ = find(known, name).options[option]
        default = None if declared_.required else declared_.default
        if known in ("model", "net", "method"):
            raw[known] = table
            raw["data"]["source"] = str(rng.choice(ABOUT.get(name, ("numbers.csv", "mixed.csv"))))
            if name == "multinomial":
                raw["data"]["distinct"] = 1
            place = (known, option)
        elif known in ("rule", "loss"):
            raw["method"][known], place = table, ("method", known, option)
        elif known == "metric":
            raw["run"]["metrics"], place = table, ("run", "metrics", option)
        else:
            part = SECTION_OF[known]
            raw.setdefault(part, {})[known] = table
            place = (part, known, option)
    if kind == SERVER:
        raw["network"] = {"topology": "server"}
    if rng.random() < 0.4:
        drawn_[1] = None
    one, two = VALUES.get(key, tuple(default if v is None else v for v in drawn_))
    for part, values in CONTEXT.get(key, {}).items():
        _into(raw.setdefault(part, {}), values)
    if raw["data"]["source"] not in COLUMNS:
        raw["data"].pop("target")
    pair = [put(raw, place, ... if v is None else v) for v in (one, two)]
    try:
        cells = [expand(r)[0] for r in pair]
    except PeerwiseError:
        return None
    if not all(map(light, cells)) or cells[0].key == cells[1].key:
        return None
    return pair[0], pair[1]
