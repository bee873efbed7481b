"""Tells whether one agent can act in several environments: `compare_spaces ENV_ID ENV_ID …`.

Exit status 0 when all their spaces agree, 1 with a sentence when not.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from cleanrl_worker.kit import observations
from cleanrl_worker.kit.envs import make_env
from cleanrl_worker.kit.errors import UsageError


def difference(env_ids: Sequence[str]) -> str:
    """The first pair of environments whose spaces differ, in a sentence; empty when all agree."""
    first = None
    for env_id in env_ids:
        env = make_env(env_id)
        spaces = observations.encoder(env.observation_space)[0], env.action_space
        env.close()
        first = first or (env_id, spaces)
        for kind, expected, found in zip(
            ("observations", "actions"), first[1], spaces, strict=True
        ):
            if expected != found:
                return (
                    f"the {kind} of {env_id} ({found}) differ from those of {first[0]} "
                    f"({expected}); one agent cannot learn both"
                )
    return ""


def main() -> int:
    """Compare the environments named on the command line."""
    try:
        sentence = difference(sys.argv[1:])
    except UsageError as error:
        sentence = str(error)
    print(sentence)
    return 1 if sentence else 0


if __name__ == "__main__":
    sys.exit(main())
