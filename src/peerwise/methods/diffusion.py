"""Diffusion of neural networks over links that lose messages, risk-neutral and risk-aware.

"Risk-Aware Decentralized Federated Learning with Intermittent Communications" (Theodoropoulos,
Mavrokefalidis, Berberidis), called CVaR-CTA: nodes combine what they heard, then adapt; the
risk-aware variants train on the conditional value at risk, and may combine only the models that
are worst off. Weights are normalised over the messages heard, so that none is missing.
"""

from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

from annotated_types import Ge, Gt, Le

from peerwise.combine.weigh import Rule, worst
from peerwise.core import Method
from peerwise.declare import declares
from peerwise.methods.neural import trained
from peerwise.nets.net import Net
from peerwise.update.losses import LossOption
from peerwise.update.risk import tail
from peerwise.update.training import Training

Order: TypeAlias = Annotated[Literal["cta", "atc"], "combine then adapt, or adapt then combine"]
DIFFUSION = Training(steps=10, batch=100, momentum=0.0)


class RiskOptions(NamedTuple):
    """What makes training risk-aware; alpha = 1 is the plain mean."""

    alpha: Annotated[float, Gt(0), Le(1), "the share of worst losses"] = 0.3
    smooth: Annotated[bool, "softplus instead of the positive part"] = True
    gamma: Annotated[float, Ge(0), Le(1), "share of the mean in the objective"] = 0.0
    lr_t: Annotated[float | None, Gt(0), Le(1000), "learning rate of the threshold; none: lr"] = (
        None
    )

    def objective(self) -> dict[str, Any]:
        """The risk as `trained` takes it."""
        if self.alpha == 1:
            return {}
        return {"risk": tail(self.alpha, self.smooth, self.gamma), "lr_t": self.lr_t}


@declares("method")
def cta(
    net: Net,
    *,
    order: Order = "cta",
    rule: Rule = {"name": "equal", "include_self": True},  # noqa: B006
    loss: LossOption = "cross_entropy",
    training: Training = DIFFUSION,
) -> Method:
    """Combine then adapt: the mean of the node and all neighbours heard, then local steps.

    `order="atc"` (adapt then combine) trains before its first message; measure it after "combine".
    `rule`: another rule of combination, e.g. "metropolis". All nodes start with the same weights.
    """
    return _diffusion(net, loss, order, rule, training)


@declares("method")
def average_cvar(
    net: Net,
    *,
    risk: RiskOptions = RiskOptions(),
    order: Order = "cta",
    rule: Rule = {"name": "equal", "include_self": True},  # noqa: B006
    loss: LossOption = "cross_entropy",
    training: Training = DIFFUSION,
) -> Method:
    """CTA on the conditional value at risk, with a threshold t mixed like the weights (eq. 7).

    alpha = 1 is `cta`. A lone node's step is up to 1 / alpha times as long: compare with `cta` at a
    learning rate of lr / alpha.
    """
    return _diffusion(net, loss, order, rule, training, **risk.objective())


@declares("method")
def cvar_cvar(
    net: Net,
    *,
    risk: RiskOptions = RiskOptions(),
    quantile: Annotated[
        Literal["count", "lower", "linear", "higher"], "how the share becomes a threshold"
    ] = "count",
    order: Order = "cta",
    loss: LossOption = "cross_entropy",
    training: Training = DIFFUSION,
) -> Method:
    """As `average_cvar`, combining only the models of the worst losses heard (eq. 10).

    A node sends its loss with its weights. alpha = 1 is `cta`.
    """
    rule = worst(alpha=risk.alpha, quantile=quantile)
    return _diffusion(net, loss, order, rule, training, **risk.objective())


def _diffusion(
    net: Net, loss: Any, order: str, rule: Any, training: Training, **objective: Any
) -> Method:
    if training.epochs != 1 and training.steps == DIFFUSION.steps:
        training = training._replace(steps=None)  # epochs were asked for instead of the default
    return trained(net, loss, rule, "common", training, order == "atc", **objective)
