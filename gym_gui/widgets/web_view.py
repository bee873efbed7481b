"""A web page inside the window, kept on its own origin; a link to the browser when it cannot be."""

import importlib
import os
from typing import TYPE_CHECKING

from qtpy.QtCore import QCoreApplication, QEvent, QObject, QUrl, Signal
from qtpy.QtGui import QDesktopServices
from qtpy.QtNetwork import QNetworkProxy
from qtpy.QtWidgets import QStackedWidget, QWidget

from gym_gui.widgets.controls import button
from gym_gui.widgets.labels import label, selectable
from gym_gui.widgets.layouts import column, row
from gym_gui.widgets.messages import EmptyState

if TYPE_CHECKING:
    from qtpy.QtWebEngineCore import QWebEnginePage, QWebEngineProfile
    from qtpy.QtWebEngineWidgets import QWebEngineView

NO_WEB_VARIABLE = "MOSAIC_NO_WEBENGINE"


def web_engine_problem() -> str:
    """Why pages cannot be shown here; empty when they can."""
    if os.environ.get(NO_WEB_VARIABLE):
        return f"the embedded browser is switched off by {NO_WEB_VARIABLE}"
    try:
        importlib.import_module("qtpy.QtWebEngineWidgets")
    except Exception as error:
        return f"the embedded browser is not installed ({error})"
    return ""


def same_origin(one: QUrl, other: QUrl) -> bool:
    """Whether two addresses have the same scheme, host and port."""
    return (one.scheme(), one.host(), one.port()) == (other.scheme(), other.host(), other.port())


def proxy_of(address: str) -> QNetworkProxy:
    """A proxy as Qt wants it, from `http://user:password@host:port` or `socks5://host:port`."""
    url = QUrl(address if "://" in address else f"http://{address}")
    socks = url.scheme().startswith("socks")
    kind = QNetworkProxy.ProxyType.Socks5Proxy if socks else QNetworkProxy.ProxyType.HttpProxy
    port = url.port(1080 if socks else 8080)
    return QNetworkProxy(kind, url.host(), port, url.userName(), url.password())


def make_page(origin: QUrl) -> "tuple[QWebEnginePage, QWebEngineProfile]":
    """A page that stays where it is: links elsewhere go to the browser, downloads nowhere."""
    from qtpy.QtWebEngineCore import QWebEnginePage, QWebEngineProfile

    class OriginPage(QWebEnginePage):
        """Refuses to leave its origin."""

        def acceptNavigationRequest(  # noqa: N802
            self, url: QUrl, kind: QWebEnginePage.NavigationType, is_main_frame: bool
        ) -> bool:
            if same_origin(url, origin) or url.scheme() in ("about", "blob", "data"):
                return True
            clicked = kind == QWebEnginePage.NavigationType.NavigationTypeLinkClicked
            if clicked and url.scheme() in ("http", "https"):
                QDesktopServices.openUrl(url)
            return False

        def createWindow(self, kind: QWebEnginePage.WebWindowType) -> None:  # noqa: N802
            return None

    profile = QWebEngineProfile()  # without a name: nothing is kept on disk
    profile.downloadRequested.connect(lambda download: download.cancel())
    return OriginPage(profile), profile


class WebView(QWidget):
    """Shows one address.

    Signals:
        loaded: The page has arrived, or not.
        crashed: The browser's process died.
    """

    loaded = Signal(bool)
    crashed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.address = ""
        self._proxy = ""
        self._proxied = False
        self.view: QWebEngineView | None = None
        self._page: QWebEnginePage | None = None
        self._profile: QWebEngineProfile | None = None
        self._note = EmptyState("", "")
        self._open = button("Open in browser", self.open_in_browser)
        self._address_label = selectable(label("", "muted"))
        self._reload = button("Reload", self.reload)
        self._stack = QStackedWidget()
        self._stack.addWidget(self._note)
        bar = row(self._address_label, 1, self._reload, self._open)
        self.setLayout(column(bar, self._stack, spacing=6))
        self.say("", "")

    @property
    def embedded(self) -> bool:
        """Whether a page is shown inside the window."""
        return self.view is not None and self._stack.currentWidget() is self.view

    def say(self, title: str, text: str) -> None:
        """Show words instead of a page."""
        self._note.say(title, text)
        self._stack.setCurrentWidget(self._note)
        self._reload.setEnabled(False)
        self._open.setEnabled(bool(self.address))

    def show_address(self, address: str, proxy: str = "") -> None:
        """Load an address, through a proxy if need be; where that fails, offer the browser."""
        self.address, self._proxy = address, proxy
        self._address_label.setText(address)
        self._open.setEnabled(True)
        problem = web_engine_problem()
        if problem:
            self.say("Shown in your browser", f"Here, {problem}. Use “Open in browser”.")
            return
        self._drop_view()
        if proxy:
            # The engine knows one proxy for all pages; those on this machine are not sent there.
            QNetworkProxy.setApplicationProxy(proxy_of(proxy))
            self._proxied = True
        from qtpy.QtWebEngineWidgets import QWebEngineView

        origin = QUrl(address)
        view = self.view = QWebEngineView()
        page, self._profile = make_page(origin)
        self._page = page
        view.setPage(page)
        view.loadFinished.connect(self.loaded)
        page.renderProcessTerminated.connect(lambda *_: self._on_crash())
        self._stack.addWidget(view)
        self._stack.setCurrentWidget(view)
        self._reload.setEnabled(True)
        view.load(origin)

    def reload(self) -> None:
        """Load the page again."""
        if self.address:
            self.show_address(self.address, self._proxy)

    def open_in_browser(self) -> None:
        """Hand the address to the user's browser."""
        QDesktopServices.openUrl(QUrl(self.address))

    def close_page(self) -> None:
        """Close the page and the browser's processes."""
        self._drop_view()
        self.address = ""
        self._address_label.setText("")

    def _drop_view(self) -> None:
        if self.view is None:
            return
        view, page, profile = self.view, self._page, self._profile
        self.view = self._page = self._profile = None
        self._stack.removeWidget(view)
        view.setParent(None)
        if self._proxied:
            QNetworkProxy.setApplicationProxy(QNetworkProxy())
            self._proxied = False
        # A page must go before its profile, or the engine complains; so in order, and now.
        gone: QObject | None
        for gone in (page, view, profile):
            if gone is None:
                continue
            gone.deleteLater()
            QCoreApplication.sendPostedEvents(gone, QEvent.Type.DeferredDelete)

    def _on_crash(self) -> None:
        self._drop_view()
        self.say(
            "The embedded browser has crashed", "Use “Open in browser”. Your run is not affected."
        )
        self.crashed.emit()
