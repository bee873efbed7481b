"""What leaves the house: `python -m cleanrl_worker.tools.export onnx|html|minari …`.

`mosaic export RUN --onnx`, `--html` and `--minari` fetch what is needed and start this program,
because only the worker has torch and the environments.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from cleanrl_worker import bundles
from cleanrl_worker.kit.errors import UsageError


def main(arguments: Sequence[str] | None = None) -> int:
    """Export; exit status 2 and a sentence when that cannot be."""
    options = _parse(arguments)
    # The packages may be in a bundle, which has an interpreter of its own.
    python = bundles.interpreter([] if options.form == "html" else [options.form])
    if python != sys.executable:
        words = sys.argv[1:] if arguments is None else arguments
        return subprocess.call([python, "-P", "-m", "cleanrl_worker.tools.export", *words])
    try:
        if options.form == "onnx":
            from cleanrl_worker.tools.onnx_export import export

            done = export(options.policy, options.out, json.loads(options.about))
        elif options.form == "html":
            from cleanrl_worker.tools.html_export import export as export_page

            done = export_page(options.policy, options.out, json.loads(options.about))
        else:
            from cleanrl_worker.tools.minari_export import write_played, write_recorded

            about = json.loads(options.about)
            if options.recorded:
                done = write_recorded(options.recorded, options.env_id, options.id, about)
            else:
                count, seed = options.episodes, options.seed
                done = write_played(options.policy, count, seed, options.id, about)
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(json.dumps(done))
    return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    forms = parser.add_subparsers(dest="form", required=True)
    onnx = forms.add_parser("onnx", help="a policy as an ONNX graph, checked, with a model card")
    onnx.add_argument("--policy", type=Path, required=True, help="a .cleanrl_model file")
    onnx.add_argument("--out", type=Path, required=True, help="the folder to write")
    page = forms.add_parser("html", help="a policy as a page that plays it in a browser")
    page.add_argument("--policy", type=Path, required=True, help="a .cleanrl_model file")
    page.add_argument("--out", type=Path, required=True, help="the file to write")
    minari = forms.add_parser("minari", help="episodes as a Minari data set")
    minari.add_argument("--id", required=True, help="such as cartpole/me-v0")
    minari.add_argument("--recorded", type=Path, help="episodes as JSON lines")
    minari.add_argument("--env-id", default="", help="where they were recorded")
    minari.add_argument("--policy", type=Path, help="a .cleanrl_model file that plays them")
    minari.add_argument("--episodes", type=int, default=10, help="how many it plays")
    minari.add_argument("--seed", type=int, default=1)
    for form in (onnx, page, minari):
        form.add_argument("--about", default="{}", help="facts about the run, as JSON")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
