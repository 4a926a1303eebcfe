"""The schema: round trips, strict reading, first differences."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peerwise.data import Feature, Schema
from peerwise.errors import BadFile

AGE = Feature("age", "numeric", center=40.5, scale=0.1)
SEX = Feature("sex", "categorical", ("f", "m"))
SCHEMA = Schema((AGE, SEX), ("no", "yes"), "ill", missing=True)

texts = st.lists(st.text(max_size=5), min_size=1, max_size=4, unique=True).map(tuple)
finite = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def schemas(draw):
    features = []
    for name in draw(texts):
        if draw(st.booleans()):
            features.append(Feature(name, "categorical", draw(texts)))
        else:
            scale = draw(st.floats(min_value=1e-300, max_value=1e300))
            categories = draw(st.one_of(st.just(()), texts))
            features.append(Feature(name, "numeric", categories, draw(finite), scale))
    return Schema(tuple(features), draw(texts), draw(st.text()), draw(st.booleans()))


def changed(**fields):
    return json.dumps(json.loads(SCHEMA.to_json()) | fields)


def with_feature(**fields):
    raw = json.loads(SCHEMA.to_json())
    raw["features"][0] |= fields
    return json.dumps(raw)


def test_cardinalities_are_zero_for_numbers_even_when_label_encoded():
    job = Feature("job", "numeric", ("a", "b", "c"))
    assert Schema((AGE, SEX, job), ("x",)).cardinalities == (0, 2, 0)


@settings(derandomize=True, deadline=None)
@given(schemas())
def test_json_gives_an_equal_schema(schema):
    again = Schema.from_json(schema.to_json())
    assert again == schema
    assert schema.difference(again) is None


@settings(derandomize=True, deadline=None)
@given(schemas(), schemas())
def test_there_is_a_difference_unless_equal(a, b):
    assert (a.difference(b) is None) == (a == b)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "not JSON"),
        (SCHEMA.to_json()[:-5], "not JSON"),
        ("[1]", "must be a JSON object"),
        ("[" * 100_000, "not JSON"),
        (changed(more=1), "unknown key 'more'"),
        (json.dumps({"features": [], "classes": [], "target": "y"}), "no key 'missing'"),
        (changed(missing=1), "'missing'.*bool, got int"),
        (changed(target=None), "'target'.*str, got NoneType"),
        (changed(classes="ab"), "'classes'.*list, got str"),
        (changed(classes=["a", "a"]), "classes must be distinct texts"),
        (changed(classes=["a", 1]), "classes must be distinct texts"),
        (changed(classes=[]), "at least one"),
        (changed(features=[]), "at least one"),
        (changed(features=["age"]), "feature 0.*must be a JSON object"),
        (with_feature(kind="number"), "must be numeric or categorical, got 'number'"),
        (with_feature(kind="categorical"), "must have categories"),
        (with_feature(name="sex"), "feature names must be distinct"),
        (with_feature(center=True), "'center'.*float, got bool"),
        (with_feature(center=float("nan")), "NaN, which is not a finite number"),
        (with_feature(center=10**400), "finite center"),
        (with_feature(scale=0), "scale above 0"),
        (with_feature(unit="years"), "unknown key 'unit'"),
        ('{"target": "a", "target": "b"}', "distinct"),
        (SCHEMA.to_json().replace("40.5", "1e999"), "finite center"),
    ],
)
def test_malformed_text_is_refused_with_the_place(text, told):
    with pytest.raises(BadFile, match=told):
        Schema.from_json(text)


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (replace(SCHEMA, features=(AGE,)), "feature 1 is 'sex' here and absent there"),
        (replace(SCHEMA, features=(SEX, AGE)), "feature 0 is 'age' here and 'sex' there"),
        (
            replace(SCHEMA, features=(replace(AGE, scale=2.0), SEX)),
            "the scale of feature 'age' is 0.1 here and 2.0 there",
        ),
        (
            replace(SCHEMA, features=(AGE, replace(SEX, categories=("f", "m", "x")))),
            "feature 'sex': category 2 is absent here and 'x' there",
        ),
        (replace(SCHEMA, classes=("no", "maybe")), "class 1 is 'yes' here and 'maybe' there"),
        (replace(SCHEMA, target="sick"), "'target' is 'ill' here and 'sick' there"),
        (replace(SCHEMA, missing=False), "'missing' is True here and False there"),
        (SCHEMA, None),
    ],
)
def test_the_first_difference_is_named(other, told):
    assert SCHEMA.difference(other) == told
