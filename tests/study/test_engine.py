"""Many jobs: kept, gone on with, run again when what they depend on changed, failing alone."""

import os
import sys

import numpy as np
import pytest

from peerwise.errors import BadFile
from peerwise.learner import cell
from peerwise.study import engine
from peerwise.study.engine import ThisMachine, run_jobs
from peerwise.study.jobs import Run, Task
from peerwise.study.store import Store

ONE = ThisMachine(1)
CELL = cell(
    {
        "data": "wine",
        "split": {"nodes": 3, "rows": 20, "test_rows": 50},
        "run": {"rounds": 2, "repetitions": 1},
    }
)
MODULE = '''
"""Work for the tests, importable also in a process of its own."""

import os
from pathlib import Path

import numpy as np

from peerwise.errors import BadSetting


def square(x, log):
    """Leaves a line for every call."""
    with Path(log).open("a") as file:
        file.write(f"{x} {os.getpid()}\\n")
    if x < 0:
        raise BadSetting(f"x must be 0 or more, got {x}")
    if x > 100:
        raise ZeroDivisionError("no user's mistake")
    return {"square": np.array([x, x * x]), "name": np.array(["a", "b"])}
'''


@pytest.fixture
def task(tmp_path, monkeypatch):
    """Makes tasks of a module that any process can import; `calls` reads what was called."""
    (tmp_path / "module").mkdir()
    (tmp_path / "module" / "work_for_tasks.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path / "module")
    monkeypatch.delitem(sys.modules, "work_for_tasks", raising=False)
    log = tmp_path / "log"

    def make(x):
        return Task("work_for_tasks:square", {"x": x, "log": str(log)})

    def calls():
        lines = log.read_text().split() if log.exists() else []
        return [int(x) for x in lines[::2]], lines[1::2]

    make.calls = calls
    return make


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "run"


def test_what_a_job_gives_is_kept_with_how_it_was_made(task, folder):
    assert Store(folder).get(task(3).key) is None
    ran = run_jobs([task(3)], folder, engine=ONE)
    assert ran.failures == {}
    assert ran.again == {task(3).key: "not run before"}
    for kept in (ran.done[task(3).key], Store(folder).get(task(3).key)):
        assert kept.arrays["square"].tolist() == [3, 9]
        assert kept.arrays["name"].tolist() == ["a", "b"]
        assert kept.about["asked"] == ["work_for_tasks:square", task(3).arguments]
        assert kept.about["depends"]["code"].keys() == {"work_for_tasks.py"}
        assert kept.about["made"].keys() >= {"peerwise", "jax", "device", "seconds", "date"}


def test_what_is_done_is_not_done_again_and_the_words_say_so(task, folder):
    run_jobs([task(1), task(2)], folder, engine=ONE)
    ran = run_jobs([task(1), task(2), task(4)], folder, engine=ONE)
    assert task.calls()[0] == [1, 2, 4]
    assert ran.words == "3 cells: 2 kept, 1 run (1: not run before)"
    assert ran.done.keys() == {task(x).key for x in (1, 2, 4)}
    assert run_jobs([task(1)], folder, engine=ONE).words == "1 cells: 1 kept, none run"
    run_jobs([task(1)], folder, engine=ONE, fresh=True)
    assert task.calls()[0] == [1, 2, 4, 1]


def test_jobs_are_collected_into_one_file_and_others_stay(task, folder):
    store = Store(folder)
    first = run_jobs([task(1), task(2), task(3)], folder, engine=ONE).done
    shown = [row for row in store.rows() if row.cell != task(3).key]
    path = store.collect(shown)
    assert [p.stem for p in (folder / "cells").iterdir()] == [task(3).key]
    assert run_jobs([task(x) for x in (1, 2, 3)], folder, engine=ONE).again == {}
    for key, kept in first.items():
        again = store.get(key)
        assert again.about == kept.about
        for name, array in kept.arrays.items():
            np.testing.assert_array_equal(again.arrays[name], array)
            assert again.arrays[name].dtype.kind == array.dtype.kind
    store.collect([row for row in store.rows() if row.cell == task(3).key])  # another run
    assert {p.stem for p in (folder / "cells").iterdir()} == {task(1).key, task(2).key}
    store.collect(store.rows())
    assert not (folder / "cells").exists()
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 3] ^= 0xFF
    path.write_bytes(whole)
    with pytest.raises(BadFile, match="damaged"):
        store.get(task(1).key)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32", "bool"])
def test_numbers_come_back_as_they_were(folder, dtype):
    array = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(dtype)
    store = Store(folder)
    store.put("k", {"a": array, "none": array[:0], "one": array[0, 0, 0]}, {"depends": None})
    store.collect(store.rows())
    back = store.get("k").arrays
    for name, wanted in {"a": array, "none": array[:0], "one": array[0, 0, 0]}.items():
        np.testing.assert_array_equal(back[name], wanted)
        assert back[name].dtype == dtype


def test_the_same_job_asked_twice_runs_once(task, folder):
    run_jobs([task(5), task(5)], folder, engine=ONE)
    assert task.calls()[0] == [5]


def test_a_key_changes_with_function_and_arguments_and_not_with_their_order():
    one = Task("a:f", {"x": 1, "y": 2.0})
    assert one.key == Task("a:f", {"y": 2.0, "x": 1}).key
    others = [Task("a:g", one.arguments), Task("a:f", {"x": 2, "y": 2.0}), Task("a:f", {"x": 1})]
    assert len({one.key, *(t.key for t in others)}) == 4


def test_one_failure_leaves_the_others_and_is_tried_again(task, folder):
    reports = []
    ran = run_jobs(
        [task(-1), task(2), task(101)], folder, engine=ONE, progress=lambda *n: reports.append(n)
    )
    assert list(ran.done) == [task(2).key]
    assert ran.failures[task(-1).key] == "x must be 0 or more, got -1"
    assert ran.failures[task(101).key].startswith("ZeroDivisionError: no user's mistake (work_for")
    assert "Traceback" in (folder / "errors.txt").read_text()
    assert reports[0] == (0, 3)
    assert reports[-1] == (3, 3)
    again = run_jobs([task(-1), task(2)], folder, engine=ONE)
    assert list(again.failures) == [task(-1).key]
    assert task.calls()[0] == [-1, 2, 101, -1]


@pytest.mark.parametrize("damage", ["truncated", "empty", "nonsense"])
def test_a_damaged_file_is_named_before_anything_runs(task, folder, damage):
    run_jobs([task(1)], folder, engine=ONE)
    path = Store(folder).path(task(1).key)
    whole = path.read_bytes()
    path.write_bytes({"truncated": whole[:100], "empty": b"", "nonsense": b"x" * 300}[damage])
    with pytest.raises(BadFile, match=rf"{path.name} is damaged.*delete it"):
        run_jobs([task(2), task(1)], folder, engine=ONE)
    assert task.calls()[0] == [1]


@pytest.mark.optimised  # other processes compile as users do
def test_two_processes_give_what_one_gives_and_tell_of_it(task, folder, tmp_path):
    reports = []
    jobs = [task(1), task(-4), task(2), Run(CELL.changed(split={"rows": 10}))]
    one = run_jobs(jobs, tmp_path / "one", engine=ONE)  # first: the others find what it compiled
    here = len(task.calls()[1])
    two = run_jobs(jobs, folder, engine=ThisMachine(2), progress=lambda *n: reports.append(n))
    assert len(task.calls()[1]) > here
    assert str(os.getpid()) not in task.calls()[1][here:]
    assert two.failures == one.failures == {task(-4).key: "x must be 0 or more, got -4"}
    assert two.done.keys() == one.done.keys() == {j.key for j in jobs} - {task(-4).key}
    for key, kept in one.done.items():
        for name, array in kept.arrays.items():
            np.testing.assert_array_equal(two.done[key].arrays[name], array)
    assert reports[0] == (0, 4)
    assert reports == sorted(reports)
    assert reports[-1] == (4, 4)  # a job that failed is over, too


def test_what_is_kept_can_be_shown_without_running_anything(task, folder, monkeypatch):
    run_jobs([task(1)], folder, engine=ONE)
    monkeypatch.setattr(engine, "NUMERICS", 0, raising=False)
    ran = run_jobs([task(1), task(2)], folder, engine=ONE, only_kept=True)
    assert list(ran.done) == [task(1).key]
    assert not ran.failures
    assert task.calls()[0] == [1]


def test_nothing_to_do_is_done_at_once(folder):
    reports = []
    assert not run_jobs([], folder, progress=lambda *now: reports.append(now)).done
    assert reports == [(0, 0)]
