"""Asks a model what it would do in a moment that another run has recorded.

`python -m llm_worker.again --config FILE --steps FILE --episode 0 --step 7`: the configuration is
the run's with what is to be different, the steps are its `llm/steps.jsonl`. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from llm_worker.cli import read_settings
from llm_worker.errors import LlmError
from llm_worker.play.records import read_steps
from llm_worker.run import ask_again
from mosaic.errors import InvalidConfigError

EXIT_REFUSED = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Ask once; the exit status is 0, or 2 when it cannot be done."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--steps", type=Path, required=True)
    parser.add_argument("--episode", type=int, required=True)
    parser.add_argument("--step", type=int, required=True)
    options = parser.parse_args(arguments)
    try:
        settings = read_settings(options.config)
        recorded = read_steps(options.steps)
        print(json.dumps(ask_again(settings, recorded, options.episode, options.step)))
    except (LlmError, InvalidConfigError) as error:
        print(f"{error}\n{getattr(error, 'hint', '')}".strip(), file=sys.stderr)
        return EXIT_REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main())
