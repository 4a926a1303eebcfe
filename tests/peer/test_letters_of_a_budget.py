"""Under a budget letters depend on a node's rows by what got noise, and noise covers any row."""

import jax
import numpy as np
import pytest

from audits import DELTA
from budgeted import CASES, EPSILON, SOME, all_letters, plan_of, told, without_values


@pytest.fixture(autouse=True)
def blind(monkeypatch):
    """Noise that tells nothing of what it is added to; programs are not kept for other tests."""
    without_values(monkeypatch)
    yield
    jax.clear_caches()


@pytest.mark.some(*SOME)
@pytest.mark.parametrize("case", CASES)
def test_letters_and_models_tell_nothing_of_rows_but_what_got_noise(case):
    whole, seen = all_letters(CASES[case], "all")
    assert len(set(whole)) > 2
    # charters name the kind of noise that is drawn, and the delta that it costs
    drawn = {"laplace" if kind == "laplace" else "gaussian" for kind, _, _ in seen}
    kind, delta = plan_of(CASES[case], "a", "none").charter.noise_spent()
    assert ({kind}, delta > 0) == (drawn, kind == "gaussian")
    covered = {}
    for kind in ("one less", "a hostile row", "no such person", "one", "none"):
        other, noised = all_letters(CASES[case], kind)
        assert len(other) == len(whole)
        for a, b in zip(whole, other, strict=True):
            assert a == b, kind
        covered[kind] = told(seen, noised, EPSILON, DELTA)
    # one row, or person, that lies at all bounds moves all releases as far as the budget allows:
    # with less noise, or some of them without, it would be more
    unit = "no such person" if "person" in case else "one less"
    assert 0.99 < covered[unit] <= 1 + 1e-9
    # a row that becomes another is one less and one more
    assert unit == "no such person" or covered["a hostile row"] <= 2
    assert np.isfinite(list(covered.values())).all()
