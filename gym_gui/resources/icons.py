"""Icons: one SVG set, recoloured for the theme in use."""

from functools import lru_cache
from pathlib import Path

from qtpy.QtCore import QByteArray, QRectF, Qt
from qtpy.QtGui import QIcon, QPainter, QPixmap
from qtpy.QtSvg import QSvgRenderer

_FOLDER = Path(__file__).parent / "icons"


# Cells ask for their icon at every repaint; drawing the SVG each time would be felt.
@lru_cache(maxsize=512)
def pixmap(name: str, colour: str, size: int = 16, ratio: float = 1.0) -> QPixmap:
    """An icon in one colour, as a picture."""
    svg = (_FOLDER / f"{name}.svg").read_text(encoding="utf-8").replace("currentColor", colour)
    picture = QPixmap(round(size * ratio), round(size * ratio))
    picture.setDevicePixelRatio(ratio)
    picture.fill(Qt.GlobalColor.transparent)
    painter = QPainter(picture)
    QSvgRenderer(QByteArray(svg.encode())).render(painter, QRectF(0, 0, size, size))
    painter.end()
    return picture


def icon(name: str, colour: str, disabled: str) -> QIcon:
    """An icon with its greyed form."""
    result = QIcon()
    for size in (16, 24, 32):
        result.addPixmap(pixmap(name, colour, size))
        result.addPixmap(pixmap(name, disabled, size), QIcon.Mode.Disabled)
    return result
