"""What the tests of a Ray cluster do in namespaces of their own: started before, then reached.

It is process 1 of a process namespace, so that everything it starts ends with it.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

RAY = [sys.executable, "-m", "ray.scripts.scripts"]
PEERWISE = [sys.executable, "-m", "peerwise"]
ADDRESS = "ray://127.0.0.1:10001"
STUDY = """
data = "wine"
method = ["crc", "ml"]
split = {{nodes = {nodes}, rows = 20, test_rows = 50}}
run = {{rounds = {rounds}, repetitions = 1, record = "last"}}
"""


def start(port, client, **environ):
    subprocess.run(
        [*RAY, "start", "--head", f"--port={port}", f"--ray-client-server-port={client}",
         "--num-cpus=2", "--include-dashboard=false", "--disable-usage-stats"],
        check=True, capture_output=True, env={**os.environ, **environ},
    )  # fmt: skip


def ask(*args, **how):
    done = subprocess.run(
        [*PEERWISE, "run", *args], capture_output=True, text=True, check=False, **how
    )
    return [done.returncode, done.stdout, done.stderr]


def tasks():
    """Workers that run a task now: Ray names the process after it."""
    names = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            names.append(path.read_text())
        except OSError:  # gone
            continue
    return [name for name in names if name.startswith("ray::") and "task" in name]


def until(what, seconds=240):
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(0.1)


def main(out):
    found = {}
    Path("quick.toml").write_text(STUDY.format(nodes="3", rounds="[2, 3, 4]"))
    Path("long.toml").write_text(STUDY.format(nodes="3", rounds="[2, 30000000]"))
    start(6390, 10001)
    found["run"] = ask("quick.toml", "--engine", "ray", "--address", ADDRESS, "--out", "client")
    found["direct"] = ask(
        "quick.toml", "--engine", "ray", "--address", "127.0.0.1:6390", "--out", "direct"
    )
    wrong = {**os.environ, "RAY_AUTH_TOKEN": "cd" * 32}
    found["token"] = ask(
        "quick.toml", "--engine", "ray", "--address", ADDRESS, "--out", "no", env=wrong
    )
    found["local"] = ask("quick.toml", "--workers", "1", "--out", "local")
    command = [*PEERWISE, "run", "long.toml", "--engine", "ray", "--address", ADDRESS,
               "--out", "long"]  # fmt: skip
    running = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    until(lambda: len(list(Path("long/cells").glob("*.npz"))) >= 1 and tasks())
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=120)
    until(lambda: not tasks())
    kept = len(list(Path("long/cells").glob("*.npz")))
    found["stopped"] = [running.returncode, said, kept]
    Path(out).write_text(json.dumps(found))


def other(out):
    """A cluster whose machines have another version of the package."""
    Path("quick.toml").write_text(STUDY.format(nodes="3", rounds="2"))
    Path("other/peerwise").mkdir(parents=True)
    Path("other/peerwise/__init__.py").write_text('__version__ = "0.0.1"\n')
    start(6390, 10001, PYTHONPATH=str(Path("other").resolve()))
    asked = ask("quick.toml", "--engine", "ray", "--address", ADDRESS, "--out", "none")
    Path(out).write_text(json.dumps({"other": asked}))


if __name__ == "__main__":
    {"main": main, "other": other}[sys.argv[2]](sys.argv[1])
