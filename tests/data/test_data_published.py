"""Files that are known by their published names, as small files of the same shape."""

import json

import numpy as np
import pandas as pd
import pytest

from peerwise import learner
from peerwise.data import available, load
from peerwise.errors import BadFile, UnknownName
from peerwise.papers.crc import items as crc
from peerwise.papers.crc.report import counts

ROWS = 240
RNG = np.random.default_rng(0)


def words(n):
    return [f"w{i % n}" for i in range(ROWS)]


def numbers(low=0, high=90):
    return RNG.integers(low, high, ROWS)


def bank():
    """UCI's bank-full.csv: semicolons, quoted words."""
    names = {"job": 12, "marital": 3, "education": 4, "default": 2, "housing": 2, "loan": 2,
             "contact": 3, "month": 12, "poutcome": 4}  # fmt: skip
    order = "age job marital education default balance housing loan contact day month duration"
    return pd.DataFrame({
        c: words(names[c]) if c in names else numbers()
        for c in [*order.split(), "campaign", "pdays", "previous", "poutcome"]
    } | {"y": np.where(RNG.random(ROWS) < 0.5, "yes", "no")})  # fmt: skip


def run():
    axes = [f"{kind}_{axis}" for kind in ("acceleration", "gyro") for axis in "xyz"]
    first = {"date": "2017-6-30", "time": words(50), "username": "viktor", "wrist": numbers(0, 2)}
    return pd.DataFrame(
        first | {"activity": numbers(0, 2)} | {a: RNG.normal(size=ROWS) for a in axes}
    )


def smoking():
    names = ["height(cm)", "weight(kg)", "waist(cm)", "eyesight(left)", "eyesight(right)"]
    blood = ["systolic", "relaxation", "fasting blood sugar", "Cholesterol", "triglyceride", "HDL"]
    rest = ["LDL", "hemoglobin", "serum creatinine", "AST", "ALT", "Gtp"]
    return pd.DataFrame(
        {"ID": np.arange(ROWS), "gender": words(2), "age": 20 + 5 * numbers(0, 14)}
        | {c: numbers() for c in [*names, *blood, *rest]}
        | {"hearing(left)": numbers(1, 3), "hearing(right)": numbers(1, 3)}
        | {"Urine protein": numbers(1, 7), "oral": "Y", "dental caries": numbers(0, 2)}
        | {"tartar": words(2), "smoking": numbers(0, 2)}
    )


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A data folder without a manifest."""
    bank().to_csv(tmp_path / "bank-full.csv", sep=";", index=False, quoting=2)
    run().to_csv(tmp_path / "run_or_walk.csv", index=False)
    (tmp_path / "smoking").mkdir()
    smoking().to_parquet(tmp_path / "smoking" / "smoking.parquet")
    for name in ("cats_vs_dogs_features", "yearbook_features"):
        x = RNG.normal(size=(ROWS, 512)).astype(np.float32)
        np.savez(tmp_path / f"{name}.npz", x=x, y=np.arange(ROWS) % 2)
    monkeypatch.setenv("PEERWISE_DATA", str(tmp_path))
    return tmp_path


ABSENT = ["bank", "run", "smoking", "catsvsdogs", "yearbook"]


def test_they_are_listed_with_their_rows(folder):
    rows = {row["name"]: row["rows"] for row in available() if row["source"] == "folder"}
    assert rows == {d.data: ROWS for d in crc.datasets(ABSENT)}
    assert all(d.present for d in crc.datasets(ABSENT))


@pytest.mark.parametrize("name", ABSENT)
def test_their_features_are_those_of_the_papers_first_table(folder, name):
    (dataset,) = crc.datasets([name])
    (told,) = [s for s in crc.SETS if s.name == name]
    rows, *rest = counts(dataset.data, [])["counts"]
    assert rows == ROWS
    assert rest == [told.features, told.discrete, told.continuous, told.classes]


@pytest.mark.parametrize("name", ["bank_marketing", "yearbook_features"])
def test_they_are_learnt_from(folder, name):
    small = {"nodes": 3, "rows": 20, "test_rows": 50}
    done = learner.run(
        learner.cell({"data": name, "split": small, "run": {"rounds": 2, "repetitions": 1}})
    )
    assert done.values["test_error"].shape == (1, 1, 3)


def test_an_entry_of_the_manifest_comes_first(folder):
    entry = {"name": "smoking", "kind": "tabular", "file": "other.csv", "target": "smoking"}
    smoking()[["age", "Gtp", "smoking"]].to_csv(folder / "other.csv", index=False)
    (folder / "MANIFEST.json").write_text(json.dumps({"datasets": [entry]}))
    assert list(load("smoking").frame) == ["age", "Gtp"]
    assert load("bank_marketing").target == "y"


def test_what_is_wrong_with_a_file_is_said_when_it_is_read(folder):
    (folder / "smoking" / "smoking.parquet").write_bytes(b"PAR1")
    run().drop(columns="activity").to_csv(folder / "run_or_walk.csv", index=False)
    assert {r["rows"] for r in available() if r["name"] == "smoking"} == {None}
    with pytest.raises(BadFile, match=r"smoking\.parquet"):
        load("smoking")
    with pytest.raises(UnknownName, match=r"target column of 'run_or_walk'.*activity"):
        load("run_or_walk")
