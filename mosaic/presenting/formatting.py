"""Numbers, durations, times and tags as people read and type them."""

import math
import time
from pathlib import Path

_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def number(value: float | int | None, digits: int = 4) -> str:
    """A number short enough for a column; an em dash when there is none."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "—"
    if isinstance(value, float) and math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{int(value):,}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    if abs(value) >= 1:
        return f"{value:.2f}"
    return f"{value:.{digits}g}"


def compact(value: float) -> str:
    """A count with a unit: 1.2k, 3.4M."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


def tick(value: float, spacing: float) -> str:
    """A number beside an axis, as exact as the distance to the next one asks for."""
    if value == 0:
        return "0"
    unit, name = next(
        (one for one in ((1e9, "G"), (1e6, "M"), (1e3, "k")) if abs(value) >= one[0]), (1.0, "")
    )
    digits = max(0, -math.floor(math.log10(spacing / unit) + 1e-9)) if spacing > 0 else 3
    if digits > 5 and not name:
        # Closer together than six digits tell apart, as around a constant.
        return f"{value:.6g}"
    text = f"{value / unit:.{min(digits, 6)}f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text) + name


def duration(seconds: float | None) -> str:
    """A duration in its two largest units."""
    if seconds is None or seconds < 0 or math.isnan(seconds) or math.isinf(seconds):
        return "—"
    whole = round(seconds)
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return f"{whole // _MINUTE} min {whole % _MINUTE:02d} s"
    if whole < _DAY:
        return f"{whole // _HOUR} h {whole % _HOUR // _MINUTE:02d} min"
    return f"{whole // _DAY} d {whole % _DAY // _HOUR} h"


def ago(moment: float | None, now: float | None = None) -> str:
    """How long ago a moment was, in one unit."""
    if not moment:
        return "—"
    seconds = max(0.0, (time.time() if now is None else now) - moment)
    for size, unit in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit} ago"
    return "just now" if seconds < 5 else f"{int(seconds)} s ago"


def moment(seconds: float | None) -> str:
    """A moment as local date and time."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds)) if seconds else "—"


def size(value: float) -> str:
    """A size given in bytes."""
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if value >= unit:
            return f"{value / unit:.1f} {name}"
    return f"{value:.0f} bytes"


def tilde(text: str) -> str:
    """Paths under the user's home with a ~, as people and shells write them."""
    home = str(Path.home())
    return text.replace(f"{home}/", "~/") if len(home) > 1 else text


def megabytes(value: float) -> str:
    """A size given in megabytes."""
    return f"{value / 1024:.1f} GB" if value >= 1024 else f"{value:.0f} MB"


def split_tags(text: str) -> list[str]:
    """Tags as people type them: words with commas between, each once, in order."""
    return list(dict.fromkeys(word for part in text.split(",") if (word := part.strip())))
