"""Every source and format: tables, images, embedded features, files, bundled sets, OpenML."""

import gzip
import json
from pathlib import Path
from types import SimpleNamespace
from urllib.error import URLError

import numpy as np
import pandas as pd
import pytest
import sklearn.datasets
from PIL import Image

import peerwise.data
from peerwise.data import Feature, Schema, available, encode, load, read_rows
from peerwise.errors import BadFile, BadSetting, UnknownName

FRAME = pd.DataFrame(
    {
        "id": [1, 2, 3, 4],
        "age": [30, 40, 50, 60],
        "job": ["a", None, "b", "a"],
        "part": ["train", "train", "test", "test"],
        "ill": ["y", "n", "y", None],
        "grade": [1, 2, 1, 2],
    }
)

NUMBER = Schema((Feature("n", "numeric"),), ("u", "v"), "y", missing=True)


@pytest.fixture(autouse=True)
def no_folder(monkeypatch):
    monkeypatch.delenv("PEERWISE_DATA", raising=False)


def listed(folder, **entry):
    """A folder with one more set in its manifest, loaded by name."""
    (folder / "MANIFEST.json").write_text(json.dumps({"datasets": [{"name": "more"} | entry]}))
    return load("more", folder=folder)


# --- tables of a folder


def save(frame, path):
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path)


@pytest.mark.parametrize("file", ["more.parquet", "more.csv"])
def test_a_table_added_to_a_manifest_works_without_code(tmp_path, file):
    save(FRAME, tmp_path / file)
    entry = {
        "kind": "tabular",
        "file": file,
        "target": "ill",
        "split_column": "part",
        "non_feature_columns": ["id"],
        "not_features": ["grade"],
        "categorical": ["job"],
    }
    table = listed(tmp_path, **entry)
    assert list(table.frame.columns) == ["age", "job"]
    assert table.labels.tolist() == ["y", "n", "y", None]
    assert table.split.tolist() == ["train", "train", "test", "test"]
    assert (table.target, table.categorical, table.note) == ("ill", ("job",), "")
    # another target: even one that is no feature, and then the first target is none either
    other = load("more", folder=tmp_path, target="grade")
    assert list(other.frame.columns) == ["age", "job"]
    assert encode(other).schema.classes == ("1", "2")
    with pytest.raises(UnknownName, match="target column of 'more' 'grad'; did you mean 'grade'"):
        load("more", folder=tmp_path, target="grad")


def test_only_the_needed_columns_are_read(tmp_path, monkeypatch):
    FRAME.to_parquet(tmp_path / "t.parquet")
    read, asked = pd.read_parquet, []
    monkeypatch.setattr(
        pd,
        "read_parquet",
        lambda path, *how, columns, **more: (
            asked.append(columns) or read(path, *how, columns=columns, **more)
        ),
    )
    listed(tmp_path, kind="tabular", file="t.parquet", target="ill", not_features=["id", "part"])
    assert asked == [["age", "job", "grade", "ill"]]


# --- files by path


def test_a_file_by_path(tmp_path):
    for name in ("Some Data.csv", "t.PARQUET"):
        path = tmp_path / name
        FRAME.to_csv(path, index=False) if name.endswith("csv") else FRAME.to_parquet(path)
        table = load(path, target="ill")
        assert table.name == path.stem
        assert list(table.frame.columns) == ["id", "age", "job", "part", "grade"]
        assert table.labels.tolist() == ["y", "n", "y", None]
        assert table.split is None
        assert table.categorical is None
        assert load(str(path), target="grade").labels.tolist() == ["1", "2", "1", "2"]
        with pytest.raises(UnknownName, match="'agee'; did you mean 'age'"):
            load(path, target="agee")
        with pytest.raises(
            BadSetting, match=r"needs `target` .*, one of its columns: id, age, job"
        ):
            load(path)


def test_the_index_of_a_parquet_file_is_no_feature(tmp_path):
    FRAME.set_index("id").iloc[::2].to_parquet(tmp_path / "t.parquet")
    assert "id" not in load(tmp_path / "t.parquet", target="ill").frame.columns


def test_csv_separators_blanks_and_unknown_numbers(tmp_path):
    path = tmp_path / "t.csv"
    for sep in (",", ";", "\t"):
        path.write_text(
            sep.join(["n", "c", "y"]) + "\n" + sep.join(["1", " a", "u"]) + "\n"
            + sep.join(["?", "?", "v"]) + "\n" + sep.join(["", " b", "v"]) + "\n",
            encoding="utf-8-sig",
        )  # fmt: skip
        table = load(path, target="y")
        assert table.frame["c"].tolist() == [" a", "?", " b"]
        assert read_rows(table.frame, NUMBER, ["?"])[0].tolist()[0] == [1]
        assert np.isnan(read_rows(table.frame, NUMBER, ["?"])[0][1:]).all()


@pytest.mark.parametrize(
    "damaged",
    [
        b"\xff\xfe\x00\xd8",
        b"a,y\n1,2\n1,2,3,4\n",  # a row longer than the header must not shift the columns
        b"a,y\n1,2,3\n4,5,6\n",
        b'a,y\n"1,2\n',
    ],
)
def test_a_damaged_csv(tmp_path, damaged):
    (tmp_path / "t.csv").write_bytes(damaged)
    with pytest.raises(BadFile, match=r"cannot read .*t.csv|t.csv' is not text in UTF-8"):
        load(tmp_path / "t.csv", target="y")


def test_files_that_are_not_there_or_of_another_kind(tmp_path):
    with pytest.raises(BadFile, match=r"there is no file .*gone.csv"):
        load(tmp_path / "gone.csv", target="y")
    (tmp_path / "t.xlsx").write_bytes(b"x")
    with pytest.raises(BadFile, match=r"not a file of type .csv or .parquet"):
        load(tmp_path / "t.xlsx", target="y")
    FRAME.to_parquet(tmp_path / "t.parquet")
    whole = (tmp_path / "t.parquet").read_bytes()
    (tmp_path / "t.parquet").write_bytes(whole[:100])
    with pytest.raises(BadFile, match=r"cannot read .*t.parquet"):
        load(tmp_path / "t.parquet", target="ill")


def test_a_file_without_rows(tmp_path):
    (tmp_path / "t.csv").write_text("a,y\n")
    assert len(load(tmp_path / "t.csv", target="y").labels) == 0


# --- images and embedded features of a folder

PIXELS = np.random.default_rng(0).integers(0, 256, (230, 4, 6, 3)).astype(np.uint8)
DIGITS = (np.arange(230) % 3).astype(np.uint8)


def idx(array):
    sizes = b"".join(n.to_bytes(4, "big") for n in array.shape)
    return gzip.compress(bytes([0, 0, 8, array.ndim]) + sizes + array.tobytes())


def write_idx(folder):
    parts = {"train": slice(0, 200), "t10k": slice(200, 230)}
    files = []
    for part, rows in parts.items():
        for kind, array in (("images-idx3", PIXELS[rows, :, :, 0]), ("labels-idx1", DIGITS[rows])):
            files.append({"file": f"{part}-{kind}-ubyte.gz"})
            (folder / files[-1]["file"]).write_bytes(idx(array))
    return files[::-1]


def sheet(tiles):
    rows = -(-len(tiles) // 100)
    full = np.zeros((rows * 100, 4, 6, 3), np.uint8)
    full[: len(tiles)] = tiles
    return full.reshape(rows, 100, 4, 6, 3).swapaxes(1, 2).reshape(rows * 4, 600, 3)


def write_sheets(folder):
    parts = {"train_10": slice(100, 200), "train_2": slice(0, 100), "test": slice(200, 230)}
    for part, rows in parts.items():
        Image.fromarray(sheet(PIXELS[rows])).save(folder / f"{part}.webp", lossless=True)
    np.savez(folder / "labels.npz", train=DIGITS[:200], test=DIGITS[200:])
    return [{"file": f"{part}.webp"} for part in parts] + [{"file": "labels.npz"}]


def test_idx_files_train_first(tmp_path):
    table = listed(tmp_path, kind="image", files=write_idx(tmp_path))
    np.testing.assert_array_equal(table.frame, PIXELS[..., 0])
    assert table.labels.tolist() == [str(n) for n in DIGITS]
    assert table.split.tolist() == ["train"] * 200 + ["test"] * 30
    assert table.target == "label"
    with pytest.raises(UnknownName, match="target column of 'more' 'digit'"):
        load("more", folder=tmp_path, target="digit")


def test_sheets_in_the_order_of_their_numbers(tmp_path):
    limit = Image.MAX_IMAGE_PIXELS
    names = {"class_names": ["ant", "bee", "cat"]}
    table = listed(tmp_path, kind="image", files=write_sheets(tmp_path), shape=[4, 6, 3], **names)
    np.testing.assert_array_equal(table.frame, PIXELS)
    assert table.labels[:4].tolist() == ["ant", "bee", "cat", "ant"]
    assert (table.split == "test").sum() == 30
    assert limit == Image.MAX_IMAGE_PIXELS


def test_a_sheet_beyond_the_usual_pixel_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)
    files = write_sheets(tmp_path)
    assert len(listed(tmp_path, kind="image", files=files, shape=[4, 6, 3]).labels) == 230
    assert Image.MAX_IMAGE_PIXELS == 10


def test_quantised_and_plain_features(tmp_path):
    x = np.array([[0, 255], [255, 51]], np.uint8)
    low, high = np.float32([-1, 0]), np.float32([1, 10])
    np.savez(tmp_path / "q.npz", x=x, y=np.int16([3, 4]), low=low, high=high)
    table = listed(tmp_path, kind="features", file="q.npz", notes="Not the paper's.")
    assert table.frame.dtype == np.float32
    np.testing.assert_allclose(table.frame, [[-1, 10], [1, 2]], rtol=1e-6)
    assert table.labels.tolist() == ["3", "4"]
    assert table.note == "Not the paper's."
    assert [f.kind for f in encode(table).schema.features] == ["numeric", "numeric"]
    np.savez(tmp_path / "p.npz", x=np.eye(2), y=np.array(["u", "v"]))
    plain = listed(tmp_path, kind="features", file="p.npz")
    np.testing.assert_array_equal(plain.frame, np.eye(2))
    assert plain.labels.tolist() == ["u", "v"]


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("train-images-idx3-ubyte.gz", idx(PIXELS[:200, :, :, 0])[:-200]),
        ("train-images-idx3-ubyte.gz", b"not gzip"),
        ("train-images-idx3-ubyte.gz", gzip.compress(b"\0\0\x0d\1")),
        ("train-images-idx3-ubyte.gz", gzip.compress(b"\0\0\x08\1\0\0\0\x09abc")),
        ("train-images-idx3-ubyte.gz", gzip.compress(b"")),
        ("train-labels-idx1-ubyte.gz", idx(DIGITS[:199])),
    ],
    ids=["cut off", "not gzip", "not bytes", "too short", "empty", "a label too few"],
)
def test_damaged_idx_files(tmp_path, file, content):
    files = write_idx(tmp_path)
    (tmp_path / file).write_bytes(content)
    with pytest.raises(BadFile, match=f"{file}|200 images and 199 labels in train"):
        listed(tmp_path, kind="image", files=files)


def test_incomplete_image_sets(tmp_path):
    files = write_idx(tmp_path)
    with pytest.raises(BadFile, match="one file of images and one of labels"):
        listed(tmp_path, kind="image", files=files[:3])
    assert len(listed(tmp_path, kind="image", files=files[:2]).labels) == 30
    sheets = write_sheets(tmp_path)
    with pytest.raises(BadFile, match=r"one labels.npz"):
        listed(tmp_path, kind="image", files=sheets[:-1], shape=[4, 6, 3])
    with pytest.raises(BadFile, match="100 images and 200 labels in train"):
        listed(tmp_path, kind="image", files=sheets[1:], shape=[4, 6, 3])
    with pytest.raises(BadFile, match="0 images and 200 labels in train"):
        listed(tmp_path, kind="image", files=sheets[2:], shape=[4, 6, 3])
    with pytest.raises(BadFile, match=r"cannot read .*webp"):
        listed(tmp_path, kind="image", files=sheets, shape=[5, 7, 3])
    with pytest.raises(BadFile, match="the shape of 'more' must be"):
        listed(tmp_path, kind="image", files=sheets, shape=[4, 6, 4])
    with pytest.raises(BadFile, match="labels beyond its 2 class names"):
        listed(tmp_path, kind="image", files=sheets, shape=[4, 6, 3], class_names=["a", "b"])
    (tmp_path / "rest.webp").write_bytes((tmp_path / "test.webp").read_bytes())
    rest = [*sheets, {"file": "rest.webp"}]
    with pytest.raises(BadFile, match=r"rest.webp' must have train, test or t10k in its name"):
        listed(tmp_path, kind="image", files=rest, shape=[4, 6, 3])
    whole = (tmp_path / "test.webp").read_bytes()
    (tmp_path / "test.webp").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(BadFile, match=r"cannot read .*test.webp"):
        listed(tmp_path, kind="image", files=sheets, shape=[4, 6, 3])
    np.savez(tmp_path / "labels.npz", all=DIGITS)
    with pytest.raises(BadFile, match="must be called train or test"):
        listed(tmp_path, kind="image", files=sheets, shape=[4, 6, 3])


def test_damaged_features(tmp_path):
    path = tmp_path / "f.npz"
    np.savez(path, x=np.eye(3), y=np.arange(2))
    with pytest.raises(BadFile, match=r"x of shape \(3, 3\) and y of shape \(2,\)"):
        listed(tmp_path, kind="features", file="f.npz")
    np.savez(path, x=np.eye(3), y=np.arange(3), low=np.zeros(3))
    with pytest.raises(BadFile, match="must be one file with x, y and, if quantised, low and high"):
        listed(tmp_path, kind="features", file="f.npz")
    np.savez(path, x=np.eye(3), y=np.arange(3), low=np.zeros(2), high=np.ones(3))
    with pytest.raises(BadFile, match="must have one value for each feature"):
        listed(tmp_path, kind="features", file="f.npz")
    np.savez(path, x=np.eye(3))
    with pytest.raises(BadFile, match="must be one file with x, y"):
        listed(tmp_path, kind="features", file="f.npz")
    np.savez(path, x=np.array([{}, {}], dtype=object), y=np.arange(2))  # pickles are not run
    with pytest.raises(BadFile, match=r"cannot read .*f.npz"):
        listed(tmp_path, kind="features", file="f.npz")
    whole = path.read_bytes()
    for damaged in (whole[:50], b"", b"rubbish"):
        path.write_bytes(damaged)
        with pytest.raises(BadFile, match=r"cannot read .*f.npz"):
            listed(tmp_path, kind="features", file="f.npz")
    np.save(tmp_path / "plain.npy", np.eye(2))
    (tmp_path / "plain.npy").rename(path)
    with pytest.raises(BadFile, match=r"cannot read .*f.npz"):
        listed(tmp_path, kind="features", file="f.npz")


# --- bundled sets and OpenML


@pytest.mark.parametrize("name", ["digits", "breast_cancer", "wine", "iris"])
def test_bundled_sets_are_as_listed(name):
    row = next(row for row in available() if row["name"] == name)
    assert row["source"] == "bundled"
    table = load(name)
    assert len(table.labels) == row["rows"]
    assert np.prod(table.frame.shape[1:]) == row["features"]
    assert len(set(table.labels)) == row["classes"]
    assert all(isinstance(label, str) for label in table.labels)
    assert table.note == row["note"]
    encode(table, typing="manifest", missing="error")


def test_digits_are_images_between_0_and_1():
    table = load("digits")
    assert table.frame.shape == (1797, 8, 8)
    assert (table.frame.min(), table.frame.max()) == (0, 1)
    assert encode(table).schema.classes == tuple("0123456789")


def test_openml_by_name_and_number(monkeypatch):
    asked = []

    def fetch(**options):
        asked.append(options)
        details = {"id": "61", "version": "1", "default_target_attribute": "ill"}
        return SimpleNamespace(frame=FRAME.copy(), details=details)

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch)
    table = load("openml:clinic")
    assert table.labels.tolist() == ["y", "n", "y", None]
    assert "ill" not in table.frame.columns
    assert "OpenML 61, version 1" in table.note
    assert load("openml:61", target="grade").target == "grade"
    assert asked[0]["name"] == "clinic"
    assert asked[1]["data_id"] == 61
    with pytest.raises(UnknownName, match="did you mean 'grade'"):
        load("openml:61", target="grades")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (URLError("no route"), "needs a connection, or download the file and give its path"),
        (ValueError("No active dataset x found"), "OpenML has no table 'x'"),
    ],
)
def test_openml_offline_or_unknown(monkeypatch, error, told):
    def fetch(**options):
        raise error

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch)
    with pytest.raises(BadFile, match=told):
        load("openml:x")


def test_openml_without_a_target(monkeypatch):
    bunch = SimpleNamespace(frame=FRAME, details={})
    monkeypatch.setattr(sklearn.datasets, "fetch_openml", lambda **options: bunch)
    with pytest.raises(BadSetting, match=r"names no target for .*; give `target`"):
        load("openml:x")


def test_reading_data_needs_no_jax():
    for path in Path(peerwise.data.__file__).parent.glob("*.py"):
        assert "import jax" not in path.read_text()
        assert "from jax" not in path.read_text()
