"""What the estimators have in common: tables in, encoded under a schema, and classes out."""

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from peerwise.data.schema import Feature, Schema
from peerwise.errors import BadData, PeerwiseError
from peerwise.estimators.columns import as_columns, encoded, without
from peerwise.models.classifier import least_cost
from peerwise.models.registry import is_plain, model_for

Array = npt.NDArray[Any]


class Tabular(ClassifierMixin, BaseEstimator):
    """The base of both estimators: encodes tables under a schema, and decides on classes."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        name = self._model_name()
        plain = name is not None and _is_plain(name)
        tags.input_tags.allow_nan = name is not None and not (plain and _of_counts(name))
        tags.input_tags.categorical = True
        tags.input_tags.positive_only = plain
        return tags

    def _model_name(self) -> str | None:
        """The name of the generative model that reads the rows, if one does."""
        name: str = self.model
        return name

    def _labels(self, y: Any) -> Array:
        """y as a column of labels that can be classes."""
        if y is None:
            raise BadData(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y "
                "is None"
            )
        y = column_or_1d(y, warn=True)
        labelled = self._has_label(y)
        lost = np.flatnonzero(pd.isna(y) & labelled)
        if lost.size:
            raise BadData(f"Input y contains NaN: row {lost[0]} has no label")
        check_classification_targets(y[labelled])
        return y

    def _has_label(self, y: Array) -> Array:
        return np.ones(len(y), bool)

    def _names(self) -> list[str]:
        given = getattr(self, "feature_names_in_", None)
        return [f"x{j}" for j in range(self.n_features_in_)] if given is None else list(given)

    def _encode(self, X: Any) -> Array:
        check_is_fitted(self, "schema_")
        columns, _ = as_columns(self, X, reset=False)
        return without(encoded(columns, self.schema_, self.handle_unknown), self._constant)

    def _html_repr(self) -> str:
        """What scikit-learn shows of an estimator in notebooks, then what this one has learnt."""
        return str(super()._html_repr()) + self._learnt_html()

    def _learnt_html(self) -> str:
        """What was learnt; nothing before `fit`."""
        return ""

    def _decide(self, log_prob: Array) -> Array:
        """The most probable class, or the one of least expected cost."""
        if self.cost is None:
            return self.classes_[log_prob.argmax(1)]
        return self.classes_[least_cost(log_prob, self.cost)]


def _is_plain(name: Any) -> bool:
    """Whether the model's numbers stay as they are; of an unknown model, fit says what is wrong."""
    try:
        return is_plain(name)
    except PeerwiseError:
        return False


@cache
def _of_counts(name: str) -> bool:
    """Whether a model is of counts, none of which can be missing."""
    one_number = Schema((Feature("x", "numeric"),), ("no", "yes"))
    return model_for(one_number, name).wants == "counts"
