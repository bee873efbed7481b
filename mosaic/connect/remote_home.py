"""The address of a home on another machine, `ssh://user@host:port/home`, and how ssh is asked.

Pure: it only writes command lines. `tunnel` runs them.
"""

import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import parse_qs, quote, unquote, urlsplit

from mosaic.config.suggest import did_you_mean
from mosaic.connect.elsewhere import SCHEME
from mosaic.errors import InvalidArgumentError

# The program and its options, such as `ssh -F FILE`, for those whose own `ssh` will not do.
SSH_VARIABLE = "MOSAIC_SSH"
# No `-` in front: ssh would read it as an option. The rest is what accounts and hosts may hold.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]*\Z")
_HOST = re.compile(r"[A-Za-z0-9_:][A-Za-z0-9_.:%-]*\Z")
_EXAMPLE = "write for example ssh://you@server or ssh://you@server:22/srv/mosaic"

# ssh asks nothing in the middle of a command, and the user's own configuration adds nothing: no
# forwardings, and no command that ssh would run here.
_QUIET = (
    "BatchMode=yes", "ForwardAgent=no", "ForwardX11=no", "ClearAllForwardings=yes",
    "PermitLocalCommand=no", "RemoteCommand=none", "EscapeChar=none",
)  # fmt: skip
# Who cannot be reached is reported while the user still waits. A connection that died without a
# word is noticed after 15 seconds; the window shows a daemon that does not answer long before.
_PATIENCE = ("ConnectTimeout=10", "ServerAliveInterval=5", "ServerAliveCountMax=3")


@dataclass(frozen=True)
class RemoteHome:
    """A home on a machine that ssh reaches.

    Attributes:
        host: A name or an address, or a `Host` of the user's ssh configuration.
        user: The account; empty leaves it to ssh.
        port: Where sshd listens; None leaves it to ssh.
        home: The folder there, perhaps beginning with `~/`; empty means the default of that
            account.
        program: The `mosaic` command there; empty looks in the usual places.
    """

    host: str
    user: str = ""
    port: int | None = None
    home: str = ""
    program: str = ""

    @classmethod
    def parse(cls, text: str) -> "RemoteHome":
        """Read an address.

        Raises:
            InvalidArgumentError: It is not one; says what is wrong and how one looks.
        """
        if not text.startswith(SCHEME):
            raise InvalidArgumentError(f"{text!r} does not begin with {SCHEME}; {_EXAMPLE}")
        parts = urlsplit(text)
        try:
            port = parts.port
        except ValueError:
            raise InvalidArgumentError(f"{text!r} has no valid port; {_EXAMPLE}") from None
        user, host = unquote(parts.username or ""), parts.hostname or ""
        # A password in an address ends up in shell histories and process lists.
        if parts.password is not None:
            raise InvalidArgumentError(f"passwords do not work here, only keys; {_EXAMPLE}")
        if not _HOST.match(host) or (user and not _NAME.match(user)) or parts.fragment:
            raise InvalidArgumentError(f"{text!r} names no account on a host; {_EXAMPLE}")
        options = parse_qs(parts.query, keep_blank_values=True)
        for unknown in options.keys() - {"mosaic"}:
            raise InvalidArgumentError(
                f"{text!r} has an unknown option {unknown!r}{did_you_mean(unknown, ('mosaic',))}; "
                "only ?mosaic=/path/to/mosaic is known"
            )
        path = unquote(parts.path)
        home = path[1:] if path.startswith("/~/") else path.rstrip("/")
        return cls(host, user, port, home, options.get("mosaic", [""])[0])

    @property
    def account(self) -> str:
        """`user@host`, for people and for ssh."""
        return f"{self.user}@{self.host}" if self.user else self.host

    def __str__(self) -> str:
        port = f":{self.port}" if self.port else ""
        home = f"/{self.home}" if self.home.startswith("~/") else self.home
        host = f"[{self.host}]" if ":" in self.host else self.host
        user = f"{quote(self.user, safe='')}@" if self.user else ""
        program = f"?mosaic={quote(self.program)}" if self.program else ""
        return f"{SCHEME}{user}{host}{port}{quote(home, safe='/~')}{program}"

    def by_hand(self) -> str:
        """The command with which a person reaches the machine."""
        port = f" -p {self.port}" if self.port else ""
        return f"{' '.join(ssh_command())}{port} {self.account}"

    def ssh(self, options: Sequence[str], words: Sequence[str]) -> list[str]:
        """A command that runs `mosaic` there.

        Args:
            options: Further options for ssh.
            words: The arguments of `mosaic`.
        """
        settings = [word for setting in (*_QUIET, *_PATIENCE) for word in ("-o", setting)]
        port = ["-p", str(self.port)] if self.port else []
        return [
            *ssh_command(), *settings, *port, *options, "--", self.account, self.there(words),
        ]  # fmt: skip

    def there(self, words: Sequence[str]) -> str:
        """What the shell of that account is asked to run: `mosaic` with these arguments."""
        # In `sh` itself: the account's own shell may be fish or csh.
        return f"exec sh -c {shlex.quote(self._script(words))}"

    def _script(self, words: Sequence[str]) -> str:
        arguments = " ".join(shlex.quote(word) for word in words)
        tries = " ".join(_path(place) for place in self._places())
        home = f"MOSAIC_HOME={_path(self.home)}; export MOSAIC_HOME; " if self.home else ""
        # 127 is what a shell says for a missing command; `tunnel` knows it.
        return (
            f"{home}for m in {tries}; do "
            f'if p=$(command -v "$m" 2>/dev/null); then exec "$p" {arguments}; fi; '
            "done; exit 127"
        )

    def _places(self) -> list[str]:
        """Where `mosaic` may be; a session without a login sees a short PATH."""
        if self.program:
            return [self.program]
        # A checkout keeps its home in `var/`, beside the environment.
        beside = [f"{self.home.rstrip('/')}/../.venv/bin/mosaic"] if self.home else []
        return [
            *beside, "mosaic",
            "~/.local/bin/mosaic", "~/.venv/bin/mosaic", "~/mosaic/.venv/bin/mosaic",
        ]  # fmt: skip


def ssh_command() -> list[str]:
    """The ssh program with the user's own options."""
    return shlex.split(os.environ.get(SSH_VARIABLE, "")) or ["ssh"]


def _path(path: str) -> str:
    """A path for the other side's shell; `~/` is that account's folder, not ours."""
    if path.startswith("~/"):
        return f'"$HOME"/{shlex.quote(path[2:])}'
    return shlex.quote(path)
