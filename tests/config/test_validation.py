"""A configuration is taken whole or refused with everything that is wrong, in words that help."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.trainer import Trainer

from mosaic.config.model import TrainRunConfig
from mosaic.config.paths import Home, project_root
from mosaic.config.publish import PUBLISHED, schema_text
from mosaic.config.secrets import REFERENCE_PREFIX, SecretStore, extract, referenced, resolve
from mosaic.config.settings import Settings, load_settings, save_settings
from mosaic.config.validation import nest, validate_train_run_config
from mosaic.config.values import substitute
from mosaic.errors import InvalidConfigError, Problem, SecretError
from mosaic.runs.ids import new_run_id

BAD_CONFIGS = Path(__file__).parents[1] / "data" / "bad_configs"

# Every problem a file must be refused with: pointer, code, and what its sentence must say.
EXPECTED: dict[str, list[tuple[str, str, str]]] = {
    "a_list": [("", "CFG100", "is a JSON object, not a list")],
    "absolute_path": [
        ("/metadata/worker/config/extras/tensorboard_dir", "CFG109", "outside the run directory")
    ],
    "bad_curriculum": [
        ("/metadata/worker/config/extras/curriculum_schedule/0/steps", "CFG104", "0 was given"),
        ("/metadata/worker/config/extras/curriculum_schedule/1/env_id", "CFG101", "required"),
        ("/metadata/worker/config/extras/curriculum_schedule/1/stpes", "CFG102", "'steps'?"),
    ],
    "bad_mode": [
        ("/metadata/worker/config/extras/mode", "CFG104", "did you mean 'train'?"),
        ("/metadata/worker/config/extras/fastlane_video_mode", "CFG104", "did you mean 'grid'?"),
    ],
    "denied_environment": [
        ("/environment/LD_PRELOAD", "CFG108", "may not be set by a run"),
        ("/environment/PYTHONPATH", "CFG108", "may not be set by a run"),
        ("/environment/NOT A NAME", "CFG108", "not a variable name"),
        ("/environment/NUL", "CFG108", "NUL character"),
    ],
    "duplicate_keys": [("", "CFG111", "'run_name' is given twice")],
    "empty": [("", "CFG100", "not valid JSON")],
    "escaping_paths": [
        ("/metadata/worker/config/extras/tensorboard_dir", "CFG109", "../../outside")
    ],
    "everything_wrong": [
        ("/run_name", "CFG103", "5 was given"),
        ("/resources/cpu", "CFG102", "did you mean 'cpus'?"),
        ("/environment/PATH", "CFG108", "may not be set"),
        ("/artifacts/tensorbaord", "LOG705", "did you mean 'tensorboard'?"),
        ("/metadata/tag", "CFG102", "did you mean 'tags'?"),
        ("/metadata/worker/config/seed", "CFG104", "-5 was given"),
        ("/metadata/worker/config/extras/tensorboard_dir", "CFG109", "~/x"),
    ],
    "flat_with_stray_keys": [
        ("/totl_timesteps", "CFG102", "'totl_timesteps' is not known here"),
        ("/metadata/worker/config/seed", "CFG103", '"x" was given'),
    ],
    "half_surrogate": [("", "CFG100", "half a surrogate pair")],
    "long_name": [("/run_name", "CFG103", "at most 200 characters")],
    "missing_parts": [
        ("/artifacts", "CFG101", "'artifacts' is required"),
        ("/metadata", "CFG101", "'metadata' is required"),
    ],
    "more_mandatory_than_requested": [
        ("/resources/gpus/mandatory", "CFG104", "2 mandatory GPUs are more than the 1 requested")
    ],
    "nan": [("", "CFG100", "NaN is not a JSON number")],
    "not_json": [("", "CFG100", "line 2 column 1")],
    "out_of_range": [
        ("/resources/cpus/requested", "CFG104", "0 was given"),
        ("/resources/gpus/requested", "CFG104", "-1 was given"),
        ("/resources/memory_mb", "CFG104", "0 was given"),
        ("/limits/max_wallclock_minutes", "CFG104", "0 was given"),
        ("/metadata/worker/config/seed", "CFG104", "-1 was given"),
        ("/metadata/worker/config/total_timesteps", "CFG104", "0 was given"),
        ("/metadata/worker/config/extras/gamma", "CFG104", "1.5 was given"),
        ("/metadata/worker/config/extras/fastlane_grid_limit", "CFG104", "1000 was given"),
    ],
    "stray_artifacts": [
        ("/artifacts/tensorbord", "LOG705", "did you mean 'tensorboard'?"),
        ("/artifacts/wandb/enabeld", "LOG705", "did you mean 'enabled'?"),
        ("/artifacts/videos", "LOG705", "allowed: keep_checkpoints, tensorboard, wandb"),
    ],
    "too_large_for_any_machine": [
        ("/resources/cpus/requested", "CFG104", "1000 CPU slots were asked for"),
        ("/resources/gpus/mandatory", "CFG104", "64 GPUs are mandatory, this machine has"),
        ("/resources/memory_mb", "CFG104", "1,000,000,000,000 MB were asked for"),
    ],
    "unknown_keys": [
        ("/resorces", "CFG102", "did you mean 'resources'?"),
        ("/priority", "CFG102", "'priority' is not known here"),
    ],
    "unknown_placeholders": [
        ("/metadata/worker/config/extras/notes", "CFG110", "did you mean 'RUN_ID'?"),
        ("/metadata/worker/config/extras/notes", "CFG110", "${HOME} is not known"),
    ],
    "unknown_worker": [("/metadata/worker/type", "CFG105", "did you mean 'example'?")],
    "wrong_types": [
        ("/resources/cpus/requested", "CFG103", '"two" was given'),
        ("/limits/max_wallclock_minutes", "CFG103", '"soon" was given'),
        ("/metadata/worker/config/seed", "CFG103", '"one" was given'),
        ("/metadata/worker/config/total_timesteps", "CFG103", "1.5 was given"),
        ("/metadata/worker/config/extras/cuda", "CFG103", '"yes" was given'),
        ("/metadata/worker/config/extras/notes", "CFG103", "7 was given"),
    ],
}


def test_every_bad_config_is_refused_with_all_its_problems(trainer: Trainer) -> None:
    """Each malformed file gives every problem at once, with pointer, code and advice; no run."""
    names = {path.stem for path in BAD_CONFIGS.glob("*.json")}
    assert names == set(EXPECTED)
    for name, expected in EXPECTED.items():
        with pytest.raises(InvalidConfigError) as refused:
            trainer.client.submit((BAD_CONFIGS / f"{name}.json").read_text())
        problems = refused.value.problems
        found = {(problem.pointer, problem.code) for problem in problems}
        assert found == {(pointer, code) for pointer, code, _ in expected}, name
        assert len(problems) == len(expected), name
        for pointer, _, words in expected:
            texts = [problem.message for problem in problems if problem.pointer == pointer]
            assert any(words in text for text in texts), (name, pointer, texts)
    assert trainer.run_ids() == []
    assert trainer.client.list_runs()[2] == 0


def test_the_published_schema_is_the_model() -> None:
    """The schema in the documentation is what the model says; publish it anew after a change."""
    assert (project_root() / PUBLISHED).read_text() == schema_text()


def test_both_shapes_give_the_same_run() -> None:
    """The worker's own fields alone are as good as the full job around them."""
    fields = {"algo": "ppo", "env_id": "CartPole-v1", "seed": 3, "extras": {"notes": "n"}}
    flat = validate_train_run_config({**fields, "run_name": "r"}, None, lambda algo: "cleanrl")
    nested = validate_train_run_config(
        json.dumps(
            {
                "run_name": "r",
                "artifacts": {},
                "metadata": {"worker": {"type": "cleanrl", "config": fields}},
            }
        )
    )
    assert flat == nested
    assert flat.worker.seed == 3
    assert validate_train_run_config({"algo": "ppo", "worker": "any"}).worker.seed == 1


def test_unknown_extras_are_the_workers_business() -> None:
    """An extra that nobody here knows is kept for the worker to judge."""
    document = {"algo": "ppo", "worker": "any", "extras": {"clip_coef": 0.3, "gamma": 0.9}}
    assert validate_train_run_config(document).worker.extras.own == {"clip_coef": 0.3}


def test_a_switch_with_two_names_is_stored_under_one() -> None:
    """`use_cuda` is read as `cuda`; either asks for a GPU, and only `cuda` is kept."""
    for extras, stored in (
        ({"use_cuda": True}, True),
        ({"use_cuda": False}, False),
        ({"use_cuda": True, "cuda": False}, True),
        ({"use_cuda": False, "cuda": True}, True),
    ):
        document = {"algo": "ppo", "worker": "any", "extras": extras}
        config = validate_train_run_config(document)
        assert config.worker.extras.model_dump(exclude_unset=True) == {"cuda": stored}
    with pytest.raises(InvalidConfigError) as refused:
        validate_train_run_config({"algo": "a", "worker": "any", "extras": {"use_cuda": "yes"}})
    assert refused.value.problems[0].pointer == "/metadata/worker/config/extras/cuda"


def test_placeholders_are_substituted_everywhere() -> None:
    """`${RUN_ID}` and its kind are replaced in every text, other dollars stay."""
    document = {"a": ["${RUN_ID}-$1", {"b": "${RUN_DIR}/x"}], "c": 5}
    names = {"RUN_ID": "ID", "RUN_DIR": "/runs/ID"}
    assert substitute(document, names) == {"a": ["ID-$1", {"b": "/runs/ID/x"}], "c": 5}


# A busy machine is slow, not wrong.
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["artifacts", "metadata", "worker", "config", "extras", "algo", "type"]
                )
                | st.text(max_size=6),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
def test_nothing_but_a_refusal_comes_out(document: object) -> None:
    """Any JSON at all is either a configuration or refused with problems, never an accident."""
    problems: tuple[Problem, ...] = ()
    config = None
    try:
        config = validate_train_run_config(json.dumps(document))
    except InvalidConfigError as error:
        problems = error.problems
    assert bool(problems) != isinstance(config, TrainRunConfig)


def test_secrets_are_taken_out_and_found_again(tmp_path: Path) -> None:
    """What looks like a secret leaves the document by reference and reaches only the worker."""
    store, run_id = SecretStore(tmp_path), new_run_id()
    document = {
        "wandb_api_key": "k1",
        "nested": [{"api-key": "k2"}, {"password": "k3"}],
        "max_tokens": 5,
        "other": {"wandb_api_key": "k4"},
    }
    secrets: dict[str, str] = {}
    clean = extract(document, secrets)
    assert set(secrets.values()) == {"k1", "k2", "k3", "k4"}
    assert clean["max_tokens"] == 5
    assert clean["wandb_api_key"] == f"{REFERENCE_PREFIX}wandb_api_key"
    assert referenced(clean) == set(secrets)
    store.put(run_id, secrets)
    environment = store.environment(run_id)
    assert environment["WANDB_API_KEY"] == "k1"
    assert resolve(clean["other"]["wandb_api_key"], environment) == "k4"
    assert all(name.isidentifier() for name in environment)
    with pytest.raises(SecretError, match="submit it again"):
        resolve("secret://unknown", environment)
    store.delete(run_id)
    assert store.get(run_id) == {}


def test_a_readable_secret_store_is_refused(tmp_path: Path) -> None:
    """A store that others may read is not used."""
    store, run_id = SecretStore(tmp_path), new_run_id()
    store.put(run_id, {"password": "x"})
    (tmp_path / f"{run_id}.json").chmod(0o644)
    with pytest.raises(SecretError, match="chmod 600"):
        store.get(run_id)


def test_settings_come_from_file_and_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment outranks the file, and every wrong value is named."""
    home = Home(tmp_path)
    save_settings(home, Settings(grace_s=7.0, port=0))
    monkeypatch.setenv("MOSAIC_SETTING_GRACE_S", "3")
    assert (load_settings(home).grace_s, load_settings(home).port) == (3.0, 0)
    home.settings.write_text('{"grace_s": -1, "prot": 5, "port": 99999999}')
    monkeypatch.delenv("MOSAIC_SETTING_GRACE_S")
    with pytest.raises(InvalidConfigError) as refused:
        load_settings(home)
    assert {problem.pointer for problem in refused.value.problems} == {"/grace_s", "/prot", "/port"}
    assert "did you mean 'port'" in str(refused.value)
    monkeypatch.setenv("MOSAIC_SETTING_GRCE_S", "3")
    monkeypatch.setenv("MOSAIC_SETTING_CPU_SLOTS", "none")
    home.settings.write_text("{}")
    with pytest.raises(InvalidConfigError) as refused:
        load_settings(home)
    said = str(refused.value)
    assert "no setting MOSAIC_SETTING_GRCE_S; did you mean 'MOSAIC_SETTING_GRACE_S'" in said
    assert "'none' in the variable MOSAIC_SETTING_CPU_SLOTS" in said, "where it came from"
    home.settings.write_text("{")
    with pytest.raises(InvalidConfigError, match="not valid JSON"):
        load_settings(home)


def test_settings_of_the_wrong_type_are_refused(tmp_path: Path) -> None:
    """A number is not a switch, half a slot is no slot, and the file itself must be an object."""
    home = Home(tmp_path)
    home.settings.write_text(
        '{"warm_start": 1, "cpu_slots": 1.5, "port": true, "site": "slrm", "slurm_options": "x"}'
    )
    with pytest.raises(InvalidConfigError) as refused:
        load_settings(home)
    said = {problem.pointer: problem.message for problem in refused.value.problems}
    assert set(said) == {"/warm_start", "/cpu_slots", "/port", "/site", "/slurm_options"}
    assert said["/cpu_slots"].endswith("must be a whole number or null")
    assert "did you mean 'slurm'" in said["/site"]
    assert "write --name=value" in said["/slurm_options"]
    home.settings.write_text("[1]")
    with pytest.raises(InvalidConfigError, match="not an object"):
        load_settings(home)
    home.settings.write_text('{"cpu_slots": null, "grace_s": 3}')
    assert load_settings(home) == Settings(grace_s=3.0)


def test_nothing_before_a_submission_loads_pydantic() -> None:
    """A daemon starts without what only submissions need: it was a quarter of the time."""
    code = "import sys, mosaic.trainer.serving; print('pydantic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_nest_leaves_a_full_job_alone() -> None:
    """A document with metadata is not rearranged."""
    document = {"metadata": {"worker": {}}, "algo": "stray"}
    assert nest(document) == document
