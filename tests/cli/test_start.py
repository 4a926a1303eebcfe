"""Looking up a name needs none of the numerics: help and lists answer at once."""

import subprocess
import sys

import pytest

QUIET = """
import sys
from peerwise.cli import main
sys.argv = ["peerwise", *{args!r}]
try:
    main()
except SystemExit:
    pass
heavy = [m for m in ("jax", "pandas", "sklearn", "matplotlib") if m in sys.modules]
print("HEAVY", heavy)
"""


@pytest.mark.parametrize("args", [["--help"], ["list"], ["list", "methods"], ["run", "--help"]])
def test_help_and_lists_import_no_numerics(args):
    done = subprocess.run(
        [sys.executable, "-c", QUIET.format(args=args)], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "HEAVY []"
    assert len(done.stdout) > 500


def test_importing_the_package_imports_nothing_else():
    code = "import sys, peerwise; print([m for m in sys.modules if m.startswith('peerwise.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
