"""Errors that a user can fix: the command line prints them without a traceback.

PeerwiseError (a ValueError)
├── UnknownName     a data set, method, topology ... that does not exist; names the nearest
├── BadData         a table that cannot be learnt from
├── BadSetting      a parameter or configuration key that makes no sense
├── BadFile         a file or folder that is missing, damaged or of another kind
├── Diverged        a training whose loss is infinite or NaN; names round, node and stage
└── MissingExtra    a part of the package that was not installed; names the command that does
"""

import difflib
from collections.abc import Iterable
from importlib import import_module
from typing import Any

__all__ = [
    "BadData",
    "BadFile",
    "BadSetting",
    "Diverged",
    "MissingExtra",
    "PeerwiseError",
    "UnknownName",
    "extra",
]

# libraries that are installed with a part of the package, and what that part does
EXTRAS = {
    "starlette": ("page", "pages"),
    "uvicorn": ("page", "pages"),
    "cryptography": ("peers", "peers that talk over a network"),
    "grpc": ("peers", "peers that talk over a network"),
    "prometheus_client": ("peers", "peers that talk over a network"),
    "dp_accounting": ("privacy", "noise and its accounting"),
    "opendp": ("privacy", "noise and its accounting"),
    "ray": ("ray", "sweeps on a Ray cluster"),
    "pymetis": ("metis", "parts that METIS cuts"),
}


class PeerwiseError(ValueError):
    """Something the user gave is wrong; the message says what, where and how to fix it.

    It is one line: what a user's own names and texts break is written as Python writes it.
    """

    def __init__(self, message: object = ""):
        text = str(message)
        super().__init__(text if text.isprintable() else _printable(text))


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


class UnknownName(PeerwiseError):
    """A name that is not in the list of things of its kind."""

    def __init__(self, kind: str, name: object, known: Iterable[str]):
        known = sorted(known)
        near = difflib.get_close_matches(str(name), known, n=1, cutoff=0.5)
        hint = f"did you mean '{near[0]}'?" if near else f"known: {', '.join(known)}"
        super().__init__(f"unknown {kind} '{name}'; {hint}")


class BadData(PeerwiseError):
    """A table, column or shard that no model can learn from."""


class BadSetting(PeerwiseError):
    """A parameter or configuration value that makes no sense."""


class BadFile(PeerwiseError):
    """A file or folder that is missing, damaged or not what it should be."""


class Diverged(PeerwiseError):
    """A training whose loss became infinite or NaN."""


class MissingExtra(PeerwiseError, ImportError):
    """A library that belongs to a part of the package which was not installed."""


def extra(module: str) -> Any:
    """The module of a library that may be absent, or an error that says how to install it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        name, what = EXTRAS[module.partition(".")[0]]
        raise MissingExtra(
            f"{what} need {error.name}, which is not installed: pip install 'peerwise[{name}]'"
        ) from None
