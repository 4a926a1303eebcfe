"""Rows that nodes see or label differently."""

import numpy as np
import pytest

from peerwise import partition
from peerwise.errors import BadData, BadSetting
from peerwise.names import entries

CARDINALITIES = (0, 3, 0, 0)  # the last one does not vary
SHIFTS = [name for name in entries("shift") if name != "none"]
MOVING = ("feature_skew", "concept_drift")


def rng(seed=0):
    return np.random.default_rng(seed)


def rows(nodes=6, each=200, seed=0, dtype=float):
    """Numbers of very different units beside codes and a constant, some values missing."""
    draw, m = rng(seed), nodes * each
    y = draw.integers(0, 4, m).astype(np.int32)
    x = np.column_stack(
        [
            1000 + 50 * (draw.normal(size=m) + y),
            draw.integers(0, 3, m),
            0.01 * draw.normal(size=m),
            np.full(m, 0.1),
        ]
    )
    x[draw.random(m) < 0.05, :2] = np.nan
    return x.astype(dtype), y, np.array_split(draw.permutation(m), nodes)


def shifted(name, seed=1, strength=0.5, case=None, **options):
    x, y, owned = case or rows()
    shift = getattr(partition, name)
    return shift(rng(seed), x, y, owned, CARDINALITIES, strength=strength, **options)


@pytest.mark.parametrize("name", SHIFTS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_strength_0_changes_nothing_at_all(name, dtype):
    x, y, owned = rows(dtype=dtype)
    for seen, was in zip(shifted(name, strength=0, case=(x, y, owned)), (x, y), strict=True):
        np.testing.assert_array_equal(seen, was)
        assert seen.dtype == was.dtype


@pytest.mark.parametrize("name", SHIFTS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_given_are_left_alone_and_types_stay(name, dtype):
    x, y, owned = rows(dtype=dtype)
    before = x.copy(), y.copy()
    seen, told = shifted(name, case=(x, y, owned))
    np.testing.assert_array_equal(x, before[0])
    np.testing.assert_array_equal(y, before[1])
    assert (seen.dtype, told.dtype) == (dtype, np.int32)
    assert not np.shares_memory(seen, x)
    assert not np.shares_memory(told, y)
    changed = [
        not (np.array_equal(seen[r], x[r], equal_nan=True) and np.array_equal(told[r], y[r]))
        for r in owned
    ]
    assert sum(changed) == (3 if name == "concept_shift" else 6)


@pytest.mark.parametrize("name", SHIFTS)
def test_the_same_seed_shifts_the_same_and_another_otherwise(name):
    a, b, c = (shifted(name, seed) for seed in (1, 1, 2))
    for one, two in zip(a, b, strict=True):
        np.testing.assert_array_equal(one, two)
    assert not all(np.array_equal(*each, equal_nan=True) for each in zip(a, c, strict=True))


@pytest.mark.parametrize("name", MOVING)
def test_codes_constants_gaps_and_labels_stay(name):
    x, y, _ = case = rows()
    seen, told = shifted(name, strength=3, case=case)
    np.testing.assert_array_equal(seen[:, [1, 3]], x[:, [1, 3]])
    np.testing.assert_array_equal(np.isnan(seen), np.isnan(x))
    np.testing.assert_array_equal(told, y)


@pytest.mark.parametrize("name", MOVING)
def test_units_do_not_matter(name):
    """Other units before give what they give after: it is no matter where rows are standardised."""
    x, y, owned = rows()
    center, scale = np.array([-3.0, 0, 20, 0]), np.array([7.0, 1, 0.1, 1])
    seen, _ = shifted(name, case=(x, y, owned))
    other, _ = shifted(name, case=((x - center) / scale, y, owned))
    np.testing.assert_allclose(other * scale + center, seen, rtol=1e-9)


def test_feature_skew_is_a_scale_and_an_offset_for_each_node_and_column():
    x, _, owned = case = rows(nodes=300, each=10)
    seen, _ = shifted("feature_skew", strength=0.3, case=case)
    for column in (0, 2):
        mean, std = np.nanmean(x[:, column]), np.nanstd(x[:, column])
        lines = []
        for mine in owned:
            here = mine[~np.isnan(x[mine, column])]
            z, told = ((v[here, column] - mean) / std for v in (x, seen))
            slope, offset = np.polyfit(z, told, 1)
            np.testing.assert_allclose(told, slope * z + offset, atol=1e-9)  # nothing else
            lines.append((np.log(slope), offset))
        np.testing.assert_allclose(np.std(lines, 0), 0.3, rtol=0.15)
        np.testing.assert_allclose(np.mean(lines, 0), 0, atol=0.06)


def test_concept_drift_moves_each_class_at_each_node_by_its_own():
    x, y, owned = case = rows(nodes=100, each=40)
    moved = shifted("concept_drift", strength=0.3, case=case)[0] - x
    for column in (0, 2):
        std = np.nanstd(x[:, column])
        steps = []
        for mine in owned:
            for c in range(4):
                step = moved[mine[y[mine] == c], column] / std
                step = step[~np.isnan(step)]
                np.testing.assert_allclose(step, step[0], atol=1e-9)
                steps.append(step[0])
        assert np.unique(np.round(steps, 9)).size == 400
        assert np.std(steps) == pytest.approx(0.3, rel=0.15)


@pytest.mark.parametrize(("strength", "concerned"), [(0.1, 3), (0.11, 4), (1e-6, 1), (1, 30)])
def test_concept_shift_swaps_two_classes_at_a_share_of_the_nodes(strength, concerned):
    x, y, owned = case = rows(nodes=30, each=60)
    seen, told = shifted("concept_shift", strength=strength, case=case)
    np.testing.assert_array_equal(seen, x)
    pairs = []
    for mine in owned:
        labels = [np.unique(told[mine[y[mine] == c]]).tolist() for c in range(4)]
        moved = [c for c in range(4) if labels[c] != [c]]
        if moved:
            a, b = moved
            assert (labels[a], labels[b]) == ([b], [a])
            pairs.append((a, b))
    assert len(pairs) == concerned
    assert strength < 1 or len(set(pairs)) > 3  # nodes have swaps of their own


def test_concept_shift_passes_more_classes_round():
    _, y, owned = case = rows(nodes=2, each=100)
    _, told = shifted("concept_shift", strength=1, classes=4, case=case)
    for mine in owned:
        new = [int(told[mine[y[mine] == c]][0]) for c in range(4)]
        at, way = 0, []
        for _ in range(4):
            way.append(at)
            at = new[at]
        assert sorted(way) == [0, 1, 2, 3]
        assert at == 0


def test_labels_may_be_anything_and_rows_of_nobody_stay():
    x, y = np.arange(6.0)[:, None], np.array(["a", "b", "a", "b", "a", "b"])
    owned = [np.array([2, 3]), np.zeros(0, int)]
    assert shift_labels(x, y, owned) == ["a", "b", "b", "a", "a", "b"]
    for name in MOVING:
        seen, _ = getattr(partition, name)(rng(), x, y, owned)
        assert (seen != x).ravel().tolist() == [False, False, True, True, False, False]


def shift_labels(x, y, owned):
    return partition.concept_shift(rng(), x, y, owned, strength=1)[1].tolist()


def test_numbers_that_are_whole_may_become_others():
    x = np.array([[1, 0], [5, 1]])
    seen, _ = partition.feature_skew(rng(), x, np.zeros(2, int), [np.arange(2)], (0, 2))
    assert seen.dtype == float
    assert seen[0, 0] != 1


@pytest.mark.parametrize("name", MOVING)
def test_what_all_is_missing_stays_missing(name):
    x = np.full((4, 1), np.nan)
    seen, _ = getattr(partition, name)(rng(), x, np.zeros(4, int), [np.arange(4)])
    assert np.isnan(seen).all()


def test_unshifted_rows_are_the_rows():
    x, y, owned = rows()
    seen = partition.unshifted(rng(), x, y, owned, CARDINALITIES)
    assert seen[0] is x
    assert seen[1] is y


@pytest.mark.parametrize("name", SHIFTS)
@pytest.mark.parametrize("strength", [-0.1, 10.5, float("nan"), float("inf"), "much", True])
def test_a_strength_that_makes_no_sense_is_refused(name, strength):
    with pytest.raises(BadSetting, match=r"strength must be (between 0 and|a number)") as caught:
        shifted(name, strength=strength)
    assert repr(strength) in str(caught.value)


def test_what_a_shift_cannot_do_is_refused():
    with pytest.raises(BadSetting, match="takes 5 classes for each other and the rows have 4"):
        shifted("concept_shift", classes=5)
    with pytest.raises(BadSetting, match="classes must be 2 or more, got 1"):
        shifted("concept_shift", classes=1)
    x, y, owned = rows()
    for name in MOVING:
        shift = getattr(partition, name)
        with pytest.raises(BadData, match=f"{name} moves numbers, and all columns are categories"):
            shift(rng(), x, y, owned, (3, 3, 3, 3))
        with pytest.raises(BadData, match="4 columns and there are 2 cardinalities"):
            shift(rng(), x, y, owned, (0, 3))
    for name in SHIFTS:
        with pytest.raises(BadSetting, match="no nodes"):
            getattr(partition, name)(rng(), x, y, [])
