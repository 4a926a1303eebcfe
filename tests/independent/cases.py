"""How many random cases a test takes: a few always, many with all that takes long."""

import pytest

MANY = 200


def random_cases(few=4):
    """Seeds of random cases; all but a few of them are for `make full`."""
    several = range(few, MANY)
    return pytest.mark.parametrize(
        "seeds", [range(few), pytest.param(several, marks=pytest.mark.full)], ids=["few", "many"]
    )
