"""What a site on another machine has to know of the daemon itself."""

from collections.abc import Callable
from dataclasses import dataclass

from mosaic.connect.endpoint import Address
from mosaic.trainer.core.states import Run


@dataclass(frozen=True)
class Door:
    """How agents find the daemon and prove whose they are.

    Attributes:
        token: The home's, from which launch keys are derived.
        address: Where the daemon listens; known once it does.
        live: The runs that have not ended.
        changed: To be called when runs that wait may start.
    """

    token: bytes
    address: Callable[[], Address]
    live: Callable[[], list[Run]]
    changed: Callable[[], None]
