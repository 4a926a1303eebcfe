"""The run files that the README and the docs show are descriptions that expand."""

import re
import tomllib
from pathlib import Path

import pytest

from peerwise.learner import expand

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FILES = [
    (page.name, text)
    for page in PAGES
    if page.name != "extending.md"  # which has a test of its own
    for text in re.findall(r"```toml\n(.*?)```", page.read_text(), re.S)
    if "[nodes." not in text and "[[features]]" not in text  # a charter
]


@pytest.mark.parametrize(
    ("page", "text"), FILES, ids=[f"{p} {i}" for i, (p, _) in enumerate(FILES)]
)
def test_a_run_file_of_the_docs_expands(page, text):
    assert expand(tomllib.loads(text)), page


def test_the_run_file_of_the_figure_has_27_cells():
    text = (ROOT / "docs" / "topologies.toml").read_text()
    assert len(expand(tomllib.loads(text))) == 27
