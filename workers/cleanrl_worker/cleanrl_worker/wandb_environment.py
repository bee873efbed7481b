"""Weights & Biases for the training process, as environment variables: identity, proxy, patience.

An unreachable host must cost nothing: waiting is limited here, and a failed `wandb.init` (of our
logger, or of upstream's scripts through the launcher) continues offline.
"""

from __future__ import annotations

import netrc
import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from dotenv import dotenv_values

from cleanrl_worker.config import CleanRLWorkerConfig
from mosaic.config.paths import project_root
from mosaic.workers import resolve_secret

_PROXIES = {
    "WANDB_HTTP_PROXY": ("wandb_http_proxy", "WANDB_VPN_HTTP_PROXY"),
    "WANDB_HTTPS_PROXY": ("wandb_https_proxy", "WANDB_VPN_HTTPS_PROXY"),
}
# Seconds; training and the run's end wait no longer for a host that does not answer.
_PATIENCE_S = "10"


def environment(
    config: CleanRLWorkerConfig, run_dir: Path, given: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """The variables that set up W&B in the training process; none when tracking is off."""
    extras = config.extras
    if not extras.track_wandb:
        return {}
    told = {
        "WANDB_RUN_ID": config.run_id.lower(),
        "WANDB_RESUME": "allow",
        "WANDB_NAME": extras.wandb_run_name or config.run_id,
        "WANDB_DIR": str(run_dir),
        "WANDB_CONSOLE": given.get("WANDB_CONSOLE", "off"),
        # Its own error reports would keep a run from ending while the host is away.
        "WANDB_ERROR_REPORTING": given.get("WANDB_ERROR_REPORTING", "false"),
        "WANDB_SILENT": given.get("WANDB_SILENT", "true"),
        "WANDB_INIT_TIMEOUT": given.get("WANDB_INIT_TIMEOUT", _PATIENCE_S),
        "WANDB_FINISH_TIMEOUT": given.get("WANDB_FINISH_TIMEOUT", _PATIENCE_S),
    }
    # The daemon has put the key that a config refers to into the environment already.
    if extras.wandb_api_key and "WANDB_API_KEY" not in given:
        told["WANDB_API_KEY"] = extras.wandb_api_key
    if extras.wandb_email:
        told["WANDB_USER_EMAIL"] = extras.wandb_email
    told.update(proxies(config, given))
    if "WANDB_MODE" not in given and not _has_key({**given, **told}):
        told["WANDB_MODE"] = "offline"
    return told


def proxies(config: CleanRLWorkerConfig, given: Mapping[str, str]) -> dict[str, str]:
    """The proxies of W&B alone: none unless switched on; explicit fields win over defaults."""
    if not config.extras.wandb_use_vpn_proxy:
        return {}
    # A run of the daemon works in its own directory; the file that people write is the project's.
    files = (project_root() / ".env", Path.cwd() / ".env")
    stored = {name: value for file in files for name, value in dotenv_values(file).items()}
    defaults = {**stored, **given}
    found = {
        variable: getattr(config.extras, field) or defaults.get(fallback)
        for variable, (field, fallback) in _PROXIES.items()
    }
    # An address with a password in it comes as a reference to the secret store.
    return {
        variable: resolve_secret(str(value), given) for variable, value in found.items() if value
    }


def _has_key(variables: Mapping[str, str]) -> bool:
    if variables.get("WANDB_API_KEY"):
        return True
    host = urlsplit(variables.get("WANDB_BASE_URL", "https://api.wandb.ai")).hostname or ""
    try:
        return netrc.netrc(variables.get("NETRC")).authenticators(host) is not None
    except (OSError, netrc.NetrcParseError):
        return False
