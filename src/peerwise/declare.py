"""Declarations: a named thing declares its options and needs beside its function.

`@declares("method")` reads the signature of a function. Parameters before the star are *facts*,
which the learner knows (the model, how many nodes there are, the test rows). Parameters after it
are *options*, which a user may set, with a type, bounds and one line each:

    @declares("method")
    def crc(model, rows, nodes, *, lr: Annotated[float, Gt(0), "learning rate"] = 0.05): ...

A NamedTuple among the options is a group of options written flat. An option marked `Named(kind)` is
the name of another declared thing, whose own options may be written flat, too. A user's own
`module:function` is read in the same way, decorated or not.
"""

import difflib
import importlib
import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from datetime import date, time
from functools import wraps
from typing import (
    Any,
    Literal,
    NamedTuple,
    ParamSpec,
    TypeVar,
    get_args,
    get_type_hints,
)

from peerwise import own
from peerwise.errors import BadSetting, PeerwiseError, UnknownName
from peerwise.names import KINDS, entries, first_sentence
from peerwise.options import Named, Option, checked, dotted, in_words, option_of, section

__all__ = [
    "FACTS",
    "Declared",
    "Named",
    "Option",
    "Traits",
    "Varies",
    "build",
    "canonical",
    "declared",
    "declares",
    "filled",
    "find",
    "gives",
    "in_words",
    "needs",
    "section",
]

P = ParamSpec("P")
R = TypeVar("R")

# What the learner can know. An interface that lacks a fact offers nothing that asks for it.
FACTS: dict[str, str] = {
    "model": "the classifier of a method that learns statistics",
    "net": "the network of a method that trains weights",
    "pooled": "all rows at one place",
    "draw": "what a node releases instead of its statistics",
    "budget": "epsilon and delta of a node",
    "design": "the coordinates in which statistics are released, within public bounds",
    "rows": "how many rows the whole network holds",
    "nodes": "how many nodes there are",
    "rounds": "how many rounds there are",
    "degree": "how many neighbours a node has at most",
    "width": "the most links between any two nodes along the tree on which they agree",
    "classes": "how many classes there are",
    "cardinalities": "the number of categories of each feature, 0 for a number",
    "missing": "whether cells may be empty",
    "shape": "the shape of a row, such as that of an image",
    "n": "how many nodes a graph has",
    "seed": "the seed of this repetition",
    "rng": "NumPy's random generator of this repetition",
    "x": "the rows to deal",
    "y": "the classes of these rows",
    "sizes": "how many rows each node gets",
    "minimum": "how many rows a node gets at least",
    "owned": "the numbers of the rows that each node holds",
    "x_test": "the test rows",
    "y_test": "the classes of the test rows",
    "log_prob": "log p(y | x) of one node's model for the test rows",
}


class Traits(NamedTuple):
    """What a signature does not show."""

    place: Literal["neighbours", "server", "pooled", "alone"] = "neighbours"  # where a method runs
    rounds: int | None = None  # how many rounds a method has, whatever is asked for
    needs: tuple[str, ...] = ()  # of the links: "replies", "metropolis"
    # how a budget is spent; sealed: on sums over all nodes, to which each adds a share of the noise
    releases: Literal["nothing", "once", "each round", "sealed"] = "nothing"
    reference: bool = False  # gaps of methods that learn the same are measured to it
    plain: bool = False  # a model of numbers as they are, not standardised
    agrees: Callable[..., Any] | None = None  # a model's first phase, see models.family.Phase
    complete: bool = False  # a topology that links everybody with everybody


class Declared(NamedTuple):
    """A named thing: its function, the facts it asks for and its options."""

    kind: str
    name: str
    make: Callable[..., Any]
    about: str
    facts: tuple[str, ...]
    optional: dict[str, Any]  # facts that are given where they are known -> what stands for them
    options: dict[str, Option]
    groups: dict[str, Any]  # parameter -> NamedTuple of options
    traits: Traits

    @property
    def learns(self) -> str:
        """What a method learns from: "model" (statistics), "net" (weights) or "pooled" rows."""
        return next((f for f in ("model", "net", "pooled") if f in self.facts), "nothing")


class Varies(Exception):
    """A list stands where one value is expected: a description for each value, at a path."""

    def __init__(self, path: tuple[str, ...], values: list[Any]):
        super().__init__(".".join(path))
        self.path, self.values = path, values


_DECLARED: dict[str, dict[str, Declared]] = {kind: {} for kind in KINDS}
_GIVES: dict[str, tuple[Any, ...]] = {}


def gives(kind: str, *types: Any) -> None:
    """Say what the functions of a kind must return."""
    _GIVES[kind] = types


def read(kind: str, make: Callable[..., Any], name: str, traits: Traits) -> Declared:
    """The declaration of a function, from its signature."""
    hints = get_type_hints(make, include_extras=True)
    facts: list[str] = []
    optional: dict[str, Any] = {}
    options: dict[str, Option] = {}
    groups: dict[str, Any] = {}
    for p in inspect.signature(make).parameters.values():
        hint = hints.get(p.name, Any)
        if p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL):
            raise BadSetting(
                f"{kind} '{name}' has *{p.name}: write each option with its own name after a star"
            )
        if p.kind is not p.KEYWORD_ONLY:
            if p.name not in FACTS:
                raise UnknownName(
                    f"fact that {kind} '{name}' asks for (options stand after a star):",
                    p.name,
                    FACTS,
                )
            facts.append(p.name)
            if p.default is not p.empty or type(None) in get_args(hint):
                optional[p.name] = None if p.default is p.empty else p.default
        elif hasattr(hint, "_fields"):
            groups[p.name] = hint
            chosen = {} if p.default is p.empty else p.default._asdict()
            options |= {
                f: o._replace(default=chosen.get(f, o.default)) for f, o in section(hint).items()
            }
        else:
            options[p.name] = option_of(hint, p.default)
    about = first_sentence(inspect.getdoc(make))
    return Declared(kind, name, make, about, tuple(facts), optional, options, groups, traits)


def declares(
    kind: str, *, name: str | None = None, **traits: Any
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """List a function under its name; its options are checked when Python calls it, too."""

    def wrap(make: Callable[P, R]) -> Callable[P, R]:
        known = read(kind, make, name or make.__name__, Traits(**traits))

        @wraps(make)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            return _called(known, args, kwargs)

        call.declared = known  # type: ignore[attr-defined]
        if make.__module__.partition(".")[0] == "peerwise":
            if known.name in _DECLARED[kind]:
                raise BadSetting(f"two {KINDS[kind]} are called {known.name}")
            _DECLARED[kind][known.name] = known
        return call

    return wrap


def _called(known: Declared, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Make a thing from Python's arguments: facts first, then options in their order or by name."""
    names = [*known.facts, *known.options]
    if len(args) > len(names):
        raise TypeError(f"{known.name}() takes {len(names)} arguments, got {len(args)}")
    given = dict(zip(names, args, strict=False))
    if twice := given.keys() & kwargs.keys():
        raise TypeError(f"{known.name}() got two values for {', '.join(sorted(twice))}")
    given |= kwargs
    facts = {f: given.pop(f) for f in known.facts if f in given}
    if lacking := [f for f in known.facts if f not in facts and f not in known.optional]:
        raise TypeError(f"{known.name}() needs {', '.join(lacking)}")
    for learner in ("model", "net"):  # what a method learns says how many classes there are
        if learner in facts and hasattr(facts[learner], "classes"):
            facts.setdefault("classes", facts[learner].classes)
    for group in known.groups:
        if group in given:
            given |= given.pop(group)._asdict()
    return _made(known, filled(known.options, given, known.name, False, known), facts)


def declared(kind: str) -> dict[str, Declared]:
    """Every declaration of a kind; imports the modules that have one."""
    return {name: find(kind, name) for name in entries(kind)}


def find(kind: str, name: Any) -> Declared:
    """The declaration of a listed name, or of a user's own `module:function`."""
    if isinstance(name, str) and ":" in name:
        return _own(kind, name)
    if not isinstance(name, str) or name not in entries(kind):
        raise UnknownName(kind, name, entries(kind))
    importlib.import_module(entries(kind)[name].module)
    return _DECLARED[kind][name]


def _own(kind: str, name: str) -> Declared:
    module, _, function = name.partition(":")
    try:
        loaded = own.load(module)
    except PeerwiseError:
        raise
    except Exception as error:  # whatever is wrong in a user's file is for the user to mend
        raise BadSetting(f"cannot import {kind} '{name}': {_why(error)}") from None
    make = getattr(loaded, function, None)
    if make is None:
        near = difflib.get_close_matches(function, dir(loaded), 1)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        raise BadSetting(f"module '{module}' has no function '{function}'{hint}")
    if not callable(make):
        raise BadSetting(f"{kind} '{name}' is not a function but of type {type(make).__name__}")
    known: Declared | None = getattr(make, "declared", None)
    if known is None:
        return read(kind, make, name, Traits())
    if known.kind != kind:
        raise BadSetting(f"'{name}' is declared as a {known.kind}, not as a {kind}")
    return known._replace(name=name)


def _why(error: Exception) -> str:
    """What went wrong while a user's file was imported, with the line."""
    text = f"{type(error).__name__}: {error}"
    if "partially initialized module" in str(error) or "circular import" in str(error):
        return f"its files import each other in a circle ({error}); move what both need to a third"
    trace, line = error.__traceback__, ""
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith("<") and os.sep + "importlib" + os.sep not in file:
            line = f" ({os.path.basename(file)}, line {trace.tb_lineno})"
        trace = trace.tb_next
    return text + (line if not isinstance(error, ImportError | SyntaxError) else "")


def canonical(kind: str, given: Any, where: tuple[str, ...] = (), sweeps: bool = True) -> Any:
    """The canonical form of a name or a table: all defaults filled in, named things as tables.

    What is neither is an object that somebody built in Python, and stays as it is.
    """
    if isinstance(given, list) and sweeps:
        raise Varies(where, given)
    if isinstance(given, str):
        given = {"name": given}
    if isinstance(given, bool | int | float | date | time):
        raise BadSetting(
            f"[{dotted(where) or kind}] must be a name or a table with one (see `peerwise list "
            f"{KINDS[kind]}`), got {given!r}"
        )
    if not isinstance(given, Mapping):
        return given
    if "name" not in given:
        for key in difflib.get_close_matches("name", map(str, given), 1):
            where_ = dotted(where) or kind
            raise BadSetting(f"unknown key in [{where_}]: '{key}'; did you mean 'name'?")
        example = next(iter(entries(kind)))
        raise BadSetting(
            f'[{dotted(where) or kind}] has no name; add one, as in name = "{example}"'
        )
    if isinstance(given["name"], list):
        raise Varies((*where, "name"), given["name"])
    known = find(kind, given["name"])
    rest = {k: v for k, v in given.items() if k != "name"}
    return {"name": given["name"], **filled(known.options, rest, where or (kind,), sweeps, known)}


def filled(
    options: Mapping[str, Option],
    given: Mapping[str, Any],
    where: str | tuple[str, ...],
    sweeps: bool = True,
    owner: Declared | None = None,
) -> dict[str, Any]:
    """All options with their values, checked; options of a nested thing may be written flat."""
    where = (where,) if isinstance(where, str) else where
    nested = {k: given.get(k, o.default) for k, o in options.items() if o.kind and not o.many}
    flat: dict[str, set[str]] = {}
    for key, value in nested.items():
        name = value.get("name") if isinstance(value, Mapping) else value
        kind = options[key].kind or ""
        flat[key] = _flat_options(kind, name, given) if isinstance(name, str) else set()
    for key, value in given.items():
        if key in options:
            continue
        owners = [slot for slot, takes in flat.items() if key in takes]
        if len(owners) > 1:
            raise BadSetting(
                f"[{dotted(where)}] {key} is an option of {' and of '.join(owners)}; write "
                f"{owners[0]} = {{name = ..., {key} = ...}}"
            )
        if not owners:
            raise _unknown(key, options, flat, where, owner)
        table = nested[owners[0]]
        nested[owners[0]] = {**({"name": table} if isinstance(table, str) else table), key: value}
    return {
        key: _value(o, nested.get(key, given.get(key, o.default)), (*where, key), sweeps)
        for key, o in options.items()
    }


def _value(o: Option, value: Any, where: tuple[str, ...], sweeps: bool) -> Any:
    """One option's value, checked."""
    nested = isinstance(value, list) and any(isinstance(v, list) for v in value)
    if sweeps and isinstance(value, list) and (not o.many or nested):
        raise Varies(where, value)
    if o.kind is None:
        return checked(o, value, where)
    if o.many:
        several = value if isinstance(value, list | tuple) else [value]
        return tuple(canonical(o.kind, v, where, sweeps) for v in several)
    return None if value is None else canonical(o.kind, value, where, sweeps)


def _flat_options(
    kind: str, name: str, given: Mapping[str, Any], above: tuple[tuple[str, str], ...] = ()
) -> set[str]:
    """Options of a thing and of what it names, as given flat or by default."""
    options = find(kind, name).options
    if (kind, name) in above:  # a rule that is to be weighted by itself
        return set(options)
    above = (*above, (kind, name))
    names = {k: given.get(k, o.default) for k, o in options.items() if o.kind}
    chosen = [(options[k].kind or "", n) for k, n in names.items() if isinstance(n, str)]
    return set(options).union(*(_flat_options(*one, given, above) for one in chosen))


def _unknown(
    key: str,
    options: Mapping[str, Option],
    flat: Mapping[str, Iterable[str]],
    where: tuple[str, ...],
    owner: Declared | None,
) -> PeerwiseError:
    """The error for a key that nothing here has, which says who has it."""
    known = {*options, *(name for names in flat.values() for name in names)}
    if owner is not None and ":" not in owner.name:
        others = [
            n for n, d in declared(owner.kind).items() if key in d.options and n != owner.name
        ]
        if others:
            more = f" and {len(others) - 3} more" if len(others) > 3 else ""
            has = f"it has {', '.join(sorted(known))}" if known else "it has no options"
            return BadSetting(
                f"[{dotted(where)}] {key} is an option of {', '.join(others[:3])}{more}, not of "
                f"{owner.name}; {has}"
            )
    return UnknownName(f"key in [{dotted(where)}]:", key, known)


def needs(kind: str, given: Any) -> set[str]:
    """The needs of a thing in canonical form, and of all that it names, of the links."""
    if not isinstance(given, Mapping):
        return set()
    known = find(kind, given["name"])
    inner = [needs(o.kind, given[k]) for k, o in known.options.items() if o.kind and not o.many]
    return set(known.traits.needs).union(*inner)


def build(kind: str, given: Any, facts: Mapping[str, Any]) -> Any:
    """Build the thing that a canonical form describes, from the known facts."""
    if not isinstance(given, Mapping):
        return given
    known = find(kind, given["name"])
    return _made(known, given, facts)


def _made(known: Declared, given: Mapping[str, Any], facts: Mapping[str, Any]) -> Any:
    values: dict[str, Any] = {}
    for key, o in known.options.items():
        value = given[key]
        if o.kind and o.many:
            value = tuple(build(o.kind, v, facts) for v in value)
        elif o.kind:
            value = build(o.kind, value, facts)
        values[key] = value
    for name, group in known.groups.items():
        values[name] = group(*(values.pop(f) for f in group._fields))
    result = known.make(**{fact: _fact(known, fact, facts) for fact in known.facts}, **values)
    wanted = _GIVES.get(known.kind)
    if wanted and not isinstance(result, wanted):
        words = " or ".join(f"{t.__module__}.{t.__name__}" for t in wanted)
        raise BadSetting(f"{known.kind} '{known.name}' must return a {words}, got {type(result)}")
    return result


def _fact(known: Declared, fact: str, facts: Mapping[str, Any]) -> Any:
    try:
        return facts[fact]
    except KeyError:
        if fact in known.optional:
            return known.optional[fact]
    raise BadSetting(
        f"{known.kind} '{known.name}' needs {fact} ({FACTS[fact]}), which is not available here"
    )
