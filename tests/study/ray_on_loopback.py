"""What the tests of Ray do in a network namespace of their own: one Ray, several studies.

Ray listens on all network interfaces, so that it runs where there is none but the loopback. Writes
what it found as JSON to the file that is named.
"""

import json
import os
import sys
from pathlib import Path

import numpy as np
import ray

from peerwise.learner import expand
from peerwise.study import on_ray
from peerwise.study.engine import ThisMachine, run_jobs
from peerwise.study.jobs import Run, Task
from peerwise.study.on_ray import OnRay
from peerwise.study.sweep import read_config

WORK = '''
"""Work for the tests: importable on a worker because it is sent there."""

import os
import signal
from pathlib import Path

import numpy as np

from peerwise.errors import BadSetting
from helping import double


def work(x, log, dies=0, data=None):
    """Doubles a number; its worker is killed in the first `dies` calls."""
    with Path(log).open("a") as file:
        file.write(f"{x}\\n")
    if Path(log).read_text().split().count(str(x)) <= dies:
        os.kill(os.getpid(), signal.SIGKILL)
    if x < 0:
        raise BadSetting(f"x must be 0 or more, got {x}")
    if x > 100:
        raise ZeroDivisionError("no user's mistake")
    return {"double": double(np.arange(x)), "where": np.array([os.getcwd()])}
'''
STUDY = """
data = {source = "rows.csv", target = "y"}
method = ["crc", "ml"]
split = {nodes = 3, rows = 20, test_rows = 50}
run = {rounds = 4, repetitions = 2}
"""


def same(a, b):
    """Whether two runs gave the same numbers, to the bit."""
    if a.keys() != b.keys():
        return False
    pairs = [(a[k].arrays, b[k].arrays) for k in a]
    return all(
        x.keys() == y.keys()
        and all(np.array_equal(x[n], y[n], equal_nan=x[n].dtype.kind == "f") for n in x)
        for x, y in pairs
    )


def refused(jobs, **how):
    try:
        run_jobs(jobs, Path("refused"), engine=OnRay(**how))
    except ValueError as error:
        return str(error)
    return "not refused"


def main(out):
    Path("code").mkdir()
    Path("code/working.py").write_text(WORK)
    Path("code/helping.py").write_text("def double(x):\n    return x * 2\n")
    rng = np.random.default_rng(0)
    rows = [f"{a:.3f},{b:.3f},{'pq'[int(a + b > 0)]}" for a, b in rng.normal(size=(150, 2))]
    Path("rows.csv").write_text("a,b,y\n" + "\n".join(rows))
    Path("code/study.toml").write_text(STUDY)
    cells = [Run(cell) for cell in expand(read_config(Path("code/study.toml")))]
    log = str(Path("log").resolve())

    def task(x, **how):
        return Task("working:work", {"x": x, "log": log, **how})

    on_ray.TRIES = 2  # a lost worker is started anew, which takes seconds
    engine = OnRay(workers=2)
    told = []
    with engine._connected(ray):  # for all that follows: a start takes seconds
        jobs = [*cells, task(1, dies=1), task(2), task(-1), task(101), task(5, dies=9)]
        ran = run_jobs(jobs, Path("ray"), engine=engine, progress=lambda *n: told.append(n))
        Path(log).write_text("")
        again = run_jobs([*cells, task(1, dies=1), task(3)], Path("ray"), engine=engine)
        found = {
            "gpu": refused(cells, gpus=1),
            "memory": refused(cells, memory=1e6),
        }
        Path("b.csv").write_text("a,b,y\n1,2,p\n")
        absolute = task(4, data=str(Path("b.csv").resolve()))
        elsewhere = run_jobs([absolute], Path("ray"), engine=engine)
    calls = Path(log).read_text().split()
    local = run_jobs([*cells, task(2)], Path("local"), engine=ThisMachine(1))
    both = local.done.keys() & ran.done.keys()
    where = str(ran.done[task(2).key].arrays["where"][0])
    found |= {
        "same": same({k: ran.done[k] for k in both - {task(2).key}},
                     {k: local.done[k] for k in both - {task(2).key}}),
        "cells": len(both),
        "doubled": ran.done[task(2).key].arrays["double"].tolist(),
        "killed": task(1, dies=1).key in ran.done,
        "failures": {name: ran.failures[job.key] for name, job in {
            "refused": task(-1), "crashed": task(101), "lost": task(5, dies=9)}.items()},
        "trace": Path("ray/errors.txt").read_text(),
        "again": again.words,
        "calls": calls,
        "told": told,
        "sent": where != os.getcwd() and Path(where).parent.joinpath("code/working.py").exists(),
        "absolute": list(elsewhere.failures.values()),
        "made": ran.done[cells[0].key].about["made"]["peerwise"],
    }  # fmt: skip
    Path(out).write_text(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
