"""`mosaic verify`: an honest run is certified, one that was changed is not, and it says where."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.trainer import Trainer

from cleanrl_worker.running.schema import SCRIPTS, read_schema, script_names
from cli.conftest import Command
from mosaic.client.verifying import pieces, read_certificate, verify
from mosaic.errors import InvalidArgumentError
from mosaic.records import RunRecord
from mosaic.runs import certificate
from mosaic.runs.certificate import Certificate
from mosaic.runs.provenance import collect


@pytest.fixture(scope="module")
def trained(warm_home: Trainer) -> RunRecord:
    """A run with two pieces; a test that changes its files puts them back."""
    run = warm_home.client.train(
        "ppo", total_timesteps=768, keep="every:256,last:1", num_envs=2, num_steps=64
    )
    return warm_home.client.wait(run.run_id)


def _certified(warm_home: Trainer, base: RunRecord, number: int = 0) -> Certificate:
    piece = pieces(warm_home.client, base)[number]
    again = warm_home.client.wait(verify(warm_home.client, base, piece).run_id)
    found = read_certificate(warm_home.client, again.run_id)
    assert found is not None, again.reason
    assert again.completed == (found["verdict"] == "verified")
    return found


@contextmanager
def _put_back(path: Path) -> Iterator[None]:
    before = path.read_bytes()
    try:
        yield
    finally:
        path.write_bytes(before)


def test_an_honest_run_is_certified(warm_home: Trainer, typed: Command, trained: RunRecord) -> None:
    """The command trains a piece again and says machine, threads and digest; lineage knows it."""
    (found,) = typed.json("verify", trained.run_id)
    assert (found["verdict"], found["findings"]) == ("verified", [])
    assert found["state"]["recorded_digest"] == found["state"]["trained_digest"]
    assert found["state"]["values"] > 40
    assert (found["from_step"], found["to_step"]) in ((256, 512), (512, 768))
    machine = found["machine_now"]
    assert machine["threads"] == 1
    assert all(machine[name] for name in ("processor", "python", "cpu_count"))
    assert machine == found["machine_then"]
    record = warm_home.client.get(found["verified_by"])
    assert json.loads(Path(record.run_dir, "certificate.json").read_text()) == found
    tree = warm_home.client.lineage(trained.run_id)
    assert {item.relation for item in tree.branches} == {"verifies"}
    (again,) = typed.json("verify", record.run_id)
    assert again["run_id"] == trained.run_id, "`verify last` can be typed twice"


def test_a_run_that_was_changed_is_not_certified(warm_home: Trainer, trained: RunRecord) -> None:
    """A checkpoint, a setting, a package: each is named, with what it was and what it is."""
    folder = Path(trained.run_dir)
    checkpoint = folder / "checkpoints" / "step-256.state"
    checksum = checkpoint.with_name("step-256.state.sha256")
    with _put_back(checkpoint), _put_back(checksum):
        changed = bytearray(checkpoint.read_bytes())
        changed[len(changed) // 2] ^= 1
        checkpoint.write_bytes(changed)
        # As someone would who knows of the checksum beside it: only the daemon's record tells.
        checksum.write_text(f"{hashlib.sha256(changed).hexdigest()}  {checkpoint.name}\n")
        found = _certified(warm_home, trained)
    assert found["verdict"] == "differs"
    assert "checkpoints/step-256.state has changed since it was written" in found["findings"][0]

    config, provenance = folder / "config.json", folder / "provenance.json"
    with _put_back(config), _put_back(provenance):
        document = json.loads(config.read_text())
        worker = document["metadata"]["worker"]["config"]
        worker["extras"]["algo_params"]["learning_rate"] = 0.01
        config.write_text(json.dumps(document))
        document = json.loads(provenance.read_text())
        now = document["packages"]["numpy"]
        document["packages"].update({"numpy": "1.0", "optuna": "1.0"})
        provenance.write_text(json.dumps(document))
        found = _certified(warm_home, trained)
    assert found["verdict"] == "differs"
    setting, package, value = found["findings"]
    assert setting == "the setting learning_rate has changed: 0.00025 then, 0.01 now"
    assert package == f"the package numpy has changed: 1.0 then, {now} now"
    assert [item["name"] for item in found["other_packages"]] == ["optuna"]
    assert "the first value that differs is policy.agent." in value
    assert "numbers differ, by up to" in value


def test_the_same_bits_with_another_package_are_not_called_verified() -> None:
    """A certificate that says so would promise more than was shown."""
    digest = "0" * 64
    state = certificate.StateCheck(
        values=3, recorded_digest=digest, trained_digest=digest, different=[], first_difference=""
    )
    assert certificate.verdict([], state) == "verified"
    changed = [certificate.Change(name="torch", then="2.12.0", now="2.13.0")]
    found = certificate.findings([], [], changed, state, "")
    assert found == ["the package torch has changed: 2.12.0 then, 2.13.0 now"]
    assert certificate.verdict(found, state) == "changed"
    assert certificate.verdict([], None) == "differs"


def test_of_two_copies_of_a_package_the_imported_one_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package that hides another version of itself is a changed package: imports find it."""
    package = tmp_path / "cloudpickle-0.0.1.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: cloudpickle\nVersion: 0.0.1\n")
    before = collect([], {}, "CartPole-v1")["packages"]
    monkeypatch.syspath_prepend(tmp_path)
    now = collect([], {}, "CartPole-v1")["packages"]
    assert [change["name"] for change in certificate.changes(before, now)] == ["cloudpickle"]
    assert now["cloudpickle"] == "0.0.1"


def test_one_checkpoint_is_too_few(warm_home: Trainer) -> None:
    """The refusal says how to keep more."""
    run = warm_home.client.train("ppo", total_timesteps=256, num_envs=2, num_steps=64)
    with pytest.raises(InvalidArgumentError, match=r"only one checkpoint .* --keep every:25"):
        pieces(warm_home.client, warm_home.client.wait(run.run_id))


@pytest.mark.prove
@pytest.mark.parametrize("algorithm", script_names())
def test_every_algorithm_can_be_verified(warm_home: Trainer, algorithm: str) -> None:
    """Torch, JAX, on the device, with replay memory, recurrent, several processes: all pass."""
    smoke = read_schema(SCRIPTS / f"{algorithm}.py").smoke
    keep = f"every:{max(1, int(smoke['total_timesteps']) // 4)},last:1"
    run = warm_home.client.wait(warm_home.client.train(algorithm, smoke=True, keep=keep).run_id)
    assert run.completed, run.reason
    found = _certified(warm_home, run)
    assert found["verdict"] == "verified", found["findings"]
