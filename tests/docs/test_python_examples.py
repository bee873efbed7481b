"""The Python of the guides: what it imports exists, and what it builds can be built."""

import ast
import re
from pathlib import Path

import pytest

from mosaic.sweep.study import propose

PAGES = sorted((Path(__file__).parents[2] / "docs").rglob("*.md"))
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
EXAMPLES = {page.stem: _BLOCK.findall(page.read_text()) for page in PAGES}


def _before_the_daemon(block: str) -> dict[str, object]:
    """The names that an example has when it turns to the daemon."""
    statements = ast.parse(block).body
    places = [place for place, item in enumerate(statements) if isinstance(item, ast.With)]
    names: dict[str, object] = {}
    head = ast.Module(statements[: places[0] if places else None], [])
    exec(compile(head, "example", "exec"), names)
    return names


@pytest.mark.parametrize("page", [name for name, blocks in EXAMPLES.items() if blocks])
def test_everything_an_example_imports_exists(page: str) -> None:
    """Copied from the page, an example does not fail in its first lines."""
    for block in EXAMPLES[page]:
        found = [item for item in ast.walk(ast.parse(block)) if isinstance(item, ast.ImportFrom)]
        # Packages that the reader writes are none of ours.
        ours = [item for item in found if (item.module or "").partition(".")[0] == "mosaic"]
        exec(compile(ast.Module(list(ours), []), page, "exec"), {})


def test_the_sweep_of_the_guide_can_be_planned() -> None:
    """Its configuration and its space give runs that the daemon would be asked for."""
    (block,) = EXAMPLES["sweep"]
    names = _before_the_daemon(block)
    plan_type = names["SweepPlan"]
    assert callable(plan_type)
    plan = plan_type(names["config"], nested=True, space=names["space"], trials=2)
    run = plan.run_config("01ARZ3NDEKTSV4RRFFQ69G5FAV", 0, 0, propose(plan)[0])
    assert set(run.worker.extras.algo_params) == {"learning_rate", "num_steps"}


def test_the_experiment_of_the_guide_can_be_planned() -> None:
    """Two learning rates make two configurations."""
    (block,) = EXAMPLES["experiments"]
    names = _before_the_daemon(block)
    make_plan = names["make_plan"]
    assert callable(make_plan)
    assert len(make_plan("lr-study", names["rates"], seeds=range(1, 6)).runs()) == 10
