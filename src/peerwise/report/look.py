"""How figures look: colours that colour-blind readers can tell apart, styles, sizes and files."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")  # figures go to files; no screen is needed

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from peerwise.errors import BadFile, UnknownName

# The palette of Okabe and Ito (2008) without its yellow, which is faint on white paper.
OKABE_ITO = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
FORMATS = ("png", "pdf", "svg")
DPI = 200

_PAPER: dict[str, Any] = {
    "axes.prop_cycle": matplotlib.rcsetup.cycler(color=OKABE_ITO),
    **{"font.size": 9, "axes.titlesize": 10, "axes.labelsize": 9, "legend.fontsize": 9},
    **{"xtick.labelsize": 8, "ytick.labelsize": 8, "figure.titlesize": 11},
    **{"axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False},
    **{"axes.grid": True, "grid.alpha": 0.25, "axes.axisbelow": True},
    **{"pdf.fonttype": 42, "svg.fonttype": "none"},  # text stays text, as publishers ask
}


def checked_style(style: str | None) -> str | None:
    """The given style, after a check that it is matplotlib's or a file that matplotlib can read."""
    if style is None or style in plt.style.library or style == "default":
        return style
    if not Path(style).is_file():
        if Path(style).suffix:
            raise BadFile(
                f"there is no style file {style}; give a file, or the name of a matplotlib style"
            )
        raise UnknownName("style", style, plt.style.available)
    complaints: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: complaints.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("matplotlib")
    logger.addHandler(handler)
    spread, logger.propagate = logger.propagate, False
    try:
        matplotlib.rc_params_from_file(style, use_default_template=False)
    except (OSError, ValueError) as error:
        complaints.append(str(error))
    finally:
        logger.removeHandler(handler)
        logger.propagate = spread
    if complaints:
        raise BadFile(f"{style} is not a matplotlib style: {' '.join(complaints[0].split())}")
    return style


def checked_formats(given: Sequence[str]) -> tuple[str, ...]:
    """Names of file formats for figures, each once; a name may hold several, parted by commas."""
    names = [n.strip().lower() for text in given for n in text.split(",") if n.strip()]
    for name in names:
        if name not in FORMATS:
            raise UnknownName("format of figures", name, FORMATS)
    return tuple(dict.fromkeys(names))


@contextmanager
def styled(style: str | None = None) -> Iterator[list[Any]]:
    """Draw in the package's style, changed by a style of matplotlib's; gives its colours."""
    layers: list[Any] = [_PAPER] if style is None else [_PAPER, style]
    with plt.style.context(layers):
        colours = plt.rcParams["axes.prop_cycle"].by_key().get("color", list(OKABE_ITO))
        yield list(colours)


def save(figure: Figure, path: Path, formats: Sequence[str] = ()) -> Path:
    """Write a figure to `path` and beside it in other formats, and close it; returns `path`."""
    # The name may hold dots (alpha0.5): with_suffix would cut it.
    stem = path.name.removesuffix(path.suffix)
    beside = [path.with_name(f"{stem}.{kind}") for kind in formats if f".{kind}" != path.suffix]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for one in (path, *beside):
            figure.savefig(one, dpi=DPI, bbox_inches="tight")
    except OSError as error:
        raise BadFile(f"cannot write {path}: {error.strerror}; give another place") from None
    except ValueError as error:  # a format that matplotlib cannot write
        raise BadFile(f"cannot write {path}: {error}") from None
    finally:
        plt.close(figure)
    return path


def panels(
    count: int, width: float = 3.5, height: float = 2.9, most: int = 3, **options: Any
) -> Any:
    """A figure of `count` panels, at most `most` beside each other, and its axes in a list."""
    columns = min(count, most)
    rows = -(-count // columns)
    layout = options.pop("layout", None)
    # without pyplot, which would keep every figure and use a backend of its own in a notebook
    figure = Figure(figsize=(width * columns, height * rows), layout=layout)
    axes = figure.subplots(rows, columns, squeeze=False, **options)
    for axis in list(axes.flat)[count:]:
        axis.set_visible(False)
    return figure, list(axes.flat)
