"""The fuzzers, from the command line: `python -m fuzz descriptions --count 10000 --seed 0`."""

import argparse
import math
import os
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")

from fuzz.descriptions import Fuzzer, Share
from fuzz.drawing import write_tables
from fuzz.files import FileFuzzer
from fuzz.keys import KeyFuzzer

FUZZERS = {"descriptions": Fuzzer, "keys": KeyFuzzer, "files": FileFuzzer}


def main() -> int:
    """Run a fuzzer; the exit code says whether it found anything."""
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("what", choices=FUZZERS)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="the number of one case, to see it again")
    parser.add_argument("--read-only", action="store_true", help="run none of the descriptions")
    parser.add_argument("--run-one-in", type=int, help="of how many built descriptions one is run")
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin none after these")
    given = parser.parse_args()
    print(f"{given.what}: {given.count} from seed {given.seed}", flush=True)
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PEERWISE_DATA"] = folder
        os.chdir(folder)
        write_tables(Path(folder))
        fuzzer = FUZZERS[given.what](given.seed)
        if given.read_only:
            fuzzer.share = Share(traced=10**9, run=10**9, compiled=10**9)
        if given.run_one_in:
            fuzzer.share = Share(run=given.run_one_in)
        if given.only is not None:
            fuzzer.share = Share(traced=1, run=1, whole=1)
            fuzzer.try_one(given.only)
        else:
            fuzzer.try_all(given.count, given.seconds)
        os.chdir("/")
    print(fuzzer.shown())
    print(f"{time.perf_counter() - begun:.0f} s; {len(fuzzer.findings.all)} findings")
    print(fuzzer.findings.listed())
    return bool(fuzzer.findings.all)


if __name__ == "__main__":
    sys.exit(main())
