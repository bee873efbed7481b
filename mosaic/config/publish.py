"""Writes the JSON Schema of `TrainRunConfig` into the documentation.

`python -m mosaic.config.publish` after a change of the model.
"""

import json
from pathlib import Path

from mosaic.config.model import config_schema
from mosaic.config.paths import project_root
from mosaic.system import atomic

PUBLISHED = Path("docs") / "train_run_config.schema.json"


def schema_text() -> str:
    """The schema as it is published."""
    return json.dumps(config_schema(), indent=2) + "\n"


if __name__ == "__main__":
    atomic.write_text(project_root() / PUBLISHED, schema_text())
