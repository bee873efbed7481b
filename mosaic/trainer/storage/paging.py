"""Which runs a client asks for, and where the next page begins."""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass

# What SQLite holds in a column.
Cell = int | float | str | None
SORTABLE = ("created_at", "finished_at", "run_name", "algo", "env_id", "state")


@dataclass(frozen=True)
class Query:
    """A page of runs that a client asks for."""

    page_size: int = 50
    page_token: str = ""
    states: Sequence[str] = ()
    outcomes: Sequence[str] = ()
    worker: str = ""
    algo: str = ""
    env_id: str = ""
    text: str = ""
    sort: str = "-created_at"
    deleted: bool = False


def conditions(query: Query) -> tuple[str, list[Cell]]:
    """A query as an SQL condition and its values."""
    clauses, values = ["deleted = ?"], [int(query.deleted)]
    parameters: list[Cell] = list(values)
    for column, wanted in (("state", query.states), ("outcome", query.outcomes)):
        if wanted:
            clauses.append(f"{column} IN ({','.join('?' * len(wanted))})")
            parameters += list(wanted)
    exact = (("worker", query.worker), ("algo", query.algo), ("env_id", query.env_id))
    for column, value in exact:
        if value:
            clauses.append(f"{column} = ?")
            parameters.append(value)
    if query.text:
        clauses.append("instr(search, ?) > 0")
        parameters.append(query.text.lower())
    return " AND ".join(clauses), parameters


def encode_token(value: Cell, run_id: str) -> str:
    """Where the next page begins: after this value of the sorted column and this run."""
    return base64.urlsafe_b64encode(json.dumps([value, run_id]).encode()).decode()


_TOKEN_TYPES = ([str, str], [float, str], [int, str])


def decode_token(token: str) -> list[Cell]:
    """The place a token names; empty if missing or not issued by us."""
    if not token:
        return []
    try:
        pair = json.loads(base64.urlsafe_b64decode(token))
    except ValueError:
        return []
    # Only values that SQLite can compare: anyone may send anything here.
    sound = isinstance(pair, list) and [type(part) for part in pair] in _TOKEN_TYPES
    return pair if sound else []
