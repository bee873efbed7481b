"""Verifying from the window: a piece is trained again as a run, and its certificate is shown."""

from functools import partial

from qtpy.QtCore import QObject

from gym_gui.actions import rules
from gym_gui.actions.action import Action
from gym_gui.models.notices import Notice
from gym_gui.services import Services
from mosaic.client import TrainerClient
from mosaic.client.verifying import choose, pieces, read_certificate, verify
from mosaic.presenting.certificates import Certificate, certificate_lines, verdict_line
from mosaic.presenting.run_status import can_be_verified, title_of
from mosaic.records import RunRecord

_TONES = {"verified": "success", "changed": "warning", "differs": "danger"}


class Verifying(QObject):
    """Submits pieces, and says what came of each when its run has ended."""

    def __init__(self, services: Services, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._services = services
        # The title of what is verified, by the id of the run that does it.
        self._waiting: dict[str, str] = {}
        services.store.changed.connect(self._on_runs)

    def actions(self) -> tuple[Action, ...]:
        """One: verify."""
        return (
            Action(
                id="run.verify",
                title="Verify",
                do=self.start,
                menu="Run",
                shortcut="Ctrl+Alt+V",
                icon="check",
                enabled=rules.one_run(can_be_verified),
            ),
        )

    def start(self) -> None:
        """Train a random piece of the run that is shown again."""
        run = self._services.current_run()
        if run is None:
            return
        link = self._services.link_of(run.run_id)
        link.ask(
            partial(_submit, run.run_id),
            partial(self._submitted, title_of(run), link.name),
            lambda error: self._services.notices.error(f"{title_of(run)} was not verified", error),
        )

    def _submitted(self, title: str, daemon: str, verifier: RunRecord) -> None:
        self._services.store.put(verifier, daemon)
        self._waiting[verifier.run_id] = title
        self._services.notices.say(
            Notice(
                "info",
                f"A piece of {title} is trained again; the table shows how far it is",
                run_id=verifier.run_id,
            )
        )

    def _on_runs(self, ids: set[str]) -> None:
        for run_id in ids & self._waiting.keys():
            verifier = self._services.store.get(run_id)
            if verifier is not None and verifier.ended:
                title = self._waiting.pop(run_id)
                self._services.link_of(run_id).ask(
                    partial(_certificate, run_id),
                    partial(self._told, title, verifier),
                    lambda error: self._services.notices.error("No certificate", error),
                )

    def _told(self, title: str, verifier: RunRecord, found: Certificate | None) -> None:
        if found is None:
            text = f"{title}: no certificate, the run ended {verifier.outcome}"
            notice = Notice("danger", text, verifier.reason or "", run_id=verifier.run_id)
        else:
            notice = Notice(
                _TONES[found["verdict"]],
                f"{title}, {verdict_line(found)}",
                "\n".join(certificate_lines(found)),
                run_id=verifier.run_id,
            )
        self._services.notices.say(notice)


def _submit(run_id: str, client: TrainerClient) -> RunRecord:
    base = client.get(run_id)
    return verify(client, base, choose(pieces(client, base), 1)[0])


def _certificate(run_id: str, client: TrainerClient) -> Certificate | None:
    return read_certificate(client, run_id)
