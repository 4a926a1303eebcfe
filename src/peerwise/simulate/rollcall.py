"""Processes meet at the coordinator's address before JAX joins them.

JAX ends a process without a word of ours where another is missing. So process 0 first waits for all
others at the same address, with a time limit, and compares what they say of themselves.
"""

import json
import socket
import time
from collections.abc import Callable

from peerwise.errors import BadSetting

LINE = 4096  # bytes of what a process says


def meet_all(address: tuple[str, int], processes: int, about: str, wait: float) -> None:
    """Process 0: wait for all others, and refuse those that say something else `about` them."""
    until = time.monotonic() + wait
    host, port = address
    try:
        family = socket.getaddrinfo(host, port)[0][0]
        server = socket.create_server(("", port), family=family)
    except OSError as error:
        raise BadSetting(
            f"process 0 cannot listen at {host}:{port} ({error.strerror or error}): give an "
            "address of this machine and a port that is free"
        ) from None
    there: dict[int, socket.socket] = {}
    problem = ""
    with server:
        try:
            while len(there) < processes - 1 and not problem:
                caller = _accepted(server, until)
                if caller is None:
                    missing = sorted(set(range(1, processes)) - set(there))
                    problem = (
                        f"process {missing[0]} of {processes} did not come to {host}:{port} within "
                        f"{wait:.0f} s: start it, with the same number of processes"
                    )
                    break
                index, theirs = _introduced(caller)
                if index is None:  # not one of ours
                    caller.close()
                    continue
                if index in there or not 0 < index < processes:
                    problem = (
                        f"two processes say that they are number {index} of {processes}: number "
                        "them from 0 on"
                    )
                elif theirs != about:
                    problem = (
                        f"process {index} runs {theirs} and process 0 {about}: install the same "
                        "everywhere"
                    )
                there[index] = caller
        finally:
            for caller in there.values():
                with caller:
                    caller.sendall((problem or "go").encode())
    if problem:
        raise BadSetting(problem)


def come(address: tuple[str, int], index: int, about: str, wait: float) -> None:
    """Any other process: tell process 0 that it is there, and wait until all are."""
    until = time.monotonic() + wait
    host, port = address
    talk = _tried(lambda: socket.create_connection(address, timeout=5), until, address, wait)
    with talk:
        try:
            talk.sendall(json.dumps({"process": index, "about": about}).encode() + b"\n")
            talk.settimeout(max(1.0, until - time.monotonic() + 5))
            word = talk.recv(LINE).decode()
        except OSError:
            word = ""
    if word != "go":
        raise BadSetting(word or f"process 0 left {host}:{port} before all processes were there")


def wait_for(address: tuple[str, int], wait: float) -> None:
    """Wait until somebody listens there."""
    until = time.monotonic() + wait
    _tried(lambda: socket.create_connection(address, timeout=5), until, address, wait).close()


def _tried(
    call: Callable[[], socket.socket], until: float, address: tuple[str, int], wait: float
) -> socket.socket:
    while True:
        try:
            return call()
        except OSError as error:
            if time.monotonic() > until:
                raise BadSetting(
                    f"nobody answers at the coordinator {address[0]}:{address[1]} after {wait:.0f} "
                    f"s ({error.strerror or error}): start process 0 there, or give its address"
                ) from None
            time.sleep(0.1)


def _accepted(server: socket.socket, until: float) -> socket.socket | None:
    """The next caller, or none in time."""
    server.settimeout(max(0.01, until - time.monotonic()))
    try:
        return server.accept()[0]
    except TimeoutError:
        return None


def _introduced(caller: socket.socket) -> tuple[int | None, str]:
    """Which process a caller is, and what it says of itself."""
    caller.settimeout(5)
    try:
        said = json.loads(caller.recv(LINE))
        return int(said["process"]), str(said["about"])
    except (OSError, ValueError, LookupError, TypeError):
        return None, ""
