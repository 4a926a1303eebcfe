"""Risk-based calibration of a generative classifier, as a scikit-learn estimator."""

import warnings
from numbers import Integral, Real
from typing import Any, Self

import jax
import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.model_selection import train_test_split
from sklearn.utils.validation import (
    _check_sample_weight,
    check_consistent_length,
    check_is_fitted,
)

from peerwise import notebook
from peerwise.core import Shard
from peerwise.declare import find
from peerwise.errors import BadData, BadSetting
from peerwise.estimators.columns import as_columns, constant, encoded, learn_schema
from peerwise.estimators.tabular import Tabular
from peerwise.models.algebra import Statistics
from peerwise.models.classifier import Classifier
from peerwise.models.family import by_class
from peerwise.models.registry import agreed, check_rows, is_plain, model_for
from peerwise.shards import roomy
from peerwise.update.calibrate import calibrated
from peerwise.update.expectation import em

Array = npt.NDArray[Any]


class RiskCalibratedClassifier(Tabular):
    """A generative classifier, fitted from its statistics and calibrated by its soft error (RC).

    Parameters
    ----------
    model : the classifier: "naive_bayes", "shared_naive_bayes", "qda", "lda", "tan",
        "multinomial" (counts), "bernoulli" (0 and 1).
    model_options : options of the model, e.g. {"shrinkage": 0.1} for qda.
    lr : learning rate; how far one iteration moves the statistics.
    max_iter : iterations at most; 0 leaves maximum likelihood.
    start : "ml", or "uniform" as in the CRC paper.
    early_stopping : stop when the soft error has not fallen by `tol` for `n_iter_no_change`
        iterations; otherwise all `max_iter` are made. The best iterate is kept either way.
    validation_fraction : share of rows on which the soft error is watched; None: all training rows.
    prior_rows : pseudo-rows of a uniform conjugate prior in every class.
    categorical_features : "from_dtype" (a frame's category, text and bool columns), or columns by
        name, number or mask.
    handle_unknown : a category that training did not have: "error", or "missing" (integrated out).
    cost : cost[i][j] of saying class j where i is true; None: the most probable class.
    unlabelled : the value in y of rows without a label; they are used by EM (naive Bayes).
    random_state : of the validation split.

    Attributes
    ----------
    classes_, n_features_in_, feature_names_in_ : as everywhere in scikit-learn.
    schema_ : what the columns mean.
    statistics_ : the raw sums of the rows (and prior), which add, subtract and save.
    calibrated_ : the statistics after calibration; `classifier_` is made of them.
    loss_curve_ : the soft error of every iterate, from the start on; n_iter_ : how many were made.
    """

    def __init__(
        self,
        model: str = "naive_bayes",
        *,
        model_options: dict[str, Any] | None = None,
        lr: float = 0.1,
        max_iter: int = 256,
        start: str = "ml",
        early_stopping: bool = True,
        validation_fraction: float | None = None,
        n_iter_no_change: int = 16,
        tol: float = 1e-5,
        prior_rows: float = 1.0,
        categorical_features: Any = "from_dtype",
        handle_unknown: str = "error",
        cost: Any = None,
        unlabelled: Any = None,
        random_state: Any = None,
    ):
        self.model = model
        self.model_options = model_options
        self.lr = lr
        self.max_iter = max_iter
        self.start = start
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.prior_rows = prior_rows
        self.categorical_features = categorical_features
        self.handle_unknown = handle_unknown
        self.cost = cost
        self.unlabelled = unlabelled
        self.random_state = random_state

    def _check(self) -> None:
        for name, least in (("max_iter", 0), ("n_iter_no_change", 1)):
            value = getattr(self, name)
            if not isinstance(value, Integral) or value < least:
                raise BadSetting(f"{name} must be a whole number, {least} or more, got {value!r}")
        for name in ("prior_rows", "tol"):
            value = getattr(self, name)
            if not isinstance(value, Real) or not 0 <= float(value) < np.inf:
                raise BadSetting(f"{name} must be a finite number, 0 or more, got {value!r}")
        lr: Any = self.lr
        if not isinstance(lr, Real) or not 0 < float(lr) < np.inf:
            raise BadSetting(f"lr must be a finite number greater than 0, got {lr!r}")
        if self.start not in ("ml", "uniform"):
            raise BadSetting(f"start must be 'ml' or 'uniform', got {self.start!r}")
        share = self.validation_fraction
        if share is not None and not 0 < share < 1:
            raise BadSetting(f"validation_fraction must be between 0 and 1, got {share!r}")

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model to rows, then calibrate it on them."""
        self._check()
        self._begin(X, y, sample_weight, None)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Add rows to the statistics, then calibrate on the new rows.

        The first call fixes the schema: classes, categories, center and scale, TAN's structure.
        With max_iter=0 any number of batches gives what all rows at once would under that schema;
        with prior_rows=0 as well, what `fit` on all rows gives, to rounding: a prior is about the
        center and scale of the first rows. (Rows without a label are shared out batch by batch.)
        """
        self._check()
        if not hasattr(self, "calibrated_"):
            self._begin(X, y, sample_weight, classes)
            return self
        if classes is not None and self._distinct(classes).tolist() != self.classes_.tolist():
            raise BadData(
                f"classes={np.asarray(classes).tolist()} is not what the first call to partial_fit "
                f"had: {self.classes_.tolist()}"
            )
        columns, y = self._columns(X, y, reset=False)
        weight = _weights(sample_weight, y)
        self._add(encoded(columns, self.schema_, self.handle_unknown), self._codes(y), weight)
        return self

    def _begin(self, X: Any, y: Any, sample_weight: Any, classes: Any) -> None:
        self.__dict__.pop("calibrated_", None)  # if this fails, there is no half of two fits
        columns, y = self._columns(X, y, reset=True)
        weight = _weights(sample_weight, y)
        self.classes_ = self._distinct(y if classes is None else classes)
        if not len(self.classes_):
            raise BadData("no row has a label")
        self.schema_ = learn_schema(
            columns,
            self._names(),
            self.classes_,
            self.categorical_features,
            weight,
            not is_plain(self.model),
        )
        x = encoded(columns, self.schema_, self.handle_unknown)
        codes = self._codes(y)
        options = agreed(self.schema_, self.model, x, codes, weight) | (self.model_options or {})
        self._built = model_for(self.schema_, self.model, **options)
        self._warn_of_singular(codes)
        self._check_complete(x)
        # a number that never varies says nothing: not even how much of the prior a class has
        self._constant = constant(x, self.schema_) & (not is_plain(self.model))
        still = {self.schema_.features[j].name: 0.0 for j in np.flatnonzero(self._constant)}
        self.statistics_ = Statistics.prior(
            self.schema_, self.model, rows=self.prior_rows, std=still, **options
        )
        self._moved: Any = None  # by calibration so far
        self._add(x, codes, weight)

    def _warn_of_singular(self, codes: Array) -> None:
        numbers = sum(f.kind == "numeric" for f in self.schema_.features)
        counts = np.bincount(codes[codes >= 0], minlength=len(self.classes_))
        few = int(counts.argmin())
        apart = self._has_covariance() and not self._built.shared  # every class has its own
        if apart and counts[few] <= numbers and not (self.model_options or {}):
            warnings.warn(
                f"class {self.classes_[few]} has {counts[few]} rows for {numbers} numbers: its "
                "covariance is singular, and its smallest variances were raised; consider "
                "model_options={'shrinkage': 0.1}, or model='lda'",
                stacklevel=4,
            )

    def _has_covariance(self) -> bool:
        """Whether the model learns how numbers vary together, which can be shrunk."""
        return "shrinkage" in find("model", self.model).options

    def _check_complete(self, x: Array) -> None:
        """A covariance is learnt from rows that have all their numbers: say if they are few."""
        if not self._has_covariance() or not self.schema_.missing:
            return
        numbers = [i for i, f in enumerate(self.schema_.features) if f.kind == "numeric"]
        complete = int((~np.isnan(x[:, numbers]).any(1)).sum())
        if not complete:
            raise BadData(
                f"every row lacks a number, and {self.model} learns a covariance only from "
                "complete rows; fill some in, or use naive_bayes, which needs no complete row"
            )
        if 2 * complete < len(x):
            warnings.warn(
                f"only {complete} of {len(x)} rows have all their numbers, from which {self.model} "
                "learns its covariance; naive_bayes uses all rows",
                stacklevel=4,
            )

    def _columns(self, X: Any, y: Any, reset: bool) -> tuple[list[Any], Array]:
        """Checked columns and labels; rows without a label are not scikit-learn's to check."""
        y = self._labels(y)
        if self.unlabelled is None:
            return as_columns(self, X, reset=reset, y=y)
        columns, _ = as_columns(self, X, reset=reset)
        check_consistent_length(columns[0], y)
        return columns, y

    def _distinct(self, classes: Any) -> Array:
        """Distinct classes in order."""
        classes = np.asarray(classes)
        return np.unique(classes[self._has_label(classes)])

    def _has_label(self, y: Array) -> Array:
        if self.unlabelled is None:
            return super()._has_label(y)
        if pd.isna(self.unlabelled):
            return ~pd.isna(y)
        return np.asarray(y != self.unlabelled)

    def _codes(self, y: Array) -> Array:
        labelled = self._has_label(y)
        place = {c: i for i, c in enumerate(self.classes_.tolist())}
        codes = np.full(len(y), -1, np.int32)
        labels, code = np.unique(y[labelled], return_inverse=True)
        unseen = [c for c in labels.tolist() if c not in place]
        if unseen:
            raise BadData(f"the label {unseen[0]!r} is not among the classes: {list(place)}")
        codes[labelled] = np.array([place[c] for c in labels.tolist()], np.int32)[code]
        return codes

    def _add(self, x: Array, codes: Array, weight: Array) -> None:
        """Add rows to the sums and calibrate on them."""
        model, held, known = self._built, self.statistics_, codes >= 0
        check_rows(model, x, self.schema_)
        if np.isnan(x).any() and not self.schema_.missing:
            row, column = np.argwhere(np.isnan(x))[0].tolist()
            raise BadData(
                f"column '{self.schema_.features[column].name}' has no value in row {row}, and no "
                "value was missing in the first call to partial_fit, which fixed the model"
            )
        rows, watched = self._split(x[known], codes[known], weight[known])
        own = x[known], codes[known], self.schema_, self.model, weight[known]
        sums = held + Statistics.of(*own, **held.options)
        if not known.all():
            absent = by_class(sums.values)[:, 0] <= self.prior_rows
            if absent.any():
                raise BadData(
                    f"class {self.classes_[absent.argmax()]} has no labelled row to start from; "
                    "label one"
                )
            learnt = em(model, x, codes, weight, prior=held.values, start=sums.values).statistics
            sums = Statistics(self.schema_, learnt, self.model, held.options)
        self.statistics_ = sums
        self._constant = self._constant & constant(x, self.schema_)
        self._calibrate(rows, watched)

    def _calibrate(self, rows: Shard, watched: Shard) -> None:
        sums = self.statistics_
        with jax.enable_x64(True):
            if self.start == "ml":
                start = (sums * (1 / self.lr)).values
            else:
                start = jax.tree.map(np.asarray, self._built.uniform(sums.rows / self.lr, float))
            if self._moved is not None:  # what earlier batches taught
                start = jax.tree.map(np.add, start, self._moved)
            patience = self.n_iter_no_change if self.early_stopping else self.max_iter + 1
            run = calibrated(self._built, int(self.max_iter) if rows.weight.any() else 0)
            end = run(start, rows, watched, float(self.tol), int(patience))
            best = jax.tree.map(np.asarray, end.statistics)
        step = jax.tree.map(np.subtract, best, start)
        earlier = self._moved
        self._moved = step if earlier is None else jax.tree.map(np.add, earlier, step)
        self.n_iter_ = int(end.iterations)
        self.loss_curve_ = np.asarray(end.soft_error)[: self.n_iter_ + 1]
        self.calibrated_ = Statistics(self.schema_, best, self.model, sums.options)

    def _split(self, x: Array, codes: Array, weight: Array) -> tuple[Shard, Shard]:
        """Rows to calibrate on and rows to watch, padded to few sizes: few programs to compile."""
        every = np.arange(len(codes))
        train = watch = every
        if self.validation_fraction is not None and len(codes):
            counts = np.bincount(codes, minlength=len(self.classes_))
            fine = counts[counts > 0].min() >= 2
            try:
                train, watch = train_test_split(
                    every,
                    test_size=self.validation_fraction,
                    random_state=self.random_state,
                    stratify=codes if fine else None,
                )
            except ValueError as error:
                raise BadData(f"too few rows for validation_fraction: {error}") from None
        return _padded(x[train], codes[train], weight[train]), _padded(
            x[watch], codes[watch], weight[watch]
        )

    @property
    def classifier_(self) -> Classifier:
        """The calibrated classifier, on encoded rows."""
        check_is_fitted(self, "calibrated_")
        return self.calibrated_.to_classifier()

    def _learnt_html(self) -> str:
        if not hasattr(self, "calibrated_"):
            return ""
        curve = np.asarray(getattr(self, "loss_curve_", ()), float)
        steps = np.unique(np.linspace(0, len(curve) - 1, min(len(curve), 200)).astype(int))
        lines = {"soft error": (steps.tolist(), curve[steps].tolist())} if len(curve) > 1 else {}
        drawn = notebook.chart(lines, "soft error on the rows watched", "iteration of calibration")
        return self.classifier_._repr_html_() + drawn

    def predict_joint_log_proba(self, X: Any) -> Array:
        """log p(x, y) of the (standardised) rows."""
        return self.classifier_.log_joint(self._encode(X))

    def predict_log_proba(self, X: Any) -> Array:
        """log p(y | x); missing features are integrated out."""
        x = self._encode(X)
        return self.classifier_.log_proba(x)

    def predict_proba(self, X: Any) -> Array:
        """p(y | x); what is missing is integrated out."""
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: Any) -> Array:
        """The most probable class, or the one of least expected cost."""
        x = self._encode(X)
        return self._decide(self.classifier_.log_proba(x))

    def explain(self, row: Any, target: Any = None, against: Any = None) -> Any:
        """What each feature adds to the log-odds of one prediction: see `Classifier.explain`.

        The odds are of the most probable class, or of `target`, against the next, or `against`.
        """
        check_is_fitted(self, "schema_")
        if isinstance(row, pd.Series):
            row = row.to_frame().T.infer_objects()
        elif np.ndim(row) == 1:
            row = np.asarray(row)[None]
        x = self._encode(row)
        if len(x) != 1:
            raise BadData(f"explain takes one row, got {len(x)}")
        names = [None if c is None else str(c) for c in (target, against)]
        return self.classifier_.explain(x[0], *names)

    def sample(self, rows: int, seed: int = 0) -> Any:
        """Synthetic rows of the fitted (not calibrated) model, as a table."""
        check_is_fitted(self, "calibrated_")
        return self.statistics_.to_classifier().sample(rows, seed)

    def __getstate__(self) -> Any:
        state = dict(super().__getstate__())
        state.pop("_built", None)  # functions; made again from the schema
        return state

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state)
        if hasattr(self, "statistics_"):
            self._built = self.statistics_.made


def _weights(given: Any, y: Array) -> Array:
    return np.asarray(_check_sample_weight(given, y, dtype=np.float64, ensure_non_negative=True))


def _padded(x: Array, codes: Array, weight: Array) -> Shard:
    pad = roomy(len(codes)) - len(codes)
    return Shard(
        np.concatenate([x, np.zeros((pad, x.shape[1]))]),
        np.concatenate([codes, np.zeros(pad, np.int32)]),
        np.concatenate([weight, np.zeros(pad)]),
    )
