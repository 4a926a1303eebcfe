"""Options: what a user may set, with its type, bounds and one line, and how a value is checked."""

import difflib
import inspect
import math
from datetime import date, time
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from peerwise.errors import BadSetting
from peerwise.names import KINDS


class Named(NamedTuple):
    """Marks an option whose value is the name of a declared thing."""

    kind: str


class Option(NamedTuple):
    """What a user may set."""

    check: Any  # its type, with bounds
    default: Any  # inspect.Parameter.empty: it must be given
    about: str
    kind: str | None = None  # of the declared thing that it names

    @property
    def required(self) -> bool:
        """Whether it has no default."""
        return self.default is inspect.Parameter.empty

    @property
    def many(self) -> bool:
        """Whether a list is one value of the option and not a sweep over values."""
        bare = get_args(self.check)[0] if get_origin(self.check) is Annotated else self.check
        union = get_origin(bare) in (Union, type(int | None))
        kinds = [a for a in (get_args(bare) if union else (bare,)) if a is not type(None)]
        return bool(kinds) and all(get_origin(a) is tuple for a in kinds)


def option_of(hint: Any, default: Any) -> Option:
    """The option that an annotation and a default declare."""
    extra = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    kind = next((mark.kind for mark in extra if isinstance(mark, Named)), None)
    about = next((mark for mark in reversed(extra) if isinstance(mark, str)), "")
    return Option(hint, default, about, kind)


def section(group: Any) -> dict[str, Option]:
    """The options that a NamedTuple declares."""
    hints = get_type_hints(group, include_extras=True)
    empty = inspect.Parameter.empty
    return {f: option_of(hints[f], group._field_defaults.get(f, empty)) for f in group._fields}


def dotted(where: tuple[str, ...]) -> str:
    """A place in a description, as people write it."""
    return ".".join(where)


_WORDS = {  # pydantic's kinds of errors in the words of this package
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "string_type": "must be a text in quotes",
    "tuple_type": "must be a list",
    "dict_type": "must be a table",
    "missing": "must have more entries",
    "too_long": "must have fewer entries",
    "literal_error": "must be {expected}",
}


_ENDS = ("gt", "ge", "lt", "le")  # how bounds are called


@cache
def _adapter(check: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(check)


def checked(o: Option, value: Any, where: tuple[str, ...]) -> Any:
    """The value of an option that names nothing, if its type and bounds allow it."""
    what = f"[{dotted(where[:-1])}] {where[-1]}" if len(where) > 1 else where[-1]
    if value is inspect.Parameter.empty:
        raise BadSetting(f"{what} is missing; give it{f' ({o.about})' if o.about else ''}")
    if value is o.default or not (_plain(value) or isinstance(value, dict)):
        return value
    value = tuple(value) if isinstance(value, list) else value
    value = value.item() if hasattr(value, "item") else value
    if o.many and value is not None and not isinstance(value, tuple):
        value = (value,)
    typed = Any not in (o.check, *get_args(o.check)[:1])  # what is not says itself what is wrong
    if typed and isinstance(value, float) and not math.isfinite(value) and "inf" not in o.about:
        bounds = _bounds(o.check)
        open_end = bounds and math.isinf(value) and "at most" not in bounds and "less" not in bounds
        words = f"{bounds} and finite" if open_end else bounds or "a finite number"
        raise BadSetting(f"{what} must be {words}, got {value!r}")
    from pydantic import ValidationError

    try:
        return _adapter(o.check).validate_python(value, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
    words = _WORDS.get(first["type"], first["msg"]).format(**first.get("ctx", {}))
    if first["type"].startswith(("greater_than", "less_than")):
        words = f"must be {_bounds(o.check)}"
    if isinstance(value, dict) and first["loc"]:  # a table with one wrong entry
        what, value = f"[{dotted(where)}] {first['loc'][0]}", first["input"]
    choices = str(first.get("ctx", {}).get("expected", "")).replace("'", "").replace(" or ", ", ")
    near = difflib.get_close_matches(str(value), choices.split(", "), 1)
    hint = f"; did you mean '{near[0]}'?" if near else ""
    raise BadSetting(f"{what} {words}, got {value!r}{hint}")


def _bounds(check: Any) -> str:
    """The range of a number in words."""
    marks = {k: v for m in _marks(check) for k in _ENDS if (v := getattr(m, k, None)) is not None}
    if "ge" in marks and "le" in marks:
        return f"between {marks['ge']} and {marks['le']}"
    low = f"greater than {marks['gt']}" if "gt" in marks else ""
    low = f"{marks['ge']} or more" if "ge" in marks else low
    high = f"less than {marks['lt']}" if "lt" in marks else ""
    high = f"at most {marks['le']}" if "le" in marks else high
    return " and ".join(part for part in (low, high) if part)


def _marks(check: Any) -> list[Any]:
    """The bounds in an annotation, however deep they stand."""
    inner = [mark for a in get_args(check) for mark in _marks(a)]
    own = getattr(check, "__metadata__", ())
    return [m for m in own if any(hasattr(m, end) for end in _ENDS)] + inner


def in_words(o: Option) -> str:
    """What an option may be, for people."""
    if o.kind is not None:
        return f"names of {KINDS[o.kind]}" if o.many else f"one of the {KINDS[o.kind]}"
    return _type_words(o.check)


def _type_words(check: Any) -> str:
    if get_origin(check) is Annotated:
        words, bounds = _type_words(get_args(check)[0]), _bounds(check)
        return f"{words}, {bounds}" if bounds and "," not in words else words
    if get_origin(check) is Literal:
        return ", ".join(map(str, get_args(check)))
    if get_origin(check) is tuple:
        return f"a list ({_type_words(get_args(check)[0])})"
    if get_origin(check) in (Union, type(int | None)):
        return " or ".join(_type_words(a) for a in get_args(check))
    if get_origin(check) is dict:
        return f"a table ({_type_words(get_args(check)[1])})"
    plain = {int: "whole number", float: "number", bool: "true or false", str: "text"}
    return plain.get(check, "none" if check is type(None) else "anything")


def _plain(value: Any) -> bool:
    """Whether a value could stand in a file. Arrays, functions and records come from Python."""
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return all(_plain(v) for v in value)
    return isinstance(value, str | int | float | bool | date | time | None) or (
        hasattr(value, "item") and getattr(value, "shape", None) == ()
    )
