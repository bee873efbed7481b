"""The client of event loops: the same answers, without blocking the loop."""

import asyncio
import json

import pytest
from support.trainer import Trainer

from mosaic.client import AsyncTrainerClient, TrainerClient
from mosaic.errors import DaemonNotRunningError, InvalidConfigError

SHORT = json.dumps({"worker": "example", "algo": "example", "total_timesteps": 20})


def test_runs_are_started_followed_and_awaited_side_by_side(trainer: Trainer) -> None:
    """Two runs at once, each record as it comes, and refusals as the other client has them."""

    async def use() -> None:
        async with AsyncTrainerClient.connect(str(trainer.home.root)) as client:
            runs = await asyncio.gather(client.submit(SHORT), client.submit(SHORT))
            ids = [run.run_id for run in runs]
            ended = [record.run_id async for record in client.as_completed(ids)]
            assert sorted(ended) == sorted(ids)
            states = [record.state async for record in client.follow(ids[0])]
            assert states[-1] == "TERM"
            assert [run.outcome for run in await client.wait_all(ids)] == ["completed"] * 2
            with pytest.raises(InvalidConfigError):
                await client.submit("{}")

    asyncio.run(use())


def test_leaving_ends_what_still_waits(trainer: Trainer) -> None:
    """A run that never ends holds neither the loop nor the program."""
    run_id = trainer.submit("steady")

    async def use() -> None:
        client = AsyncTrainerClient.connect(str(trainer.home.root))
        async with client:
            async for record in client.follow(run_id):
                assert record.run_id == run_id
                break
            waiting = asyncio.create_task(client.wait(run_id))
            await client.health()
        with pytest.raises(DaemonNotRunningError):
            await waiting

    asyncio.run(use())
    trainer.client.cancel(run_id)


def test_nothing_that_a_run_offers_is_missing() -> None:
    """Every public method of the one client is a method of the other."""
    own = {"connect", "accept", "close", "reconnect", "home"}
    missing = {name for name in dir(TrainerClient) if not name.startswith("_")}
    missing -= set(dir(AsyncTrainerClient)) | own
    assert missing == set()
