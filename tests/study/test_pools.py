"""Many settings: kept, resumed, failing alone."""

import numpy as np
import pytest
from peerwise.experiments import job, pool
from peerwise.experiments.setting import Setting

from peerwise.errors import BadFile

SETTING = Setting(data="wine", nodes=3, rows=20, rounds=2, repetitions=1, test_rows=50)


def test_what_is_done_is_not_done_again(tmp_path, monkeypatch):
    settings = [SETTING, SETTING.model_copy(update={"rounds": 3})]
    first, _ = pool.run_all(settings[:1], tmp_path, workers=1)
    calls = []
    real = job.run
    monkeypatch.setattr(job, "run", lambda s: calls.append(s.rounds) or real(s))
    second, failures = pool.run_all(settings, tmp_path, workers=1)
    assert calls == [3]
    assert not failures
    key = settings[0].key
    for name, value in first[key].values.items():
        np.testing.assert_array_equal(value, second[key].values[name])
    assert second[key].bytes_per_link == first[key].bytes_per_link > 0


def test_one_failure_leaves_the_others(tmp_path):
    bad = SETTING.model_copy(update={"nodes": 1000})
    told = []
    outcomes, failures = pool.run_all(
        [bad, SETTING], tmp_path, workers=1, progress=lambda done, total: told.append((done, total))
    )
    assert list(outcomes) == [SETTING.key]
    assert "too few" in failures[bad.key]
    assert told[-1] == (2, 2)


def test_two_processes_give_what_one_gives(tmp_path):
    settings = [SETTING.model_copy(update={"data": d, "rows": 10}) for d in ("wine", "iris")]
    one, _ = pool.run_all(settings, tmp_path / "one", workers=1)
    two, _ = pool.run_all(settings, tmp_path / "two", workers=2)
    for key in one:
        for name, value in one[key].values.items():
            np.testing.assert_array_equal(value, two[key].values[name])


def test_a_truncated_cell_is_named(tmp_path):
    pool.run_all([SETTING], tmp_path, workers=1)
    (path,) = tmp_path.glob("*.npz")
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(BadFile, match=path.name):
        pool.run_all([SETTING], tmp_path, workers=1)
