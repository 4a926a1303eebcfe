"""Everything that the package can name, read from its source without importing it.

A function that `declares("method")` is listed under its own name. Reading the source takes a few
hundredths of a second; importing the numerics behind it takes seconds, and `peerwise list` and
`peerwise --help` need none of them.
"""

import ast
from functools import cache
from pathlib import Path
from typing import NamedTuple

from peerwise.errors import UnknownName

__all__ = ["KINDS", "Entry", "entries", "kind_of", "listed"]

# what can be named, and how a list of such things is called
KINDS = {
    "method": "methods",
    "model": "models",
    "net": "nets",
    "rule": "rules",
    "loss": "losses",
    "topology": "topologies",
    "channel": "channels",
    "partition": "partitions",
    "sizes": "sizes",
    "shift": "shifts",
    "metric": "metrics",
}


class Entry(NamedTuple):
    """Where a named thing is defined, and its first sentence."""

    module: str
    function: str
    about: str


def first_sentence(docstring: str | None) -> str:
    """The first paragraph of a docstring as one line."""
    return " ".join((docstring or "").partition("\n\n")[0].split())


def kind_of(word: str) -> str:
    """The kind that a word names: `method` or `methods`."""
    for kind, plural in KINDS.items():
        if word in (kind, plural):
            return kind
    raise UnknownName("kind of things", word, KINDS.values())


@cache
def entries(kind: str) -> dict[str, Entry]:
    """The names of a kind in alphabetical order."""
    return dict(sorted(_all()[kind_of(kind)].items()))


def listed(word: str) -> list[tuple[str, str]]:
    """Names of a kind, with a sentence about each."""
    return [(name, entry.about) for name, entry in entries(kind_of(word)).items()]


@cache
def _all() -> dict[str, dict[str, Entry]]:
    package = Path(__file__).parent
    names: dict[str, dict[str, Entry]] = {kind: {} for kind in KINDS}
    for path in sorted(package.glob("*/*.py")):
        text = path.read_text(encoding="utf-8")
        if "\n@declares(" not in text:
            continue
        module = ".".join(("peerwise", *path.relative_to(package).with_suffix("").parts))
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef):
                for kind, name in _declared(node):
                    about = first_sentence(ast.get_docstring(node))
                    names[kind][name] = Entry(module, node.name, about)
    return names


def _declared(function: ast.FunctionDef) -> list[tuple[str, str]]:
    """Kind and name, if the function is decorated with `declares`."""
    names = []
    for call in function.decorator_list:
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "declares":
            given = {k.arg: k.value for k in call.keywords}
            name = _text(given["name"]) if "name" in given else function.name
            names.append((_text(call.args[0]), name))
    return names


def _text(node: ast.expr) -> str:
    return str(ast.literal_eval(node))
