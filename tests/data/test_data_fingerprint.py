import hashlib
import json
import os

import pytest

from peerwise import data
from peerwise.data import fingerprint
from peerwise.errors import BadFile


def test_a_file_is_known_by_its_bytes(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("x,y\n1,a\n")
    before = fingerprint(str(file))
    assert before == hashlib.sha256(file.read_bytes()).hexdigest()
    (tmp_path / "b.csv").write_bytes(file.read_bytes())
    assert fingerprint(str(tmp_path / "b.csv")) == before
    file.write_text("x,y\n2,a\n")
    os.utime(file, ns=(1, 1))  # the same size within one tick of a coarse clock
    assert fingerprint(str(file)) != before
    assert fingerprint(str(file), target="y") != fingerprint(str(file), target="x")


def test_a_set_of_a_folder_is_its_file_and_its_entry(tmp_path):
    (tmp_path / "rows.csv").write_text("x,y\n1,a\n")
    entry = {"name": "rows", "kind": "tabular", "file": "rows.csv", "target": "y"}
    seen = []
    for extra in ({}, {"notes": "new"}, {"categorical": ["x"]}):
        text = json.dumps({"datasets": [entry | extra]})
        (tmp_path / "MANIFEST.json").write_text(text)
        seen.append(fingerprint("rows", folder=tmp_path))
    assert seen[0] == seen[1] != seen[2]
    (tmp_path / "rows.csv").write_text("x,y\n2,a\n3,a\n")
    assert fingerprint("rows", folder=tmp_path) != seen[2]


def test_a_bundled_set_has_one_too(monkeypatch):
    monkeypatch.delenv("PEERWISE_DATA", raising=False)
    assert fingerprint("digits") == fingerprint("digits") != fingerprint("iris")
    assert len(fingerprint("openml:61")) == 64


def test_a_file_that_is_not_there_is_an_error():
    with pytest.raises(BadFile, match="there is no file"):
        data.fingerprint("nowhere.csv")
