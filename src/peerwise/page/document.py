"""One HTML file that needs nothing else: style, scripts and data inside, under a strict policy."""

import base64
import hashlib
import html
import json
import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

STATIC = files("peerwise.page") / "static"
STYLE = "page.css"
# what each kind of page is made of, in the order in which the modules use each other
MODULES = {
    "run": ("dom.js", "table.js", "charts.js", "pictures.js", "run.js"),
    "live": ("dom.js", "table.js", "charts.js", "pictures.js", "live.js"),
    "login": ("dom.js", "notice.js"),
    "wrong": ("dom.js", "notice.js"),
    "runs": ("dom.js", "table.js", "runs.js"),
    "site": ("dom.js", "table.js", "charts.js", "pictures.js", "acting.js", "site.js"),
    "network": ("dom.js", "table.js", "charts.js", "pictures.js", "acting.js", "network.js"),
}
_IMPORT = re.compile(r"^import [^;]*;\n", re.M)
_EXPORT = re.compile(r"^export (?=const|let|function|class|async)", re.M)


@cache
def static(name: str) -> str:
    """The text of a style or module."""
    return (STATIC / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _joined(modules: Sequence[str]) -> str:
    """Modules as one: they name nothing twice, so that imports and exports can be left out."""
    parts = (_EXPORT.sub("", _IMPORT.sub("", static(name))) for name in modules)
    return "\n".join(parts)


def as_json(data: Any) -> str:
    """Data for a script element: no text in it can end the element or begin a comment."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"), ensure_ascii=False)
    # U+2028 and U+2029 end lines in scripts
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


_FRAME = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
{policy}<title>{title}</title>
{style}
</head>
<body>
<main id="main"><noscript>This page draws itself with a script, which your browser does not run.
</noscript></main>
<script type="application/json" id="data">{data}</script>
{script}
</body>
</html>
"""


def one_file(kind: str, title: str, data: Any) -> str:
    """A page that opens anywhere, offline: it may load nothing and run nothing but itself."""
    style, script = static(STYLE), _joined(MODULES[kind])
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; "
        "base-uri 'none'; form-action 'none'"
    )
    return _FRAME.format(
        policy=f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n',
        title=html.escape(title),
        style=f"<style>{style}</style>",
        data=as_json(data),
        script=f'<script type="module">{script}</script>',
    )


# of pages that are served: their own files and events, and nothing else
SERVED_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def served(kind: str, title: str, data: Any) -> str:
    """The same page for a server that gives style and modules by themselves."""
    return _FRAME.format(
        policy="",
        title=html.escape(title),
        style=f'<link rel="stylesheet" href="/static/{STYLE}">',
        data=as_json(data),
        script=f'<script type="module" src="/static/{MODULES[kind][-1]}"></script>',
    )
