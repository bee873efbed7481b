"""An agent's order, and the messages between `mosaic agent` and the daemon that starts it."""

from collections.abc import Mapping
from typing import TypedDict

from mosaic.config.json_types import JsonValue
from mosaic.connect.endpoint import Address

# The two questions that `mosaic agent` understands, and the key of its answers.
HELLO, BEGIN = "hello", "begin"
ANSWER = "mosaic_agent"


class Order(TypedDict):
    """What an agent is started with, by ssh, by an engine or by hand.

    Attributes:
        job: As the daemon named this placing of the run; an agent with another one is fenced.
        key: The run's launch key.
        target: Where the daemon is reached from the agent's machine.
        certificate: The daemon's, as PEM text; empty without TLS.
        name: A name that the certificate carries.
    """

    run_id: str
    attempt: int
    job: str
    key: str
    target: str
    certificate: str
    name: str


class Hello(TypedDict):
    """The answer to `hello`: what `mosaic agent` found on its machine.

    Attributes:
        folder: Where it keeps what lasts as long as the connection.
        protocol: The version of the worker protocol there.
        gpus: The numbers of the GPUs.
    """

    folder: str
    protocol: int
    cpus: int
    memory_mb: int
    gpus: list[int]


class Needed(TypedDict):
    """A file that has to be there before the worker starts; relative to the folder of all runs."""

    path: str
    size: int
    sha256: str


class Launch(TypedDict):
    """What the daemon hands to an agent. `given` may hold secrets: it is not written down here.

    Attributes:
        usual: Variables for a worker whose machine has none of that name.
        given: Variables that count, whatever the machine has.
        private: Variables of this machine that no worker inherits.
        from_node: Variables whose value this machine knows, such as which GPUs it was given.
        config: What the worker reads.
        runs: The folder of all runs where the daemon is; the paths in `config` begin with it.
        script: The text of the shell script that `config` names; empty without one.
        logs: How long the logs of the attempts before are.
    """

    run_id: str
    attempt: int
    job: str
    site: str
    module: str
    restarts: int
    usual: dict[str, str]
    given: dict[str, str]
    private: list[str]
    from_node: list[str]
    config: dict[str, JsonValue]
    runs: str
    files: list[Needed]
    script: str
    logs: dict[str, int]


def read_order(document: Mapping[str, object]) -> Order:
    """An order from plain data.

    Raises:
        KeyError: Something is missing.
        ValueError: The attempt is no number.
    """
    return Order(
        run_id=str(document["run_id"]),
        attempt=int(str(document["attempt"])),
        job=str(document["job"]),
        key=str(document["key"]),
        target=str(document["target"]),
        certificate=str(document["certificate"]),
        name=str(document["name"]),
    )


def address_of(order: Order) -> Address:
    """Where an order says that the daemon is."""
    return Address(order["target"], order["certificate"], order["name"])
