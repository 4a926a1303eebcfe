"""One reader: what a cell means depends neither on the kind of file nor on test rows."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from peerwise.data import (
    Feature,
    Schema,
    Table,
    encode,
    encode_rows,
    load,
    read_rows,
    standardise,
    typed_frame,
)
from peerwise.errors import BadData, BadFile, BadSetting, UnknownName

ODD = ["01", " Private", "true", "1.0", "9007199254740993", "None", "NA", "nan", "-", "x,y", '"q"']


def saved(frame, path):
    """The frame as a CSV file, and as a Parquet file beside it."""
    frame.to_csv(path, index=False)
    frame.to_parquet(path.with_suffix(".parquet"), index=False)
    return path, path.with_suffix(".parquet")


def toy(columns, labels=None):
    frame = pd.DataFrame(columns)
    labels = np.array(labels or (["a", "b"] * len(frame))[: len(frame)], dtype=object)
    return Table("toy", frame, labels, "y")


def by_manifest(columns):
    out = encode(toy(columns), typing="manifest")
    return out.schema.features[0], out.x[:, 0]


# --- texts stay what they are


def test_odd_categories_come_back_from_every_file(tmp_path):
    frame = pd.DataFrame({"c": ODD * 2, "y": ["None", "NA"] * len(ODD)})
    learnt = encode(Table("toy", frame[["c"]], frame["y"].to_numpy(object), "y"))
    assert set(learnt.schema.features[0].categories) == set(ODD)
    for path in saved(frame, tmp_path / "t.csv"):
        table = load(path, target="y")
        assert table.labels.tolist() == frame["y"].tolist()
        again = encode(table, schema=learnt.schema)
        np.testing.assert_array_equal(again.x, learnt.x)
        np.testing.assert_array_equal(again.y, learnt.y)
        assert not again.unknown


def test_codes_with_zeros_are_categories_and_one_more_code_changes_none(tmp_path):
    (tmp_path / "t.csv").write_text("c,y\n01,a\n02,b\n10,a\n")
    table = load(tmp_path / "t.csv", target="y")
    assert encode(table).schema.features[0].categories == ("01", "02", "10")
    schema = Schema((Feature("c", "categorical", ("01", "02", "A1")),), ("a", "b"), "y", True)
    x, unknown = read_rows(table.frame, schema)
    np.testing.assert_array_equal(x[:, 0], [0, 1, np.nan])
    assert unknown == (("c", 1, "10", 2),)
    assert str(unknown[0]) == "column 'c' holds '10' in row 2 (counted from 0)"


def test_whole_numbers_that_became_floats_are_the_same_categories():
    schema = Schema((Feature("c", "categorical", ("1", "2", "x")),), ("a", "b"))
    for column in (["1.0", "2.0"], [1.0, 2.0], [1, 2], ["1", "2"]):
        assert encode_rows(pd.DataFrame({"c": column}), schema)[:, 0].tolist() == [0, 1]
    floats = Schema((Feature("c", "categorical", ("1.0", "2.0")),), ("a", "b"))
    assert encode_rows(pd.DataFrame({"c": [2.0, 1.0]}), floats)[:, 0].tolist() == [1, 0]
    with pytest.raises(BadData, match="holds '01' in row 0"):
        encode_rows(pd.DataFrame({"c": ["01"]}), schema)


def test_only_words_that_are_said_mean_missing():
    schema = Schema((Feature("n", "numeric"), Feature("c", "categorical", ("NA", "b"))), ("u", "v"),
                    missing=True)  # fmt: skip
    frame = pd.DataFrame({"n": ["1", "NA"], "c": ["NA", "-"]})
    with pytest.raises(BadData, match="'n' should be numeric and holds 'NA', first in row 1"):
        read_rows(frame, schema)
    x, unknown = read_rows(frame, schema, ["NA", "-"])
    np.testing.assert_array_equal(x, [[1, 0], [np.nan, np.nan]])
    assert not unknown


def test_spaces_belong_to_texts_unless_the_header_has_them_too(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a, c, y\n1, Private, u\n2, b, v\n")
    assert load(path, target="y").frame["c"].tolist() == ["Private", "b"]
    path.write_text("a,c,y\n1, Private,u\n 2,b,v\n")
    table = load(path, target="y")
    assert table.frame["c"].tolist() == [" Private", "b"]
    assert encode(table, typing="manifest").x[:, 0].tolist() == [1, 2]


# --- numbers


def test_no_number_is_a_gap_among_categories_that_are_numbers():
    out = encode(toy({"c": ["1", "nan", "2", "inf"]}))
    assert out.schema.features[0].categories == ("1", "2", "(missing)")
    assert out.x[:, 0].tolist() == [0, 2, 1, 2]
    assert not out.unknown
    assert encode(toy({"c": ["a", "nan"]})).schema.features[0].categories == ("a", "nan")


@pytest.mark.parametrize(
    ("column", "numbers"),
    [
        (["1,5", "-2", "0,25"], [1.5, -2, 0.25]),
        (["1.5", " 2 ", "?"], [1.5, 2, np.nan]),
        (["1e3", "nan", "2"], [1000, np.nan, 2]),
        ([Decimal("1.5"), Decimal(2), None], [1.5, 2, np.nan]),
        ([1.5, 2, None], [1.5, 2, np.nan]),
    ],
)
def test_numbers_are_numbers_however_they_are_written(column, numbers, tmp_path):
    feature, x = by_manifest({"n": pd.Series(column, dtype=object)})
    assert feature == Feature("n", "numeric")
    np.testing.assert_array_equal(x, numbers)
    frame = pd.DataFrame({"n": pd.Series(column, dtype=object), "y": ["a", "b", "a"]})
    frame.to_csv(tmp_path / "t.csv", sep=";", index=False)
    again = encode(load(tmp_path / "t.csv", target="y"), typing="manifest")
    np.testing.assert_array_equal(again.x[:, 0], numbers)
    given = typed_frame(toy({"n": frame["n"]}), np.arange(3))["n"]
    np.testing.assert_array_equal(given, numbers)


def test_decimals_of_parquet(tmp_path):
    cells = pa.array([Decimal("1.50"), None, Decimal("2.25")], pa.decimal128(9, 2))
    pq.write_table(pa.table({"n": cells, "y": ["a", "b", "a"]}), tmp_path / "t.parquet")
    out = encode(load(tmp_path / "t.parquet", target="y"), typing="manifest")
    np.testing.assert_array_equal(out.x[:, 0], [1.5, np.nan, 2.25])


def test_a_comma_that_may_separate_thousands_is_asked_about():
    columns = {"n": ["1,234", "20", "3,456"]}
    with pytest.raises(BadData, match=r"'1,234', which may be thousands or a decimal comma"):
        encode(toy(columns))
    out = encode(toy(columns), typing="manifest", columns={"n": "number"})
    assert out.x[:, 0].tolist() == [1.234, 20, 3.456]
    assert encode(toy(columns), columns={"n": "category"}).schema.cardinalities == (3,)


def test_numbers_with_words_between_them_are_refused_with_a_way_out():
    column = [*map(str, range(20)), "unknown"]
    labels = (["a", "b"] * 11)[:21]
    told = r"'n o' holds numbers and \"unknown\" in 1 rows, first in row 20 .*missing_words = "
    for typing in ("distinct", "manifest"):
        with pytest.raises(BadData, match=told + r'\["unknown"\].*"n o" = "category" or "drop"'):
            encode(toy({"n o": column}, labels), typing=typing)
    table = toy({"n": column}, labels)
    out = encode(table, words=["unknown"])
    np.testing.assert_array_equal(out.x[:, 0], [*range(20), np.nan])
    assert encode(table, columns={"n": "category"}).schema.cardinalities == (21,)
    # a few numbers make categories anyway, and codes that only sometimes are digits are names
    assert encode(toy({"c": ["1", "2", "x", "1"]})).schema.cardinalities == (3,)
    names = [f"A{i}" for i in range(15)] + ["1", "2", "3"]
    assert encode(toy({"c": names})).schema.features[0].categories[0] == "1"


def test_long_whole_numbers_are_told_apart():
    ids = [2**53, 2**53 + 1, 2**53 + 2]
    for column in (ids, [str(i) for i in ids]):
        assert encode(toy({"c": column})).schema.features[0].categories == tuple(map(str, ids))


def test_dates_are_texts_in_every_reader():
    days = ["2020-01-02", "2020-01-01", "2021-05-05"]
    for column in (days, pd.to_datetime(days)):
        feature, _ = by_manifest({"d": column})
        assert feature.categories == tuple(sorted(days))
    stamp, _ = by_manifest({"d": pd.to_datetime(["2020-01-01 10:30", "2020-01-01 11:00"])})
    assert stamp.categories == ("2020-01-01 10:30:00", "2020-01-01 11:00:00")


# --- what a user says of single columns


def test_columns_are_what_a_user_says():
    table = toy({"zip": [1, 2, 3, 4], "grade": ["1", "2", "3", "3"], "note": list("abcd")})
    kinds = {"zip": "category", "grade": "number", "note": "drop"}
    for typing in ("distinct", "manifest"):
        out = encode(table, typing=typing, columns=kinds)
        assert out.schema.cardinalities == (4, 0)
        assert out.dropped == (("note", "left out on request"),)
    with pytest.raises(UnknownName, match="did you mean 'zip'"):
        encode(table, columns={"zipp": "drop"})
    with pytest.raises(BadSetting, match=r"zip must be one of number, category, drop, got 'text'"):
        encode(table, columns={"zip": "text"})


def test_how_many_values_make_a_category_is_an_option():
    table = toy({"n": [1, 2, 3, 4]})
    assert encode(table, distinct=4).schema.cardinalities == (4,)
    assert encode(table, distinct=3).schema.cardinalities == (0,)


def test_a_tiny_scale_is_no_constant():
    x = np.array([[1e-200], [2e-200], [4e-200]])
    z, schema = standardise(x, Schema((Feature("n", "numeric"),), ("a", "b")))
    np.testing.assert_allclose([z.mean(), z.std()], [0, 1], atol=1e-12)
    assert 1e-200 < schema.features[0].scale < 2e-200


# --- the target


def test_a_label_that_the_header_has_twice_is_refused(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,y,y\n1,u,u\n2,v,v\n")
    with pytest.raises(BadData, match="two columns called 'y', the target"):
        load(path, target="y")
    path.write_text("a,a,a.1,y\n1,2,3,u\n4,5,6,v\n")
    table = load(path, target="y")
    assert list(table.frame.columns) == ["a", "a.2", "a.1"]
    assert table.twice == ("a",)


def test_a_quantity_or_an_identifier_is_no_target():
    rows = np.arange(200)
    with pytest.raises(BadData, match=r"200 different numbers .* quantity \(regression\)"):
        encode(toy({"n": rows}, (rows / 7).tolist()))
    with pytest.raises(BadData, match=r"200 different values in 200 rows: .* an identifier"):
        encode(toy({"n": rows}, [f"id{i}" for i in rows]))
    assert len(encode(toy({"n": rows}, (rows // 3).tolist())).schema.classes) == 67


# --- rows that are not learnt from


def test_a_schema_is_learnt_from_the_rows_that_are_named():
    frame = {
        "c": ["u", "v", "u", "v", "w"],
        "k": ["p", "p", "p", "p", "q"],
        "n": ["1", "2", "3", "1", "4"],
    }
    table = toy(frame, ["a", "b", "a", "b", "z"])
    few = np.array([0, 1, 2, 3])
    out = encode(table, rows=few)
    alone = encode(toy({k: v[:4] for k, v in frame.items()}, ["a", "b", "a", "b"]))
    assert out.schema == alone.schema
    assert out.dropped == (("k", "constant: every value is p"),)
    np.testing.assert_array_equal(out.x[:4], alone.x)
    assert np.isnan(out.x[4]).all()
    assert out.y.tolist() == [0, 1, 0, 1, 2]
    assert [(u.column, u.text) for u in out.unknown] == [("c", "w"), ("n", "4")]


def test_a_word_that_only_other_rows_have_is_an_error_and_changes_no_kind():
    table = toy({"n": [*map(str, range(20)), "x"]}, (["a", "b"] * 11)[:21])
    with pytest.raises(BadData, match="'n' should be numeric and holds 'x', first in row 20"):
        encode(table, rows=np.arange(20))


def test_an_empty_file_is_called_empty(tmp_path):
    (tmp_path / "rows.csv").touch()
    with pytest.raises(
        BadFile, match=r"rows\.csv' is empty; give a file with a line of column names"
    ):
        load(tmp_path / "rows.csv", target="y")
