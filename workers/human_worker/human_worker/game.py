"""Episodes played by a person, or by a script of keys that stands in for one.

Every step goes through the telemetry lane like any other worker's. The keys come from a script in
the configuration, or from a client over a private local socket named in `<run>/play.json`.
"""

import time
from typing import Any

from human_worker.environment import EnvHost
from human_worker.keys import RESET, UnknownKeyError, parse_script
from human_worker.player_socket import PlayerSocket
from mosaic.curves.episodes import NewestEpisodes
from mosaic.telemetry.emitter import TelemetryEmitter, to_json
from mosaic.telemetry.records import MAX_TEXT_BYTES
from mosaic.workers import WorkerProcess


class Game:
    """Plays episodes and records each step."""

    def __init__(
        self, worker: WorkerProcess, host: EnvHost, recorder: TelemetryEmitter | None, seed: int
    ) -> None:
        self._worker = worker
        self._host = host
        self._recorder = recorder
        self._seed = seed
        self._steps = 0
        self.planned = 0
        self.episode = -1
        self.step = 0
        self.total = 0.0
        self.over = True
        self._newest = NewestEpisodes()

    def begin(self) -> bytes:
        """Start the next episode; returns its first frame."""
        if not self.over:
            self._finish("left")
        self.episode += 1
        self.step, self.total, self.over = 0, 0.0, False
        return self._host.reset(self._seed + self.episode)

    def press(self, keys: tuple[str, ...]) -> bytes:
        """One step with these keys held down; returns the frame that came of it."""
        action = self._host.keys.action(keys)
        # What the player acted on, not what came of it.
        seen = self._host.observation
        reward, terminated, truncated, info = self._host.step(action)
        frame = self._host.frame()
        self.total += reward
        if self._recorder is not None:
            self._recorder.step(
                episode=self.episode,
                step=self.step,
                observation=seen,
                action=action,
                reward=reward,
                terminated=terminated,
                truncated=truncated,
                info={"keys": list(keys), **({"info": info} if info else {})},
                frame=frame,
            )
        self.step += 1
        self._steps += 1
        if terminated or truncated:
            self._finish("terminated" if terminated else "truncated")
        self._worker.emit.metrics(self._steps, self.planned, self._newest.means())
        return frame

    def leave(self) -> None:
        """The player stops, perhaps in the middle of an episode."""
        if not self.over and self.step:
            self._finish("left")

    def _finish(self, outcome: str) -> None:
        self.over = True
        # What the player left in the middle is no result.
        if outcome != "left":
            self._newest.add([(self.total, self.step)])
        if self._recorder is not None:
            self._recorder.episode(
                episode=self.episode,
                length=self.step,
                total_reward=self.total,
                outcome=outcome,
                seed=self._seed + self.episode,
                info=_last_seen(self._host.observation),
            )

    def report(self) -> dict[str, Any]:
        """What a client is told after each step."""
        return {
            "episode": self.episode,
            "step": self.step,
            "total": self.total,
            "over": self.over,
        }


def _last_seen(observation: Any) -> dict[str, Any]:
    """What came of the last action, which a data set of the episode needs.

    The steps hold what was acted on. A picture is too large for a record: the daemon would refuse
    the episode with it.
    """
    size = len(to_json(observation))
    return {"final_observation": observation} if size <= MAX_TEXT_BYTES // 2 else {}


def play_script(worker: WorkerProcess, game: Game, script: str, fps: float) -> None:
    """Play a script to its end; an episode that ends begins the next one."""
    presses = parse_script(script)
    game.planned = sum(keys != (RESET,) for keys in presses)
    for keys in presses:
        if not worker.safe_point():
            break
        if keys == (RESET,) or game.over:
            game.begin()
        if keys != (RESET,):
            game.press(keys)
            if fps:
                time.sleep(1 / fps)
    game.leave()


def play_live(worker: WorkerProcess, game: Game, host: EnvHost, fps: float) -> None:
    """Play by a client's keys until it quits or stays away."""
    with PlayerSocket(worker.run_dir) as player:
        player.greeting = {
            "keys": {key: str(action) for key, action in host.keys.actions.items()},
            "turn_based": host.keys.turn_based,
            "fps": fps,
        }
        frame = game.begin()
        player.tell(game.report(), frame)
        while worker.safe_point() and not player.gone:
            keys = player.next_keys(None if host.keys.turn_based else 1 / fps)
            if keys is None:
                continue
            try:
                frame = game.begin() if game.over or keys == (RESET,) else game.press(keys)
            except UnknownKeyError as error:
                player.tell({**game.report(), "problem": str(error)}, host.frame())
            else:
                player.tell(game.report(), frame)
    game.leave()
