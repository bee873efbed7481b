"""Several daemons side by side in one window: each run with its own, and none in another's way."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from qtpy.QtWidgets import QInputDialog
from support.trainer import Trainer

from gym_gui.background.daemon_link import DaemonLink
from gym_gui.background.daemons import LOCAL, remembered, unique_name
from gym_gui.models.run_store import RunStore
from mosaic.connect.invitation import Invitation
from mosaic.errors import InvalidArgumentError
from mosaic.records import Outcome, RunRemoved, RunUpdated, SnapshotEnd, State

from .conftest import Driver, config_of
from .test_models import record


def _invitation(trainer: Trainer, path: Path) -> str:
    Invitation.to_home(trainer.home).save(path)
    return str(path)


def _both(driver: Driver) -> tuple[DaemonLink, DaemonLink]:
    """The window's two daemons, once both are connected and their runs are known."""
    first, second = driver.services.daemons.links
    for link in (first, second):
        driver.until(lambda link=link: link.state.name == "connected", f"{link.name} is there")
        driver.until(lambda link=link: link.newest is not None, f"{link.name} has a pulse")
    driver.connected()
    return first, second


@pytest.fixture
def two(
    trainer: Trainer,
    shared_trainer: Trainer,
    trained: list[str],
    open_window: Callable[..., Driver],
    tmp_path: Path,
) -> Driver:
    """A window on a daemon of its own home, and on the shared one by an invitation."""
    invitation = _invitation(shared_trainer, tmp_path / "server.json")
    driver = open_window(trainer.home, addresses=[LOCAL, invitation])
    _both(driver)
    driver.until(lambda: set(trained) <= set(driver.services.store.runs), "the runs of both")
    return driver


def test_runs_of_two_daemons_are_in_one_table_and_each_command_finds_its_own(
    two: Driver, trained: list[str], trainer: Trainer
) -> None:
    """Every run says where it is; commands go there, and new runs go where they are sent."""
    here, there = two.services.daemons.links
    assert "this machine" in two.window.windowTitle()
    own = two.submit(config_of())
    two.reaches(own, "EXEC")
    assert (two.cell(own, "daemon"), two.cell(trained[0], "daemon")) == (here.name, there.name)
    columns = [column.key for column in two.window.runs_panel.table.visible_columns()]
    assert columns.index("daemon") == columns.index("name") + 1
    # What is read of a run comes from its own daemon: the other one knows no such run.
    two.window.show_layout("watch")
    two.window.runs_panel.show_run(trained[0])
    two.window.run_panel.open_tab("details")
    details = two.window.run_panel.tab("details")
    two.until(lambda: "CartPole-v1" in details.config.toPlainText(), "its config")
    two.window.runs.pause([two.run(own)])
    two.reaches(own, "PAUSE")
    two.window.runs.cancel([two.run(own)])
    assert two.reaches(own, "TERM").outcome == Outcome.CANCELLED
    # Another daemon is chosen for the next run.
    where = two.window.launch.where.box
    where.setCurrentIndex(1)
    where.activated.emit(1)
    assert two.services.link is there
    sent = two.submit(config_of())
    two.until(lambda: two.services.store.holders(sent) == [there.name], "it went there")
    assert sent not in {run.run_id for run in trainer.client.list_runs().runs}
    two.window.runs.cancel([two.run(sent)])
    two.reaches(sent, "TERM")
    two.window.runs.delete([two.run(sent)])
    two.until(lambda: sent not in two.services.store.runs, "and is gone")
    two.window.runs_panel.show_daemon(here.name)
    two.until(lambda: two.window.runs_panel.model.row_of(trained[0]) < 0, "the filter")
    assert two.window.runs_panel.model.row_of(own) >= 0


def test_homes_of_one_host_are_told_apart_by_their_folders() -> None:
    """Two homes on a server have names that say which is which; numbers are the last resort."""
    cluster = "ssh://you@server/~/cluster"
    assert unique_name("server", cluster, ["this machine"]) == "server"
    assert unique_name("server", cluster, ["server"]) == "server/cluster"
    assert unique_name("server", cluster, ["server", "server/cluster"]) == "server/cluster (2)"
    assert unique_name("server", "ssh://you@server", ["server"]) == "server (2)"
    assert unique_name("lab", "/home/you/lab.json", ["lab"]) == "lab (2)"


def test_board_shows_every_daemon_with_its_slots_and_what_its_runs_wait_for(two: Driver) -> None:
    """A card for each: slots in use, queue with reasons, machine; and a click that sends runs."""
    here, there = two.services.daemons.links
    two.window.show_layout("machines")
    cards = two.window.machines.cards
    assert list(cards) == [here, there]
    ids = [two.submit(config_of()) for _ in range(3)]
    two.until(lambda: "2 running, 1 queued" in cards[here].words, "the queue")
    two.until(lambda: "2 of 2 in use" in cards[here].words, "its slots")
    two.until(lambda: "1 × " in cards[here].words, "why it waits")
    assert "connected" in cards[there].words
    assert "0 running, 0 queued" in cards[there].words
    cards[there].use.click()
    assert two.services.link is there
    two.until(lambda: there.name in two.window.status.daemon.text(), "the status bar follows")
    two.window.runs.cancel([two.run(run_id) for run_id in ids])
    for run_id in ids:
        two.reaches(run_id, "TERM")


def test_daemon_that_is_lost_leaves_the_others_alone(
    make_trainer: Callable[..., Trainer],
    shared_trainer: Trainer,
    trained: list[str],
    open_window: Callable[..., Driver],
    tmp_path: Path,
) -> None:
    """Its rows stay and say so, nothing can be asked of it; everything else works as before."""
    lost = make_trainer().start()
    invitation = _invitation(shared_trainer, tmp_path / "server.json")
    driver = open_window(lost.home, addresses=[invitation, LOCAL])
    server, local = _both(driver)
    victim = lost.submit("steady")
    driver.reaches(victim, "EXEC")
    lost.kill()
    driver.until(lambda: local.state.name == "lost", "it is noticed")
    assert "The other daemons work as before" in driver.window.banner.text
    driver.window.show_layout("machines")
    card = driver.window.machines.cards[local]
    driver.until(lambda: "not connected since" in card.words, "the board says since when")
    assert "not connected" in driver.cell(victim, "daemon")
    driver.window.runs_panel.show_run(victim)
    driver.until(lambda: driver.services.selection.current == victim, "selected")
    assert not driver.window.binder.actions["run.pause"].isEnabled()
    run_id = driver.submit(config_of())
    driver.reaches(run_id, "EXEC")
    driver.window.runs_panel.show_run(run_id)
    driver.until(driver.window.binder.actions["run.pause"].isEnabled, "the other can be paused")
    driver.window.runs.cancel([driver.run(run_id)])
    driver.reaches(run_id, "TERM")
    assert server.state.name == "connected"
    lost.start()
    driver.until(lambda: local.state.name == "connected", "it is back")
    driver.until(lambda: not driver.window.banner.isVisible(), "the banner goes")
    driver.window.runs.cancel([driver.run(victim)])
    assert driver.reaches(victim, "TERM").outcome == Outcome.CANCELLED


def test_added_daemon_is_there_in_the_next_window_until_it_is_removed(
    trainer: Trainer, shared_trainer: Trainer, trained: list[str], driver: Driver, tmp_path: Path
) -> None:
    """By the menu; with one daemon there is no column, no choice and no button to leave it."""
    home = driver.services.daemons.home
    invitation = _invitation(trainer, tmp_path / "second.json")
    panel = driver.window.runs_panel
    try:
        assert panel.model.place_of("daemon") < 0
        assert not driver.window.launch.where.isVisibleTo(driver.window.launch)
        driver.window.binder.trigger("daemon.connect")
        asked = driver.until(lambda: driver.window.findChild(QInputDialog), "the question")
        asked.textValueSelected.emit(invitation)
        asked.close()
        _, second = _both(driver)
        assert panel.model.place_of("daemon") >= 0
        assert remembered(home) == [invitation]
        with pytest.raises(InvalidArgumentError, match="connected already"):
            driver.services.daemons.connect_to(invitation)
        run_id = trainer.submit("steady")
        driver.reaches(run_id, "EXEC")
        driver.services.daemons.remove(second)
        assert remembered(home) == []
        driver.until(lambda: run_id not in driver.services.store.runs, "its runs go")
        assert set(trained) <= set(driver.services.store.runs)
        assert panel.model.place_of("daemon") < 0
        assert trainer.client.get(run_id).state == State.EXEC, "and continue"
    finally:
        (home.root / "gui" / "daemons.json").unlink(missing_ok=True)


def test_runs_of_two_daemons_are_not_exported_into_one_file(
    two: Driver, trained: list[str], tmp_path: Path
) -> None:
    """What needs one daemon for all says so, and names both."""
    own = two.submit(config_of())
    two.window.runs.cancel([two.run(own)])
    two.reaches(own, "TERM")
    two.window._archives.export([two.run(own), two.run(trained[0])], tmp_path / "both")
    said = two.services.notices.history[-1]
    assert all(link.name in f"{said.text} {said.detail}" for link in two.services.daemons.links)


# ------------------------------------------------------------ the store


def _store() -> RunStore:
    store = RunStore()
    store.set_order(["laptop", "server"])
    return store


def _told(store: RunStore, daemon: str, *runs: Any, generation: str = "g") -> None:
    changes = [RunUpdated(run=run, generation=generation, sequence=1) for run in runs]
    end = SnapshotEnd(generation=generation, sequence=1)
    store.apply([*changes, end], daemon)


def test_run_in_two_homes_is_one_run(qapp: Any) -> None:
    """The home where it is alive speaks for it, else the first; without any holder it is gone."""
    store, ended = _store(), record(run_id="01R", state=State.TERM, outcome=Outcome.COMPLETED)
    _told(store, "server", ended)
    _told(store, "laptop", replace(ended, notes="imported"))
    assert store.holders("01R") == ["laptop", "server"]
    assert store.runs["01R"].notes == "imported"
    _told(store, "server", replace(ended, state=State.EXEC, outcome=None, version=2))
    assert store.holders("01R") == ["server", "laptop"]
    assert store.runs["01R"].state == State.EXEC
    store.apply([RunRemoved(run_id="01R", generation="g", sequence=3)], "server")
    assert (store.holders("01R"), store.runs["01R"].notes) == (["laptop"], "imported")
    store.apply([RunRemoved(run_id="01R", generation="g", sequence=4)], "laptop")
    assert not store.runs
    store.close()


def test_snapshot_of_one_daemon_drops_nothing_of_another(qapp: Any) -> None:
    """A daemon restarted without a run drops that run alone; one that left, all of its own."""
    store = _store()
    _told(store, "laptop", record(run_id="01A"), record(run_id="01B"))
    _told(store, "server", record(run_id="01C"))
    store.put(record(run_id="01D"))
    _told(store, "laptop", record(run_id="01A"), generation="h")
    assert set(store.runs) == {"01A", "01C", "01D"}
    # An answer that came before the watch stream goes to the daemon that names the run then.
    _told(store, "server", record(run_id="01C"), record(run_id="01D"))
    assert store.holders("01D") == ["server"]
    store.set_order(["laptop"])
    assert set(store.runs) == {"01A"}
    store.close()
