"""The keys that an environment proposes for its own actions. Pure: it imports no environment."""

from collections.abc import Mapping
from typing import Protocol

# As Gymnasium's own environments write it.
_SPACE = 32


class _Wrapped(Protocol):
    """An environment, wrapped or not."""

    @property
    def unwrapped(self) -> object: ...


def proposed_keys(environment: _Wrapped) -> dict[frozenset[str], int]:
    """Which keys, held down together, stand for which action; empty where none are proposed.

    Args:
        environment: A Gymnasium environment, wrapped or not.
    """
    offer = getattr(environment.unwrapped, "get_keys_to_action", None)
    if offer is None:
        return {}
    proposed: Mapping[object, int] = offer()
    found: dict[frozenset[str], int] = {}
    for keys, action in proposed.items():
        names = keys if isinstance(keys, tuple) else (keys,)
        found[frozenset(map(_key_name, names))] = int(action)
    # The reader of the keyboard decides what happens without a key.
    found.pop(frozenset(), None)
    return found


def _key_name(key: object) -> str:
    if isinstance(key, int):
        return "space" if key == _SPACE else chr(key)
    return str(key)
