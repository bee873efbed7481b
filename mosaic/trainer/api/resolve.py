"""From what a person types to a run (a full id, a unique prefix, or `last`), and to its message."""

import asyncio
import os

from mosaic.errors import AmbiguousRunError, RunNotFoundError
from mosaic.runs.ids import check_run_id, is_run_id, is_run_id_prefix
from mosaic.trainer.api.messages import run_message
from mosaic.trainer.core.states import Run
from mosaic.trainer.loop import damage
from mosaic.trainer.loop.engine import Engine
from mosaic.trainer.storage.registry import StoredRun, Vitals
from mosaic.wire import trainer_pb2 as pb


class RunMessages:
    """Stored runs as messages, with what only the running daemon knows about them."""

    def __init__(self, engine: Engine) -> None:
        self._live = engine.live

    def of(self, stored: StoredRun) -> pb.Run:
        """A run as clients see it."""
        run_id = stored.run.run_id
        # Bytes that are no text in the daemon's own locale may well be UTF-8; a message needs text.
        directory = os.fsencode(self._live.run_dir(stored).path).decode(errors="replace")
        try:
            return run_message(stored, directory, self._live.wait_reason(run_id))
        except (TypeError, ValueError) as error:
            # One row that cannot be sent must not keep a client from all the others.
            row = damage.as_damaged(Run(run_id), f"its record cannot be sent: {error}")
            return run_message(StoredRun(row, Vitals(), stored.sequence), directory)


async def resolve_run(engine: Engine, text: str) -> StoredRun:
    """The run that `text` names.

    Raises:
        InvalidRunIdError: It cannot be a run id.
        RunNotFoundError: No run fits.
        AmbiguousRunError: Several do.
    """
    name = text.strip().upper()
    if is_run_id(name):
        return engine.live.stored(name)
    if name != "LAST" and not is_run_id_prefix(name):
        check_run_id(text)
    # Rows are written in the background: a run submitted a moment ago must be found, too.
    await asyncio.to_thread(engine.registry.flush)
    if name == "LAST":
        newest = engine.registry.newest()
        if newest is None:
            raise RunNotFoundError("there is no run yet; start one: mosaic train ppo")
        return engine.live.stored(newest)
    return engine.live.stored(_unique(engine, name))


def _unique(engine: Engine, prefix: str) -> str:
    fitting = engine.registry.ids_with_prefix(prefix)
    if not fitting:
        raise RunNotFoundError(f"no run begins with {prefix}; `mosaic runs` lists them")
    if len(fitting) > 1:
        shown = ", ".join(fitting[:3])
        raise AmbiguousRunError(f"{prefix} fits several runs ({shown}, …); type more of it")
    return fitting[0]
