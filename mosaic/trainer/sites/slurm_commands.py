"""SLURM's commands: `sbatch`, `squeue` and `scancel`, each with a limit and a readable error."""

import os
import pwd
import shlex
import subprocess
from collections.abc import Sequence

from mosaic.errors import EngineSilentError, SlurmRefusedError
from mosaic.trainer.sites.slurm_words import FORMAT, Job, read_line

# The commands themselves try for some ten seconds to reach a controller that is being restarted.
_LIMIT_S = 60.0
# What they say when the controller is away. Anything else is an answer, and a refusal.
_AWAY = (
    "Unable to contact slurm controller",
    "Connection refused",
    "timed out",
    "Zero Bytes were transmitted",
    "Unexpected message received",
    "Slurm backup controller in standby mode",
    "Transport endpoint",
)
# Where SLURM finds its settings; all else of the daemon's environment stays here.
_NEEDED = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "SLURM_CONF", "LD_LIBRARY_PATH", "TZ")


# Those under way, so that a daemon that leaves does not wait for a controller that hangs.
_under_way: "set[subprocess.Popen[str]]" = set()


def submit(options: Sequence[str], script: str) -> str:
    """Hand a job to SLURM.

    Returns:
        Its number.

    Raises:
        EngineSilentError: The controller does not answer.
        SlurmRefusedError: It refuses.
    """
    # All that `_run` leaves of our environment. With less, SLURM asks a login shell on the node.
    answer = _run(["sbatch", "--parsable", "--export=ALL", *options], script)
    return answer.strip().splitlines()[-1].split(";")[0]


def jobs(name: str = "") -> list[Job]:
    """Every job of this user that SLURM remembers, also ended ones, or those of one name.

    Raises:
        EngineSilentError: The controller does not answer.
        SlurmRefusedError: It refuses.
    """
    columns = ",".join(f"{column}:{width}" for column, width in FORMAT)
    user = pwd.getpwuid(os.geteuid()).pw_name
    command = ["squeue", "--noheader", "--states=all", f"--user={user}", f"--Format={columns}"]
    answer = _run([*command, f"--name={name}"] if name else command)
    return [job for line in answer.splitlines() if (job := read_line(line)) is not None]


def cancel(number: str, name: str) -> None:
    """End a job, whether it waits or runs; none of another name, should the number be reused.

    Raises:
        EngineSilentError: The controller does not answer.
        SlurmRefusedError: It refuses.
    """
    _run(["scancel", "--quiet", f"--name={name}", number])


def give_up() -> None:
    """End every command that is under way; its caller hears that SLURM does not answer."""
    for process in tuple(_under_way):
        process.kill()


def _run(command: Sequence[str], text: str = "") -> str:
    environment = {name: os.environ[name] for name in _NEEDED if name in os.environ}
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=environment,
        )
    except FileNotFoundError:
        raise SlurmRefusedError(
            f"there is no `{command[0]}` on this machine: install SLURM's client "
            "(Debian: apt-get install slurm-client), or choose --site local"
        ) from None
    _under_way.add(process)
    try:
        answer, complaint = process.communicate(text, timeout=_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
    finally:
        _under_way.discard(process)
    if process.returncode == 0:
        return answer
    if process.returncode < 0:
        raise EngineSilentError(f"SLURM does not answer: {command[0]} took too long")
    said = complaint.strip().splitlines()
    last = said[-1].removeprefix(f"{command[0]}: ").removeprefix("error: ") if said else "no reason"
    if any(mark in complaint for mark in _AWAY):
        raise EngineSilentError(f"SLURM does not answer: {last}")
    raise SlurmRefusedError(f"SLURM refuses: {last} ({shlex.join(command[:1])})")
