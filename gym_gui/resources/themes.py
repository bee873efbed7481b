"""Light and dark as tables of named colours; everything that paints asks here."""

from dataclasses import dataclass

# Series colours that stay apart for the common kinds of colour blindness (after Okabe and Ito).
_SERIES_LIGHT = ("#0072b2", "#d55e00", "#009e73", "#b5479a", "#8a6d00", "#2f9bd6", "#5b5b5b")
_SERIES_DARK = ("#56b4e9", "#f0803c", "#2bc49a", "#e08bc4", "#e6c229", "#8fb8ff", "#b8b8b8")


@dataclass(frozen=True)
class Theme:
    """Colours by what they are for.

    Attributes:
        window: Behind everything.
        surface: Panels and cards.
        raised: Buttons, inputs, headers.
        border: Lines between things.
        text: What is read.
        muted: What is read second.
        accent: What can be pressed, what is selected.
        on_accent: Text on the accent.
        selection: Behind selected rows.
        series: Curves, in order.
    """

    name: str
    window: str
    surface: str
    raised: str
    border: str
    text: str
    muted: str
    faint: str
    accent: str
    accent_strong: str
    on_accent: str
    selection: str
    success: str
    warning: str
    danger: str
    info: str
    series: tuple[str, ...]

    def tone(self, name: str) -> str:
        """A colour by name, for models that may not know themes."""
        return str(getattr(self, name))


LIGHT = Theme(
    name="light",
    window="#eef0f4",
    surface="#ffffff",
    raised="#f5f6f9",
    border="#d3d8e0",
    text="#1b2330",
    muted="#596577",
    faint="#99a3b3",
    accent="#2563c9",
    accent_strong="#1b4fa6",
    on_accent="#ffffff",
    selection="#dbe7fb",
    success="#17784a",
    warning="#935d00",
    danger="#b3261e",
    info="#0c6f8f",
    series=_SERIES_LIGHT,
)
DARK = Theme(
    name="dark",
    window="#14181f",
    surface="#1b212b",
    raised="#262e3a",
    border="#364152",
    text="#e6eaf1",
    muted="#9fabbd",
    faint="#677489",
    accent="#6ea8ff",
    accent_strong="#8cbaff",
    on_accent="#0c1625",
    selection="#263f63",
    success="#52cc8c",
    warning="#eab04d",
    danger="#ff8379",
    info="#62c6e4",
    series=_SERIES_DARK,
)
