"""Small charts as SVG, without words inside: those stand beside them in HTML, so that a phone does not shrink them.

Numbers only go in here; what records say never does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

HEIGHT = 100
# What is drawn by time and not by steps is so wide.
SPAN = 1000


def bars(values: Sequence[int], titles: Sequence[str], css: str) -> str:
    """One bar for each value, the highest as high as the chart."""
    highest = max((*values, 1))
    drawn = (
        _rectangle((at + 0.05, HEIGHT * (1 - value / highest), 0.9, HEIGHT * value / highest), title)
        for at, (value, title) in enumerate(zip(values, titles, strict=True))
        if value > 0
    )
    return _chart(len(values), css, drawn)


def line(values: Sequence[int], css: str) -> str:
    """A line through the values, and one at zero; what is below zero goes below that."""
    lowest, highest = min((*values, 0)), max((*values, 1))

    def height(value: int) -> str:
        return _number(HEIGHT * (highest - value) / (highest - lowest))

    points = " ".join(f"{_number(at + 0.5)},{height(value)}" for at, value in enumerate(values))
    zero = height(0)
    return _chart(
        len(values),
        css,
        (
            f'<line class="zero" x1="0" x2="{len(values)}" y1="{zero}" y2="{zero}"/>',
            f'<polyline points="{points}"/>',
        ),
    )


def ticks(places: Iterable[float], steps: int, css: str) -> str:
    """A stroke at each place, in steps from the beginning."""
    drawn = (f'<line x1="{_number(at)}" x2="{_number(at)}" y1="0" y2="{HEIGHT}"/>' for at in places)
    return _chart(steps, css, drawn)


def strip(values: Mapping[int, int], steps: int, highest: int, titles: Mapping[int, str]) -> str:
    """One row of a heat map: the more, the darker."""
    drawn = (_rectangle((at, 0, 1, HEIGHT), titles[at], _shade(value, highest)) for at, value in sorted(values.items()))
    return _chart(steps, "strip", drawn)


def spans(places: Iterable[tuple[float, float]], length: float, titles: Sequence[str]) -> str:
    """A stretch from each beginning to its end, of so much in all; where two overlap, it is darker."""
    drawn = (
        _rectangle((begin * SPAN / length, 0, max((end - begin) * SPAN / length, 1), HEIGHT), title, _shade(1, 2))
        for (begin, end), title in zip(places, titles, strict=True)
    )
    return _chart(SPAN, "spans", drawn)


def heat_map(cells: Mapping[int, int], per_row: int, rows: int, titles: Mapping[int, str]) -> str:
    """Squares in rows, from the left and from above."""
    highest = max(cells.values(), default=1)
    drawn = (
        _rectangle((cell % per_row + 0.04, cell // per_row + 0.04, 0.92, 0.92), titles[cell], _shade(value, highest))
        for cell, value in sorted(cells.items())
    )
    return f'<svg class="cells" viewBox="0 0 {per_row} {rows}" role="img">{"".join(drawn)}</svg>'


def _chart(steps: int, css: str, drawn: Iterable[str]) -> str:
    opening = f'<svg class="chart {css}" viewBox="0 0 {max(steps, 1)} {HEIGHT}" preserveAspectRatio="none" role="img">'
    return f"{opening}{''.join(drawn)}</svg>"


def _rectangle(place: tuple[float, float, float, float], title: str, shade: str = "") -> str:
    places = zip(("x", "y", "width", "height"), place, strict=True)
    attributes = " ".join(f'{name}="{_number(value)}"' for name, value in places)
    return f"<rect {attributes}{shade}><title>{title}</title></rect>"


def _shade(value: int, highest: int) -> str:
    # A single one has to be seen beside a million.
    return f' fill-opacity="{_number(0.3 + 0.7 * value / max(highest, 1))}"'


def _number(value: float) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".")
