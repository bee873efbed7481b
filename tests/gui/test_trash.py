"""The trash in the window."""

from qtpy.QtCore import Qt

from gym_gui.panels.trash_dialog import TrashDialog
from gym_gui.widgets.qt_types import sure

from .conftest import Driver, config_of


def test_a_deleted_run_comes_back_from_the_trash(driver: Driver) -> None:
    """Also one that was deleted before this window was opened, when nothing can be undone."""
    window, store = driver.window, driver.services.store
    run_id = driver.submit(config_of(total_timesteps=20, extras={"step_ms": 0}))
    driver.reaches(run_id, "TERM")
    gone: list[object] = []
    driver.services.link.ask(lambda client: client.delete(run_id), gone.append, gone.append)
    driver.until(lambda: gone and run_id not in store.runs, "it is deleted")
    window.binder.trigger("run.trash")
    [dialog] = window.findChildren(TrashDialog)
    driver.until(lambda: dialog.table.rowCount() > 0, "the trash is read")
    dialog.table.selectRow(_listed(dialog).index(run_id))
    dialog.restore.click()
    driver.until(lambda: run_id in store.runs, "it is back")
    driver.until(lambda: run_id not in _listed(dialog), "it is no longer in the trash")
    dialog.reject()


def _listed(dialog: TrashDialog) -> list[str]:
    table, role = dialog.table, Qt.ItemDataRole.UserRole
    return [sure(table.item(place, 0)).data(role) for place in range(table.rowCount())]
