"""Who may see the pages, and what a page may do. Pure apart from drawing random tokens.

A browser sends requests on behalf of any site that its user visits. Three checks keep such sites
out: the cookie is never sent across sites, `Host` must be our own name (a foreign name that
resolves to this machine is refused), and whatever changes something must say where it comes from.
"""

import hmac
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie

_TOKEN_BYTES = 24
# Methods that change nothing here; every other one needs the right `Origin`.
_READS = frozenset({"GET", "HEAD"})


@dataclass(frozen=True)
class Refusal:
    """Why a request is not answered, as an HTTP status and a sentence."""

    status: int
    text: str


@dataclass
class Door:
    """Lets browsers in and looks at every request.

    Attributes:
        port: Where we listen; part of our names and of the cookie's name.
        control: Whether the pages may also stop and pause runs.
        embed: Origins whose pages may show ours in a frame, such as a Jupyter server.
        announce: Called with the address for the next browser, once one was let in.
    """

    port: int
    control: bool = False
    embed: tuple[str, ...] = ()
    announce: Callable[[str], None] = field(default=lambda _address: None)
    _token: str = field(default_factory=lambda: secrets.token_urlsafe(_TOKEN_BYTES))
    _sessions: set[str] = field(default_factory=set)

    @property
    def cookie(self) -> str:
        """The cookie's name. Cookies do not know ports, and two of us may run on one machine."""
        return f"mosaic_web_{self.port}"

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names under which a browser on this machine reaches us."""
        return tuple(f"{name}:{self.port}" for name in ("127.0.0.1", "localhost"))

    @property
    def entrance(self) -> str:
        """The address that lets one browser in, once."""
        return f"http://{self.hosts[0]}/enter?token={self._token}"

    def redeem(self, token: str) -> str | None:
        """Exchange the one-time token for a session; None if it is not the one of now.

        The next browser needs the next token: an address in a history or a chat opens nothing.
        """
        if not hmac.compare_digest(token.encode(), self._token.encode()):
            return None
        self._token = secrets.token_urlsafe(_TOKEN_BYTES)
        session = secrets.token_urlsafe(_TOKEN_BYTES)
        self._sessions.add(session)
        self.announce(self.entrance)
        return session

    def refusal(self, method: str, path: str, headers: Mapping[str, str]) -> Refusal | None:
        """Why a request must not be answered; None if it may be.

        Args:
            method: Such as `GET`.
            path: Without the query.
            headers: By lower-case name.
        """
        host = headers.get("host", "")
        if host not in self.hosts:
            return Refusal(421, f"this is {self.hosts[0]}, not {host or 'a server without a name'}")
        if path == "/enter" and method in _READS:
            return None
        if not self._knows(headers.get("cookie", "")):
            return Refusal(
                401,
                "This browser is not let in. Open the address that `mosaic web` printed last; "
                "each address lets in one browser.",
            )
        if method in _READS:
            return None
        if headers.get("origin", "") != f"http://{host}":
            return Refusal(403, "this request comes from another site")
        if not self.control:
            return Refusal(403, "these pages only show runs; start them with: mosaic web --control")
        return None

    def response_headers(self) -> dict[str, str]:
        """What every answer tells the browser: run no code but ours, show us in no other page."""
        ancestors = " ".join(self.embed) or "'none'"
        policy = {
            "default-src": "'none'",
            "script-src": "'self'",
            "style-src": "'self'",
            "img-src": "'self'",
            "media-src": "'self'",
            "connect-src": "'self'",
            "form-action": "'self'",
            "base-uri": "'none'",
            "frame-ancestors": ancestors,
        }
        return {
            "content-security-policy": "; ".join(f"{key} {value}" for key, value in policy.items()),
            "x-content-type-options": "nosniff",
            "referrer-policy": "same-origin",
            "cross-origin-resource-policy": "same-origin",
            "cross-origin-opener-policy": "same-origin",
        }

    def _knows(self, cookies: str) -> bool:
        try:
            found = SimpleCookie(cookies).get(self.cookie)
        except CookieError:
            return False
        # Sessions are random and long: comparing them by hash tells an attacker nothing of use.
        return found is not None and found.value in self._sessions
