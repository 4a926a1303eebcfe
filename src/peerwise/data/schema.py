"""What the columns of a data set mean: the agreement under which nodes may add their statistics."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from typing import Any, NoReturn, Self

from peerwise.errors import BadFile

KINDS = ("numeric", "categorical")


@dataclass(frozen=True)
class Feature:
    """One column: a number, encoded as (value - center) / scale, or one of `categories`, as a code.

    A numeric feature with categories is a nominal column whose codes are used as numbers.
    """

    name: str
    kind: str  # "numeric" | "categorical"
    categories: tuple[str, ...] = ()
    center: float = 0.0
    scale: float = 1.0


@dataclass(frozen=True)
class Schema:
    """The features in order and the classes; equal schemas encode equal rows to equal numbers."""

    features: tuple[Feature, ...]
    classes: tuple[str, ...]
    target: str = "class"
    missing: bool = False  # True: encoded rows may hold NaN, which means missing

    @property
    def cardinalities(self) -> tuple[int, ...]:
        """The number of categories of each feature in order, 0 for a numeric one."""
        return tuple(len(f.categories) if f.kind == "categorical" else 0 for f in self.features)

    def to_json(self) -> str:
        """The schema as JSON text from which `from_json` makes an equal schema.

        >>> Schema((Feature("age", "numeric"),), ("no", "yes")).to_json()[:44]
        '{"features": [{"name": "age", "kind": "numer'
        """
        return json.dumps(asdict(self), ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The schema that `to_json` wrote; BadFile names the first thing that is wrong."""
        try:
            raw = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_no_duplicates)
        except BadFile:
            raise
        except (TypeError, ValueError, RecursionError) as error:
            raise BadFile(f"the schema is not JSON text: {error}") from error
        kinds = {"features": list, "classes": list, "target": str, "missing": bool}
        fields = _take(raw, "the schema", kinds)
        features = tuple(_feature(f, i) for i, f in enumerate(fields["features"]))
        _distinct([f.name for f in features], "the schema's feature names")
        classes = _distinct(fields["classes"], "the schema's classes")
        if not features or not classes:
            raise BadFile("the schema must have at least one feature and one class")
        return cls(features, classes, fields["target"], fields["missing"])

    def difference(self, other: "Schema") -> str | None:
        """A sentence that names the first difference, None when the schemas are equal."""
        names = [f.name for f in self.features], [f.name for f in other.features]
        if sentence := _first("feature", *names):
            return sentence
        for a, b in zip(self.features, other.features, strict=True):
            for field in ("kind", "center", "scale"):
                if getattr(a, field) != getattr(b, field):
                    return _sentence(f"the {field} of feature '{a.name}'", *_both(a, b, field))
            if sentence := _first(f"feature '{a.name}': category", a.categories, b.categories):
                return sentence
        if sentence := _first("class", self.classes, other.classes):
            return sentence
        for field in ("target", "missing"):
            if getattr(self, field) != getattr(other, field):
                return _sentence(f"'{field}'", *_both(self, other, field))
        return None


def _both(a: object, b: object, field: str) -> tuple[str, str]:
    return repr(getattr(a, field)), repr(getattr(b, field))


def _first(what: str, a: Sequence[str], b: Sequence[str]) -> str | None:
    for i, (ours, theirs) in enumerate(zip_longest(a, b)):
        if ours != theirs:
            here, there = ("absent" if v is None else repr(v) for v in (ours, theirs))
            return _sentence(f"{what} {i}", here, there)
    return None


def _sentence(what: str, here: str, there: str) -> str:
    return f"{what} is {here} here and {there} there"


def _no_constant(name: str) -> NoReturn:
    raise BadFile(f"the schema holds {name}, which is not a finite number")


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    _distinct([key for key, _ in pairs], "the keys of an object in the schema")
    return dict(pairs)


def _feature(raw: object, i: int) -> Feature:
    where = f"feature {i} of the schema"
    kinds = {"name": str, "kind": str, "categories": list, "center": float, "scale": float}
    fields = _take(raw, where, kinds)
    kind, categories = fields["kind"], _distinct(fields["categories"], f"the categories of {where}")
    if kind not in KINDS:
        raise BadFile(f"the kind of {where} must be {' or '.join(KINDS)}, got {kind!r}")
    if kind == "categorical" and not categories:
        raise BadFile(f"{where} is categorical and must have categories")
    try:
        center, scale = float(fields["center"]), float(fields["scale"])
    except OverflowError:
        center = scale = math.inf
    if not (math.isfinite(center) and math.isfinite(scale) and scale > 0):
        raise BadFile(f"{where} must have a finite center and a finite scale above 0")
    return Feature(fields["name"], kind, categories, center, scale)


def _take(raw: object, where: str, kinds: Mapping[str, type]) -> dict[str, Any]:
    """`raw` as a dictionary of exactly the keys of `kinds`, each value of its type."""
    if not isinstance(raw, dict):
        raise BadFile(f"{where} must be a JSON object, got {type(raw).__name__}")
    if lost := sorted(kinds.keys() - raw.keys()):
        raise BadFile(f"{where} has no key '{lost[0]}'")
    if extra := sorted(raw.keys() - kinds.keys()):
        raise BadFile(f"{where} has the unknown key '{extra[0]}'; allowed: {', '.join(kinds)}")
    for key, kind in kinds.items():
        # `type` and not `isinstance`: true is an int in Python and not a number in JSON
        if type(raw[key]) not in ((float, int) if kind is float else (kind,)):
            got = type(raw[key]).__name__
            raise BadFile(f"'{key}' of {where} must be of type {kind.__name__}, got {got}")
    return raw


def _distinct(values: Sequence[object], what: str) -> tuple[str, ...]:
    texts = tuple(v for v in values if isinstance(v, str))
    if len(texts) != len(values) or len(set(texts)) != len(texts):
        raise BadFile(f"{what} must be distinct texts")
    return texts
