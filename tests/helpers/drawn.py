"""What a reader finds in a figure."""

from __future__ import annotations


def texts(figure, gid=""):
    """All texts of a figure whose id starts with ``gid``, in drawing order."""
    from matplotlib.text import Text

    return [
        text
        for text in figure.findobj(Text)
        if text.get_text() and str(text.get_gid() or "").startswith(gid)
    ]


def boxes(figure, gid):
    """Where those texts are, in pixels."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.text import Text

    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw_without_rendering()  # puts labels beside their points
    return [
        Text.get_window_extent(text, renderer).extents for text in texts(figure, gid)
    ]  # without the line to its point


def overlap_share(found):
    """The largest share of any box that another one covers."""
    worst = 0.0
    for place, (left, bottom, right, top) in enumerate(found):
        for other in found[place + 1 :]:
            width, height = (
                min(right, other[2]) - max(left, other[0]),
                min(top, other[3]) - max(bottom, other[1]),
            )
            if width > 0 and height > 0:
                areas = (
                    (right - left) * (top - bottom),
                    (other[2] - other[0]) * (other[3] - other[1]),
                )
                worst = max(worst, width * height / min(areas))
    return worst
