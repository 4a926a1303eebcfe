"""Random descriptions, drawn from the declarations, and the small tables that they are about."""

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fuzz.values import pick, value_of, wrong
from peerwise.declare import find
from peerwise.learner.sections import SECTIONS
from peerwise.names import entries

Raw = dict[str, Any]
Path_ = tuple[str, ...]

NODES, ROWS, TEST_ROWS = 3, 6, 16  # few shapes, so that what is compiled is used again
COLUMNS = {
    "numbers.csv": ("a", "b", "c"),
    "mixed.csv": ("a", "b", "k"),
    "holes.csv": ("a", "b", "k"),
    "binary.csv": ("u", "v", "w"),
    "counts.csv": ("u", "v", "w"),
}
# what a model is about, where it is not any table
ABOUT = {"bernoulli": ("binary.csv",), "multinomial": ("counts.csv", "binary.csv")}
ABOUT |= dict.fromkeys(("lda", "qda"), ("numbers.csv",))
# values that fit three nodes of six rows, where most that are allowed do not
FITTING: dict[tuple[str, str], tuple[Any, ...]] = {
    ("churn", "steady"): ([], [0], [1, 2]),
    ("tan", "parents"): ([-1, -1, -1], [-1, 0, 0], [-1, 0, 1]),
    ("regular", "k"): (2, 0),
    ("small_world", "k"): (2,),
    ("tree_plus", "extra"): (0, 1),
    ("barabasi_albert", "m"): (1, 2),
    ("dirichlet_by_class", "least"): (0, 1),
    ("zipf", "gini"): ([0.0, 1.0], [0.0, 0.9]),
    ("zipf", "largest"): (5, 10),
    ("concept_shift", "classes"): (2, 3),
    ("virtual_teacher", "beta"): (0.5, 0.9, 1.0),
    ("linear_teacher", "beta"): (0.5, 0.9, 1.0),
    ("erdos_renyi", "p"): (0.7, 1.0),
}
USUAL: dict[str, tuple[Any, ...]] = {
    "epochs": (1, 2, [1, 2]),  # of a range every node draws its own
    "batch": (4, 100),
    "moved": (False,),
    "bayesian_layers": (0, 1, 2),
    "samples": (1, 3),
    "lr": (0.01, 0.05, 0.2, 0.5),
}
NEEDED = {  # without which the defaults do not fit three nodes
    name: (key,)
    for name, key in (
        ("regular", "k"), ("small_world", "k"), ("tree_plus", "extra"), ("zipf", "gini"),
        ("dirichlet_by_class", "least"), ("zipf", "largest"), ("erdos_renyi", "p"),
    )
}  # fmt: skip
NEEDED["zipf"] = ("gini", "largest")
BY = {"mixed.csv": "k", "holes.csv": "k", "binary.csv": "u", "counts.csv": "u"}
IMAGES = ("cnn", "cnn_dropout", "lenet")


def write_tables(folder: Path) -> None:
    """Write tables of 60 rows and three classes, images, and a trace of three nodes."""
    rng = np.random.default_rng(0)
    m = 60
    y = np.arange(m) % 3
    numbers = rng.normal(y[:, None], 1.0, (m, 3)).round(3)
    texts = np.array(["red", "blue", "NA"])
    kind = texts[(y + rng.integers(3, size=m) // 2) % 3]
    frames = {
        "numbers.csv": pd.DataFrame(numbers, columns=list("abc")),
        "mixed.csv": pd.DataFrame({"a": numbers[:, 0], "b": numbers[:, 1], "k": kind}),
        "binary.csv": pd.DataFrame(rng.integers(0, 2, (m, 3)), columns=list("uvw")),
        "counts.csv": pd.DataFrame(rng.integers(0, 12, (m, 3)), columns=list("uvw")),
    }
    holes = frames["mixed.csv"].copy()
    for name in holes:
        holes.loc[rng.random(m) < 0.1, name] = None
    frames["holes.csv"] = holes
    for name, frame in frames.items():
        frame.assign(y=[f"class {c}" for c in y]).to_csv(folder / name, index=False)
    sent = pd.DataFrame([(t, i, j) for t in range(1, 9) for i in range(3) for j in range(3)])
    sent.columns = ["round", "src", "dst"]
    sent[(sent["src"] != sent["dst"]) & ((sent["round"] + sent["src"]) % 2 == 0)].to_csv(
        folder / "trace.csv", index=False
    )
    images = {
        "train-images-ubyte": rng.integers(256, size=(m, 12, 12), dtype=np.uint8),
        "train-labels-ubyte": (y % 3).astype(np.uint8),
    }
    for name, array in images.items():
        sizes = np.array(array.shape, ">i4").tobytes()
        (folder / name).write_bytes(bytes([0, 0, 8, array.ndim]) + sizes + array.tobytes())
    entry = {"name": "pixels", "kind": "image", "files": [{"file": f} for f in images]}
    (folder / "MANIFEST.json").write_text(json.dumps({"datasets": [entry]}))


def _special(rng: np.random.Generator, kind: str, name: str, key: str) -> Any:
    """A value of an option whose type says too little; None: as its type says."""
    if (name, key) == ("trace", "source"):
        return "trace.csv"
    if (name, key) == ("trace", "nodes"):
        return pick(rng, (NODES, NODES + 1))
    if (name, key) == ("erasure", "q"):
        return round(float(rng.uniform(0, 1)), 3)
    if kind == "channel" and key in ("rounds", "longest"):
        return int(rng.integers(0, 3))
    return pick(rng, FITTING[name, key]) if (name, key) in FITTING else _usual(rng, key)


def _usual(rng: np.random.Generator, key: str) -> Any:
    return pick(rng, USUAL[key]) if key in USUAL else None


def thing(
    rng: np.random.Generator,
    kind: str,
    name: str | None = None,
    depth: int = 0,
    share: float = 0.3,
) -> Raw:
    """A named thing with a share of its options."""
    name = pick(rng, entries(kind)) if name is None else name
    table: Raw = {"name": name}
    for key, option in find(kind, name).options.items():
        if option.required or key in NEEDED.get(name, ()) or rng.random() < share:
            value = option_value(rng, kind, name, key, depth)
            if value is not None:
                table[key] = value
    if "steps" in table:  # instead of epochs, after which training may stop early
        without = pick(rng, (("steps",), ("epochs", "validation", "patience")))
        table = {k: v for k, v in table.items() if k not in without}
    return table


def option_value(rng: np.random.Generator, kind: str, name: str, key: str, depth: int = 0) -> Any:
    """A value that an option's declaration allows; None where a file cannot say one."""
    option = find(kind, name).options[key]
    special = _special(rng, kind, name, key)
    if special is not None:
        return special
    if option.kind is None:
        return value_of(rng, option)
    if depth > 1:
        return None
    if option.many:
        return [thing(rng, option.kind, None, depth + 1) for _ in range(rng.integers(1, 3))]
    nested = thing(rng, option.kind, None, depth + 1)
    return nested["name"] if len(nested) == 1 and rng.random() < 0.7 else nested


def section_value(rng: np.random.Generator, section: str, key: str, raw: Raw) -> Any:
    """A value of an option of [data], [split], [network], [privacy] or [run]."""
    option = SECTIONS[section][key]
    columns = COLUMNS.get(_source(raw), ("a", "b"))
    if option.kind is not None and not option.many:
        return thing(rng, option.kind)
    special = {
        ("data", "columns"): lambda: {
            pick(rng, columns): pick(rng, ("number", "category", "drop"))
        },
        ("data", "drop"): lambda: [pick(rng, columns)],
        ("data", "missing_words"): lambda: pick(rng, (["NA"], [], ["red", "?"])),
        ("data", "distinct"): lambda: int(rng.integers(1, 15)),
        ("split", "nodes"): lambda: pick(rng, (NODES, NODES, 2, 1)),
        ("split", "rows"): lambda: pick(rng, (ROWS, ROWS, 5, "all")),
        ("split", "test_rows"): lambda: pick(rng, (TEST_ROWS, 8)),
        ("split", "train_rows"): lambda: int(rng.integers(18, 40)),
        ("run", "rounds"): lambda: pick(rng, (2, 3, 1, 0)),
        ("run", "repetitions"): lambda: pick(rng, (1, 2)),
        ("run", "metrics"): lambda: [
            thing(rng, "metric", name)
            for name in rng.choice(list(entries("metric")), rng.integers(1, 4), replace=False)
        ],
        ("run", "by"): lambda: [BY.get(_source(raw), pick(rng, columns))],
        ("split", "test"): lambda: pick(rng, ("drawn", "drawn", "drawn", "own")),
        ("data", "scale"): lambda: pick(rng, ("each", "each", "all", "unit")),
        ("run", "stages"): lambda: pick(rng, (["combine"], ["adapt"], ["combine", "adapt"])),
        ("privacy", "epsilon"): lambda: pick(rng, (0.5, 3.0, 100.0)),
        ("privacy", "delta"): lambda: pick(rng, (1e-5, 1e-2)),
        ("privacy", "person"): lambda: None,
        ("privacy", "bound"): lambda: pick(rng, (1.0, 3.0, 5.0)),
    }
    if (section, key) in special:
        return special[section, key]()
    if key in ("source", "target"):
        return None
    return value_of(rng, option)


def _source(raw: Raw) -> str:
    data = raw.get("data", {})
    return str(data.get("source", "")) if isinstance(data, dict) else str(data)


def describe(rng: np.random.Generator, method: str | None = None, **given: Raw) -> Raw:
    """A random description that the declarations allow; `given` sections are kept."""
    method = pick(rng, entries("method")) if method is None else method
    known = find("method", method)
    raw: Raw = dict(given)
    raw.setdefault("method", thing(rng, "method", method))
    about = tuple(COLUMNS)
    if known.learns == "net":
        if "net" not in raw:
            images = rng.random() < 0.05
            name = pick(rng, IMAGES) if images else "mlp_64"
            raw["net"] = thing(rng, "net", name)
        if raw["net"]["name"] in IMAGES:
            about = ("pixels",)
    elif {"model", "draw"} & set(known.facts):
        private = {"draw", "budget"} & set(known.facts) and rng.random() < 0.8
        raw.setdefault("model", thing(rng, "model", "naive_bayes" if private else None))
        about = ABOUT.get(raw["model"]["name"], about)
    if known.learns != "model":  # what is missing is for models of statistics
        about = tuple(name for name in about if name != "holes.csv" or rng.random() < 0.1)
    source = pick(rng, about)
    raw.setdefault("data", {}).setdefault("source", source)
    if _source(raw) in COLUMNS:
        raw["data"].setdefault("target", "y")
    if _source(raw) == "pixels":
        raw["data"].setdefault("scale", "unit")
    if raw.get("model", {}).get("name") == "multinomial":
        raw["data"].setdefault("distinct", 1)
    small = {"split": {"nodes": NODES, "rows": ROWS, "test_rows": TEST_ROWS}}
    small["run"] = {"rounds": 2, "repetitions": 1}
    for section in _read(known):
        table = raw.setdefault(section, {})
        for key in SECTIONS[section]:
            if key in table or (key == "topology" and known.traits.place == "server"):
                continue
            value = small.get(section, {}).get(key)
            if rng.random() < (0.1 if section == "data" else 0.2):
                value = section_value(rng, section, key, raw)
            if value is not None:
                table[key] = value
        if not table:
            raw.pop(section)
    return raw


def _read(known: Any) -> list[str]:
    """The sections of options that a method reads."""
    sections = ["data", "split", "run"]
    if known.traits.place in ("neighbours", "server"):
        sections.append("network")
    if {"draw", "budget"} & set(known.facts):
        sections.append("privacy")
    return sections


def loosened(rng: np.random.Generator, raw: Raw) -> Raw:
    """The same description, written in other ways: short forms, options beside a name."""
    raw = copy.deepcopy(raw)
    for section in ("model", "net", "method"):
        if isinstance(raw.get(section), dict) and len(raw[section]) == 1 and rng.random() < 0.7:
            raw[section] = raw[section]["name"]
    for section, key in (("network", "topology"), ("network", "channel"), ("split", "partition")):
        table = raw.get(section, {})
        inner = table.get(key) if isinstance(table, dict) else None
        if not isinstance(inner, dict) or rng.random() < 0.5:
            continue
        rest = {k: v for k, v in inner.items() if k != "name"}
        other = "channel" if key == "topology" else "topology"
        beside = table.get(other, {})
        taken = set(table) | set(beside if isinstance(beside, dict) else ()) | {"sizes", "shift"}
        if not taken & set(rest) and not _shared_options(section, key, table, rest):
            raw[section] = {**table, key: inner["name"], **rest}
    return raw


def _shared_options(section: str, key: str, table: Raw, rest: Raw) -> bool:
    """Whether something else that the section names has an option of the same name."""
    for other, option in SECTIONS[section].items():
        if other == key or not option.kind or option.many:
            continue
        value = table.get(other, option.default)
        name = value["name"] if isinstance(value, dict) else value
        if name and set(rest) & set(find(option.kind, name).options):
            return True
    return False


def places(raw: Any, where: Path_ = ()) -> list[Path_]:
    """The place of every value in a description."""
    if not isinstance(raw, dict):
        return [where]
    inner = [p for key, value in raw.items() for p in places(value, (*where, key))]
    return ([where] if where else []) + inner


def put(raw: Raw, where: Path_, value: Any) -> Raw:
    """The description with another value at a place; `...` removes it."""
    raw = copy.deepcopy(raw)
    table = raw
    for key in where[:-1]:
        table = table[key]
    if value is ...:
        table.pop(where[-1], None)
    else:
        table[where[-1]] = value
    return raw


def at(raw: Raw, where: Path_) -> Any:
    """The value at a place."""
    value: Any = raw
    for key in where:
        value = value[key]
    return value


def mutated(rng: np.random.Generator, raw: Raw) -> Raw:
    """The description with one thing wrong, or nearly."""
    where = pick(rng, places(raw))
    way = int(rng.integers(6))
    if way == 0:  # a key misspelt
        name = where[-1]
        return put(put(raw, where, ...), (*where[:-1], name[:-1] or "q"), at(raw, where))
    if way == 1:
        return put(raw, where, ...)
    if way == 2:  # a sweep
        value = at(raw, where)
        return put(raw, where, pick(rng, ([value, value], [value, wrong(rng)], [value])))
    if way == 3:
        key = pick(rng, ("seed", "name", "lr", "label", "alpha", "rule", "x", "Rounds"))
        inside = at(raw, where)
        place = (*where, key) if isinstance(inside, dict) else (*where[:-1], key)
        return put(raw, place, wrong(rng))
    if way == 4 and isinstance(at(raw, where), str):
        text = at(raw, where)
        return put(raw, where, pick(rng, (text[:-1], text.upper(), text + " ", text + ":x")))
    return put(raw, where, wrong(rng))
