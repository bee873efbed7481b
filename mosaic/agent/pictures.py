"""Sends the pictures of a run on the node of a cluster to its daemon, while someone watches.

Its supervisor starts it with the worker's environment, and ends it with the worker. It ends by
itself when the daemon does not answer, takes no more, or has withdrawn the wish.
"""

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from mosaic.agent.conversation import Conversation
from mosaic.agent.orders import Order
from mosaic.config.json_types import JsonValue
from mosaic.connect.endpoint import Address, current_address
from mosaic.errors import MosaicError
from mosaic.runs.opening import read_document

# A look at the shared folder; pictures that no one sees are sent for a second at most.
_LOOK_S = 1.0


def main() -> int:
    """`python -m mosaic.agent.pictures CONTROL NUMBER`; the exit status."""
    control, number = Path(sys.argv[1]), int(sys.argv[2])
    wish = wished(control, number)
    address = current_address(Address(""))
    if wish is None or not address.target:
        return 0
    over = threading.Event()
    order = Order(
        run_id=os.environ["MOSAIC_RUN_ID"],
        attempt=1,
        job="",
        key=os.environ["MOSAIC_LAUNCH_KEY"],
        target=address.target,
        certificate=address.certificate,
        name=address.name,
    )
    talk = Conversation(order)
    try:
        # Here: NumPy and Pillow are not needed to find out that no one watches.
        from mosaic.fastlane.messages import frame_messages

        talk.send_frames(
            frame_messages(
                order["run_id"],
                os.environ["MOSAIC_RUN_DIR"],
                max_fps=_number(wish, "max_fps"),
                max_dim=int(_number(wish, "max_dim")),
                quality=int(_number(wish, "quality")),
                stop=_ending(over, control, number),
            )
        )
    except MosaicError as error:
        # Said in the job's log. The daemon asks again if someone still watches.
        print(f"mosaic: no pictures: {error}", file=sys.stderr)
        return 1
    finally:
        over.set()
        talk.close()
    return 0


def wished(control: Path, number: int) -> dict[str, JsonValue] | None:
    """What the daemon wants to see, if this wish is still its newest."""
    wish = (read_document(control) or {}).get("frames")
    return wish if isinstance(wish, dict) and wish.get("number") == number else None


def _ending(over: threading.Event, control: Path, number: int) -> Callable[[], bool]:
    """Says whether it is over: the call, its supervisor, or the wish."""
    parent, looked = os.getppid(), time.monotonic()

    def ended() -> bool:
        nonlocal looked
        if over.is_set() or os.getppid() != parent:
            return True
        if time.monotonic() - looked < _LOOK_S:
            return False
        looked = time.monotonic()
        return wished(control, number) is None

    return ended


def _number(wish: dict[str, JsonValue], name: str) -> float:
    value = wish.get(name)
    return value if isinstance(value, int | float) else 0


if __name__ == "__main__":
    sys.exit(main())
