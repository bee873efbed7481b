"""The proxy through which a run reaches W&B, from its config or from the environment."""

import os
from collections.abc import Mapping
from urllib.parse import urlsplit

from dotenv import dotenv_values

from gym_gui.models.stored import fields
from mosaic.config.paths import project_root
from mosaic.config.secrets import REFERENCE_PREFIX

_FIELDS = {
    "http": ("wandb_http_proxy", "WANDB_VPN_HTTP_PROXY"),
    "https": ("wandb_https_proxy", "WANDB_VPN_HTTPS_PROXY"),
}


def from_environment(variable: str) -> str:
    """A variable of the environment, or of the project's `.env` file."""
    stored = dotenv_values(project_root() / ".env")
    return os.environ.get(variable) or stored.get(variable) or ""


def proxy_for(document: Mapping[str, object], address: str) -> str:
    """The proxy for an address of W&B: as the run's config says, none unless it is switched on."""
    try:
        worker = fields(fields(document["metadata"])["worker"])
        extras = fields(fields(worker["config"]).get("extras") or {})
        if not extras.get("wandb_use_vpn_proxy"):
            return ""
        field, variable = _FIELDS[urlsplit(address).scheme]
        chosen = str(extras.get(field) or "")
        # One with a password in it is in the daemon's secret store, which the window does not read.
        if not chosen or chosen.startswith(REFERENCE_PREFIX):
            return from_environment(variable)
        return chosen
    except (KeyError, ValueError):
        return ""


def may_be_shown(address: str) -> bool:
    """Whether an address that a run names is safe to show: encrypted, or the user's own server."""
    parts = urlsplit(address)
    if parts.scheme == "https":
        return bool(parts.hostname)
    # A self-hosted server is trusted because the user named it in the environment.
    own = urlsplit(os.environ.get("WANDB_BASE_URL") or "")
    return parts.scheme == "http" == own.scheme and parts.netloc == own.netloc and bool(own.netloc)
