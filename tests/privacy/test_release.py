"""Private statistics: clipped, paid for, noised everywhere."""

import jax
import numpy as np
import pandas as pd
import pytest
from scipy import stats

from peerwise.data.each_row import numbers_of, read_each
from peerwise.data.loaders import Table
from peerwise.data.schema import Feature, Schema
from peerwise.errors import BadData, BadSetting, UnknownName
from peerwise.models.algebra import Statistics
from peerwise.privacy import (
    Ledger,
    Overspent,
    Tape,
    gaussian_sigma,
    private_bounds,
    private_statistics,
    public_schema,
    vetted,
)
from peerwise.privacy.sums import exact_sums

COLUMNS = {"age": (0.0, 100.0), "sex": ("f", "m"), "dose": (-1.0, 3.0)}
SCHEMA = public_schema(COLUMNS, ("no", "yes", "unsure"))
AGE = Schema((Feature("age", "numeric"),), ("a", "b"), "y")


def rows(m=40, seed=0):
    rng = np.random.default_rng(seed)
    x = np.stack([rng.uniform(-1, 1, m), rng.integers(0, 2, m), rng.uniform(-1, 1, m)], 1)
    return x, rng.integers(0, 2, m)  # nobody is unsure


def released(x, y, noise=None, **options):
    noise = Tape([np.zeros((3, 7))]) if noise is None else noise
    given = {"epsilon": 1.2, "bounds": COLUMNS, "noise": noise} | options
    return private_statistics(x, y, given.pop("schema", SCHEMA), **given)


def test_a_public_schema_has_sensitivity_one():
    assert [(f.center, f.scale) for f in SCHEMA.features] == [(50, 50), (0, 1), (1, 2)]
    assert SCHEMA.cardinalities == (0, 2, 0)
    made = released(*rows())
    # 1 + 1 + 2 * 2 queries; squares are about the middle of their range
    np.testing.assert_allclose(made.scale, 6 / 1.2 * np.array([1, 1, 1, 0.5, 0.5, 1, 1]))


def test_without_noise_they_are_the_statistics():
    x, y = rows()
    made = released(x, y)
    np.testing.assert_allclose(made.statistics.values, Statistics.of(x, y, SCHEMA).values, 1e-6)
    assert made.clipped == 0
    assert made.receipt is None


def test_numbers_outside_the_bounds_are_moved_and_counted():
    made = released(np.array([[5.0, 1.0, -0.5], [-np.inf, 0.0, 0.0]]), np.array([0, 2]))
    assert made.clipped == 1  # what is not finite is missing: the middle of its bounds
    np.testing.assert_allclose(made.statistics.values[0], [1, 1, -0.5, 1, 0.25, 0, 1])
    np.testing.assert_allclose(made.statistics.values[2], [1, 0, 0, 0, 0, 1, 0])


def test_bounds_are_in_the_units_of_the_data():
    schema = Schema((Feature("age", "numeric", (), 40.0, 20.0),), ("a", "b"))
    noise = Tape([np.zeros((2, 3))])
    made = private_statistics(
        np.array([[4.0]]), np.array([1]), schema, epsilon=3, bounds={"age": (0, 80)}, noise=noise
    )
    assert made.clipped == 1
    np.testing.assert_allclose(made.scale, [1, 2, 2])  # ages -2 to 2 standardised, epsilon 1 each
    np.testing.assert_allclose(made.statistics.values, [[0, 0, 0], [1, 2, 4]])


def test_noise_is_added_as_drawn_and_nothing_is_clamped():
    x, y = rows()
    tape = np.linspace(-50, 50, 21).reshape(3, 7)
    noisy, plain = released(x, y, Tape([tape])), released(x, y)
    # squares get their middle, 1/2, back for every row that the noisy count tells
    tape[:, 3:5] += tape[:, :1] / 2
    np.testing.assert_allclose(noisy.statistics.values - plain.statistics.values, tape, atol=1e-9)
    assert (noisy.statistics.values[:, 0] < 0).any()


@pytest.mark.parametrize("x", [np.zeros((0, 3)), np.zeros((5, 3))])
def test_every_class_is_noised_also_without_rows(x):
    made = released(x, np.zeros(len(x), int), vetted)
    assert (made.statistics.values != released(x, np.zeros(len(x), int)).statistics.values).all()


@pytest.mark.parametrize("rule", ["even", "optimal"])
@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_vetted_noise_has_the_scale_that_is_told(mechanism, rule):
    x, y = rows()
    delta = 1e-5 if mechanism == "gaussian" else 0.0
    plain = released(x, y).statistics.values
    noise = []
    for _ in range(60):
        made = released(x, y, vetted, split=rule, mechanism=mechanism, delta=delta)
        drawn = made.statistics.values - plain
        drawn[:, 3:5] -= drawn[:, :1] / 2
        noise.append(drawn / made.scale)
    law = stats.laplace if mechanism == "laplace" else stats.norm
    assert stats.kstest(np.ravel(noise), law.cdf).pvalue > 1e-8


def test_gaussian_noise_of_all_queries_is_one_release():
    x, y = rows()
    made = released(x, y, mechanism="gaussian", delta=1e-5)
    multiplier = gaussian_sigma(1.0, 1.2, 1e-5)
    # of the categories a row is in one
    reach = np.array([1, 1, 1, 0.5, 0.5, 1])
    assert sum((made.scale[:6] / reach) ** -2.0) == pytest.approx(multiplier**-2)


def test_the_ledger_is_charged_first(tmp_path):
    x, y = rows()
    with Ledger.open(
        tmp_path / "l", node="a", epsilon=3.0, delta=1e-5, schema=SCHEMA.to_json()
    ) as ledger:
        assert released(x, y, ledger=ledger).receipt == 1
        made = released(
            x, y, ledger=ledger, mechanism="gaussian", delta=1e-6, epsilon=0.5, data="2020"
        )
        table = ledger.table()
        assert table["mechanism"].tolist() == ["laplace", "gaussian"]
        assert table.loc[made.receipt, "data"] == "2020"
        assert table.loc[1, "parameters"]["queries"] == 6
        assert ledger.total() == pytest.approx((1.7, 1e-6))
        drawn = Tape([])
        with pytest.raises(BadSetting, match="used up"):  # noise fails: it was paid for
            released(x, y, drawn, ledger=ledger, epsilon=0.3)
        assert ledger.total().epsilon == pytest.approx(2.0)
        unused = Tape([np.zeros((3, 7))])
        with pytest.raises(Overspent):
            released(x, y, unused, ledger=ledger)
        assert unused.left == 1
        with pytest.raises(BadSetting, match="another schema"):
            released(x, y, ledger=ledger, schema=public_schema(COLUMNS, ("a", "b", "c")))


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"epsilon": 0.0}, BadSetting, "epsilon"),
        ({"epsilon": float("nan")}, BadSetting, "epsilon"),
        ({"epsilon": float("inf")}, BadSetting, "private"),
        ({"bounds": {"age": (0, 100)}}, BadSetting, "dose"),
        ({"bounds": COLUMNS | {"dose": (0, float("inf"))}}, BadSetting, "dose"),
        ({"bounds": COLUMNS | {"dose": (1, 1)}}, BadSetting, "dose"),
        ({"bounds": COLUMNS | {"dosis": (1, 2)}}, UnknownName, "dose"),
        ({"delta": 1e-5}, BadSetting, "delta"),
        ({"mechanism": "gaussian"}, BadSetting, "delta"),
        ({"mechanism": "gauss"}, UnknownName, "gaussian"),
        ({"split": "odd"}, UnknownName, "split"),
        ({"model": "tan"}, BadSetting, "first agree on"),
        ({"epsilon": "little"}, BadSetting, "epsilon must be a number"),
        ({"delta": None}, BadSetting, "delta must be a number"),
        ({"epsilon": 1e-320}, BadSetting, "larger than any number"),
        ({"bounds": COLUMNS | {"age": (-1e300, 1e300)}}, BadSetting, "larger than any number"),
        ({"bounds": COLUMNS | {"dose": None}}, BadSetting, "dose"),
        ({"bounds": COLUMNS | {"dose": 3}}, BadSetting, "dose"),
        ({"bounds": COLUMNS | {"dose": (0, None)}}, BadSetting, "dose"),
        ({"bounds": None}, BadSetting, "dictionary"),
        ({"schema": "x"}, BadSetting, "public_schema"),
        ({"person_rows": 0}, BadSetting, "person_rows"),
        ({"person_rows": -1}, BadSetting, "person_rows"),
        ({"person_rows": 0.5}, BadSetting, "person_rows"),
        ({"person_rows": "2"}, BadSetting, "person_rows"),
        ({"data": 5}, BadSetting, "data must be a text"),
    ],
)
def test_what_makes_no_sense_is_refused_and_not_paid_for(options, error, text, tmp_path):
    noise = Tape([np.zeros((3, 7))])
    with Ledger.open(tmp_path / "l", node="a", epsilon=3.0, delta=1e-5) as ledger:
        with pytest.raises(error, match=text):
            released(*rows(), noise, ledger=ledger, **options)
        assert (ledger.receipts(), noise.left) == (0, 1)


def test_rows_that_count_nowhere_are_told_to_the_site():
    x, y = rows()
    y[3] = 9
    assert (released(*rows()).unknown, released(x, y).unknown) == (0, 1)


def test_no_value_decides_whether_bounds_are_found():
    for odd in ("much", None, 10**400, 1j, np.inf):
        noise = Tape([np.zeros(81)])
        low, high = private_bounds([5.0] * 20 + [odd], epsilon=1.0, noise=noise)
        assert low <= 5 <= high
    for odd in ("much", None):
        with pytest.raises(BadData, match="must be numbers"):
            private_bounds(odd, epsilon=1.0)


def test_private_bounds_read_texts_as_a_release_does():
    """Before, decimal commas were all missing, and the widest bounds were paid for."""
    noise = Tape([np.zeros(81)] * 9)
    plain = [3.0, 4.5, 7.25] * 40
    expected = private_bounds(plain, epsilon=1.0, noise=noise)
    commas = [str(v).replace(".", ",") for v in plain]
    for given in (commas, pd.Series(commas), np.array(commas), [f" {v} " for v in plain]):
        assert private_bounds(given, epsilon=1.0, noise=noise) == expected
    frame = pd.DataFrame({"age": ["1,5", 2.0, "x", None, True, "1e999", 2 + 0j, 2j]}, dtype=object)
    read = read_each(Table("t", frame, np.array(["a"] * 8), "y"), AGE).x[:, 0]
    seen = numbers_of(frame["age"])
    np.testing.assert_array_equal(seen, read)
    np.testing.assert_array_equal(seen, [1.5, 2, np.nan, np.nan, 1, np.nan, 2, np.nan])


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"model_options": 3}, "model_options must be a dictionary"),
        ({"ledger": "x"}, "ledger must be a Ledger"),
        ({"noise": None}, "noise must be a function"),
    ],
)
def test_what_is_no_ledger_or_noise_is_refused_before_anything_is_paid(tmp_path, wrong, says):
    """Before, each was a traceback, and without noise the release had been paid for."""
    x, y = rows()
    with Ledger.open(tmp_path / "l", node="a", epsilon=1.0) as ledger:
        given = {"epsilon": 0.5, "bounds": COLUMNS, "ledger": ledger}
        with pytest.raises(BadSetting, match=says):
            private_statistics(x, y, SCHEMA, **(given | wrong))
        if "model_options" not in wrong:
            with pytest.raises(BadSetting, match=says):
                private_bounds([1.0], **({"epsilon": 0.5, "ledger": ledger} | wrong))
        assert ledger.receipts() == 0


def test_rows_that_cannot_be_summed_are_refused():
    x, y = rows()
    with pytest.raises(BadData, match=r"\[m, 3\]"):
        released(x[:, :2], y)
    with pytest.raises(BadData, match=r"\[m, 3\]"):
        released([[0.1, 0.2, 0.3], [0.1]], [0, 1])


def test_no_cell_or_label_of_encoded_rows_decides_how_others_are_read():
    """Nor whether there is a release: a list of rows may hold anything."""
    x, y = rows()
    exact = released(x, y).statistics.values
    names = np.array(SCHEMA.classes)[y]
    for labels in (y.astype(float), y.astype(str), names, names.tolist(), y.astype(object)):
        np.testing.assert_array_equal(released(x, labels).statistics.values, exact)
    cells = (None, "x", 10**400, 1 + 1j, [0.1], {}, b"1", pd.NaT)
    for cell in cells:
        row = [cell, 0.0, 0.0]
        more = released([*x.tolist(), row], [*y.tolist(), 0]).statistics.values
        gap = released(np.vstack([x, [np.nan, 0.0, 0.0]]), [*y, 0]).statistics.values
        np.testing.assert_array_equal(more, gap)
    for label in (*cells, "no class", 2**70, -1, 0.5):
        more = released([*x.tolist(), [0.0, 0.0, 0.0]], [*y.tolist(), label])
        np.testing.assert_array_equal(more.statistics.values, exact)
        assert more.unknown == 1


def test_no_row_decides_whether_there_is_a_release():
    """Half of the rows out of bounds, one cell of 1e300, none of the class: all are released."""
    x, y = rows(21)
    x[:, 0] = 7.0
    far = released(x, y)
    assert far.clipped == 21
    np.testing.assert_array_equal(far.statistics.values[:, 1], far.statistics.values[:, 0])
    for wrong in (np.nan, np.inf, 1e300):
        x[3, 2] = wrong
        assert np.isfinite(released(x, y).statistics.values).all()
    y[5] = 77  # no class: the row counts nowhere
    assert released(x, y).statistics.values[:, 0].sum() == 20


def test_missing_values_are_one_question_more_for_each_number():
    schema = Schema(SCHEMA.features, SCHEMA.classes, missing=True)
    x, y = rows()
    x[3, 2] = np.nan
    made = released(x, y, Tape([np.zeros((3, 9))]), schema=schema)
    np.testing.assert_allclose(made.scale, 8 / 1.2 * np.array([1, 1, 1, 0.5, 0.5, 1, 1, 1, 1]))
    np.testing.assert_allclose(made.statistics.values, Statistics.of(x, y, schema).values, 1e-6)


def test_a_public_schema_refuses_what_is_not_one():
    for columns in (
        {"a": (1.0, 0.0)},
        {"a": ()},
        {"a": ("x", "x")},
        {"a": "xy"},
        {"a": 2},
        {},
        None,
    ):
        with pytest.raises(BadSetting):
            public_schema(columns, ("no", "yes"))
    for classes in ("yes", None, ()):
        with pytest.raises(BadSetting):
            public_schema({"a": (0, 1)}, classes)


def test_exact_sums_do_not_depend_on_the_order_of_rows():
    """Plain sums do, which is a leak: one row must not change the rounding of all others."""
    rng = np.random.default_rng(1)
    x, y = rng.uniform(-0.3, 0.3, (40_000, 3)), rng.integers(0, 2, 40_000)
    bound = np.array([0.3, 0.4, 1.0])

    def sums(order):
        return exact_sums(lambda z: z, x[order], y[order], 2, bound)

    whole = sums(np.arange(40_000))
    np.testing.assert_array_equal(whole, sums(rng.permutation(40_000)))
    np.testing.assert_allclose(whole[0], x[y == 0].sum(0), atol=1e-2)
    for i in range(20):
        change = np.abs(whole - sums(np.delete(np.arange(40_000), i)))
        assert (change <= bound).all()
        np.testing.assert_allclose(change.sum(0), np.abs(x[i]), atol=1e-7)
    top = exact_sums(lambda z: z, np.full((1, 3), 0.3), np.zeros(1), 1, np.full(3, 0.3))
    assert (top <= 0.3).all()


def test_private_bounds_cover_most_values_and_are_paid_for(tmp_path):
    ages = np.random.default_rng(0).uniform(18, 90, 5000)
    with Ledger.open(tmp_path / "l", node="a", epsilon=1.0) as ledger:
        low, high = private_bounds(ages, epsilon=0.5, ledger=ledger, data="age")
        assert ledger.table()["data"].tolist() == ["age"]
        assert ledger.left().epsilon == pytest.approx(0.5)
        with pytest.raises(Overspent):
            private_bounds(ages, epsilon=0.6, ledger=ledger)
    assert 7 < low <= 18
    assert 90 <= high < 130
    low, high = private_bounds(np.r_[-ages, 0.0, 1e99, np.nan, np.inf], epsilon=1.0)
    assert low < -90
    assert high < 0


def test_private_bounds_hide_a_person_with_several_rows():
    seen = []

    def noise(kind, values, scale):
        seen.append(scale)
        return values

    ages = np.r_[np.full(400, 40.0), np.full(60, 500.0)]
    assert private_bounds(ages, epsilon=1.0, noise=noise)[1] > 500
    assert private_bounds(ages, epsilon=1.0, noise=noise, person_rows=10)[1] < 500  # few people
    assert seen == [1.0, 10.0]


def test_private_bounds_of_few_rows_are_wide():
    assert private_bounds([1.0], epsilon=0.1, noise=Tape([np.zeros(81)])) == (-1e6, 1e6)
    for wrong in (
        {"person_rows": 0},
        {"largest": 0.0},
        {"share": 1.0},
        {"halvings": 0},
        {"halvings": 1.5},
        {"epsilon": np.nan},
        {"person_rows": 0.5},
        {"largest": "x"},
        {"share": None},
    ):
        with pytest.raises(BadSetting):
            private_bounds([1.0], **({"epsilon": 1.0} | wrong))


def test_simulation_is_left_in_its_own_precision():
    released(*rows())
    assert jax.numpy.ones(1).dtype == jax.numpy.float32


def test_a_frame_in_the_units_of_the_data_is_encoded():
    frame = pd.DataFrame({"age": [30.0, 90.0], "sex": ["f", "m"]})
    schema = public_schema({"age": (0, 120), "sex": ("f", "m")}, ("no", "yes"))
    tape = Tape([np.zeros((2, 5))])
    bounds = {"age": (0, 120), "sex": ("f", "m")}
    made = private_statistics(frame, ["no", "yes"], schema, epsilon=1, bounds=bounds, noise=tape)
    np.testing.assert_allclose(
        made.statistics.values, [[1, -0.5, 0.25, 1, 0], [1, 0.5, 0.25, 0, 1]], atol=1e-6
    )
    made = private_statistics(
        pd.DataFrame({"age": ["30", "old"], "sex": ["f", "x"]}), ["no", "maybe"], schema,
        epsilon=1, bounds=bounds, noise=Tape([np.zeros((2, 5))]),
    )  # fmt: skip
    np.testing.assert_allclose(made.statistics.values[0], [1, -0.5, 0.25, 1, 0], atol=1e-6)
    assert not made.statistics.values[1].any()
