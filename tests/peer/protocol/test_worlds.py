"""Cores under random schedules of loss, doubling, reordering, crashes, backups and liars."""

import ast
from pathlib import Path

import pytest

from peer.protocol.cases import CASES, lived
from peerwise.peer import protocol

SEEDS = 5  # a case in every run of the tests; many more in `make full`
TOGETHER = 2  # and seeds where letters are written together


@pytest.mark.parametrize("name", CASES)
def test_whatever_happens_all_promises_are_kept_and_all_end(name):
    for seed in range(SEEDS):
        lived(name, seed)
    for seed in range(TOGETHER):
        lived(name, seed, together=0.5)


@pytest.mark.full
@pytest.mark.parametrize("name", CASES)
def test_whatever_happens_many_times(name):
    for seed in range(SEEDS, 1000):
        lived(name, seed)
    for seed in range(TOGETHER, 300):
        lived(name, seed, together=0.5)


def test_the_worlds_are_as_rough_as_they_say():
    """Each kind of event of which the protocol has a rule comes about."""
    seen = {}
    for name in ("backup far", "noise, backup", "eject", "a liar", "deadline, backup"):
        for seed in range(12):
            seen |= lived(name, seed).log
    wanted = {"crash", "restore", "a neighbour has gone back", "this peer has gone back", "joins",
              "catches up", "ejected", "readmitted", "quarantine", "cannot send"}  # fmt: skip
    assert wanted <= seen.keys()


CLEAN = ("peerwise.errors", "peerwise.peer.protocol", "collections", "contextlib", "itertools",
         "math", "statistics", "typing")  # fmt: skip


def test_the_core_imports_nothing_that_reads_writes_waits_or_computes():
    for path in Path(protocol.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.ImportFrom):
                names = [node.module]
            elif isinstance(node, ast.Import):
                names = [one.name for one in node.names]
            for name in names:
                assert name.startswith(CLEAN), (path.name, name)
