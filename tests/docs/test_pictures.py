"""Pictures in the documentation: each is shown by a page, and each page has its pictures."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
_LINK = re.compile(r"!\[([^\]]*)\]\(([^)]+)\)")


def _shown() -> dict[Path, str]:
    """Every picture that a page shows, with its description."""
    found = {}
    for page in (ROOT / "README.md", *ROOT.glob("docs/**/*.md")):
        for description, target in _LINK.findall(page.read_text()):
            found[(page.parent / target).resolve()] = description
    return found


def test_every_picture_that_a_page_shows_is_there_and_described() -> None:
    """A reader sees no broken picture, and one who cannot see it can read what it shows."""
    shown = _shown()
    assert shown
    for picture, description in shown.items():
        assert picture.is_file(), picture
        assert len(description) > 10, picture


def test_every_picture_is_shown_by_a_page() -> None:
    """The repository holds no picture without a page."""
    assert set(ROOT.glob("docs/screenshots/*")) == set(_shown())
