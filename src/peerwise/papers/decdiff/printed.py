"""What the DecDiff paper prints."""

from typing import Any

# The data sets of the paper.
SETS = ("mnist", "fashion_mnist", "emnist_letters")

# Accuracy on each set.
TABLE_2 = {
    "centralised": (0.9824, 0.9181, 0.9027),
    "isolation": (0.6473, 0.7594, 0.4654),
    "fedavg": (0.9410, 0.8939, 0.8344),
    "dechetero": (0.9071, 0.8837, 0.8301),
    "cfa": (0.8975, 0.8568, 0.7807),
    "cfa-ge": (0.9460, 0.8564, 0.8607),
    "decdiff+vt": (0.9530, 0.8904, 0.8653),
}
TABLE_3 = {
    "dechetero": TABLE_2["dechetero"],
    "decdiff": (0.9373, 0.8838, 0.8214),
    "decdiff+vt": TABLE_2["decdiff+vt"],
}
# Method, and for each set the rounds to 50, 80, 90 and 95 % of the centralised accuracy.
_TABLE_4 = """
dechetero   97.40 235.60 583.25 -      |  3.20  53.20 387.20 - | 22.00  91.00 370.50 -
cfa        109.40 322.40 609.67 -      | 10.60 142.40 -      - | 62.80 418.00 -      -
cfa-ge     102.80 173.40 327.60 691.60 | 10.20 118.40 693.60 - | 33.20 167.00 324.20 812.25
decdiff     52.80 145.40 395.60 671.00 |  6.80  54.00 319.80 - | 17.60 107.20 566.75 -
decdiff+vt  55.20 161.00 360.00 540.75 |  7.00  53.80 313.60 - |  9.60 106.80 138.40 400.25
fedavg      11.80  57.40 307.40 662.67 |  1.20  25.00 216.00 - |  4.00  53.80 322.25 -
isolation  262.20 -      -      -      |  3.80 -      -      - | 28.00 -      -      -
"""
SHARES = (0.5, 0.8, 0.9, 0.95)  # of the centralised accuracy, in table 4


def _printed() -> dict[tuple[str, str, str | None, float | None], float]:
    """Every number of the paper's tables: (item, set, method, share) -> value."""
    values: dict[tuple[str, str, str | None, float | None], float] = {}
    for item, table in (("table-2", TABLE_2), ("table-3", TABLE_3)):
        for variant, row in table.items():
            values |= {(item, s, variant, None): v for s, v in zip(SETS, row, strict=True)}
    for line in _TABLE_4.strip().splitlines():
        variant, cells = line.split(maxsplit=1)
        for name, times in zip(SETS, cells.split("|"), strict=True):
            for share, cell in zip(SHARES, times.split(), strict=True):
                if cell != "-":
                    values["table-4", name, variant, share] = float(cell)
    return values


# Every number of the paper's tables: (item, set, method, share) -> value.
PAPER_TABLES = _printed()


def printed(item: str, fields: dict[str, Any]) -> float | None:
    """What the paper prints of a number."""
    if fields["metric"] not in ("accuracy", "rounds"):
        return None
    place = item, fields["dataset"], fields.get("variant"), fields.get("share")
    return PAPER_TABLES.get(place)
