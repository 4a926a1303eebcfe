"""Cells as tasks of a real Ray, which sees only the loopback; workers die, cells fail, we go on."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import peerwise
from helpers import command
from peerwise.study import on_ray
from peerwise.study.store import Store

pytestmark = pytest.mark.full  # a Ray takes half a minute to start; `make test`: test_engine.py
HERE = Path(__file__).parent
ALONE = "unshare --net --pid --fork --kill-child --mount-proc --map-root-user"


def inside(line, **how):
    """Run a shell command in a network namespace with the loopback alone; all it starts ends."""
    asked = [*ALONE.split(), "sh", "-c", f"ip link set lo up && {line}"]
    return subprocess.run(asked, text=True, check=False, **how)


@pytest.fixture(scope="module", autouse=True)
def can_be_alone():
    pytest.importorskip("ray", reason="Ray is not installed")
    for tool in ("unshare", "ip"):
        if shutil.which(tool) is None:
            pytest.skip(f"Ray listens on all interfaces, and there is no {tool} to keep it alone")
    tried = inside("true", capture_output=True)
    if tried.returncode:
        pytest.skip(f"Ray listens on all interfaces; no network namespace: {tried.stderr.strip()}")


def on_loopback(script, folder, *more):
    """What a script found, which runs with Ray and without a network."""
    environ = {k: v for k, v in os.environ.items() if k != "PEERWISE_DATA"}
    # Ray keeps its token below HOME
    environ |= {"HOME": str(folder), "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "ab" * 32}
    line = f"{sys.executable} {HERE / script} found.json {' '.join(more)}"
    run = inside(line, cwd=folder, env=environ, stderr=subprocess.PIPE, timeout=900)
    assert run.returncode == 0, run.stderr
    return {**json.loads((folder / "found.json").read_text()), "folder": folder}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return on_loopback("ray_on_loopback.py", tmp_path_factory.mktemp("ray"))


def test_cells_on_ray_give_the_bits_of_cells_on_this_machine(found):
    assert found["cells"] == 3  # two cells and the task
    assert found["same"]
    assert found["made"] == peerwise.__version__


def test_files_and_modules_are_sent_to_the_worker(found):
    assert found["sent"]
    assert found["doubled"] == [0, 2]


def test_a_cell_whose_worker_is_killed_is_run_again_and_given_up_after_some_times(found):
    assert found["killed"]
    assert found["failures"]["lost"].startswith("its worker was lost 2 times")
    assert "--memory" in found["failures"]["lost"]


def test_one_failure_leaves_the_others_and_is_told_in_a_line(found):
    assert found["failures"]["refused"] == "x must be 0 or more, got -1"
    assert found["failures"]["crashed"].startswith("ZeroDivisionError: no user's mistake (working")
    assert "Traceback" in found["trace"]


def test_a_second_start_goes_on(found):
    assert found["again"] == "4 cells: 3 kept, 1 run (1: not run before)"
    assert found["calls"] == ["3", "4"]  # and later the one with an absolute path


def test_progress_is_told_as_results_come_back(found):
    done = [n for n, _ in found["told"]]
    assert done == sorted(done)
    assert len(set(done)) > 2
    assert found["told"][-1] == [7, 7]


def test_what_no_machine_offers_is_refused_in_a_line(found):
    assert found["gpu"] == "no machine of the Ray cluster has a GPU: leave --gpus out"
    assert "the largest have 2 CPUs, 0 GPUs" in found["memory"]


def test_a_file_that_is_on_the_worker_as_it_is_here_need_not_be_sent(found):
    assert found["absolute"] == []


# without Ray's own processes


def test_a_worker_of_another_version_says_so_before_it_runs_anything():
    task = on_ray.checked_first()
    said = task({"peerwise": "0.0.1"}, b"not even unpacked", {})
    assert f"has peerwise {peerwise.__version__}, this machine 0.0.1: install the same" in said
    assert "has nosuch none, this machine 2" in task({"nosuch": "2"}, b"", {})


@pytest.fixture
def call(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text('data = "wine"\nsplit = {nodes = 3, rows = 20}\n')
    return command(monkeypatch, capsys)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--engine", "ray", "--address", "ray://127.0.0.1:1"], "no Ray cluster answers at ray://"),
        (["--engine", "ray", "--address", "nowhere"], "must be ray://HOST:PORT"),
        (["--engine", "rya"], "did you mean 'ray'"),
        (["--address", "ray://127.0.0.1:1"], "--address is for --engine ray"),
        (["--gpus", "1"], "--gpus is for --engine ray"),
        (["--engine", "ray", "--device", "cpu", "--gpus", "1"], "do not go together"),
        (["--engine", "ray", "--device", "abacus"], "unknown device"),
    ],
)
def test_bad_options_are_one_line(call, options, says):
    code, _, said = call("run", "mine.toml", *options)
    assert code == 2
    assert says in " ".join(said.split())
    assert "Traceback" not in said


# a cluster that was started before, reached by its address


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    return on_loopback("ray_by_address.py", tmp_path_factory.mktemp("cluster"), "main")


@pytest.mark.full  # in `make test` Ray runs once, started by the study itself
def test_a_cluster_reached_by_its_address_gives_the_same(cluster):
    for how in ("run", "direct", "local"):
        code, out, said = cluster[how]
        assert code == 0, said
        assert "7 cells: 0 kept, 7 run (7: not run before)." in out.replace("\n", " ")
    stores = [Store(cluster["folder"] / name) for name in ("client", "direct", "local")]
    client, direct, local = ({r.cell + r.metric: r.array for r in s.rows()} for s in stores)
    assert client.keys() == direct.keys() == local.keys()
    for name, array in local.items():
        np.testing.assert_array_equal(client[name], array)
        np.testing.assert_array_equal(direct[name], array)


@pytest.mark.full
def test_ctrl_c_cancels_what_runs_on_the_cluster_and_keeps_what_is_done(cluster):
    code, said, kept = cluster["stopped"]
    assert code == 130, said
    assert "long keeps the finished cells: run the same command to resume" in said
    assert "Traceback" not in said
    assert kept >= 1


@pytest.mark.full
def test_a_cluster_of_another_version_is_one_line(tmp_path):
    code, _, said = on_loopback("ray_by_address.py", tmp_path, "other")["other"]
    assert code == 2
    said = " ".join(said.split())
    assert f"has peerwise 0.0.1, this machine {peerwise.__version__}: install the same" in said
    assert "Traceback" not in said


@pytest.mark.full
def test_a_wrong_token_is_one_line(cluster):
    code, _, said = cluster["token"]
    assert code == 2
    assert "if it asks for a token, set RAY_AUTH_MODE=token" in " ".join(said.split())
    assert "Traceback" not in said
