"""Many cells: kept, resumed, failing alone."""

import numpy as np
import pytest

from peerwise.errors import BadFile
from peerwise.learner import cell, expand
from peerwise.study import pool

CELL = cell(
    {
        "data": "wine",
        "split": {"nodes": 3, "rows": 20, "test_rows": 50},
        "run": {"rounds": 2, "repetitions": 1},
    }
)


def test_what_is_done_is_not_done_again(tmp_path, monkeypatch):
    cells = [CELL, CELL.changed(run={"rounds": 3})]
    first, _ = pool.run_all(cells[:1], tmp_path, workers=1)
    calls = []
    real = pool.run
    monkeypatch.setattr(pool, "run", lambda c: calls.append(c["run"]["rounds"]) or real(c))
    second, failures = pool.run_all(cells, tmp_path, workers=1)
    assert calls == [3]
    assert not failures
    key = cells[0].key
    for name, value in first[key].values.items():
        np.testing.assert_array_equal(value, second[key].values[name])
    assert second[key].bytes_per_link == first[key].bytes_per_link > 0


def test_what_is_kept_can_be_shown_without_running_anything(tmp_path, monkeypatch):
    pool.run_all([CELL], tmp_path, workers=1)
    monkeypatch.setattr(pool, "run", None)
    cells = [CELL, CELL.changed(run={"rounds": 3})]
    outcomes, failures = pool.run_all(cells, tmp_path, workers=1, only_kept=True)
    assert list(outcomes) == [CELL.key]
    assert not failures


def test_one_failure_leaves_the_others(tmp_path):
    bad = CELL.changed(split={"nodes": 1000})
    told = []
    outcomes, failures = pool.run_all(
        [bad, CELL], tmp_path, workers=1, progress=lambda done, total: told.append((done, total))
    )
    assert list(outcomes) == [CELL.key]
    assert "too few" in failures[bad.key]
    assert told[-1] == (2, 2)


def test_two_processes_give_what_one_gives(tmp_path):
    cells = expand({**CELL.changed(split={"rows": 10}).raw, "data": ["wine", "iris"]})
    one, _ = pool.run_all(cells, tmp_path / "one", workers=1)
    two, _ = pool.run_all(cells, tmp_path / "two", workers=2)
    assert set(one) == set(two) == {c.key for c in cells}
    for key in one:
        for name, value in one[key].values.items():
            np.testing.assert_array_equal(value, two[key].values[name])


def test_a_truncated_cell_is_named(tmp_path):
    pool.run_all([CELL], tmp_path, workers=1)
    (path,) = tmp_path.glob("*.npz")
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(BadFile, match=path.name):
        pool.run_all([CELL], tmp_path, workers=1)
