"""One experiment as a checked, hashable value: what is learnt, by whom, from which rows."""

import hashlib
import itertools
import json
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from peerwise.errors import BadSetting, UnknownName
from peerwise.experiments.baselines import BASELINES

__all__ = ["Setting", "expand", "setting_from"]

Scalar = str | int | float | bool
# methods that train neural networks
DIFFUSION = ("average_cvar", "cta", "cvar_cvar")  # of neural networks that begin alike
NEURAL = ("ba_bfl", "cfa", "cfa_ge", "decavg", "decdiff", "fedavg", "isolated_net", "pooled_net",
          "relay_gd", *DIFFUSION)  # fmt: skip
# keys of neural methods alone
OF_NETS = ("net", "net_init", "loss", "beta", "epochs", "steps", "batch", "optimiser", "momentum",
           "weight_decay", "validation", "common_start", "bayesian_layers", "samples",
           "paper_init")  # fmt: skip
PRIVATE = ("federated_nb", "gossip_nb", "private_crc", "robust_nb")  # methods with a budget


class Setting(BaseModel):
    """An experiment. Every key has a default, which is that of the CRC paper's experiments."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    data: str = Field(
        "digits", description="data set: a name, or the path of a CSV or Parquet file"
    )
    target: str | None = Field(None, description="the column to predict (files)")
    typing: str = Field(
        "distinct", description='"distinct" (at most 10 values: a category) or "manifest"'
    )
    missing: Literal["category", "missing", "error"] = Field(
        "category", description="what a missing value is"
    )
    drop: tuple[str, ...] = Field((), description="columns to leave out")

    model: str = Field("naive_bayes", description="the classifier: see `peerwise list models`")
    model_options: dict[str, Scalar] = Field({}, description="e.g. {shrinkage = 0.1} for qda")
    method: str = Field("crc", description="how it is learnt: see `peerwise list methods`")
    lr: float = Field(0.05, gt=0, description="learning rate; CRC's m0 is then rows / (lr nodes)")
    m0: float | None = Field(None, gt=0, description="equivalent sample size, instead of lr")
    iterations: int = Field(1, ge=1, description="local calibrations a round")
    include_self: bool = Field(False, description="a node counts among its neighbours")
    weigh: str = Field("equal", description="equal, metropolis, data_size or worst")
    start: Literal["uniform", "ml"] = Field(
        "uniform", description="where RC and isolated nodes start"
    )
    iterate: Literal["last", "best"] = Field("last", description="which iterate of RC counts")
    epsilon: float | None = Field(None, gt=0, description="a node's privacy budget; none: no noise")
    delta: float = Field(1e-5, gt=0, lt=1, description="delta of private_crc")
    clip: float = Field(5.0, gt=0, description="how far one row may move an update (private_crc)")
    sensitivity: Literal["local", "bounded"] = Field(
        "bounded", description="of naive Bayes releases; local is the paper's and not private"
    )
    bound: float = Field(3.0, gt=0, description="standardised numbers are clipped to +- this")
    counter: str = Field("printed", description="of gossip_nb: printed, total, push_sum, ...")
    net: str = Field("mlp_64", description="of neural methods: see `peerwise list nets`")
    net_init: Literal["he_uniform", "pytorch"] = Field(
        "he_uniform", description="how a net's weights begin"
    )
    loss: Literal["cross_entropy", "virtual_teacher", "linear_teacher"] = Field(
        "cross_entropy", description="what a net's training makes small"
    )
    beta: float = Field(0.99, gt=0, le=1, description="how sure the virtual teacher is")
    epochs: int = Field(1, ge=1, description="local epochs a round (nets)")
    steps: int | None = Field(None, ge=1, description="local steps a round, instead of epochs")
    batch: int = Field(32, ge=1, description="rows of a mini-batch (nets)")
    optimiser: Literal["sgd", "adam"] = Field("sgd", description="of nets")
    momentum: float = Field(0.5, ge=0, lt=1, description="of sgd")
    weight_decay: float = Field(0.0, ge=0, description="of nets")
    validation: float = Field(
        0.0, ge=0, lt=1, description="share of rows kept to stop a net's training early"
    )
    bayesian_layers: int = Field(
        0, ge=0, description="how many of a net's last layers are Bayesian"
    )
    samples: int = Field(
        10, ge=1, description="draws of which a Bayesian net's prediction is the mean"
    )
    paper_init: bool = Field(False, description="variances begin as in BA-BFL's code, clamped")
    common_start: bool = Field(False, description="all nodes begin with the same net")
    method_options: dict[str, Scalar] = Field(
        {}, description="more arguments: of your own method, or of a neural one (s, epsilon, ...)"
    )

    nodes: int = Field(50, ge=1, description="size of the network")
    rows: int = Field(50, ge=1, description="rows a node, on average")
    sizes: str = Field("equal", description="how rows are spread: see `peerwise list sizes`")
    partition: str = Field("iid", description="who gets which rows: see `peerwise list partitions`")
    alpha: float = Field(0.5, gt=0, description="concentration of the dirichlet partitions")
    partition_options: dict[str, Scalar] = Field(
        {}, description="e.g. {alpha = 1.26} for zipf, {homo_ratio = 0.5} for mixed"
    )
    shift: str = Field(
        "none", description="how nodes see or label rows otherwise: see `peerwise list shifts`"
    )
    shift_options: dict[str, Scalar] = Field(
        {}, description="e.g. {strength = 0.5}; 0 leaves the rows as they are"
    )

    topology: str = Field("random_tree", description="the graph: see `peerwise list topologies`")
    topology_options: dict[str, Scalar] = Field({}, description="e.g. {extra = 10} for tree_plus")
    redraw: int | None = Field(None, ge=1, description="draw a new graph every so many rounds")
    push: bool = Field(False, description="a node tells one random neighbour a round, not all")
    arrival: float = Field(1.0, ge=0, le=1, description="probability that a message arrives")
    channel: str = Field(
        "perfect", description="what else befalls messages: see `peerwise list channels`"
    )
    channel_options: dict[str, Scalar] = Field(
        {}, description='e.g. {good = 10, bad = 5} for bursty, {source = "t.csv"} for trace'
    )

    rounds: int = Field(64, ge=1, description="communication rounds")
    repetitions: int = Field(5, ge=1, description="independent splits, graphs and seeds")
    seed: int = Field(0, ge=0, description="everything random follows from it")
    test_rows: int = Field(10_000, ge=1, description="at most so many test rows")
    record: Literal["last", "all"] | int = Field(
        "last", description="when errors are measured: last, all, or every so many rounds"
    )
    metrics: tuple[str, ...] = Field((), description="more probes: see `peerwise list metrics`")
    precision: Literal["float32", "float64"] = Field("float32", description="of the arithmetic")

    @field_validator("record", mode="before")
    @classmethod
    def _record(cls, given: Any) -> Any:
        whole = isinstance(given, int) and not isinstance(given, bool)
        if given in ("last", "all") or (whole and given >= 1):
            return given
        raise ValueError("must be last, all, or a number of rounds from 1 on")

    def canonical(self) -> "Setting":
        """The same experiment with everything that its method ignores at its default."""
        ignored: tuple[str, ...] = ()
        network: tuple[str, ...] = ("topology", "topology_options", "redraw", "push", "arrival")
        network += ("channel", "channel_options", "weigh", "include_self")
        if self.method in ("rc", "ml", "isolated", "isolated_net", "pooled_net", *BASELINES):
            ignored = (*network, "m0", "iterations")
        private = ("epsilon", "delta", "clip", "sensitivity", "bound", "counter")
        if self.method not in PRIVATE:
            ignored += private
        if self.method in NEURAL:
            ignored += ("model", "model_options", "m0", "iterations", "start", "iterate")
            ignored += ("include_self", "weigh")
            ignored += ("beta",) if self.loss == "cross_entropy" else ()
        elif ":" not in self.method:
            ignored += OF_NETS
        if self.method in ("fedavg", "pooled_net"):
            ignored += ("topology", "topology_options", "redraw", "push", "common_start")
        if self.method in (*DIFFUSION, "ba_bfl", "relay_gd"):
            ignored += ("common_start",)
        if not self.bayesian_layers:
            ignored += ("samples", "paper_init")
        if self.method in ("relay", "gradient_tracking"):
            ignored += ("m0", "iterations", "weigh", "include_self")
        if self.method == "federated_nb":
            ignored += ("topology", "topology_options", "redraw", "push", "rounds", "record")
        if self.method == "ml":
            ignored += ("lr", "start", "iterate", "rounds", "record")
        if self.method in BASELINES:
            ignored += ("model", "model_options", "lr", "start", "iterate", "rounds", "record")
        defaults = {name: type(self).model_fields[name].default for name in ignored}
        return self.model_copy(update=defaults)

    def reference(self) -> "Setting":
        """The same model learnt from the very same rows at one place: what gaps are measured to."""
        central = "pooled_net" if self.method in NEURAL else "rc"
        update = {"method": central, "metrics": (), "method_options": {}}
        return self.model_copy(update=update).canonical()

    @property
    def metropolis(self) -> bool:
        """Whether the method needs links with Metropolis weights."""
        return self.weigh == "metropolis" or self.method == "gradient_tracking"

    @property
    def key(self) -> str:
        """A name for the experiment that changes when anything about it does."""
        # defaults are left out, so that a new key with a default does not rename what was run
        told = self.canonical().model_dump(mode="json", exclude_defaults=True)
        text = json.dumps(told, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def setting_from(given: dict[str, Any], where: str = "configuration") -> Setting:
    """A setting from plain values; says which key is wrong and why."""
    for name in given:
        if name not in Setting.model_fields:
            raise UnknownName(f"key in the {where}:", name, Setting.model_fields)
    try:
        made = Setting(**given)
        if made.epsilon is not None and made.method not in PRIVATE and ":" not in made.method:
            raise BadSetting(
                f"{where}: {made.method} adds no noise, so epsilon = {made.epsilon:g} would mean "
                f"nothing; leave it out, or take one of {', '.join(PRIVATE)}"
            )
        return made
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        raise BadSetting(f"{where}: {name} = {first['input']!r}: {first['msg']}") from None


_LISTS = ("drop", "metrics")  # a list is what these expect


def expand(given: dict[str, Any], where: str = "configuration") -> tuple[list[Setting], list[str]]:
    """All settings of a sweep, and the keys that vary: a list stands for each of its values."""
    varied = [k for k, v in given.items() if isinstance(v, list) and k not in _LISTS]
    for name in varied:
        if not given[name]:
            raise BadSetting(f"{where}: {name} is an empty list; give at least one value")
    choices = [given[name] for name in varied]
    return [
        setting_from({**given, **dict(zip(varied, values, strict=True))}, where)
        for values in itertools.product(*choices)
    ], varied
