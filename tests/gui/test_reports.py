"""Reports from the window: asked for with one dialog, written while everything else goes on."""

from dataclasses import replace
from pathlib import Path

from qtpy.QtWidgets import QFileDialog

from gym_gui.models.report_words import proposed_file, report_words

from .conftest import Driver
from .test_models import record


def test_a_report_of_a_whole_experiment_is_about_the_experiment() -> None:
    """All of its runs selected: its name and its evaluations. Some of them: these runs."""
    runs = [replace(record(run_id=f"E{n}"), tags=("experiment=study",)) for n in range(3)]
    played = replace(record(run_id="P"), tags=("evaluation=study",))
    known = [*runs, played, record(run_id="other")]
    words = report_words(runs, known)
    assert words == ("experiment=study", "evaluation=study")
    assert proposed_file(words) == "report-study.html"
    some = report_words(runs[:2], known)
    assert some == ("E0", "E1")
    assert proposed_file(some) == "report-2-runs.html"
    assert report_words([runs[0], known[-1]], known) == ("E0", "other")
    trials = [replace(record(run_id=f"T{n}"), tags=("sweep=T0", f"trial={n}")) for n in range(2)]
    best = replace(record(run_id="B"), tags=("experiment=best-T0",))
    assert report_words(trials[:1], [*trials, best]) == ("sweep=T0", "experiment=best-T0")


def test_a_report_is_written_from_the_window(
    driver: Driver, trained: list[str], tmp_path: Path
) -> None:
    """*Report …* asks for a file and writes the page of the selected runs; a notice opens it."""
    driver.connected()
    driver.services.selection.select(tuple(trained))
    driver.window.compare.results.report.click()
    dialog = driver.until(lambda: driver.window.findChild(QFileDialog), "the dialog")
    assert isinstance(dialog, QFileDialog)
    page = tmp_path / "two.html"
    dialog.fileSelected.emit(str(page))
    dialog.close()
    driver.until(page.exists, "the page")
    said = driver.until(
        lambda: [one for one in driver.services.notices.history if one.action == "Open"],
        "the notice",
    )
    assert said[-1].text == "The report is in two.html"
    text = page.read_text()
    assert all(run_id in text for run_id in trained)
    assert "fewer than 3 seeds: this shows nothing" in text
