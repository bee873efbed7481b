"""Where an agent keeps a run on its machine."""

from pathlib import Path

import pytest

from mosaic.agent import folder as module
from mosaic.agent.folder import AgentFolder
from mosaic.config.paths import Home


def test_a_folder_is_whole_or_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent that begins while another leaves finds no half folder; a kill leaves no rest."""
    folder = AgentFolder.of(Home(tmp_path), "0" * 26)
    folder.create()
    with monkeypatch.context() as killed:
        killed.setattr(module, "remove_tree", lambda _: None)
        folder.remove()
    assert not folder.root.exists()
    folder.create()
    folder.sweep()
    assert [path.name for path in folder.root.parent.iterdir()] == ["0" * 26]
