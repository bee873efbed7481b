"""From what a person types to a run: a full id, a unique prefix, or `last`."""

import asyncio

from mosaic.errors import AmbiguousRunError, RunNotFoundError
from mosaic.runs.ids import check_run_id, is_run_id, is_run_id_prefix
from mosaic.trainer.loop.engine import Engine
from mosaic.trainer.storage.registry import StoredRun


async def resolve_run(engine: Engine, text: str) -> StoredRun:
    """The run that `text` names.

    Raises:
        InvalidRunIdError: It cannot be a run id.
        RunNotFoundError: No run fits.
        AmbiguousRunError: Several do.
    """
    name = text.strip().upper()
    if is_run_id(name):
        return engine.stored(name)
    if name != "LAST" and not is_run_id_prefix(name):
        check_run_id(text)
    await asyncio.to_thread(engine.registry.flush)
    if name == "LAST":
        newest = engine.registry.newest()
        if newest is None:
            raise RunNotFoundError("there is no run yet; start one: mosaic train ppo")
        return engine.stored(newest)
    return engine.stored(_unique(engine, name))


def _unique(engine: Engine, prefix: str) -> str:
    fitting = engine.registry.ids_with_prefix(prefix)
    if not fitting:
        raise RunNotFoundError(f"no run begins with {prefix}; `mosaic runs` lists them")
    if len(fitting) > 1:
        shown = ", ".join(fitting[:3])
        raise AmbiguousRunError(f"{prefix} fits several runs ({shown}, …); type more of it")
    return fitting[0]
