"""Claims are graded by intervals over repetitions: held, not held, undecided."""

import numpy as np
import pytest
from scipy.stats import ttest_1samp, ttest_ind, ttest_rel

from peerwise.papers.claims import (
    HELD,
    NOT_HELD,
    ONCE,
    UNDECIDED,
    Estimate,
    Numbers,
    Verdict,
    at_least,
    average,
    estimate,
    every,
    exact,
    falls,
    less,
    p_value,
    sample,
    tally,
    total,
    within,
)
from peerwise.papers.items import Number
from peerwise.papers.records import MANY, record_of
from peerwise.papers.relay.items import PAPER

LOW, HIGH = sample([0.10, 0.11, 0.12]), sample([0.20, 0.21, 0.22])
NOISY = sample([0.0, 0.1, 0.35])


def of_record(value, std, reps, values=()):
    number = Number("adult", "test_gap", [value], {"method": "relay"})
    shown = {"value": value, "std": std, "reps": reps, "values": list(values)}
    return record_of(PAPER, "gaps", number._replace(shown=shown))


def test_an_interval_on_the_claimed_side_is_held_and_on_the_other_is_not():
    assert less(LOW, HIGH).grade == HELD
    assert less(HIGH, LOW).grade == NOT_HELD
    assert less(LOW, NOISY).grade == UNDECIDED
    assert less(LOW, 0.2).grade == HELD
    assert less(0.2, LOW).grade == NOT_HELD


def test_one_repetition_is_undecided_in_words():
    once = sample([0.1])
    assert less(once, HIGH) == Verdict(UNDECIDED, ONCE)
    assert less(once, 0.5) == Verdict(UNDECIDED, ONCE)
    assert within(once, sample([0.1]), 1.0) == Verdict(UNDECIDED, ONCE)
    assert f"{once:.3f}" == "0.100"
    assert f"{LOW:.3f}" == "0.110 ±0.025"


def test_repetitions_that_share_seeds_are_paired():
    """Each is .01 below its partner, though they differ by more among themselves."""
    one = np.array([0.1, 0.3, 0.5, 0.7])
    other = one + np.array([0.010, 0.011, 0.012, 0.013])
    assert less(sample(one), sample(other)).grade == HELD
    unpaired = Estimate(*sample(one)[:3])
    assert less(unpaired, sample(other)).grade == UNDECIDED


@pytest.mark.parametrize("shift", [0.0, 0.6, 1.2, 3.0])
def test_verdicts_are_those_of_t_tests(shift):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=6), rng.normal(shift, 2, size=6)
    few = b[:4]
    for verdict, p in (
        (less(sample(a), sample(b)), ttest_rel(a, b).pvalue),
        (less(sample(a), sample(few)), ttest_ind(a, few, equal_var=False).pvalue),
        (less(sample(a), shift), ttest_1samp(a, shift).pvalue),
    ):
        assert (verdict.grade == UNDECIDED) == (p > 0.05)
    apart = total((1.0, sample(a)), (-1.0, sample(b)))
    np.testing.assert_allclose(p_value(apart), ttest_rel(a, b).pvalue)


def test_what_does_not_vary_differs_for_certain_or_not_at_all():
    assert p_value(sample([0.1, 0.1])) == 0
    assert p_value(sample([0.0, 0.0])) == 1
    assert np.isnan(p_value(sample([0.1])))


def test_a_margin_lets_a_little_more_pass():
    assert less(HIGH, LOW, 0.2).grade == HELD
    assert within(LOW, HIGH, 0.2).grade == HELD
    assert within(LOW, HIGH, 0.05).grade == NOT_HELD
    assert within(LOW, NOISY, 0.05).grade == UNDECIDED
    assert within(LOW, 0.11, 0.05).grade == HELD


def test_values_fall_where_each_is_less_than_the_one_before():
    assert falls([HIGH, LOW, sample([0.01, 0.02, 0.03])]).grade == HELD
    assert falls([HIGH, LOW, HIGH]).grade == NOT_HELD
    assert falls([HIGH, LOW, NOISY]).grade == UNDECIDED


def test_counts_are_held_only_where_what_is_undecided_does_not_matter():
    three = [Verdict(HELD), Verdict(UNDECIDED, "why"), Verdict(NOT_HELD)]
    assert at_least(1, three).grade == HELD
    assert at_least(2, three) == Verdict(UNDECIDED, "why")
    assert at_least(3, three).grade == NOT_HELD
    assert every([]).grade == HELD
    assert exact(True).grade == HELD
    assert exact(False).grade == NOT_HELD
    told = tally(dict(zip("abc", three, strict=True)))
    assert told == "1 held, 1 undecided, 1 not held of 3; not held: c; undecided: b"
    many = tally({f"set-{i}": Verdict(NOT_HELD) for i in range(9)})
    assert many.endswith("set-3, ...")


def test_sums_and_means_keep_what_is_known_of_the_spread():
    assert average([LOW, HIGH]).values == pytest.approx((0.15, 0.16, 0.17))
    assert total((2.0, LOW), plus=1.0).mean == pytest.approx(1.22)
    unpaired = total((1.0, HIGH), (-1.0, sample([0.1, 0.2])))
    assert unpaired.values == ()
    assert 1 < unpaired.freedom < 3
    assert total((1.0, HIGH), (1.0, sample([0.1]))).error is None


def test_records_keep_repetitions_where_they_are_few():
    few = record_of(PAPER, "gaps", Number("adult", "gap", [0.1, 0.3], {"method": "relay"}))
    assert few.values == [0.1, 0.3]
    many = record_of(PAPER, "gaps", Number("adult", "gap", np.ones(MANY + 1), {"method": "relay"}))
    assert (many.values, many.reps, many.std) == ([], MANY + 1, 0)
    lost = record_of(PAPER, "gaps", Number("adult", "gap", [0.1, np.nan], {"method": "relay"}))
    assert (lost.values, lost.reps, lost.value) == ([], 1, 0.1)


def test_an_estimate_is_what_a_record_shows_with_the_spread_of_its_repetitions():
    median = estimate(of_record(0.2, None, 1, [0.1, 0.2, 0.6]))
    assert median.mean == 0.2
    assert median.half == sample([0.1, 0.2, 0.6]).half
    assert estimate(of_record(0.2, 0.3, 9)).error == pytest.approx(0.1)
    assert estimate(of_record(0.2, None, 1)).error is None


def test_numbers_are_found_by_their_fields():
    number = Numbers([of_record(0.2, 0.3, 9)])
    assert number(item="gaps", method="relay").mean == 0.2
    assert list(number.each("dataset", metric="test_gap")) == ["adult"]
    assert number.sets(method="crc") == []
    with pytest.raises(KeyError):
        number(method="crc")
