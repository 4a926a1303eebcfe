"""Pieces of work: kept, resumed, failing alone, spread over processes."""

import json
import os
import sys

import numpy as np
import pytest

from peerwise.errors import BadFile
from peerwise.study.tasks import KEPT, Task, collect, kept, run_tasks

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
    return tmp_path / "cells"


def test_what_a_task_gives_is_kept_by_its_key(task, folder):
    assert kept(folder, task(3)) is None
    done, failures = run_tasks([task(3)], folder, workers=1)
    assert failures == {}
    assert list(done) == [task(3).key]
    for found in (done[task(3).key], kept(folder, task(3))):
        assert found["square"].tolist() == [3, 9]
        assert found["name"].tolist() == ["a", "b"]
        assert set(found) == {"square", "name"}
    with np.load(folder / f"{task(3).key}.npz") as file:  # it says what made it
        (about,) = (json.loads(bytes(file[n])) for n in file.files if n.startswith("task"))
    assert about == ["work_for_tasks:square", task(3).arguments]


def test_what_is_done_is_not_done_again(task, folder):
    first, _ = run_tasks([task(1), task(2)], folder, workers=1)
    second, _ = run_tasks([task(1), task(2), task(4)], folder, workers=1)
    assert task.calls()[0] == [1, 2, 4]
    assert set(second) == {task(x).key for x in (1, 2, 4)}
    for key, arrays in first.items():
        np.testing.assert_array_equal(arrays["square"], second[key]["square"])


def test_cells_can_be_collected_into_one_file(task, folder):
    first, _ = run_tasks([task(1), task(2)], folder, workers=1)
    archive = collect(folder)
    assert archive == folder.parent / KEPT
    whole = archive.read_bytes()
    for path in folder.glob("*.npz"):
        path.unlink()
    second, _ = run_tasks([task(1), task(2), task(3)], folder, workers=1)
    assert task.calls()[0] == [1, 2, 3]
    for key, arrays in first.items():
        np.testing.assert_array_equal(arrays["square"], second[key]["square"])
    assert [p.stem for p in folder.glob("*.npz")] == [task(3).key]
    collect(folder)  # adds to what is there
    (folder / f"{task(3).key}.npz").unlink()
    assert kept(folder, task(1))["square"].tolist() == [1, 1]
    assert kept(folder, task(3))["square"].tolist() == [3, 9]
    assert kept(folder, task(4)) is None
    archive.write_bytes(whole[:200])
    with pytest.raises(BadFile, match=f"{KEPT} is damaged"):
        kept(folder, task(1))


def test_the_same_task_asked_twice_runs_once(task, folder):
    done, _ = run_tasks([task(5), task(5)], folder, workers=1)
    assert task.calls()[0] == [5]
    assert len(done) == 1


def test_a_key_changes_with_function_and_arguments_and_not_with_their_order():
    one = Task("a:f", {"x": 1, "y": 2.0})
    assert one.key == Task("a:f", {"y": 2.0, "x": 1}).key
    others = [Task("a:g", one.arguments), Task("a:f", {"x": 2, "y": 2.0}), Task("a:f", {"x": 1})]
    assert len({one.key, *(t.key for t in others)}) == 4


def test_one_failure_leaves_the_others_and_is_tried_again(task, folder):
    reports = []
    done, failures = run_tasks(
        [task(-1), task(2), task(-7)], folder, lambda *now: reports.append(now), workers=1
    )
    assert list(done) == [task(2).key]
    assert failures == {task(x).key: f"x must be 0 or more, got {x}" for x in (-1, -7)}
    assert reports == [(0, 3), (1, 3), (2, 3), (3, 3)]
    _, again = run_tasks([task(-1), task(2)], folder, workers=1)
    assert list(again) == [task(-1).key]
    assert task.calls()[0] == [-1, 2, -7, -1]


def test_a_mistake_of_ours_is_not_hidden_and_what_was_done_stays(task, folder):
    with pytest.raises(ZeroDivisionError):
        run_tasks([task(6), task(101)], folder, workers=1)
    assert kept(folder, task(6))["square"].tolist() == [6, 36]


@pytest.mark.parametrize("damage", ["truncated", "empty", "nonsense"])
def test_a_damaged_file_is_named_before_anything_runs(task, folder, damage):
    run_tasks([task(1)], folder, workers=1)
    path = folder / f"{task(1).key}.npz"
    whole = path.read_bytes()
    path.write_bytes({"truncated": whole[:100], "empty": b"", "nonsense": b"x" * 300}[damage])
    with pytest.raises(BadFile, match=f"{path.name} is damaged.*delete it"):
        run_tasks([task(2), task(1)], folder, workers=1)
    assert task.calls()[0] == [1]
    with pytest.raises(BadFile, match=path.name):
        kept(folder, task(1))


def test_two_processes_give_what_one_gives_and_tell_of_it(task, folder, tmp_path):
    reports = []
    tasks = [task(x) for x in (1, 2, 3, -4)]
    done, failures = run_tasks(tasks, folder, lambda *now: reports.append(now), workers=2)
    one, why = run_tasks(tasks, tmp_path / "one", workers=1)
    assert failures == why == {task(-4).key: "x must be 0 or more, got -4"}
    assert done.keys() == one.keys()
    for key in one:
        np.testing.assert_array_equal(done[key]["square"], one[key]["square"])
    numbers, processes = task.calls()
    assert sorted(numbers[:4]) == [-4, 1, 2, 3]
    assert str(os.getpid()) not in processes[:4]
    assert reports[0] == (0, 4)
    assert reports == sorted(reports)
    assert reports[-1] == (4, 4)  # a task that failed is over, too


def test_nothing_to_do_is_done_at_once(folder):
    reports = []
    assert run_tasks([], folder, lambda *now: reports.append(now)) == ({}, {})
    assert reports == [(0, 0)]
