"""Data folders: what a manifest may say, and files that are not whole."""

import hashlib
import json

import pandas as pd
import pytest

from peerwise.data import available, load, verify
from peerwise.errors import BadFile, UnknownName

FRAME = pd.DataFrame(
    {"id": [1, 2, 3], "age": [30, 40, 50], "part": ["train"] * 3, "ill": list("yny")}
)
ENTRY = {
    "name": "clinic",
    "kind": "tabular",
    "file": "clinic.parquet",
    "target": "ill",
    "not_features": ["id"],
    "split_column": "part",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.delenv("PEERWISE_DATA", raising=False)
    FRAME.to_parquet(tmp_path / "clinic.parquet")
    write(tmp_path, ENTRY)
    return tmp_path


def write(folder, *entries, **top):
    raw = {"format_version": 1, "datasets": list(entries)} | top
    (folder / "MANIFEST.json").write_text(json.dumps(raw))


def test_the_folder_is_given_or_named_by_the_environment(folder, monkeypatch):
    assert load("clinic", folder=folder).labels.tolist() == ["y", "n", "y"]
    with pytest.raises(UnknownName, match="PEERWISE_DATA names one"):
        load("clinic")
    monkeypatch.setenv("PEERWISE_DATA", str(folder))
    assert load("clinic").name == "clinic"
    monkeypatch.setenv("PEERWISE_DATA", str(folder / "gone"))
    with pytest.raises(BadFile, match=r"gone' .from PEERWISE_DATA. does not exist"):
        load("clinic")
    assert load("clinic", folder=folder).name == "clinic"


def test_unknown_names_are_answered_with_the_nearest(folder):
    with pytest.raises(UnknownName, match="unknown data set 'clinik'; did you mean 'clinic'"):
        load("clinik", folder=folder)
    with pytest.raises(UnknownName, match=r"known: breast_cancer, clinic, digits, iris, wine$"):
        load("zzzzzz", folder=folder)
    with pytest.raises(UnknownName, match="did you mean 'clinic'"):
        verify("clinik", folder=folder)


def test_a_missing_folder_or_manifest(folder):
    (folder / "empty").mkdir()
    with pytest.raises(BadFile, match=r"no MANIFEST.json"):
        load("clinic", folder=folder / "empty")
    with pytest.raises(BadFile, match="there is no data folder to verify"):
        verify("clinic")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (json.dumps({"datasets": [ENTRY]})[:60], "damaged or cut short"),
        ("", "damaged or cut short"),
        ("[]", "list 'datasets'"),
        ("{}", "list 'datasets'"),
        ('{"datasets": {}}', "list 'datasets'"),
        ('{"datasets": ["clinic"]}', "entry 0 of .* must be an object with the text 'name'"),
        ('{"datasets": [{"name": 1}]}', "entry 0"),
        ('{"datasets": [], "format_version": 2}', "format version 2; this version reads only 1"),
        (json.dumps({"datasets": [ENTRY, ENTRY]}), "lists 'clinic' twice"),
    ],
)
def test_a_broken_manifest(folder, text, told):
    (folder / "MANIFEST.json").write_text(text)
    for use in (lambda: load("clinic", folder=folder), lambda: available(folder)):
        with pytest.raises(BadFile, match=told):
            use()


def test_a_manifest_that_is_not_text(folder):
    (folder / "MANIFEST.json").write_bytes(b"\xff\xfe{")
    with pytest.raises(BadFile, match="damaged"):
        load("clinic", folder=folder)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"kind": None}, "must have the text 'kind'"),
        ({"kind": "sound"}, "kind 'sound' .* is not one of tabular, image, features"),
        ({"file": None}, "must name its 'file'"),
        ({"files": []}, "a 'file' or some 'files'"),
        ({"files": ["clinic.parquet"]}, "must name its 'file'"),
        ({"file": "../clinic.parquet"}, "must lie inside the data folder"),
        ({"file": "/clinic.parquet"}, "must lie inside the data folder"),
        ({"file": "gone.parquet"}, "gone.parquet', which MANIFEST.json lists.*is not there"),
        ({"bytes": 7}, "bytes and should have 7"),
        ({"rows": 4}, "has 3 rows, but the manifest says 4"),
        ({"target": None}, "must have the text 'target'"),
        ({"target": "il"}, "unknown target column of 'clinic' 'il'; did you mean 'ill'"),
        ({"split_column": "fold"}, "split column 'fold'"),
        ({"split_column": ["part"]}, "must have the text 'split_column'"),
        ({"not_features": "id"}, "'not_features' .* must be a list of texts"),
        ({"files": [{"file": "clinic.parquet"}] * 2}, "must be one file"),
    ],
)
def test_an_entry_that_is_wrong(folder, changes, told):
    write(folder, ENTRY | changes)
    with pytest.raises((BadFile, UnknownName), match=told):
        load("clinic", folder=folder)


def test_a_truncated_or_damaged_file(folder):
    path = folder / "clinic.parquet"
    whole = path.read_bytes()
    write(folder, ENTRY | {"bytes": len(whole)})
    path.write_bytes(whole[:-20])
    with pytest.raises(BadFile, match=r"clinic.parquet' has \d+ bytes and should have"):
        load("clinic", folder=folder)
    write(folder, ENTRY)
    for damaged in (whole[:-20], whole[: len(whole) // 2], b"", b"PAR1" * 3, b"not parquet"):
        path.write_bytes(damaged)
        with pytest.raises(BadFile, match=r"cannot read .*clinic.parquet"):
            load("clinic", folder=folder)


def test_available_lists_the_folder_and_the_bundled(folder):
    write(folder, ENTRY | {"columns": list(FRAME), "rows": 3, "classes": 2, "notes": "Made up."})
    first, *rest = available(folder)
    assert first == {
        "name": "clinic",
        "kind": "tabular",
        "rows": 3,
        "features": 1,
        "classes": 2,
        "source": "folder",
        "note": "Made up.",
    }
    assert [row["name"] for row in rest] == ["digits", "breast_cancer", "wine", "iris"]
    assert available() == rest


def test_a_folders_set_goes_before_a_bundled_one(folder):
    write(folder, ENTRY | {"name": "wine"})
    assert len(load("wine", folder=folder).labels) == 3
    assert [row["source"] for row in available(folder) if row["name"] == "wine"] == ["folder"]


def test_notes_say_what_is_derived_and_what_leaks(folder):
    write(folder, ENTRY | {"derived": True, "subset": True, "leaks_target": ["age"], "notes": "N."})
    note = load("clinic", folder=folder).note
    assert note.startswith("Derived. Subset. Determines the target")
    assert note.endswith("age. N.")


def test_verify_compares_checksums(folder):
    path = folder / "clinic.parquet"
    good = hashlib.sha256(path.read_bytes()).hexdigest()
    parts = [{"file": "clinic.parquet", "sha256": good}, {"file": "gone.csv", "sha256": good}]
    write(folder, ENTRY | {"files": parts})
    assert verify("clinic", folder) == [("clinic.parquet", True), ("gone.csv", False)]
    path.write_bytes(path.read_bytes() + b"\0")
    assert verify("clinic", folder)[0] == ("clinic.parquet", False)
    write(folder, ENTRY)
    with pytest.raises(BadFile, match=r"no sha256 for 'clinic.parquet'"):
        verify("clinic", folder)
