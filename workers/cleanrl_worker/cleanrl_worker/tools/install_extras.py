"""Installs requirement sets: `python -m cleanrl_worker.tools.install_extras --set atari,procgen`.

What the running interpreter lacks goes into a bundle of its own, built once; runs that name the
set use it by themselves.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from cleanrl_worker import bundles
from mosaic.system import atomic
from mosaic.workers import Home, allowed_names, did_you_mean

EXIT_MISSING, EXIT_REFUSED = 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line asks; the exit status says whether everything is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--set", default="", metavar="A,B", help="the sets to install")
    parser.add_argument("--list", action="store_true", help="show the sets and what they hold")
    parser.add_argument("--check", action="store_true", help="say what is missing, install nothing")
    parser.add_argument("--rebuild", action="store_true", help="build the bundle again")
    options = parser.parse_args(arguments)
    known = bundles.set_names()
    names = [name.strip() for name in options.set.split(",") if name.strip()]
    unknown = [name for name in names if name not in (*known, bundles.BASE)]
    for name in unknown:
        hint = did_you_mean(name, known)
        print(f"error: there is no set {name!r}; allowed: {allowed_names(known)}{hint}")
    if unknown:
        return EXIT_REFUSED
    if options.list:
        return _list(known)
    names = [name for name in names if name != bundles.BASE]
    if options.check:
        return _check(names or known)
    if not names:
        parser.error(f"give --set with one or more of: {', '.join(known)}")
    return _install(names, rebuild=options.rebuild)


def _list(names: Sequence[str]) -> int:
    for name in names:
        state = _state(name) or "to install"
        packages = ", ".join(f"{package} {pin}" for package, pin in bundles.pins(name).items())
        print(f"{name:12} {state:11} {packages}")
    return 0


def _check(names: Sequence[str]) -> int:
    unavailable = []
    for name in names:
        state = _state(name)
        if not state:
            state = f"missing: {', '.join(bundles.missing(name))}"
            unavailable.append(name)
        print(f"{name:12} {state}")
    if unavailable:
        joined = ",".join(unavailable)
        print(f"run: python -m cleanrl_worker.tools.install_extras --set {joined}")
        return EXIT_MISSING
    return 0


def _state(name: str) -> str:
    """Where a set is to be had; empty when it is not."""
    if not bundles.missing(name):
        return "installed"
    return "in a bundle" if bundles.find_bundle([name]) else ""


def _install(names: Sequence[str], *, rebuild: bool) -> int:
    absent = bundles.lacking(names)
    if not absent:
        print(f"nothing to do: {', '.join(names)} is installed in {sys.prefix}")
        return 0
    ready = bundles.find_bundle(absent)
    if ready is not None and not rebuild:
        print(f"nothing to do: {', '.join(absent)} is in the bundle {ready}")
        return 0
    return _build(bundles.bundle_path(absent), absent)


def _build(bundle: Path, names: Sequence[str]) -> int:
    """Build under another name and rename: a bundle that exists is whole."""
    unfinished = bundle.with_name(f".{bundle.name}.{os.getpid()}")
    bundle.parent.mkdir(parents=True, exist_ok=True)
    try:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", unfinished], check=True)
        _see_running_environment(unfinished)
        subprocess.run(_pip(unfinished, names), check=True)
        about = json.dumps(bundles.description(names), indent=2)
        atomic.write_text(unfinished / "bundle.json", about)
        # Only now, when the new one is complete: runs may be using the old one's files.
        if bundle.exists():
            shutil.rmtree(bundle)
        unfinished.rename(bundle)
    except subprocess.CalledProcessError as error:
        print(f"error: the bundle could not be built (exit status {error.returncode})")
        return EXIT_MISSING
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    print(f"installed {', '.join(names)} in the bundle {bundle}")
    return 0


def _see_running_environment(bundle: Path) -> None:
    """What the running interpreter has, the bundle has too, without a copy."""
    packages = bundle / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"
    running = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    lines = [f"import site; site.addsitedir({folder!r})" for folder in sorted(running)]
    (packages / "running-environment.pth").write_text("\n".join(lines) + "\n")


def _pip(bundle: Path, names: Sequence[str]) -> list[str]:
    folder = bundles.requirements_folder()
    command = [sys.executable, "-m", "pip", "--python", str(bundle / "bin" / "python"), "install"]
    command += ["--quiet", "--cache-dir", str(Home.locate().cache / "pip")]
    if (folder / "constraints.txt").exists():
        command += ["--constraint", str(folder / "constraints.txt")]
    for name in names:
        command += ["--requirement", str(folder / "extras" / f"{name}.txt")]
    return command


if __name__ == "__main__":
    sys.exit(main())
