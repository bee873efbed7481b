"""`make soak MINUTES=10 SEED=1`: a mixed workload, every kind of kill, and a ledger at the end."""

import argparse
import json
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TypeVar

import psutil

from mosaic.errors import InvalidTransitionError, MosaicError, RunNotFoundError
from mosaic.records import RunRecord
from mosaic.runs.ids import new_run_id
from soak.home import BesiegedHome
from soak.ledger import Intent, Story, Verdict, judge
from soak.workload import Config, Workload

T = TypeVar("T")
_MOST_LIVE = 12
_SETTLE_S = 300.0
# How often each thing happens, relative to the others. A submit refills what the rest destroys.
_WEIGHTS = {
    "submit": 40,
    "submit twice at once": 8,
    "submit an old key again": 6,
    "cancel": 6,
    "pause": 6,
    "resume": 6,
    "checkpoint": 3,
    "delete": 3,
    "kill worker": 5,
    "kill supervisor": 3,
    "kill training process": 3,
    "kill worker and supervisor": 2,
    "freeze worker": 2,
    "freeze daemon": 2,
    "freeze zygote": 2,
    "kill zygote": 3,
    "kill daemon": 5,
    "kill daemon, remove registry": 2,
    "truncate a file": 3,
    "fill disk": 1,
    "jump clock": 2,
}


class Soak:
    """Draws one action after the other until the time is up."""

    def __init__(self, root: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.home = BesiegedHome(root / "home")
        self.workload = Workload(self.chance, root)
        self.intents: dict[str, Intent] = {}
        self.configs: dict[str, Config] = {}
        self.done: Counter[str] = Counter()
        self._actions = {
            "submit": self.submit,
            "submit twice at once": self.submit_twice,
            "submit an old key again": self.submit_again,
            "cancel": lambda: self.command("cancel"),
            "pause": lambda: self.command("pause"),
            "resume": lambda: self.command("resume"),
            "checkpoint": lambda: self.command("checkpoint"),
            "delete": self.delete,
            "kill worker": lambda: self.kill("worker"),
            "kill supervisor": lambda: self.kill("supervisor"),
            "kill training process": lambda: self.kill("training process"),
            "kill worker and supervisor": lambda: self.kill("worker", "supervisor"),
            "freeze worker": self.freeze_worker,
            "freeze daemon": lambda: self.freeze(self.home.daemon()),
            "freeze zygote": lambda: self.freeze(self.home.zygote()),
            "kill zygote": self.kill_zygote,
            "kill daemon": lambda: self.home.kill_daemon(without_registry=False),
            "kill daemon, remove registry": lambda: self.home.kill_daemon(without_registry=True),
            "truncate a file": self.truncate,
            "fill disk": self.fill_disk,
            "jump clock": lambda: self.home.jump_clock(self.chance.choice((-86400, 0, 86400))),
        }

    def run(self, minutes: float) -> Verdict:
        """Attack for some minutes, then let everything settle and look."""
        self.home.start()
        until = time.monotonic() + minutes * 60
        while time.monotonic() < until:
            action = self.chance.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
            if self._actions[action]():
                self.done[action] += 1
                print(f"{time.strftime('%H:%M:%S')} {action}", flush=True)
            self.home.sample()
            time.sleep(self.chance.uniform(0.0, 0.8))
        return self.settle()

    # ------------------------------------------------------------ actions: True if it was done

    def submit(self) -> bool:
        """One more run, unless enough are alive."""
        if sum(record.live for record in self.records()) >= _MOST_LIVE:
            return False
        self._send(*self._new())
        return True

    def submit_twice(self) -> bool:
        """Two clients send the same key at the same moment: one run."""
        run_id, config = self._new()
        twin = threading.Thread(target=self._send, args=(run_id, config))
        twin.start()
        self._send(run_id, config)
        twin.join()
        return True

    def submit_again(self) -> bool:
        """A client that never got its answer asks again, long after."""
        known = [intent for intent in self.intents.values() if not intent.deleted]
        if not known:
            return False
        run_id = self.chance.choice(known).run_id
        self._send(run_id, self.configs[run_id])
        return True

    def command(self, name: str) -> bool:
        """Cancel, pause, resume or checkpoint some live run; a refusal is an answer too."""
        record = self._some(lambda each: each.live)
        if record is None:
            return False
        if name != "checkpoint":
            self._touch(record, name)
        with suppress(InvalidTransitionError, RunNotFoundError):
            getattr(self.home.client, name)(record.run_id)
        return True

    def delete(self) -> bool:
        """Move an ended run to the trash."""
        # An evaluation reads the policy of its base run, so the base stays.
        record = self._some(lambda each: each.ended and each.run_id not in self.workload.bases)
        if record is None:
            return False
        self.intents[record.run_id].deleted = True
        with suppress(InvalidTransitionError, RunNotFoundError):
            self.home.client.delete(record.run_id)
        return True

    def kill(self, *parts: str) -> bool:
        """kill -9 parts of a live run."""
        record = self._some(lambda each: each.live and bool(each.pid))
        found = self.home.processes(record) if record else {}
        if record is None or not set(parts) <= found.keys():
            return False
        self._touch(record, f"kill {'+'.join(parts)}")
        for part in parts:
            # It may have ended by itself since it was found.
            with suppress(psutil.NoSuchProcess):
                found[part].kill()
        return True

    def freeze_worker(self) -> bool:
        """SIGSTOP a worker for a moment; it has to complete all the same."""
        record = self._some(lambda each: each.is_running and bool(each.pid))
        found = self.home.processes(record) if record else {}
        return self.freeze(found.get("worker"))

    def freeze(self, process: psutil.Process | None) -> bool:
        """SIGSTOP a process for a moment."""
        if process is None:
            return False
        self.home.freeze(process, self.chance.uniform(0.5, 4.0))
        return True

    def kill_zygote(self) -> bool:
        """kill -9 the process that warm runs are forked from."""
        zygote = self.home.zygote()
        if zygote is None:
            return False
        with suppress(psutil.Error):
            zygote.kill()
        return True

    def truncate(self) -> bool:
        """Cut a file of an ended run short. It may show as damaged; the rest must not notice."""
        record = self._some(lambda each: each.ended)
        if record is None:
            return False
        names = ("events.jsonl", "exit.json", "config.json", "supervisor.json")
        path = Path(record.run_dir) / self.chance.choice(names)
        if not path.is_file():
            return False
        self._touch(record, f"truncate {path.name}")
        with suppress(OSError), open(path, "r+b") as file:
            file.truncate(self.chance.randrange(path.stat().st_size + 1))
        return True

    def fill_disk(self) -> bool:
        """A full disk may fail what saves just then, and nothing else."""
        for record in self.records():
            if record.live:
                self._touch(record, "full disk")
        return bool(self.home.fill_disk(self.chance.uniform(1.0, 4.0)))

    # ------------------------------------------------------------ helpers

    def records(self) -> list[RunRecord]:
        """Every run the daemon lists, the trash not included."""
        found: list[RunRecord] = []
        token = ""
        while True:
            runs, token = self._patiently(lambda after=token: self._page(after))
            found += runs
            if not token:
                return found

    def _page(self, after: str) -> tuple[list[RunRecord], str]:
        runs, token, _ = self.home.client.list_runs(page_size=500, page_token=after)
        return runs, token

    def _new(self) -> tuple[str, Config]:
        # An evaluation of another worker's policy would be refused, and rightly so.
        ended = [each for each in self.records() if each.completed and each.worker == "cleanrl"]
        self.workload.policies = [
            each for each in ended if each.algo and each.newest_checkpoint("policy")
        ]
        kind, config = self.workload.draw()
        run_id = new_run_id()
        self.intents[run_id] = Intent(run_id, kind)
        self.configs[run_id] = config
        return run_id, config

    def _send(self, run_id: str, config: Config) -> None:
        self._patiently(lambda: self.home.client.submit(config, idempotency_key=run_id))

    def _patiently(self, call: Callable[[], T]) -> T:
        """Ask until there is an answer; a daemon that is being restarted gives none."""
        deadline = time.monotonic() + 120
        while True:
            try:
                return call()
            except (InvalidTransitionError, RunNotFoundError):
                raise
            except MosaicError:
                if time.monotonic() > deadline:
                    raise
                self.home.forget_client()
                time.sleep(0.3)

    def _some(self, fits: Callable[[RunRecord], bool]) -> RunRecord | None:
        fitting = [record for record in self.records() if fits(record)]
        return self.chance.choice(fitting) if fitting else None

    def _touch(self, record: RunRecord, what: str) -> None:
        if record.run_id in self.intents:
            self.intents[record.run_id].touched.append(what)

    # ------------------------------------------------------------ the end

    def settle(self) -> Verdict:
        """Resume what is paused, wait for everything to end, and look at what is left."""
        deadline = time.monotonic() + _SETTLE_S
        while time.monotonic() < deadline:
            live = [record for record in self.records() if record.live]
            if not live:
                break
            for record in live:
                if record.is_paused:
                    with suppress(MosaicError):
                        self.home.client.resume(record.run_id)
            self.home.sample()
            time.sleep(1.0)
        return judge(self.intents.values(), self._stories(), self._leftovers())

    def _stories(self) -> dict[str, Story]:
        client = self.home.client
        trash, _, _ = client.list_runs(page_size=500, deleted=True)
        stories = {}
        for record in (*self.records(), *trash):
            events = client.events(record.run_id)
            kinds = [event.kind for event in events]
            numbers = [event.seq for event in events]
            if any(word.startswith("truncate") for word in self.intents[record.run_id].touched):
                numbers = []
            stories[record.run_id] = Story(record, kinds, numbers)
        return stories

    def _leftovers(self) -> list[str]:
        left = [f"process {each}" for each in self.home.live_processes()]
        names = {path.name for path in Path("/dev/shm").iterdir()}
        left += [f"shared memory {name}" for name in names if any(i in name for i in self.intents)]
        slots = self.home.client.resources().slots
        left += [f"slot {slot.id} held by {slot.run_id}" for slot in slots if slot.run_id]
        left += [f"file {path}" for path in self.home.home.root.rglob("*.tmp")]
        return left


def _report(soak: Soak, verdict: Verdict, minutes: float, seed: int) -> dict[str, object]:
    samples = soak.home.samples
    kinds = Counter(intent.kind for intent in soak.intents.values())
    return {
        "minutes": minutes,
        "seed": seed,
        "submitted": dict(kinds),
        "done": dict(soak.done),
        "verdict": asdict(verdict),
        "slowest_start_s": round(max(soak.home.starts), 2),
        "descriptors": [sample.descriptors for sample in samples][:: max(1, len(samples) // 60)],
        "resident_mb": [round(s.resident_mb, 1) for s in samples][:: max(1, len(samples) // 60)],
    }


def main() -> int:
    """Soak, print the ledger, and end with 1 if it is not all zeros."""
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="Write the report there as well.")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mosaic-soak-") as folder:
        soak = Soak(Path(folder), given.seed)
        try:
            verdict = soak.run(given.minutes)
            report = _report(soak, verdict, given.minutes, given.seed)
        finally:
            soak.home.close()
    if given.json:
        given.json.write_text(json.dumps(report, indent=1) + "\n")
    for name, value in report.items():
        print(f"{name}: {json.dumps(value)}")
    counts = {name: len(items) for name, items in asdict(verdict).items()}
    print(" / ".join(f"{name} {count}" for name, count in counts.items()))
    return 0 if verdict.clean else 1


if __name__ == "__main__":
    sys.exit(main())
