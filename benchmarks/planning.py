"""What `peerwise plan` says before a run beside what the run then takes, in the same process.

In CPU seconds of all threads, which others on the machine hardly change.
"""

import time

from benchmarks.tools import console
from peerwise.learner import cell, run
from peerwise.learner import plan as planning

CASES = {
    "crc, 50 nodes": {"method": "crc", "split": {"nodes": 50, "rows": 20}},
    "crc, 500 nodes": {"method": "crc", "split": {"nodes": 500, "rows": 3}, "rounds": 128},
    "relay, 50 nodes": {"method": "relay", "split": {"nodes": 50, "rows": 20}},
    "decavg, 20 nodes": {"method": "decavg", "split": {"nodes": 20, "rows": 50}, "rounds": 64},
    "crc, all recorded": {"method": "crc", "split": {"nodes": 50, "rows": 20}, "record": "all"},
    "gossip_nb, 20 nodes": {"method": "gossip_nb", "split": {"nodes": 20, "rows": 20}, "rounds": 8},
}


def main():
    console.print("case, estimated CPU s, measured CPU s, estimated / measured; compiled before")
    for name, case in CASES.items():
        options = {"rounds": case.pop("rounds", 512), "record": case.pop("record", "last")}
        described = cell({"data": "digits", "network": "random_tree", **case,
                          "run": {**options, "repetitions": 2}})  # fmt: skip
        timing = planning.calibrate(described, clock=time.process_time)
        records = len(planning.recorded(described))
        estimate = timing.total(options["rounds"], records) - timing.compiling
        run(described)
        begun = time.process_time()
        run(described)
        took = time.process_time() - begun
        console.print(
            f"{name:20s} {estimate:7.2f} {took:7.2f} {estimate / took:6.2f}"
            f"   a round {timing.round * 1e6:.0f} us"
        )
