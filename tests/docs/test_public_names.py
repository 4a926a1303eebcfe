"""Every public name is documented, where it stands and in the reference."""

import importlib
import importlib.machinery
import importlib.util
import pkgutil
import sys
from functools import cache
from pathlib import Path

import pytest

import peerwise

ROOT = Path(__file__).resolve().parents[2]
MODULES = [
    importlib.import_module(found.name)
    for found in pkgutil.walk_packages(peerwise.__path__, "peerwise.")
]


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__)
def test_every_module_says_what_it_is(module):
    assert (module.__doc__ or "").strip()


@cache
def _script():
    path = ROOT / "scripts" / "reference"
    loader = importlib.machinery.SourceFileLoader("write_reference", str(path))
    spec = importlib.util.spec_from_loader("write_reference", loader)
    script = importlib.util.module_from_spec(spec)
    loader.exec_module(script)
    return script


ROOMS = [m for m in MODULES if m.__name__.count(".") == 1 and getattr(m, "__all__", None)]


@pytest.mark.parametrize("module", ROOMS, ids=lambda m: m.__name__)
def test_every_public_name_is_documented(module):
    text = {name: _script().about(module, name) for name in module.__all__}
    assert [name for name in text if not text[name]] == []
    generated = [name for name in text if text[name].startswith(f"{name}(")]
    assert generated == [], "only the docstring that Python generates"


def test_only_rooms_say_what_is_public():
    inner = [m.__name__ for m in MODULES if m.__name__.count(".") > 1 and hasattr(m, "__all__")]
    assert [name for name in inner if not hasattr(sys.modules[name], "__path__")] == []


def test_the_face_has_some_forty_names_and_each_is_there():
    assert 35 <= len(peerwise.__all__) <= 45
    assert all(getattr(peerwise, name) is not None for name in peerwise.__all__)
    assert set(peerwise.__all__) <= set(dir(peerwise))
    with pytest.raises(AttributeError, match="has no 'nothing'"):
        peerwise.nothing  # noqa: B018


def test_the_reference_is_up_to_date():
    written = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    assert written == _script().reference(), "run scripts/reference"


def test_the_version_is_the_same_everywhere():
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == peerwise.__version__
    assert f"## {peerwise.__version__}" in (ROOT / "CHANGELOG.md").read_text()
