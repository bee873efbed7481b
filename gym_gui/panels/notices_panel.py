"""Every notice of this session."""

import time

from qtpy.QtCore import Qt
from qtpy.QtWidgets import QListWidget, QListWidgetItem, QStackedWidget, QWidget

from gym_gui.models.notices import Notice
from gym_gui.services import Services
from gym_gui.widgets.layouts import as_panel, column
from gym_gui.widgets.messages import EmptyState

_ID_ROLE = Qt.ItemDataRole.UserRole
_ICONS = {"info": "info", "success": "check", "warning": "warning", "danger": "warning"}


class NoticesPanel(QWidget):
    """Newest first; a double click goes to the run."""

    def __init__(self, services: Services) -> None:
        super().__init__()
        as_panel(self)
        self._services = services
        self.list = QListWidget()
        self.list.setWordWrap(True)
        self.list.setAccessibleName("Notifications")
        self._empty = EmptyState("Nothing to report", "What happens to your runs is listed here.")
        self._stack = QStackedWidget()
        self._stack.addWidget(self._empty)
        self._stack.addWidget(self.list)
        self.setLayout(column(self._stack, margin=6))
        for notice in services.notices.history:
            self._add(notice)
        services.notices.said.connect(self._add)
        self.list.itemDoubleClicked.connect(self._on_open)

    def _add(self, notice: Notice) -> None:
        when = time.strftime("%H:%M:%S", time.localtime(notice.at))
        text = f"{when}   {notice.text}"
        if notice.detail:
            text += f"\n{notice.detail}"
        icon = self._services.themes.icon(_ICONS.get(notice.tone, "info"), notice.tone)
        item = QListWidgetItem(icon, text)
        item.setData(_ID_ROLE, notice.run_id)
        self.list.insertItem(0, item)
        self._stack.setCurrentWidget(self.list)

    def _on_open(self, item: QListWidgetItem) -> None:
        run_id = item.data(_ID_ROLE)
        if run_id:
            self._services.selection.select((run_id,))
