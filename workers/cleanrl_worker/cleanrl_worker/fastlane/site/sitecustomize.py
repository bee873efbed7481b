"""Run by every Python interpreter of a run, because the launcher puts this folder on PYTHONPATH.

Only one `sitecustomize` is imported by Python, the first on the path: the one that would have
been found without this folder is run afterwards.
"""

import sys
from importlib.machinery import PathFinder
from os.path import dirname, realpath


def _run_next() -> None:
    here = realpath(dirname(__file__))
    others = [entry for entry in sys.path if realpath(entry or ".") != here]
    spec = PathFinder.find_spec("sitecustomize", others)
    if spec is None or spec.loader is None:
        return
    module = type(sys)("sitecustomize")
    module.__spec__, module.__file__ = spec, spec.origin
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


def _install() -> None:
    from fastlane_import_hook import install

    install()


_install()
_run_next()
