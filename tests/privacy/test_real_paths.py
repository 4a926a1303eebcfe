"""Audits of the code that real releases go through: short here, with many releases in make full."""

import pytest

from audits import PATHS, audited

SURE = 1 - 1e-9  # noise is unseeded: it must not fail by chance


@pytest.mark.some("Laplace, even", "release", "sealed")
@pytest.mark.parametrize("name", PATHS)
def test_no_path_tells_more_than_it_claims(name):
    assert audited(name, 150, SURE) <= PATHS[name][0]


@pytest.mark.full  # the test above stands for it
@pytest.mark.parametrize("name", PATHS)
def test_no_path_tells_more_than_it_claims_in_many_releases(name):
    assert 0.2 * PATHS[name][0] < audited(name, 20_000, 1 - 1e-6) <= PATHS[name][0]
