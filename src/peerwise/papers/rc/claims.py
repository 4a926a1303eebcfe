"""What calibration is meant to do to every model, and how that is graded."""

from peerwise.papers.claims import Numbers, Verdict, claim, every, less, tally
from peerwise.papers.rc.items import MODELS
from peerwise.study.results import Claim

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
    return claim(
        f"rc-lowers-{metric}",
        f"Calibration lowers the {what} of every model on every set",
        "RC is below maximum likelihood, for each model and set",
        tally(pairs),
        "",
        every(pairs.values()),
    )


def _best(number: Numbers) -> Claim:
    of = {"item": "compare", "metric": "test_error"}
    ours = number.each("model", "dataset", **of, method="rc")
    rival = number.each("dataset", **of, method="logistic_regression")
    verdicts: dict[str, Verdict] = {}
    for name in rival:
        here = [ours[model, name] for model in MODELS if (model, name) in ours]
        if here:
            verdicts[name] = less(min(here, key=lambda one: one.mean), rival[name], 0.01)
    return claim(
        "best-of-ours",
        "The best calibrated model is as good as logistic regression",
        "its test error is at most 0.01 higher, on every set",
        tally(verdicts),
        "",
        every(verdicts.values()),
    )
