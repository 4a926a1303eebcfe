"""Tables and lines for notebooks, as HTML and SVG: no script, and names are only text."""

from collections.abc import Mapping, Sequence
from html import escape
from math import ceil, floor, isfinite, log10

# safe for colour-blind readers, and legible on light and dark
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b58900", "#56b4e9", "#8c6bb1", "#7f7f7f")
DASHES = ("", "7 4", "2 4", "9 3 2 3")
WIDTH, HEIGHT = 620, 260
LINES = 12  # in a chart


def table(head: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> str:
    """A table; the first column names the rows."""
    cells = "".join(f"<th>{escape(str(h))}</th>" for h in head)
    lines = [
        f"<tr><th>{escape(str(row[0]))}</th>"
        + "".join(f'<td style="text-align:right">{escape(str(c))}</td>' for c in row[1:])
        + "</tr>"
        for row in rows
    ]
    top = f'<caption style="text-align:left">{escape(caption)}</caption>' if caption else ""
    return f"<table>{top}<thead><tr>{cells}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def chart(
    series: Mapping[str, tuple[Sequence[float], Sequence[float]]], unit: str, label: str
) -> str:
    """Lines by name, each with its last value beside it; dots where there is one point."""
    shown = {
        name: [(float(a), float(b)) for a, b in zip(*points, strict=True) if isfinite(b)]
        for name, points in list(series.items())[:LINES]
    }
    shown = {name: points for name, points in shown.items() if points}
    if not shown:
        return ""
    every = [p for points in shown.values() for p in points]
    x0, x1 = min(p[0] for p in every), max(p[0] for p in every)
    low, top = min(0.0, *(p[1] for p in every)), max(p[1] for p in every) or 1.0
    left, right, up, down = 50, 190, 22, 34
    across, height = WIDTH - left - right, HEIGHT - up - down

    def at(point: tuple[float, float]) -> tuple[float, float]:
        x = left + (point[0] - x0) / ((x1 - x0) or 1) * across
        return x, up + (1 - (point[1] - low) / ((top - low) or 1)) * height

    parts = [f'<text x="0" y="12">{escape(unit)}</text>']
    for value in _ticks(low, top):
        y = at((x0, value))[1]
        parts.append(f'<line x1="{left}" x2="{WIDTH - right}" y1="{y:.1f}" y2="{y:.1f}" '
                     f'stroke="currentColor" opacity=".15"/><text x="{left - 6}" y="{y + 4:.1f}" '
                     f'text-anchor="end">{value:g}</text>')  # fmt: skip
    for value in {x0, x1}:
        parts.append(f'<text x="{at((value, low))[0]:.1f}" y="{HEIGHT - 16}" '
                     f'text-anchor="middle">{value:g}</text>')  # fmt: skip
    parts.append(f'<text x="{left + across / 2}" y="{HEIGHT - 2}" '
                 f'text-anchor="middle">{escape(label)}</text>')  # fmt: skip
    ends = sorted((at(points[-1])[1], name) for name, points in shown.items())
    beside, last = {}, float("-inf")
    for y, name in ends:
        last = max(y, last + 15)
        beside[name] = last
    for number, (name, points) in enumerate(shown.items()):
        colour, dash = COLOURS[number % len(COLOURS)], DASHES[number // len(COLOURS) % len(DASHES)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in map(at, points))
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2" '
            f'stroke-dasharray="{dash}"/>'
            if len(points) > 1
            else f'<circle cx="{at(points[0])[0]:.1f}" cy="{at(points[0])[1]:.1f}" r="4" '
            f'fill="{colour}"/>'
        )
        short = name if len(name) <= 18 else name[:17] + "…"
        text = f"{escape(short)} {points[-1][1]:.3f}"
        parts.append(f'<text x="{WIDTH - right + 8}" y="{beside[name] + 4:.1f}" fill="{colour}" '
                     f'style="font-weight:600">{text}</text>')  # fmt: skip
    said = ", ".join(f"{name} {points[-1][1]:.3f}" for name, points in shown.items())
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" role="img" '
        f'aria-label="{escape(f"{unit} by {label}: {said}", quote=True)}" '
        'style="font:12px sans-serif;max-width:100%" fill="currentColor">'
        f"{''.join(parts)}</svg>"
    )


def _ticks(low: float, top: float) -> list[float]:
    rough = (top - low) / 4 or 1.0
    power = 10.0 ** floor(log10(rough))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough)
    return [round(i * step, 10) for i in range(ceil(low / step), floor(top / step) + 1)]
