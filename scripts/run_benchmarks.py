"""`make bench`: every benchmark, one after the other; `ARGS=trainer` runs one."""

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "benchmarks"


def main() -> int:
    """Run the named benchmarks, or all; each writes its own file into benchmarks/results/."""
    known = {path.stem: path for path in sorted(FOLDER.glob("*.py"))}
    known |= {path.parent.name: path for path in sorted(FOLDER.glob("*/__main__.py"))}
    wanted = sys.argv[1:] or list(known)
    unknown = [name for name in wanted if name not in known]
    if unknown:
        print(f"no benchmark {unknown[0]!r}; there are: {', '.join(known)}", file=sys.stderr)
        return 2
    failed = []
    for name in wanted:
        print(f"== {name}", flush=True)
        path = known[name]
        target = path.parent if path.name == "__main__.py" else path
        if subprocess.run([sys.executable, str(target)], check=False).returncode:
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
