"""EMNIST-Letters from files as they are published: found, upright, named a to z."""

import gzip
import json
from string import ascii_lowercase

import numpy as np
import pytest

from peerwise.data import available, encode, load, verify
from peerwise.data.emnist import FILES
from peerwise.errors import BadFile, UnknownName

SIZES = {"train": 60, "test": 20}
LETTERS = np.concatenate([np.arange(m) % 26 for m in SIZES.values()])


def drawn(m):
    """Images of an L, upright as a person reads it, each with its number in the corner."""
    image = np.zeros((m, 28, 28), np.uint8)
    image[:, 4:24, 6] = 200  # a stem from top to bottom, at the left
    image[:, 23, 6:16] = 100  # a foot from left to right, at the bottom
    image[:, 0, 27] = np.arange(m)
    return image


UPRIGHT = np.concatenate([drawn(m) for m in SIZES.values()])


def idx(array):
    sizes = b"".join(n.to_bytes(4, "big") for n in array.shape)
    return gzip.compress(bytes([0, 0, 8, array.ndim]) + sizes + array.tobytes())


def write(folder, first=1):
    """The four files as published: x and y swapped, letters numbered from 1."""
    folder.mkdir(exist_ok=True)
    for part, m in SIZES.items():
        swapped = np.stack([image.T for image in drawn(m)])
        labels = (np.arange(m) % 26 + first).astype(np.uint8)
        for kind, array in (("images-idx3", swapped), ("labels-idx1", labels)):
            (folder / f"emnist-letters-{part}-{kind}-ubyte.gz").write_bytes(idx(array))


def listing(folder, *entries):
    (folder / "MANIFEST.json").write_text(json.dumps({"datasets": list(entries)}))


def entry(place="", **more):
    files = [{"file": f"{place}{file}"} for file in FILES]
    return {"name": "emnist_letters", "kind": "image", "files": files} | more


def rows(folder):
    return [row for row in available(folder) if row["name"] == "emnist_letters"]


def check(table):
    assert table.name == "emnist_letters"
    np.testing.assert_array_equal(table.frame, UPRIGHT)
    assert table.frame.dtype == np.uint8
    assert table.frame.flags.c_contiguous
    assert table.labels.tolist() == [ascii_lowercase[k] for k in LETTERS]
    assert table.split.tolist() == ["train"] * 60 + ["test"] * 20
    assert table.target == "label"


@pytest.fixture(autouse=True)
def no_folder(monkeypatch):
    monkeypatch.delenv("PEERWISE_DATA", raising=False)


@pytest.mark.parametrize("place", ["", "emnist_letters", "emnist"])
@pytest.mark.parametrize("manifest", [False, True])
def test_the_published_files_need_no_entry(tmp_path, monkeypatch, place, manifest):
    write(tmp_path / place)
    if manifest:
        listing(tmp_path)
    monkeypatch.setenv("PEERWISE_DATA", str(tmp_path))
    check(load("emnist_letters"))
    (row,) = rows(None)
    assert (row["kind"], row["features"], row["classes"]) == ("image", 784, 26)
    assert row["source"] == "folder"
    assert "upper and lower case together" in row["note"]


def test_an_entry_goes_before_what_is_found(tmp_path):
    write(tmp_path / "mine")
    write(tmp_path / "emnist", first=0)
    listing(tmp_path, entry("mine/", rows=80, classes=26, notes="Mine."))
    table = load("emnist_letters", folder=tmp_path)
    check(table)
    assert table.note == "Mine."
    assert [row["rows"] for row in rows(tmp_path)] == [80]


def test_an_entry_may_name_its_classes(tmp_path):
    write(tmp_path)
    listing(tmp_path, entry(class_names=list(ascii_lowercase.upper())))
    assert load("emnist_letters", folder=tmp_path).labels[:3].tolist() == ["A", "B", "C"]


def test_classes_and_pixels_as_a_model_sees_them(tmp_path):
    write(tmp_path)
    out = encode(load("emnist_letters", folder=tmp_path))
    assert out.schema.classes == tuple(ascii_lowercase)
    np.testing.assert_array_equal(out.y, LETTERS)


def test_other_sets_of_the_folder_are_still_there(tmp_path):
    write(tmp_path)
    (tmp_path / "t.csv").write_text("a,y\n1,u\n2,v\n")
    listing(tmp_path, {"name": "t", "kind": "tabular", "file": "t.csv", "target": "y"})
    assert load("t", folder=tmp_path).labels.tolist() == ["u", "v"]
    assert {"t", "emnist_letters", "iris"} < {row["name"] for row in available(tmp_path)}
    with pytest.raises(UnknownName, match="did you mean 'emnist_letters'"):
        load("emnist_leters", folder=tmp_path)


@pytest.mark.parametrize("lost", FILES)
def test_a_file_that_is_not_there(tmp_path, lost):
    write(tmp_path / "emnist")
    (tmp_path / "emnist" / lost).unlink()
    told = f"{lost}', a file of 'emnist_letters', is not there; copy it there"
    with pytest.raises(BadFile, match=told):
        load("emnist_letters", folder=tmp_path)
    listing(tmp_path, entry("emnist/"))
    with pytest.raises(BadFile, match=rf"{lost}', which MANIFEST.json lists for 'emnist_letters'"):
        load("emnist_letters", folder=tmp_path)


def test_a_whole_copy_goes_before_a_part_of_one(tmp_path):
    write(tmp_path / "emnist")
    (tmp_path / FILES[0]).write_bytes(b"a download that was stopped")
    check(load("emnist_letters", folder=tmp_path))


def test_no_files_at_all(tmp_path):
    listing(tmp_path)
    assert rows(tmp_path) == rows(None) == []
    for folder in (tmp_path, None):
        with pytest.raises(BadFile, match=r"copy emnist-letters-train-images-idx3-ubyte.gz, .* in"):
            load("emnist_letters", folder=folder)


def test_damaged_files(tmp_path):
    write(tmp_path)
    images, labels = tmp_path / FILES[0], tmp_path / FILES[1]
    whole = labels.read_bytes()
    labels.write_bytes(idx(np.ones(59, np.uint8)))
    with pytest.raises(BadFile, match="60 images and 59 labels in train"):
        load("emnist_letters", folder=tmp_path)
    for wrong in (0, 27):
        labels.write_bytes(idx(np.full(60, wrong, np.uint8)))
        with pytest.raises(BadFile, match="labels beyond its 26 class names"):
            load("emnist_letters", folder=tmp_path)
    labels.write_bytes(whole)
    images.write_bytes(images.read_bytes()[:-50])
    with pytest.raises(BadFile, match=rf"cannot read .*{FILES[0]}"):
        load("emnist_letters", folder=tmp_path)


def test_there_is_no_other_target(tmp_path):
    write(tmp_path)
    with pytest.raises(UnknownName, match="target column of 'emnist_letters' 'letter'"):
        load("emnist_letters", folder=tmp_path, target="letter")


def test_there_is_nothing_to_verify_without_an_entry(tmp_path):
    write(tmp_path)
    with pytest.raises(BadFile, match=r"no sha256 for 'emnist-letters-train-images.*; add it"):
        verify("emnist_letters", tmp_path)
