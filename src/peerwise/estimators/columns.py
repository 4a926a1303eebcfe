"""From what scikit-learn's users pass to encoded rows: arrays, and frames with categories."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.utils.validation import (
    _check_feature_names,
    _check_n_features,
    check_array,
    check_consistent_length,
    validate_data,
)

from peerwise.data.columns import number_objects
from peerwise.data.numbers import spell
from peerwise.data.schema import Feature, Schema
from peerwise.errors import BadData, BadSetting, UnknownName

Array = npt.NDArray[Any]


def as_columns(estimator: Any, X: Any, *, reset: bool, y: Any = None) -> tuple[list[Any], Any]:
    """The columns of X, checked against what was fitted (by name for frames), and y.

    Numeric columns are float arrays; a frame's other columns stay what they are.
    """
    frame = isinstance(X, pd.DataFrame) and not all(map(_is_number, X.dtypes))
    if frame:
        _check_feature_names(estimator, X, reset=reset)
        _check_n_features(estimator, X, reset=reset)
        if not len(X):
            raise BadData("X has no rows: at least 1 is needed")
        if y is not None:
            check_consistent_length(X, y)
        return [_column(X.iloc[:, j], X.columns[j]) for j in range(X.shape[1])], y
    text = not isinstance(X, pd.DataFrame) and getattr(X, "dtype", np.dtype(float)).kind in "OU"
    nominal = estimator.categorical_features
    dtype = None if text and not isinstance(nominal, str) else "numeric"
    gaps = estimator.__sklearn_tags__().input_tags.allow_nan
    finite: Any = "allow-nan" if gaps else True
    options = {"dtype": dtype, "ensure_all_finite": finite, "reset": reset}
    if y is None:
        X = validate_data(estimator, X, **options)
    else:
        X, y = validate_data(estimator, X, y, **options)
    if dtype == "numeric":
        X = X.astype(np.float64)
    return [X[:, j] for j in range(X.shape[1])], y


def _is_number(dtype: Any) -> bool:
    return pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_bool_dtype(dtype)


def _column(series: pd.Series, name: Any) -> Any:
    if _is_number(series.dtype) or number_objects(series):  # Parquet gives decimals as objects
        values = series.to_numpy(dtype=np.float64, na_value=np.nan)
        options = {"ensure_all_finite": "allow-nan", "input_name": f"column '{name}'"}
        return check_array(values[:, None], **options)[:, 0]
    if series.dtype.kind in "mM":
        raise BadData(f"column '{name}' holds dates or times; make numbers or categories of them")
    return series


def _nominal(given: Any, names: list[str], columns: list[Any]) -> set[int]:
    """Which columns are categorical, as the user says or as their types do."""
    if isinstance(given, str):
        if given != "from_dtype":
            raise UnknownName("categorical_features", given, ["from_dtype"])
        return {j for j, c in enumerate(columns) if not _is_float(c)}
    chosen = [] if given is None else list(given) if isinstance(given, Iterable) else [given]
    if chosen and all(isinstance(c, bool | np.bool_) for c in chosen):
        if len(chosen) != len(names):
            raise BadSetting(
                f"categorical_features is a mask of {len(chosen)} for {len(names)} features"
            )
        return {j for j, c in enumerate(chosen) if c}
    nominal = {j for j, c in enumerate(columns) if not _is_float(c) and isinstance(c, pd.Series)}
    for c in chosen:
        if isinstance(c, str):
            if c not in names:
                raise UnknownName("feature", c, names)
            nominal.add(names.index(c))
        elif not 0 <= int(c) < len(names):
            raise BadSetting(f"categorical_features names column {c} of {len(names)}")
        else:
            nominal.add(int(c))
    return nominal


def _is_float(column: Any) -> bool:
    return isinstance(column, np.ndarray) and column.dtype == np.float64


def _coded(column: Any) -> tuple[Array, list[str]]:
    """The code of each row's value, -1 where it has none, and the distinct values as text."""
    codes, values = pd.factorize(column if isinstance(column, pd.Series) else pd.Series(column))
    return codes, [spell(v) for v in values]


def _categories(column: Any, name: str) -> tuple[str, ...]:
    if isinstance(column, pd.Series) and isinstance(column.dtype, pd.CategoricalDtype):
        declared = [spell(v) for v in column.cat.categories]
        if len(set(declared)) < len(declared):
            raise BadData(f"two categories of column '{name}' are spelt the same; rename one")
        return tuple(declared)
    if _is_float(column):
        return tuple(spell(v) for v in np.unique(column[~np.isnan(column)]))
    return tuple(sorted(set(_coded(column)[1])))


def learn_schema(
    columns: list[Any],
    names: list[str],
    classes: Array,
    categorical: Any,
    weight: Array,
    standardise: bool,
    without: int | None = None,
) -> Schema:
    """A schema of training rows: categories, and center and scale of numbers.

    `categorical` says which columns are, as the user does. The column numbered `without` is no
    feature.
    """
    nominal = _nominal(categorical, names, columns)
    features = []
    missing = False
    for j, (name, column) in enumerate(zip(names, columns, strict=True)):
        if j == without:
            continue
        if j in nominal:
            missing |= bool(pd.isna(column).any())
            categories = _categories(column, name)
            if not categories:
                raise BadData(f"column '{name}' has no value at all; drop it")
            features.append(Feature(name, "categorical", categories))
            continue
        values = _numbers(column, name)
        known = ~np.isnan(values) & (weight > 0)
        missing |= bool(np.isnan(values).any())
        center, scale = 0.0, 1.0
        if standardise and known.any():
            share = weight[known] / weight[known].sum()
            with np.errstate(over="ignore", invalid="ignore"):
                center = float(share @ values[known])
                spread = float(np.sqrt(share @ (values[known] - center) ** 2))
            if not np.isfinite(spread):
                raise BadData(f"the values of column '{name}' are too large; rescale or drop it")
            if spread == 0:  # squares of tiny numbers are 0
                most = np.abs(values[known] - center).max() or 1.0
                spread = most * float(np.sqrt(share @ ((values[known] - center) / most) ** 2))
            varies = np.ptp(values[known]) > 0 and spread > 0
            scale = spread if varies else 1.0
            center = center if varies else float(values[known][0])
        features.append(Feature(name, "numeric", (), center, scale))
    texts = [str(c) for c in classes]
    if len(set(texts)) < len(texts):
        raise BadData("two classes are spelt the same; rename one")
    return Schema(tuple(features), tuple(texts), missing=missing)


def constant(x: Array, schema: Schema) -> Array:
    """Which features [d] of standardised rows are numbers that never vary."""
    numeric = np.array([f.kind == "numeric" for f in schema.features])
    return numeric & ~np.nan_to_num(x).any(0)


def without(x: Array, columns: Array) -> Array:
    """The rows with 0, the public center, for whatever these columns [d] hold."""
    return np.where(columns & ~np.isnan(x), 0.0, x)


def _numbers(column: Any, name: str) -> Array:
    if _is_float(column):
        return column
    try:
        values = np.asarray(column, float)
    except (TypeError, ValueError):
        raise BadData(
            f"column '{name}' holds text; make it a category (pandas dtype or "
            "categorical_features) or a number"
        ) from None
    if np.isinf(values).any():
        raise BadData(f"column '{name}' holds infinity in row {int(np.isinf(values).argmax())}")
    return values


def encoded(columns: list[Any], schema: Schema, unknown: str) -> Array:
    """Rows [m, d] as numbers under the schema; NaN is missing.

    A category that the schema does not have is an error, or missing if `unknown` says so.
    """
    if unknown not in ("error", "missing"):
        raise UnknownName("handle_unknown", unknown, ["error", "missing"])
    out = []
    for column, feature in zip(columns, schema.features, strict=True):
        if feature.kind == "numeric":
            out.append((_numbers(column, feature.name) - feature.center) / feature.scale)
            continue
        codes, texts = _coded(column)
        place = {text: float(i) for i, text in enumerate(feature.categories)}
        known_as = np.array([*(place.get(t, np.nan) for t in texts), np.nan])[codes]
        unseen = np.flatnonzero(np.isnan(known_as) & (codes >= 0))
        if unseen.size and unknown == "error":
            row = int(unseen[0])
            known = ", ".join(feature.categories[:10])
            raise BadData(
                f"column '{feature.name}' holds '{texts[codes[row]]}' in row {row}, which was not "
                f"there in training (known: {known}); handle_unknown='missing' takes it as not "
                "known"
            )
        out.append(known_as)
    return np.column_stack(out)
