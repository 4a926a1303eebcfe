"""A part of the package that is not installed is one line that says how to install it."""

import subprocess
import sys

import pytest

BLOCKED = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {absent!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Absent())
sys.argv = ["peerwise", *{args!r}]
from peerwise.cli import main
main()
"""


@pytest.mark.some("peers", "page", "None")
@pytest.mark.parametrize(
    ("absent", "args", "says"),
    [
        (["grpc"], ["peer", "status", "."], "pip install 'peerwise[peers]'"),
        (["starlette"], ["page", "."], "pip install 'peerwise[page]'"),
        (["ray"], ["run", "none.toml", "--engine", "ray"], "pip install 'peerwise[ray]'"),
        (["cryptography", "grpc", "opendp", "dp_accounting", "uvicorn"], ["list", "methods"], None),
    ],
)
def test_a_part_that_is_missing_is_one_line(tmp_path, absent, args, says):
    code = BLOCKED.format(absent=absent, args=args)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == (2 if says else 0), done.stderr
    if says:
        assert says in " ".join(done.stderr.split())
        assert "Traceback" not in done.stderr
