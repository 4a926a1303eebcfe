"""What sealed sums are meant to give, and how that is graded."""

from peerwise.papers.claims import Numbers, every, exact, sentences, tally
from peerwise.papers.sealed.items import SETTINGS
from peerwise.study.results import Claim

_claim = sentences("sealed")
NEAR = 0.01  # AUC


def claims(number: Numbers) -> list[Claim]:
    """The claims that numbers speak to."""
    of = {"item": "utility", "metric": "auc"}
    ours = number.each("dataset", "nodes", "epsilon", **of, kind="sealed")
    theirs = number.each("dataset", "epsilon", **of, kind="curator")
    verdicts = {
        f"{name} {nodes} {epsilon}": exact(theirs[name, epsilon].mean - one.mean <= NEAR)
        for (name, nodes, epsilon), one in ours.items()
        if (name, epsilon) in theirs
    }
    claims = [_claim("curator", every(verdicts.values()), tally(verdicts))] if verdicts else []
    return [*claims, *_calibration(number)]


def _calibration(number: Numbers) -> list[Claim]:
    claims = []
    for name, aims in SETTINGS["aims"].items():
        for epsilon, aim in aims.items():
            try:
                one = number(
                    item="calibration", dataset=name, metric="test_error", method="sealed_crc",
                    epsilon=epsilon,
                )  # fmt: skip
            except KeyError:
                continue
            words = {"dataset": name, "epsilon": epsilon, "aim": aim}
            claims.append(_claim("calibration", exact(one.mean <= aim), f"{one.mean:.3f}", **words))
    return claims
