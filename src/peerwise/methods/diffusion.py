"""Diffusion of neural networks over links that lose messages, risk-neutral and risk-aware.

"Risk-Aware Decentralized Federated Learning with Intermittent Communications" (Theodoropoulos,
Mavrokefalidis, Berberidis), called CVaR-CTA: nodes combine what they heard, then adapt; the
risk-aware variants train on the conditional value at risk, and may combine only the models that
are worst off. Weights are those of what was heard: a lost message leaves no hole.
"""

from typing import Any

from peerwise.combine import weigh as weighing
from peerwise.core import Mean, Method
from peerwise.errors import UnknownName
from peerwise.methods.neural import trained
from peerwise.nets.net import Net
from peerwise.update.losses import Loss, cross_entropy
from peerwise.update.risk import check_alpha, tail
from peerwise.update.training import training_of

__all__ = ["average_cvar", "cta", "cvar_cvar"]

ORDERS = ("cta", "atc")


def cta(
    net: Net, *, loss: Loss | None = None, order: str = "cta", weigh: Any = None, **training: Any
) -> Method:
    """Combine then adapt: the mean of oneself and all neighbours heard, then local steps.

    `order="atc"` (adapt then combine) trains before it first speaks; read it after "combine".
    `weigh`: another rule of combination, e.g. Metropolis. All nodes begin alike.
    """
    return _diffusion(net, loss, order, weigh or weighing.equal(True), training)


def average_cvar(
    net: Net,
    *,
    alpha: float = 0.3,
    smooth: bool = True,
    gamma: float = 0.0,
    lr_t: float | None = None,
    loss: Loss | None = None,
    order: str = "cta",
    weigh: Any = None,
    **training: Any,
) -> Method:
    """CTA on the conditional value at risk, with a threshold t mixed like the weights (eq. 7).

    alpha = 1 is `cta`. A lone node's step is up to 1 / alpha times as long: compare with `cta` at a
    learning rate of lr / alpha.
    """
    risk = _risk(alpha, smooth, gamma, lr_t)
    return _diffusion(net, loss, order, weigh or weighing.equal(True), training, **risk)


def cvar_cvar(
    net: Net,
    *,
    alpha: float = 0.3,
    quantile: str = "count",
    smooth: bool = True,
    gamma: float = 0.0,
    lr_t: float | None = None,
    loss: Loss | None = None,
    order: str = "cta",
    **training: Any,
) -> Method:
    """As `average_cvar`, and only the models of the worst losses heard are combined (eq. 10).

    A node tells its loss with its weights. alpha = 1 is `cta`.
    """
    risk = _risk(alpha, smooth, gamma, lr_t)
    return _diffusion(net, loss, order, weighing.worst(alpha, quantile), training, **risk)


def _risk(alpha: float, smooth: bool, gamma: float, lr_t: float | None) -> dict[str, Any]:
    check_alpha(alpha)
    return {} if alpha == 1 else {"risk": tail(alpha, smooth, gamma), "lr_t": lr_t}


def _diffusion(
    net: Net, loss: Loss | None, order: str, weigh: Any, training: dict[str, Any], **risk: Any
) -> Method:
    if order not in ORDERS:
        raise UnknownName("order", order, ORDERS)
    options = {"steps": 10, "batch": 100, "momentum": 0.0, **training}
    if options.get("epochs") is not None:
        options.pop("steps")
    chosen = loss or cross_entropy()
    return trained(net, chosen, Mean(weigh), "common", training_of(options), order == "atc", **risk)
