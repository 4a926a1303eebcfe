"""The options of local training: read by name, checked by their annotations."""

from typing import get_type_hints

import equinox as eqx
import pytest

from peerwise.errors import BadSetting
from peerwise.nets import network_of
from peerwise.update.losses import cross_entropy
from peerwise.update.sgd import OPTIMISERS, trainer
from peerwise.update.training import Training, check_training, epochs_range, training_of

HINTS = get_type_hints(Training, include_extras=True)


def test_every_option_is_described_in_one_line():
    for name, hint in HINTS.items():
        (line,) = (a for a in hint.__metadata__ if isinstance(a, str))
        assert len(line.splitlines()) == 1, name


def test_the_optimisers_are_those_that_an_annotation_lists():
    assert HINTS["optimiser"].__origin__.__args__ == tuple(OPTIMISERS)


def test_the_defaults_are_allowed():
    check_training(Training())
    assert training_of({}) == Training()


def test_options_by_name():
    options = {"lr": 0.1, "epochs": [2, 5], "keep": True}
    training = training_of(options)
    assert training == Training(lr=0.1, epochs=(2, 5), keep=True)
    assert epochs_range(training) == (2, 5)
    assert epochs_range(Training(epochs=3)) == (3, 3)
    hash(training)


def test_an_unknown_option_is_refused_with_the_nearest_name():
    with pytest.raises(BadSetting, match="did you mean 'momentum'"):
        training_of({"momentun": 0.9})


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"lr": 0.0}, "lr must be above 0, got 0.0"),
        ({"lr": float("nan")}, "lr must be above 0, got nan"),
        ({"batch": 0}, "batch must be 1 or more, got 0"),
        ({"momentum": 1.0}, "momentum must be below 1, got 1.0"),
        ({"weight_decay": -1.0}, "weight_decay must be 0 or more, got -1.0"),
    ],
)
def test_values_outside_the_bounds_of_their_annotation_are_refused(wrong, says):
    with pytest.raises(BadSetting, match=says):
        check_training(Training(**wrong))


def test_the_same_options_give_the_same_trainer():
    """So that programs compiled with it are found again."""
    net = network_of(lambda key: eqx.nn.Linear(3, 4, key=key), 3, 4)
    one, two = (trainer(net, cross_entropy(), training_of({"lr": 0.1})) for _ in range(2))
    assert one is two
    assert one is not trainer(net, cross_entropy(), Training())
