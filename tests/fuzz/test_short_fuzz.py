"""A short seed of every fuzzer; `make fuzz` takes thousands of cases."""

import json

import numpy as np
import pytest

from fuzz import files, keys
from fuzz.descriptions import Fuzzer, Share, built
from fuzz.drawing import describe, write_tables
from fuzz.files import FileFuzzer, Kind
from fuzz.keys import KeyFuzzer
from peerwise.declare import find
from peerwise.errors import BadSetting
from peerwise.names import KINDS, entries

NEVER = 10**9
READ_ONLY = Share(mutated=3, traced=NEVER, run=NEVER, compiled=NEVER)


@pytest.fixture(autouse=True)
def tables(tmp_path, monkeypatch):
    write_tables(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PEERWISE_DATA", str(tmp_path))


def test_descriptions_give_a_learner_or_one_line():
    fuzzer = Fuzzer(0, READ_ONLY)
    fuzzer.try_all(80)
    assert not fuzzer.findings.all, fuzzer.findings.listed()
    assert fuzzer.counts["built"] > 30
    assert fuzzer.counts["refused in one line"] > 15


@pytest.mark.full
def test_a_description_runs_in_all_runtimes():
    fuzzer = Fuzzer(0, Share(mutated=NEVER, whole=1))
    raw = describe(
        np.random.default_rng(4),
        "crc",
        model={"name": "naive_bayes"},
        run={"rounds": 2, "repetitions": 1, "precision": "float32", "metrics": ["auroc"]},
        data={"source": "numbers.csv", "target": "y"},
        split={"nodes": 3, "rows": 6, "test_rows": 16},
        network={"topology": "ring"},
    )
    fuzzer.ran(0, raw, built(raw))
    assert not fuzzer.findings.all, fuzzer.findings.listed()
    assert fuzzer.counts == {"run in two runtimes": 1, "run as a study does": 1}


def test_damaged_files_are_refused_or_read_as_they_were(tmp_path):
    fuzzer = FileFuzzer(0, tmp_path / "files")
    fuzzer.try_all(6 * len(files.KINDS))
    assert not fuzzer.findings.all, fuzzer.findings.listed()


def test_every_name_is_drawn():
    drawn = " ".join(str(describe(np.random.default_rng(number))) for number in range(1500))
    unseen = {name for kind in KINDS for name in entries(kind) if f"'{name}'" not in drawn}
    assert not unseen - {"mlp", "mlp_200"}, unseen  # mlp_64 stands for both


# --- the fuzzers find what is there


def test_a_crash_is_reported_with_what_it_needs():
    def check(raw):
        if raw.get("network", {}).get("channel"):
            raise KeyError("planted")

    fuzzer = Fuzzer(0, READ_ONLY)
    raw = {"network": {"channel": "delay", "topology": "ring"}, "run": {"rounds": 3}}
    assert fuzzer.checked(7, raw, check) is None
    (finding,) = fuzzer.findings.all.values()
    assert finding.kind == "crash"
    assert "planted" in finding.what
    assert finding.case == '(seed 0, description 7)\n[network]\nchannel = "delay"\n'


def test_a_message_of_two_lines_is_reported():
    class TwoLines(BadSetting):
        def __str__(self):
            return "one\ntwo"

    def check(raw):
        raise TwoLines

    fuzzer = Fuzzer(0, READ_ONLY)
    fuzzer.checked(0, {"run": {"rounds": 3}}, check)
    (finding,) = fuzzer.findings.all.values()
    assert "not one line" in finding.what


def test_a_key_that_changes_nothing_is_reported(monkeypatch):
    for check in ("program_of", "outcome_of"):
        monkeypatch.setattr(keys, check, lambda raw: "the same, whatever is asked")
    monkeypatch.setattr(keys, "same", lambda a, b: a == b)
    fuzzer = KeyFuzzer(0)
    fuzzer.every = [("method", "crc", "iterations"), ("network", "", "push")]
    fuzzer.try_all(2)
    assert [f.where for f in fuzzer.findings.all.values()] == [
        "method crc iterations",
        "network  push",
    ]


def test_every_option_is_among_the_keys():
    every = set(keys.every_key())
    common = {option for kind, _, option in every if kind == keys.TRAINING}
    for name in entries("method"):
        for option in find("method", name).options:
            assert ("method", name, option) in every or option in common


def test_a_file_that_is_read_as_another_is_reported(tmp_path, monkeypatch):
    naked = Kind(
        "naked",
        lambda folder: (folder / "x.json").write_text(json.dumps(list(range(1000)))) and None,
        "x.json",
        lambda folder: (folder / "x.json").read_bytes().hex(),
    )
    monkeypatch.setattr(files, "KINDS", (naked,))
    fuzzer = FileFuzzer(0, tmp_path / "files")
    fuzzer.try_all(3)
    (finding,) = fuzzer.findings.all.values()
    assert finding.where == "naked: other content"
    assert finding.times == 3
