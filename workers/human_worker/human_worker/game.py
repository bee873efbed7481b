"""Episodes played by a person, or by a script of keys that stands in for one.

Where the world has a policy in it, the two take turns: the person takes over and hands back, in the
middle of an episode too, and each step is recorded with the one who acted. Every step goes through
the telemetry lane like any other worker's. The keys come from a script in the configuration, or
from a client over a private local socket (`human_worker.live`).
"""

import time

from human_worker.keys import POLICY, parse_script
from human_worker.policy_world import PolicyWorld
from human_worker.world import Moved, World
from mosaic.curves.episodes import NewestEpisodes
from mosaic.presenting.actor import PERSON
from mosaic.telemetry.emitter import TelemetryEmitter, to_json
from mosaic.telemetry.records import MAX_TEXT_BYTES
from mosaic.workers import WorkerProcess
from mosaic.workers.player_socket import RESET


class Game:
    """Plays episodes and records each step."""

    def __init__(
        self, worker: WorkerProcess, host: World, recorder: TelemetryEmitter | None, seed: int
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
        self._by_person = 0
        self._newest = NewestEpisodes()

    def begin(self) -> bytes:
        """Start the next episode; returns its first frame."""
        if not self.over:
            self._finish("left")
        self.episode += 1
        self.step, self.total, self.over = 0, 0.0, False
        self._by_person = 0
        return self._host.reset(self._seed + self.episode)

    def press(self, keys: tuple[str, ...]) -> bytes:
        """One step with these keys held down; returns the frame that came of it."""
        action = self._host.keys.action(keys)
        # What the player acted on, not what came of it.
        seen = self._host.observation
        self._by_person += 1
        return self._record(PERSON, seen, self._host.step(action), {"keys": list(keys)})

    def follow(self, host: PolicyWorld) -> bytes:
        """One step by the policy; returns the frame that came of it."""
        seen = host.observation
        return self._record(POLICY, seen, host.follow(), {})

    def _record(self, actor: str, seen: object, moved: Moved, info: dict[str, object]) -> bytes:
        frame = self._host.frame()
        self.total += moved.reward
        if self._recorder is not None:
            self._recorder.step(
                episode=self.episode,
                step=self.step,
                observation=seen,
                action=moved.action,
                reward=moved.reward,
                terminated=moved.terminated,
                truncated=moved.truncated,
                info={"actor": actor, **info, **({"info": moved.info} if moved.info else {})},
                frame=frame,
            )
        self.step += 1
        self._steps += 1
        if moved.terminated or moved.truncated:
            self._finish("terminated" if moved.terminated else "truncated")
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
                info={"person_steps": self._by_person, **_last_seen(self._host.observation)},
            )

    def report(self) -> dict[str, object]:
        """The state of the game that a client gets after each step."""
        return {
            "episode": self.episode,
            "step": self.step,
            "total": self.total,
            "over": self.over,
        }


def _last_seen(observation: object) -> dict[str, object]:
    """What came of the last action, which a data set of the episode needs.

    The steps hold what was acted on. A picture is too large for a record: the daemon would refuse
    the episode with it.
    """
    size = len(to_json(observation))
    return {"final_observation": observation} if size <= MAX_TEXT_BYTES // 2 else {}


def play_script(worker: WorkerProcess, game: Game, host: World, script: str, fps: float) -> None:
    """Play a script to its end; an episode that ends begins the next one."""
    presses = parse_script(script)
    game.planned = sum(keys != (RESET,) for keys in presses)
    for keys in presses:
        if not worker.safe_point():
            break
        if keys == (RESET,) or game.over:
            game.begin()
        if keys == (POLICY,) and isinstance(host, PolicyWorld):
            game.follow(host)
        elif keys != (RESET,):
            game.press(keys)
        if fps and keys != (RESET,):
            time.sleep(1 / fps)
    game.leave()
