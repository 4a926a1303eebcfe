"""What calibration is meant to do to every model, and how that is graded."""

from peerwise.papers.claims import Numbers, Verdict, every, less, sentences, tally
from peerwise.papers.rc.items import MODELS
from peerwise.study.results import Claim

_claim = sentences("rc")
LOWERS = {
    "train_soft_error": "training soft error",
    "test_error": "test error",
    "test_log_loss": "test log-loss",
}


def claims(number: Numbers) -> list[Claim]:
    """What the comparison says, each claim graded with the exceptions named."""
    if not number.sets(item="compare"):
        return []
    return [*(_lowers(number, metric, what) for metric, what in LOWERS.items()), _best(number)]


def _lowers(number: Numbers, metric: str, what: str) -> Claim:
    of = {"item": "compare", "metric": metric}
    before, after = (number.each("model", "dataset", **of, method=m) for m in ("ml", "rc"))
    pairs = {f"{model} on {name}": less(after[model, name], before[model, name])
             for model, name in before if (model, name) in after}  # fmt: skip
    return _claim("lowers", every(pairs.values()), tally(pairs), metric=metric, what=what)


def _best(number: Numbers) -> Claim:
    of = {"item": "compare", "metric": "test_error"}
    ours = number.each("model", "dataset", **of, method="rc")
    rival = number.each("dataset", **of, method="logistic_regression")
    verdicts: dict[str, Verdict] = {}
    for name in rival:
        here = [ours[model, name] for model in MODELS if (model, name) in ours]
        if here:
            verdicts[name] = less(min(here, key=lambda one: one.mean), rival[name], 0.01)
    return _claim("best-of-ours", every(verdicts.values()), tally(verdicts))
