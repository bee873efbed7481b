"""A real SLURM cluster on this machine: munge, controller and node daemons of our own."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.arithmetic import kernels
from support.trainer import until
from support.wire import Wire

NODES = ("n1", "n2")
_PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "scontrol")
# A node of each kind of work. `low` is what `high` takes its nodes from. A machine that is busy
# answers late: a start that SLURM takes for failed, or asks for twice, ends with a held job.
_CONFIGURATION = """
ClusterName=mosaic
SlurmctldHost={host}({address})
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=cred_expire=5,socket={munge}
CredType=cred/munge
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=4
SlurmdTimeout=10
SlurmctldTimeout=10
MessageTimeout=20
BatchStartTimeout=120
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1,sched_min_interval=0
SchedulerType=sched/backfill
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
TaskProlog={prolog}
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool-%n
SlurmctldPidFile={root}/slurmctld.pid
SlurmdPidFile={root}/slurmd-%n.pid
SlurmctldLogFile={root}/slurmctld.log
SlurmdLogFile={root}/slurmd-%n.log
{nodes}
PartitionName=debug Nodes={names} Default=YES MaxTime=INFINITE State=UP PriorityTier=5
PartitionName=low Nodes=n1 MaxTime=INFINITE State=UP PriorityTier=1 OverSubscribe=NO
PartitionName=high Nodes=n1 MaxTime=INFINITE State=UP PriorityTier=9 OverSubscribe=NO
"""


def needed() -> None:
    """Skip the test where there can be no cluster."""
    absent = [name for name in _PROGRAMS if shutil.which(name) is None]
    if absent:
        pytest.skip(f"no {absent[0]}: sh scripts/system-packages.sh slurm")


class SlurmCluster:
    """One controller and its nodes, each of which can be killed and started again.

    Args:
        root: Where its files are.
        nodes: What its nodes are called.
        cpus: How many processors each node says it has.
        wires: Nodes with a network of their own.
    """

    def __init__(
        self,
        root: Path,
        nodes: Sequence[str] = NODES,
        cpus: int = 2,
        wires: Mapping[str, Wire] | None = None,
    ) -> None:
        self.root = root
        self.nodes = tuple(nodes)
        self._wires = wires or {}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        # The address of a socket has 108 letters at most, which a test's own folder may exceed.
        self._munge = Path(tempfile.mkdtemp(prefix="munge-"))
        for name in ("state", *(f"spool-{node}" for node in nodes)):
            (root / name).mkdir(parents=True)
        ports = _free_ports(1 + len(nodes))
        host = socket.gethostname().split(".")[0]
        # One that all nodes can reach, also those behind a wire.
        address = next((wire.here for wire in self._wires.values()), "127.0.0.1")
        lines = "\n".join(
            f"NodeName={node} NodeHostname={host} Port={port} CPUs={cpus} RealMemory=16000"
            f" NodeAddr={self._wires[node].there if node in self._wires else address}"
            for node, port in zip(nodes, ports[1:], strict=True)
        )
        self.configuration = root / "slurm.conf"
        self.configuration.write_text(
            _CONFIGURATION.format(
                host=host,
                address=address,
                port=ports[0],
                user=_me(),
                root=root,
                nodes=lines,
                names=",".join(nodes),
                munge=self._munge / "socket",
                prolog=self._write_prolog(),
            )
        )

    def _write_prolog(self) -> Path:
        """The script whose output SLURM adds to the environment of each job."""
        prolog = self.root / "prolog"
        exports = [f"echo 'export {name}={text}'" for name, text in kernels().items()]
        prolog.write_text("\n".join(["#!/bin/sh", *exports, ""]))
        prolog.chmod(0o755)
        return prolog

    @property
    def environment(self) -> dict[str, str]:
        """What tells SLURM's commands where the cluster is."""
        return {"SLURM_CONF": str(self.configuration)}

    def start(self) -> "SlurmCluster":
        """Start everything and wait until all nodes can take work."""
        self._start_munge()
        self.start_controller()
        for node in self.nodes:
            self.start_node(node)
        until(lambda: self.idle() == len(self.nodes), "all nodes are idle")
        return self

    def _start_munge(self) -> None:
        """Start what proves to SLURM's parts who speaks, with a key that is theirs alone."""
        key = self._munge / "key"
        key.touch(mode=0o600)
        key.write_bytes(os.urandom(128))
        # By force: the folders of the tests are closed to other users, as a real one must not be.
        self._start(
            "munged", "munged", "--foreground", "--force", f"--key-file={key}",
            f"--socket={self._munge / 'socket'}", f"--pid-file={self._munge / 'pid'}",
            f"--seed-file={self._munge / 'seed'}",
        )  # fmt: skip
        until((self._munge / "socket").exists, "munge answers")

    def idle(self) -> int:
        """How many nodes could take work now."""
        return self.command("sinfo", "-h", "-N", "-p", "debug", "-o", "%T").split().count("idle")

    def start_controller(self) -> None:
        self._start("slurmctld", "slurmctld", "-D", "-f", str(self.configuration))

    def start_node(self, node: str) -> None:
        where = self._wires[node].prefix if node in self._wires else ()
        self._start(node, *where, "slurmd", "-D", "-N", node, "-f", str(self.configuration))

    def spool(self, node: str) -> Path:
        """Where a node keeps what its jobs need: their scripts first of all."""
        return self.root / f"spool-{node}"

    def kill(self, name: str) -> None:
        """kill -9 the controller (`slurmctld`) or a node's daemon."""
        process = self._processes.pop(name)
        process.kill()
        process.wait()

    def signal(self, name: str, number: signal.Signals) -> None:
        """Kill or freeze the controller (`slurmctld`) or a node's daemon."""
        if number == signal.SIGKILL:
            self.kill(name)
        else:
            self._processes[name].send_signal(number)

    def revive_controller(self) -> None:
        """Let a frozen controller continue, or start one in place of a killed one."""
        if "slurmctld" in self._processes:
            self._processes["slurmctld"].send_signal(signal.SIGCONT)
        else:
            self.start_controller()

    def forget(self) -> None:
        """Lose what a stopped controller has saved, as one that is killed before it saves does."""
        shutil.rmtree(self.root / "state")
        (self.root / "state").mkdir()

    def restarts(self, job: str) -> int:
        """How often a job was begun again."""
        shown = self.command("squeue", "-h", "--states=all", "-j", job, "-O", "RestartCnt")
        return int(shown or 0)

    def command(self, *words: str) -> str:
        """What one of SLURM's commands prints."""
        environment = {**os.environ, **self.environment}
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
        return done.stdout.strip()

    def close(self) -> None:
        """End everything, jobs included."""
        for process in self._processes.values():
            process.send_signal(signal.SIGCONT)
        if "slurmctld" in self._processes:
            self.command("scancel", "--state=PENDING", "--user=" + _me())
            self.command("scancel", "--user=" + _me())
            deadline = time.monotonic() + 15
            while self.command("squeue", "-h") and time.monotonic() < deadline:
                time.sleep(0.2)
        for process in self._processes.values():
            process.send_signal(signal.SIGTERM)
        for process in self._processes.values():
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()
        shutil.rmtree(self._munge)

    def _start(self, name: str, *command: str) -> None:
        with open(self.root / f"{name}.out", "ab") as output:
            self._processes[name] = subprocess.Popen(
                command,
                env={**os.environ, **self.environment},
                # SLURM's own processes leave their core dumps here: some die of a full disk.
                cwd=self.root,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )


@contextmanager
def running(made: SlurmCluster) -> Iterator[SlurmCluster]:
    """A cluster that is gone afterwards; commands and daemons of the test find it meanwhile."""
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SLURM_CONF", str(made.configuration))
            yield made.start()
    finally:
        made.close()


def _me() -> str:
    return pwd.getpwuid(os.geteuid()).pw_name


def _free_ports(count: int) -> list[int]:
    """Ports that are free now, below those that the kernel gives to anyone who asks for any."""
    found: list[int] = []
    port = 20_000 + os.getpid() * 7 % 10_000
    while len(found) < count:
        port += 1
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
    return found
