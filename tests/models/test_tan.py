"""Tree-augmented naive Bayes: the best tree, tables given a parent, categories summed out."""

import itertools

import networkx as nx
import numpy as np
import pytest

from helpers import in64
from peerwise.errors import BadSetting
from peerwise.models import log_joint, log_posterior, naive_bayes, statistics, tan
from peerwise.models.nominal import topological
from peerwise.models.tan import chow_liu, information, pair_counts

MIXED = (2, 0, 3, 2, 3)
PARENTS = (2, -1, 3, -1, 2)  # 3 above 2, and 2 above 0 and 4; column 1 is a number
CLASSES = 3


def rows(seed, m=240, cardinalities=MIXED, classes=CLASSES, share_missing=0.0):
    """Categories that depend on the class and on the column before; numbers on the class."""
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=m)
    x = np.zeros((m, len(cardinalities)))
    before = np.zeros(m)
    for i, r in enumerate(cardinalities):
        if r == 0:
            x[:, i] = rng.normal(0.5 * y, 1)
            continue
        x[:, i] = np.where(rng.random(m) < 0.5, before + y, rng.integers(r, size=m)) % r
        before = x[:, i]
    return np.where(rng.random(x.shape) < share_missing, np.nan, x), y


def summed(model, x, y, weight=None):
    return in64(statistics, model, x, y, np.ones(len(y)) if weight is None else weight)


def counted(x, y, cardinalities=MIXED, classes=CLASSES, weight=None):
    count = pair_counts(tuple(cardinalities), classes)
    return in64(count, x, y, np.ones(len(y)) if weight is None else weight)


def close(a, b, tolerance=1e-12):
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


# --- the best tree


def plain_information(x, y, a, b, cardinalities, classes):
    """I(X_a; X_b | Y) from its definition: a sum over all triples of values."""
    m, total = len(y), 0.0
    for c, u, v in itertools.product(
        range(classes), range(cardinalities[a]), range(cardinalities[b])
    ):
        of_class = y == c
        both = (of_class & (x[:, a] == u) & (x[:, b] == v)).sum()
        left, right = (of_class & (x[:, a] == u)).sum(), (of_class & (x[:, b] == v)).sum()
        if both:
            total += both / m * np.log(both * of_class.sum() / (left * right))
    return total


FEW = {"four": (2, 3, 2, 3), "five": (2, 3, 2, 3, 2), "a number among them": (2, 0, 3, 2, 3)}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("case", FEW)
def test_no_tree_has_more_information(case, seed):
    cardinalities = FEW[case]
    x, y = rows(seed, 60, cardinalities)
    named = [i for i, r in enumerate(cardinalities) if r]
    pairs = counted(x, y, cardinalities)
    found = information(pairs, cardinalities)
    assert list(found) == list(itertools.combinations(named, 2))
    for (a, b), nats in found.items():
        assert nats == pytest.approx(
            plain_information(x, y, a, b, cardinalities, CLASSES), abs=1e-12
        )

    def worth(edges):
        return sum(found[min(e), max(e)] for e in edges)

    every = [  # all labelled trees, by their Prüfer sequences
        [(named[a], named[b]) for a, b in nx.from_prufer_sequence(list(code)).edges]
        for code in itertools.product(range(len(named)), repeat=len(named) - 2)
    ]
    assert len(every) == len(named) ** (len(named) - 2)
    best = max(every, key=worth)
    parents = chow_liu(pairs, cardinalities)
    ours = [(int(p), i) for i, p in enumerate(parents) if p >= 0]
    assert {frozenset(e) for e in ours} == {frozenset(e) for e in best}  # no ties in these draws
    assert [i for i in named if parents[i] < 0] == [0]  # the first categorical column is the root
    assert all(parents[i] == -1 for i, r in enumerate(cardinalities) if not r)
    assert tan(cardinalities, CLASSES, parents=parents).name == "tan"  # and it is a tree


def test_pairs_are_counted_in_order():
    x, y = np.array([[0, 9, 1], [1, 9, 2], [1, 9, 2], [0, 9, 1.0]]), np.array([0, 0, 0, 1])
    got = counted(x, y, (2, 0, 3), 2)  # (0,0), (0,1), (0,2), (1,0), (1,1), (1,2)
    assert got.tolist() == [[0, 1, 0, 0, 0, 2], [0, 1, 0, 0, 0, 0]]


def test_pair_counts_add_up_and_a_weight_counts_as_repetition():
    x, y = rows(1, 60)
    times = np.random.default_rng(0).integers(0, 4, 60)
    parts = sum(counted(x, y, weight=(times > i).astype(float)) for i in range(3))
    np.testing.assert_array_equal(counted(x, y, weight=times.astype(float)), parts)


def test_a_missing_category_counts_in_no_pair():
    x, y = rows(2, 60, share_missing=0.3)
    cardinalities = [r for r in MIXED if r]
    z = x[:, [0, 2, 3, 4]]
    expected = [
        [
            ((y == c) & (z[:, a] == u) & (z[:, b] == v)).sum()
            for a, b in itertools.combinations(range(4), 2)
            for u in range(cardinalities[a])
            for v in range(cardinalities[b])
        ]
        for c in range(CLASSES)
    ]
    assert counted(x, y).tolist() == expected


def test_constant_columns_and_ties_give_the_first_tree():
    """All pairs say nothing, or all say the same: every column hangs on the first."""
    x, y = rows(3, 60, (3, 3, 3, 3))
    copies = np.tile(x[:, :1], (1, 4))
    for table in (np.zeros_like(x), copies):
        pairs = counted(table, y, (3, 3, 3, 3))
        assert chow_liu(pairs, (3, 3, 3, 3)).tolist() == [-1, 0, 0, 0]
    half = np.column_stack([x[:, 0], np.zeros(60), x[:, 0], x[:, 3]])  # a constant among others
    pairs = counted(half, y, (3, 3, 3, 3))
    found = information(pairs, (3, 3, 3, 3))
    close([found[0, 1], found[1, 2], found[1, 3]], 0)
    assert chow_liu(pairs, (3, 3, 3, 3)).tolist()[:3] == [-1, 0, 0]


@pytest.mark.parametrize("seed", range(4))
def test_pairs_that_say_the_same_are_a_tie_whatever_their_rounding(seed):
    """Copies of a column under other codes: the same information, summed in another order."""
    rng = np.random.default_rng(seed)
    y, a = rng.integers(CLASSES, size=60), rng.integers(3, size=60)
    copies = np.column_stack([a, (a + 1) % 3, 2 - a, (a + 2) % 3]).astype(float)
    pairs = counted(copies, y, (3, 3, 3, 3))
    close(list(information(pairs, (3, 3, 3, 3)).values()), information(pairs, (3, 3, 3, 3))[0, 1])
    assert chow_liu(pairs, (3, 3, 3, 3)).tolist() == [-1, 0, 0, 0]


def test_no_rows_give_a_tree_and_no_information():
    pairs = np.zeros((CLASSES, counted(*rows(4, 60)).shape[1]))
    assert set(information(pairs, MIXED).values()) == {0.0}
    assert chow_liu(pairs, MIXED).tolist() == [-1, -1, 0, 0, 0]


@pytest.mark.parametrize("cardinalities", [(3,), (0,), (0, 0), (0, 3, 0)])
def test_fewer_than_two_categorical_columns_have_no_tree(cardinalities):
    x, y = rows(5, 60, cardinalities)
    pairs = counted(x, y, cardinalities)
    assert pairs.shape == (CLASSES, 0)
    parents = chow_liu(pairs, cardinalities)
    assert parents.tolist() == [-1] * len(cardinalities)
    model, plain = tan(cardinalities, CLASSES, parents=parents), naive_bayes(cardinalities, CLASSES)
    close(
        in64(log_joint, model, summed(model, x, y), x),
        in64(log_joint, plain, summed(plain, x, y), x),
    )


def test_parents_come_before_their_children():
    for parents in (PARENTS, (-1, 0, 1, 2), (1, 2, 3, -1), (-1, -1, -1)):
        order = topological(parents)
        assert sorted(order) == list(range(len(parents)))
        assert all(p < 0 or order.index(p) < order.index(i) for i, p in enumerate(parents))


# --- tables


# Columns A (2 categories), B (2), C (3); B is above A and C
HAND = (2, 2, 3)
OF_0 = [[0, 0, 0], [0, 0, 1], [0, 0, 1], [0, 0, 1], [1, 0, 2], [0, 1, 0], [1, 1, 1], [1, 1, 2]]
OF_1 = [[0, 0, 0], [1, 0, 1], [1, 0, 2], [0, 1, 0], [0, 1, 1], [1, 1, 1], *[[1, 1, 2]] * 3]
X, Y = np.array(OF_0 + OF_1, float), np.repeat([0, 1], [8, 9])
BY_HAND = {
    # p(y) p(B|y) p(A|B,y) p(C|B,y)
    (0, 0, 1): (8 / 17 * 5 / 8 * 4 / 5 * 3 / 5, 9 / 17 * 3 / 9 * 1 / 3 * 1 / 3),
    (1, 1, 2): (8 / 17 * 3 / 8 * 2 / 3 * 1 / 3, 9 / 17 * 6 / 9 * 4 / 6 * 3 / 6),
    (0, 1, 0): (8 / 17 * 3 / 8 * 1 / 3 * 1 / 3, 9 / 17 * 6 / 9 * 2 / 6 * 1 / 6),
    (np.nan, 0, 1): (8 / 17 * 5 / 8 * 3 / 5, 9 / 17 * 3 / 9 * 1 / 3),  # a leaf: left out
    (0, np.nan, 1): (41 / 255, 1 / 17),  # the root: 12/85 + 1/51 and 1/51 + 2/51
    (np.nan, np.nan, 1): (8 / 17 * (3 / 8 + 1 / 8), 9 / 17 * (1 / 9 + 2 / 9)),
    (np.nan, np.nan, np.nan): (8 / 17, 9 / 17),
}


@pytest.mark.parametrize("missing", [False, True])
def test_a_small_case_by_hand(missing):
    model = tan(HAND, 2, missing, parents=(1, -1, 1))
    s = summed(model, X, Y)
    # rows; pairs A B: 00 01 10 11; B: 0 1; pairs C B: 00 01 10 11 20 21
    assert s.tolist() == [
        [8, 4, 1, 1, 2, 5, 3, 1, 1, 3, 1, 1, 1],
        [9, 1, 2, 2, 4, 3, 6, 1, 1, 1, 2, 1, 3],
    ]
    assert in64(model.theta, s).guards == 0
    told = in64(model.describe, s)["prob"]
    close(told[0], [[[4 / 5, 1 / 3], [1 / 5, 2 / 3]], [[1 / 3, 2 / 6], [2 / 3, 4 / 6]]])
    close(told[1], [[5 / 8, 3 / 8], [3 / 9, 6 / 9]])
    close(told[2][0], [[1 / 5, 1 / 3], [3 / 5, 1 / 3], [1 / 5, 1 / 3]])
    for row, expected in BY_HAND.items():
        if missing or not np.isnan(row).any():
            close(np.exp(in64(log_joint, model, s, np.array([row])))[0], expected)


def test_without_parents_it_is_naive_bayes():
    for missing in (False, True):
        x, y = rows(6, share_missing=0.2 * missing)
        model = tan(MIXED, CLASSES, missing, parents=[-1] * 5)
        plain = naive_bayes(MIXED, CLASSES, missing)
        s = summed(model, x, y)
        np.testing.assert_array_equal(s, summed(plain, x, y))
        close(in64(log_joint, model, s, x), in64(log_joint, plain, s, x))


@pytest.mark.parametrize("missing", [False, True])
def test_tables_sum_to_one_for_every_category_of_the_parent(missing):
    x, y = rows(7, 40, share_missing=0.2 * missing)  # few rows: some pairs never occur
    model = tan(MIXED, CLASSES, missing, parents=PARENTS)
    s = summed(model, x, y)
    assert in64(model.theta, s).guards > 0
    told = in64(model.describe, s)["prob"]
    assert {i: t.shape for i, t in told.items()} == {
        0: (3, 2, 3),
        2: (3, 3, 2),
        3: (3, 2),
        4: (3, 3, 3),
    }
    for table in told.values():
        assert (table > 0).all()
        close(table.sum(1), 1)


@pytest.mark.parametrize("missing", [False, True])
def test_probabilities_of_all_rows_sum_to_one(missing):
    """Over all rows and classes of a model of categories alone."""
    model = tan((2, 3, 2, 3), CLASSES, missing, parents=(1, 2, -1, 1))
    x, y = rows(8, 60, (2, 3, 2, 3))
    every = np.array(list(itertools.product(range(2), range(3), range(2), range(3))), float)
    close(np.exp(in64(log_joint, model, summed(model, x, y), every)).sum(), 1)


def test_how_many_statistics_there_are():
    assert tan(MIXED, 2, parents=PARENTS).size == 1 + 2 + (2 * 3 + 3 * 2 + 2 + 3 * 3)
    assert tan(MIXED, 2, True, parents=PARENTS).size == 1 + 3 + (2 * 3 + 3 * 2 + 2 + 3 * 3)


# --- missing categories


@pytest.mark.some("(2")
@pytest.mark.parametrize("parents", [PARENTS, (-1, -1, 0, 2, 3), (-1, -1, 0, 0, -1)], ids=str)
def test_missing_categories_are_summed_out(parents):
    """Against a sum over all completions; parents and children gone alone and together."""
    x, y = rows(9)
    model = tan(MIXED, CLASSES, missing=True, parents=parents)
    s = summed(model, x, y)
    named = [i for i, r in enumerate(MIXED) if r]
    for row, gone in enumerate(g for k in range(5) for g in itertools.combinations(named, k)):
        hole = x[row].copy()
        hole[list(gone)] = np.nan
        completions = np.tile(hole, (36, 1))  # of as many rows, so that one program serves all
        choices = list(itertools.product(*(range(MIXED[i]) for i in gone)))
        completions[: len(choices), list(gone)] = choices
        joint = in64(log_joint, model, s, np.where(np.isnan(completions), 0, completions))
        expected = np.logaddexp.reduce(joint[: len(choices)])
        close(in64(log_joint, model, s, hole[None])[0], expected, 1e-11)


def test_a_missing_number_beside_a_tree_says_nothing():
    x, y = rows(10)
    model = tan(MIXED, CLASSES, missing=True, parents=PARENTS)
    s = summed(model, x, y)
    without = tan([r for r in MIXED if r], CLASSES, missing=True, parents=(1, 2, -1, 1))
    holes = x.copy()
    holes[:, 1] = np.nan
    left = x[:, [0, 2, 3, 4]]
    close(
        in64(log_joint, model, s, holes),
        in64(log_joint, without, summed(without, left, y), left),
        1e-11,
    )


def test_a_category_never_seen_says_as_little_as_a_missing_one():
    x, y = rows(11, 60)
    model = tan(MIXED, CLASSES, missing=True, parents=PARENTS)
    s = summed(model, x, y)
    for column in (2, 4):  # a parent, a leaf
        for strange in (99, -1):
            unseen, holes = x.copy(), x.copy()
            unseen[:, column], holes[:, column] = strange, np.nan
            close(in64(log_joint, model, s, unseen), in64(log_joint, model, s, holes))
            close(summed(model, unseen, y), summed(model, holes, y))


def test_without_holes_both_kinds_of_model_agree():
    x, y = rows(12)
    plain, open_ = (tan(MIXED, CLASSES, m, parents=PARENTS) for m in (False, True))
    close(
        in64(log_posterior, open_, summed(open_, x, y), x),
        in64(log_posterior, plain, summed(plain, x, y), x),
        1e-11,
    )


# --- refused


@pytest.mark.parametrize(
    ("parents", "says"),
    [
        (None, "tan needs its structure"),
        ((-1, -1, 0, 0), "parents must have 5 entries, got 4"),
        ((-1, -1, 3, 2, -1), "circle"),
        ((0, -1, -1, -1, -1), "circle"),
        ((-1, -1, 1, -1, -1), "parent 1 of column 2"),  # a number above a category
        ((-1, 0, -1, -1, -1), "parent 0 of column 1"),  # a category above a number
        ((-1, -1, 5, -1, -1), "parent 5 of column 2"),
        ((-1, -1, -2, -1, -1), "parent -2 of column 2"),
    ],
)
def test_a_structure_that_is_no_tree_is_refused(parents, says):
    with pytest.raises(BadSetting, match=says):
        tan(MIXED, 2, parents=parents)


def test_the_same_structure_gives_the_same_model():
    model = tan(MIXED, 2, parents=PARENTS)
    assert tan(list(MIXED), 2, parents=list(PARENTS)) is model
    assert tan(MIXED, 2, parents=np.array(PARENTS, np.int32)) is model
    assert tan(MIXED, 2, parents=[-1] * 5) != model
