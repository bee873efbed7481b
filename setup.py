"""Build hook: generate the gRPC code from `proto/`, and put the schema into the package."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
SCHEMA = "train_run_config.schema.json"


def generate_wire_code() -> None:
    """Write `mosaic/wire/trainer_pb2*.py` from `proto/mosaic/trainer.proto`."""
    from grpc_tools import protoc

    wire = ROOT / "mosaic" / "wire"
    arguments = [
        "protoc",
        f"-I{ROOT / 'proto' / 'mosaic'}",
        f"--python_out={wire}",
        f"--pyi_out={wire}",
        f"--grpc_python_out={wire}",
        "trainer.proto",
    ]
    if protoc.main(arguments) != 0:
        raise SystemExit("protoc could not compile proto/mosaic/trainer.proto")
    stub = wire / "trainer_pb2_grpc.py"
    absolute = stub.read_text().replace(
        "import trainer_pb2 as", "from mosaic.wire import trainer_pb2 as"
    )
    stub.write_text(absolute)


class BuildWithWireCode(build_py):
    """The ordinary build step, after the wire code has been generated."""

    def run(self) -> None:
        generate_wire_code()
        super().run()
        # An installed MOSAIC has no `docs/` folder from which editors could read the schema.
        if not self.editable_mode:
            target = Path(self.build_lib) / "mosaic" / "config" / SCHEMA
            shutil.copyfile(ROOT / "docs" / SCHEMA, target)


setup(cmdclass={"build_py": BuildWithWireCode})
