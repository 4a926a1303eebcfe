"""Modules of the user's own: found beside the run file, imported as they are now, and hashed.

A user edits a module and runs again in the same notebook, or has two folders with a module of the
same name. Python alone would go on with what it imported first.
"""

import ast
import hashlib
import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

NAMED = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")  # module:function

_loaded: dict[str, dict[str, str]] = {}  # module -> hashes of the files it was imported from


def look_in(folder: str | Path) -> None:
    """Look for modules in this folder before all others."""
    path = str(Path(folder).resolve())
    if path in sys.path:
        sys.path.remove(path)
    sys.path.insert(0, path)


def load(module: str) -> ModuleType:
    """The module as its files are now: imported again where one of them changed.

    The package's own modules are imported once: nobody edits them between two cells.
    """
    if _is_ours(module):
        return importlib.import_module(module)
    if os.getcwd() not in sys.path:
        look_in(os.getcwd())
    files = files_of(module)
    hashes = {str(path): _hash(path) for path in files}
    if module not in sys.modules:
        _compile_anew(files)
    elif _loaded.get(module, hashes) != hashes:
        _forget(files, _loaded[module])
    imported = importlib.import_module(module)
    if hashes and _file(imported) not in hashes:  # of the same name, from another folder
        _forget(files, {})
        imported = importlib.import_module(module)
    _loaded[module] = hashes
    return imported


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == "peerwise"


def _file(module: ModuleType) -> str:
    return str(Path(getattr(module, "__file__", None) or "?").resolve())


def _forget(files: list[Path], before: dict[str, str]) -> None:
    """Make Python import these files, and those of the same names elsewhere, again."""
    importlib.invalidate_caches()
    _compile_anew(files)
    stems = {path.stem for path in files}
    known = {*(str(path) for path in files), *before}
    for name, module in list(sys.modules.items()):
        if _file(module) in known or (name in stems and not name.startswith("peerwise")):
            sys.modules.pop(name, None)


def _compile_anew(files: list[Path]) -> None:
    """Remove what Python compiled of these files.

    It takes that for a file that was written in the same second and is as long.
    """
    for path in files:
        with suppress(OSError, NotImplementedError):
            Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)


def code_of(thing: Any) -> dict[str, str]:
    """Hashes of the source of every `module:function` in a description, by the file's name.

    Files that such a module imports from its own folder are among them. The package's own modules
    are not: their numbers have a version.
    """
    return {name: _hash(path) for name, path in sources_of(thing).items()}


def sources_of(thing: Any) -> dict[str, Path]:
    """The files of every `module:function` in a description, by name in the folder to import from.

    Files that such a module imports from its own folder are among them.
    """
    names = sorted({name.partition(":")[0] for name in _names(thing)})
    own = [name for name in names if not _is_ours(name)]
    return {
        path.relative_to(_root(name, files[0])).as_posix(): path
        for name in own
        if (files := files_of(name))
        for path in files
    }


def _root(module: str, file: Path) -> Path:
    """The folder from which a module is imported by its name."""
    return file.parents[module.count(".") + (file.name == "__init__.py")]


def _names(thing: Any) -> Iterator[str]:
    """Every text in a nested thing that reads module:function."""
    if isinstance(thing, str):
        if NAMED.fullmatch(thing):
            yield thing
    elif isinstance(thing, dict):
        for value in thing.values():
            yield from _names(value)
    elif isinstance(thing, list | tuple):
        for value in thing:
            yield from _names(value)


def files_of(module: str) -> list[Path]:
    """The source of a module and of what it imports from its own folder, in order of import."""
    first = _source(module, None)
    if first is None:
        return []
    root = _root(module, first)
    base = first.parent if first.parent == root else root / module.partition(".")[0]
    files: list[Path] = []
    waiting = [first]
    sources: dict[str, Path | None] = {}  # of names, which many files import
    while waiting:
        path = waiting.pop()
        if path in files:
            continue
        files.append(path)
        for name in _imports(path, root):
            if name not in sources:
                sources[name] = _source(name, [str(root)])
            source = sources[name]
            if source is not None and source.is_relative_to(base):
                waiting.append(source)
    return files


def _source(module: str, folders: list[str] | None) -> Path | None:
    """The file of a module, found without importing it."""
    *packages, last = module.split(".")
    for package in packages:
        spec = PathFinder.find_spec(package, folders)
        if spec is None or spec.submodule_search_locations is None:
            return None
        folders = list(spec.submodule_search_locations)
    spec = PathFinder.find_spec(last, folders)
    if spec is None or not spec.origin or not spec.origin.endswith(".py"):
        return None
    return Path(spec.origin).resolve()


def _imports(path: Path, root: Path) -> Iterator[str]:
    """Every name that a file imports, be it a module or what is in one; relative names in full."""
    package = path.relative_to(root).parent.parts if path.is_relative_to(root) else ()
    for node in _import_lines(path, _changed(path)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                parts = alias.name.split(".")
                yield from (".".join(parts[: i + 1]) for i in range(len(parts)))
        else:
            above = package[: len(package) - node.level + 1] if node.level else ()
            start = [*above, *(node.module or "").split(".")] if node.module else [*above]
            if start:
                yield ".".join(start)
            yield from (".".join([*start, alias.name]) for alias in node.names)


def _changed(path: Path) -> tuple[int, int]:
    """When a file was written last, and its size; what is read of it can be kept till then."""
    about = path.stat()
    return about.st_mtime_ns, about.st_size


@lru_cache(maxsize=1000)
def _import_lines(path: Path, changed: tuple[int, int]) -> list[ast.Import | ast.ImportFrom]:
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):  # the import itself will say so
        return []
    return [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]


def _hash(path: Path) -> str:
    return _hashed(path, _changed(path))


@lru_cache(maxsize=1000)
def _hashed(path: Path, changed: tuple[int, int]) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
