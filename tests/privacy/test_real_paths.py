"""Audits of the code that real releases go through: short here, with many releases in make full."""

import numpy as np
import pytest

from audits import CLASSES, COLUMNS, PATHS, SCHEMA, Again, apart, audited, frame_of
from peerwise.privacy import private_statistics, vetted

SURE = 1 - 1e-9  # noise is unseeded: it must not fail by chance


def test_up_to_its_noise_a_release_is_the_same_whenever_it_is_made():
    """So that an audit may draw much noise about one release."""
    seen = []

    def noise(kind, values, scale, *, off=False):
        seen.append((kind, np.array(values), np.array(scale)))
        return vetted(kind, values, scale, off=off)

    frame, labels = frame_of(True)
    for source in (noise, noise, again := Again(3)):
        private_statistics(frame, labels, SCHEMA, epsilon=1.0, bounds=COLUMNS, noise=source)
    (kind, values, scale), second = seen
    assert kind == second[0]
    assert (values == second[1]).all()
    assert (scale == second[2]).all()
    assert again.drawn.shape == (3, len(CLASSES), values.shape[1])
    assert len(np.unique(again.drawn[:, 0, 0])) == 3
    assert (np.abs(again.drawn - values[None]) < 60 * scale[None]).all()


@pytest.mark.some("Laplace, even", "release", "sealed")
@pytest.mark.parametrize("name", PATHS)
def test_no_path_tells_more_than_it_claims(name):
    assert audited(name, 150, SURE) <= PATHS[name][0]


@pytest.mark.full  # the test above stands for it
@pytest.mark.parametrize("name", PATHS)
def test_no_path_tells_more_than_it_claims_in_many_releases(name):
    assert audited(name, 20_000, 1 - 1e-6) <= PATHS[name][0]


@pytest.mark.some("release")
@pytest.mark.parametrize("name", PATHS)
def test_audits_look_at_what_is_released_and_at_its_noise(name):
    """Ratios are apart by a good part of what the claim allows: by .32 of it or more, when run.

    They are no more deviations apart than the claim allows: half the noise would be twice as many.
    """
    allowed, deviations = apart(name, 5_000)
    assert allowed > 0.25
    assert deviations < 1.6  # one of 5,000 is known to .09 of it
