"""The published sets: Table I of the CRC paper, checksums of pixels, sizes, speed."""

import hashlib
import json
import os
import time
from pathlib import Path

import numpy as np
import pytest

from peerwise.data import available, encode, load

FOLDER = Path(os.environ.get("PEERWISE_DATA") or "no folder")
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="PEERWISE_DATA names no data folder")

# discrete, continuous: CRC paper, Table I
TABLE_1 = {
    "adult": (5, 9),
    "credit_default": (5, 18),
    "mushroom_secondary": (12, 7),
    "heart_2020": (12, 5),
    "htru2": (0, 8),
    "skin": (0, 3),
    "smart_grid_augmented": (0, 13),
    "letter": (0, 16),
}


def entries():
    if not FOLDER.is_dir():
        return {}
    raw = json.loads((FOLDER / "MANIFEST.json").read_text())
    return {entry["name"]: entry for entry in raw["datasets"]}


@pytest.mark.parametrize("name", TABLE_1)
def test_table_1_of_the_crc_paper(name):
    kinds = [f.kind for f in encode(load(name)).schema.features]
    assert (kinds.count("categorical"), kinds.count("numeric")) == TABLE_1[name]


def test_the_constant_veil_type_is_dropped():
    assert encode(load("mushroom_secondary")).dropped[0][0] == "veil-type"


@pytest.mark.parametrize("name", [n for n, e in entries().items() if e["kind"] == "tabular"])
def test_tables_are_as_their_manifest_tells(name):
    entry = entries()[name]
    table = load(name)
    out = encode(table, typing="manifest")
    counts = dict(zip(out.schema.classes, np.bincount(out.y).tolist(), strict=True))
    assert counts == entry["class_counts"]
    assert len(table.frame.columns) == next(
        row["features"] for row in available() if row["name"] == name
    )
    told = {f.name for f in out.schema.features if f.kind == "categorical"}
    assert told == set(entry["categorical"]) - {column for column, _ in out.dropped}
    if "split_counts" in entry:
        values, counts = np.unique(table.split, return_counts=True)
        found = dict(zip(values.tolist(), counts.tolist(), strict=True))
        assert found == entry["split_counts"]


@pytest.mark.long("cifar10", "svhn_derived_20k")
@pytest.mark.parametrize("name", [n for n, e in entries().items() if e["kind"] == "image"])
def test_images_are_as_their_manifest_tells(name):
    entry = entries()[name]
    table = load(name)
    assert table.frame.shape == (entry["rows"], *entry["shape"])
    assert table.frame.dtype == np.uint8
    for part in ("train", "test"):
        rows = table.split == part
        counts = np.unique(table.labels[rows].astype(str), return_counts=True)[1]
        assert counts.tolist() == entry["class_counts_by_split"][part]
        for told, sha256 in entry.get("pixels_sha256", {}).items():
            if told.startswith(part):
                assert hashlib.sha256(table.frame[rows].tobytes()).hexdigest() == sha256


@pytest.mark.parametrize("name", [n for n, e in entries().items() if e["kind"] == "features"])
def test_embedded_features_are_numbers(name):
    out = encode(load(name))
    assert out.x.dtype == np.float32
    assert np.isfinite(out.x).all()
    assert {f.kind for f in out.schema.features} == {"numeric"}
    assert len(out.schema.features) + len(out.dropped) == 512


def test_accelerometer_has_two_targets_of_which_neither_is_a_feature():
    for target, classes in {"wconfid": 3, "pctid": 17}.items():
        table = load("accelerometer", target=target)
        assert list(table.frame.columns) == ["x", "y", "z"]
        assert len(set(table.labels)) == classes


def test_question_marks_are_categories_or_missing():
    table = load("congressional_voting")
    assert encode(table).schema.cardinalities == (3,) * 16
    out = encode(table, missing="missing")
    assert out.schema.cardinalities == (2,) * 16
    assert np.isnan(out.x).sum() == 392


def test_the_largest_table_is_encoded_fast():
    table = load("heart_2020")
    start = time.thread_time()  # of this thread alone: others may keep the machine busy
    encode(table)
    assert time.thread_time() - start < 2
