"""One network over many devices gives what one device gives, and the same on any number of them."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

SCRIPT = Path(__file__).parents[1] / "sharing.py"
QUICKLY = (
    "--xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1 "
    "--xla_cpu_use_fusion_emitters=false"
)
EVERY = (
    "crc", "decdiff", "rows differ", "push", "relay", "ba_bfl", "cvar", "cfa_ge", "cfa_ge kept",
    "hubs", "star", "server", "late", "late pushes", "redrawn", "complete", "exact", "double",
    "checkpoints of crc", "checkpoints of relay",
)  # fmt: skip
FEW = ("crc",)
PAIR = ("crc", "relay", "push", "decdiff", "ba_bfl", "cvar", "cfa_ge", "server", "late pushes")


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def started(out, counts, names, flags="", **more):
    env = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu", **more}
    env["PYTHONPATH"] = f"{SCRIPT.parents[1] / 'src'}:{SCRIPT.parent}"
    command = [sys.executable, str(SCRIPT), str(out), counts, *names]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def ended(*processes):
    """Wait for all; where one fails the others, which would wait for it, are killed."""
    try:
        for process in processes:
            said, _ = process.communicate()
            assert process.returncode == 0, said.decode()[-3000:]
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.communicate()


def found(out):
    """case -> devices -> arrays."""
    results = {}
    with np.load(f"{out}.npz") as file:
        for key in file.files:
            case, count, _ = key.split("|")
            results.setdefault(case, {}).setdefault(count, []).append(file[key])
    return results


def close(a, b):
    """To rounding, of the largest entry of each array.

    Relay keeps what rounding left over of sums: such an array is measured by the others.
    """
    largest = max(np.abs(x[np.isfinite(x)]).max(initial=0) for x in a)
    for x, y in zip(a, b, strict=True):
        assert x.shape == y.shape
        assert x.dtype == y.dtype
        fine = np.isfinite(x)
        np.testing.assert_array_equal(fine, np.isfinite(y))
        most = np.abs(x[fine]).max(initial=1e-3 * largest)
        np.testing.assert_allclose(x[fine], y[fine], rtol=0, atol=1e-4 * most)


def same(a, b):
    for x, y in zip(a, b, strict=True):
        np.testing.assert_array_equal(x, y)


def check(results):
    for case, by_count in results.items():
        one, first, *others = by_count.values()
        if case.startswith("checkpoints"):  # begun on another number of devices than ended on
            for end in (first, *others):
                close(one, end)
            continue
        close(one, first)
        for other in others:
            same(first, other)


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """One process of up to four devices."""
    folder = tmp_path_factory.mktemp("few")
    ended(started(folder / "one", "1,2,4", FEW, QUICKLY))
    return folder


@pytest.fixture(scope="module")
def every(tmp_path_factory):
    """All cases with up to eight devices, and at the same time two processes of one device.

    Compiled quickly as well: it is some hundred programs, and devices change nothing in how one is
    compiled.
    """
    return shared(tmp_path_factory.mktemp("every"), EVERY, "1,2,8", PAIR)


def shared(folder, names, counts, pair):
    address = {"COORDINATOR": f"127.0.0.1:{free_port()}", "PROCESSES": "2"}
    two = [
        started(folder / f"two{i}", "2", pair, QUICKLY, **address, PROCESS=str(i)) for i in (0, 1)
    ]
    ended(*two, started(folder / "one", counts, names, QUICKLY))
    return folder


def both_alike(folder, pair):
    alone = found(folder / "one")
    for i in (0, 1):
        both = found(folder / f"two{i}")
        assert list(both) == list(pair)
        for case in pair:
            same(both[case]["2"], alone[case]["2"])


def test_any_number_of_devices_gives_what_one_gives(few):
    """In short; `test_all_methods_on_any_number_of_devices` has every case."""
    results = found(few / "one")
    assert list(results) == list(FEW)
    check(results)


@pytest.mark.full  # test_any_number_of_devices_gives_what_one_gives
def test_all_methods_on_any_number_of_devices(every):
    results = found(every / "one")
    assert list(results) == list(EVERY)
    check(results)


@pytest.mark.full
def test_all_methods_in_two_processes(every):
    both_alike(every, PAIR)
