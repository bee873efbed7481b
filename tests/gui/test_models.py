"""What the window knows, without a window: filters, order, curves, fields, drafts, layouts."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cleanrl_worker.running.schema import script_names
from gym_gui.algo_docs import library
from gym_gui.models import series
from gym_gui.models.actors import roster
from gym_gui.models.artifacts import Manifest, event_folders, find_artifacts
from gym_gui.models.config_diff import diff
from gym_gui.models.dock_layouts import WindowState, decode_state, encode_state
from gym_gui.models.draft_export import as_command, as_json, as_python
from gym_gui.models.form_fields import Field, FieldError
from gym_gui.models.palette_items import PaletteItem, rank
from gym_gui.models.run_columns import BY_KEY, COLUMNS, group_text
from gym_gui.models.run_order import Group, View, arrange
from gym_gui.models.series import Series, by_chart
from gym_gui.models.table_look import TableLook
from gym_gui.models.train_draft import TrainDraft
from mosaic.client.files import RunFile
from mosaic.config.pipeline import read_header
from mosaic.config.redaction import redact, redact_text
from mosaic.config.validation import validate_train_run_config
from mosaic.curves.members import Member
from mosaic.curves.thinning import thin
from mosaic.errors import FilterError
from mosaic.presenting import formatting
from mosaic.presenting.run_filter import compile_filter
from mosaic.records import Progress, RunRecord, State
from mosaic.records.daemon import WorkerInfo


def record(**fields: Any) -> RunRecord:
    """A run as the SDK gives it."""
    usual: dict[str, Any] = {
        "run_id": "01A", "worker": "cleanrl", "algo": "ppo", "env_id": "CartPole-v1", "seed": 1,
        "state": State.EXEC, "created_at": 1.0, "mode": "train", "version": 1,
        "progress": Progress(step=5, total=10, fraction=0.5, sps=100.0, eta_s=3.0),
    }  # fmt: skip
    return RunRecord(**{**usual, **fields})


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("", True),
        ("cart", True),
        ("algo:ppo env:cartpole", True),
        ("algo:dqn", False),
        ("-algo:dqn", True),
        ("return>100", True),
        ("return>=300", False),
        ("seed:1 progress<60", True),
        ("state:running", True),
        ("tag:baseline", True),
        ('"no such words"', False),
    ],
)
def test_filter_finds_what_it_says(text: str, fits: bool) -> None:
    """A filter shows exactly the runs that fit every term."""
    run = record(metrics={"episodic_return": 200.0}, tags=("baseline",))
    predicate = compile_filter(text)
    assert (predicate is None or predicate(run)) is fits


@pytest.mark.parametrize(
    ("text", "said"),
    [("alog:ppo", "did you mean 'algo'"), ("return>much", "needs a number"), ("algo>3", "algo:")],
)
def test_filter_that_cannot_be_read_says_why(text: str, said: str) -> None:
    """A wrong filter names the nearest field or what it wants."""
    with pytest.raises(FilterError, match=said):
        compile_filter(text)


@pytest.mark.parametrize(
    ("names", "title"),
    [
        (("cp-lr1e3-s1", "cp-lr1e3-s2"), "2 × cp-lr1e3"),
        (("run · seed 10", "run · seed 11"), "2 × run"),
        (("walk_1", "walk_2"), "2 × walk"),
        (("", ""), "2 × ppo · CartPole-v1"),
    ],
)
def test_a_group_keeps_the_digits_of_its_name(names: tuple[str, str], title: str) -> None:
    """Only what belongs to the seed is left out of the name of a group."""
    runs = [record(run_id=str(n), seed=n, run_name=name) for n, name in enumerate(names)]
    group = arrange(runs, None, View(grouped=True))[0]
    assert isinstance(group, Group)
    assert group.title == title


def test_groups_gather_seeds_with_mean_and_spread() -> None:
    """Runs that differ only in their seed stand together, with mean and spread of the return."""
    runs = [record(run_id=str(n), seed=n, metrics={"episodic_return": 10.0 * n}) for n in (1, 2, 3)]
    runs.append(record(run_id="other", algo="dqn"))
    rows = arrange(runs, None, View(grouped=True))
    assert sum(isinstance(row, Group) for row in rows) == 1
    group = next(row for row in rows if isinstance(row, Group) and len(row.runs) == 3)
    assert group_text(COLUMNS[BY_KEY["return"]], group.runs) == "20 ± 10 SD"
    assert group_text(COLUMNS[BY_KEY["seed"]], group.runs) == "1–3"
    assert group_text(COLUMNS[BY_KEY["env"]], group.runs) == "CartPole-v1"
    folded = arrange(runs, None, View(grouped=True, collapsed=frozenset([group.key])))
    assert len(folded) == len(rows) - 3


def test_pinned_run_stays_on_top() -> None:
    """The baseline is the first row whatever the order."""
    runs = [record(run_id=str(n), created_at=float(n)) for n in range(5)]
    assert arrange(runs, None, View(pinned="0"))[0].run_id == "0"


def test_field_refuses_with_what_is_allowed() -> None:
    """A field that cannot be read says what can be typed there."""
    field = Field.from_argument(
        {
            "name": "clip_coef",
            "type": "float",
            "default": 0.2,
            "help": "",
            "range": {"low": 0.0, "high": 1.0, "low_open": True, "high_open": False, "choices": []},
        }
    )
    assert field.parse("1e-1") == 0.1
    assert field.parse("") == 0.2
    for wrong in ("0", "1.5", "much", "nan"):
        with pytest.raises(FieldError, match="above 0 and at most 1"):
            field.parse(wrong)


def test_whole_numbers_may_be_written_as_people_do() -> None:
    """1e6 and 1_000_000 are whole numbers, 0.5 is not."""
    field = Field("n", "int", 1)
    assert field.parse("1e6") == field.parse("1_000_000") == 1_000_000
    with pytest.raises(FieldError):
        field.parse("0.5")


def test_draft_makes_configs_that_the_daemon_accepts() -> None:
    """Every config of a draft passes the same validation as a submitted one; one run a seed."""
    draft = TrainDraft(
        total_timesteps=1000, seeds=3, run_name="a", params={"num_envs": 8}, wall_minutes=5.0,
        track_wandb=True, wandb={"wandb_project_name": "p"}, notes="n", capture_video=True,
    )  # fmt: skip
    configs = draft.configs()
    again = [validate_train_run_config(json.dumps(one.document())) for one in configs]
    assert again == configs
    assert [one.worker.seed for one in configs] == [1, 2, 3]
    assert [one.run_name for one in configs] == ["a-s1", "a-s2", "a-s3"]


def test_draft_survives_the_way_through_a_config_and_a_file() -> None:
    """A cloned run, and a form stored and restored, ask for the same thing again."""
    draft = TrainDraft(
        algo="dqn", env_id="Acrobot-v1", total_timesteps=5, params={"tau": 0.5}, notes="why",
        fastlane_video_mode="grid", fastlane_grid_limit=9, wall_minutes=2.0, tags=["x"],
        worker_id="mine", agent_id="first", minimal_telemetry=True,
    )  # fmt: skip
    for shown in (draft, replace(draft, fastlane_video_mode="single", fastlane_slot=3)):
        config = shown.config(shown.seed)
        assert TrainDraft.from_config(config).config(shown.seed) == config
        stored = json.loads(json.dumps(shown.to_json()))
        assert TrainDraft.from_json(stored).config(shown.seed) == config
    assert (config.worker.worker_id, config.worker.agent_id) == ("mine", "first")
    assert (config.worker.extras.fastlane_slot, config.worker.extras.minimal_telemetry) == (3, True)


def test_api_key_is_never_kept_or_copied() -> None:
    """A secret typed into the form reaches neither the stored form nor the clipboard."""
    draft = TrainDraft(track_wandb=True, wandb={"wandb_api_key": "CANARY", "wandb_entity": "me"})
    texts = [json.dumps(draft.to_json()), as_json(draft), as_python(draft), as_command(draft)]
    assert not any("CANARY" in text for text in texts)
    assert "CANARY" in json.dumps(draft.config(1).document())


def test_copied_python_is_a_program() -> None:
    """What is copied as Python compiles and holds the config."""
    draft = TrainDraft(notes='quo"""te', total_timesteps=10, seeds=2)
    text = as_python(draft)
    compile(text, "copied", "exec")
    namespace: dict[str, Any] = {}
    exec(text.split("\nwith")[0].replace("from mosaic.client import TrainerClient", ""), namespace)
    assert namespace["config"] == json.loads(as_json(draft))


def test_every_documented_algorithm_has_a_whole_text() -> None:
    """All algorithms say what they are, when to use them, what matters and where."""
    names = library.documented_algorithms()
    assert set(names) == set(script_names())
    for name in names:
        entry = library.entry(name)
        assert entry["what"], name
        assert entry["when"], name
        assert entry["matters"], name
        assert entry["environments"], name
        assert "steps" in library.help_html(name, {})


def test_roster_has_the_known_actors_first_and_keeps_the_missing() -> None:
    """The roster shows all four actors in order, greyed with the command when not installed."""
    workers = [
        WorkerInfo(type=t, display_name=n, available=a, problem=p, capabilities=None)
        for t, n, a, p in (
            ("zeta", "Zeta", True, ""),
            ("cleanrl", "CleanRL Worker", True, ""),
            ("llm", "LLM Multi-Step Worker", False, "not installed; run: make setup-llm"),
            ("spade_bdi", "Spade BDI Worker", True, ""),
        )
    ]
    actors = roster(workers)
    assert [a.title for a in actors] == [
        "Human-Only", "Spade BDI Worker", "LLM Multi-Step Worker", "CleanRL Worker", "Zeta",
    ]  # fmt: skip
    assert "make setup-llm" in actors[2].problem
    assert not actors[2].available


def test_thinning_keeps_the_extremes_of_millions() -> None:
    """Five million points become a few thousand without losing the highest or the lowest."""
    values = np.sin(np.arange(5_000_000) / 1000.0)
    values[1_234_567], values[4_000_001] = 9.0, -9.0
    kept = thin(values, 3000)
    assert len(kept) < 6100
    assert {1_234_567, 4_000_001} <= set(kept.tolist())


def test_smoothing_is_not_biased_at_its_start() -> None:
    """A constant curve stays constant, however strongly it is smoothed."""
    assert series.smooth(np.full(50, 7.0), 0.99) == pytest.approx(np.full(50, 7.0))


def test_differences_come_first() -> None:
    """Comparing two configs shows first what sets them apart."""
    rows = diff([TrainDraft(seed=seed).config(seed).document() for seed in (1, 2)])
    assert rows[0].key == "seed"
    assert rows[0].values == ("1", "2")
    assert not any(row.differs for row in rows[1:])


def test_an_empty_object_is_no_difference() -> None:
    """Settings that only one of two configs has are shown, not the empty place of the other's."""
    rows = diff([{"extras": {}}, {"extras": {"gamma": 0.9}}])
    assert [row.key for row in rows] == ["extras.gamma"]


@pytest.mark.parametrize(
    "stored",
    ["garbage", 5, {}, {"version": 99}, {"version": 2, "layout": "train", "geometry": "%%%"}],
)
def test_stored_layout_that_makes_no_sense_gives_the_default(stored: Any) -> None:
    """A layout that is corrupt or of another version gives the default and one notice."""
    state, notice = decode_state(stored)
    assert state == WindowState()
    assert notice


def test_stored_layout_comes_back() -> None:
    """What was stored is restored byte for byte."""
    state = WindowState("watch", b"\x00\xff", {"watch": b"\x01"}, TableLook("algo:ppo", "name"))
    assert decode_state(json.loads(json.dumps(encode_state(state)))) == (state, "")


def _listed(*paths: str) -> list[RunFile]:
    return [RunFile(path, "file", 10, 1.0) for path in paths]


def test_manifest_that_lies_is_not_followed() -> None:
    """A manifest whose paths lead outside or nowhere offers nothing."""
    files = [*_listed("tensorboard/events.out.tfevents.1"), RunFile("link", "link", 0, 1.0)]
    for lie in ("../outside", "/etc", "link", "missing"):
        document = {"artifacts": {"tensorboard": {"dir": lie}, "videos": [lie, 5]}}
        found = find_artifacts(Manifest.from_document(document), files)
        assert found.events == ()
        assert found.videos == ()
    for shape in ([], {"artifacts": 3}, {"artifacts": {"tensorboard": [], "videos": "x"}}):
        document = shape if isinstance(shape, dict) else {}
        assert find_artifacts(Manifest.from_document(document), files).events


def test_a_manifest_with_the_names_of_the_design_documents_is_read() -> None:
    """Another tool may have written it by the documents."""
    document = {"tensorboard_dir": "tb", "optuna_db_path": "study.db", "wandb_run_id": "abc"}
    read = Manifest.from_document(document)
    assert (read.tensorboard, read.optuna, read.wandb) == ("tb", "study.db", {"run_id": "abc"})


def test_event_files_are_found_wherever_a_run_writes_them() -> None:
    """A folder of one's own shows while the run trains; the manifest comes at its end."""
    top = [RunFile(name, "folder", 0, 1.0) for name in ("checkpoints", "tb", "main", "wandb")]
    below = _listed("tb/events.out.tfevents.1", "main/tensorboard/events.out.tfevents.2")
    copies = _listed("wandb/run-1/files/events.out.tfevents.1")
    assert event_folders(Manifest(), top) == ("tb", "main")
    usual = RunFile("tensorboard", "folder", 0, 1.0)
    assert event_folders(Manifest(), [*top, usual]) == ("tensorboard",), "not those of phases"
    found = find_artifacts(Manifest(), [*top, *below, *copies])
    assert found.events == ("main/tensorboard/events.out.tfevents.2", "tb/events.out.tfevents.1")
    for folder, events in ((".", found.events), ("tb", ("tb/events.out.tfevents.1",))):
        document = {"artifacts": {"tensorboard": {"dir": folder}}}
        read = Manifest.from_document(document)
        assert find_artifacts(read, [*top, *below, *copies]).events == events


def test_artifacts_are_what_the_run_really_has() -> None:
    """Event files, the newest W&B folder, videos and the study are found without a manifest."""
    files = _listed(
        "tensorboard/a/events.out.tfevents.2", "tensorboard/notes.txt", "optuna.db",
        "videos/b.mp4", "videos/a.mp4", "videos/a.json",
        "wandb/run-20260101_0000-x/files/wandb-summary.json",
        "wandb/offline-run-20260301_0000-y/run.wandb", "wandb/debug.log",
    )  # fmt: skip
    for name in ("run-20260101_0000-x", "run-20260101_0000-x/files", "offline-run-20260301_0000-y"):
        files.append(RunFile(f"wandb/{name}", "folder", 0, 1.0))
    found = find_artifacts(Manifest(), files)
    assert found.events == ("tensorboard/a/events.out.tfevents.2",)
    assert found.videos == ("videos/a.mp4", "videos/b.mp4")
    assert found.optuna == "optuna.db"
    assert found.wandb is not None
    assert found.wandb.path == "wandb/offline-run-20260301_0000-y"
    assert found.wandb.offline
    assert sum(found.wandb.files.values()) == 10


def test_script_header_is_read(tmp_path: Path) -> None:
    """A script says what it does, in which phases and for how long."""
    path = tmp_path / "two.sh"
    path.write_text(
        "#!/bin/sh\n# @description: Two\n# @phases: warm up, b\n# @total_timesteps: 20_000\n"
    )
    header = read_header(path)
    assert (header.description, header.total_timesteps) == ("Two", 20000)
    assert header.phases == ("warm up", "b")


def test_bundle_hides_what_looks_secret() -> None:
    """Neither keys nor tokens reach a support bundle."""
    assert redact({"wandb_api_key": "CANARY", "a": [{"token": "CANARY"}]}) == {
        "wandb_api_key": "[removed]", "a": [{"token": "[removed]"}],
    }  # fmt: skip
    assert "CANARY" not in redact_text("WANDB_API_KEY=CANARY\napi_key: 'CANARY'\n")


def test_palette_puts_the_best_match_first_and_recent_ones_without_a_query() -> None:
    """Typing a few letters is enough; without typing, what was used last comes first."""
    items = [PaletteItem("a", "Run: Pause"), PaletteItem("b", "View: Layout: Play")]
    assert rank("paus", items, ())[0].key == "a"
    assert rank("vlp", items, ())[0].key == "b"
    assert rank("", items, ("b",))[0].key == "b"
    assert rank("zzz", items, ()) == []


@pytest.mark.parametrize(
    ("seconds", "text"), [(5, "5 s"), (65, "1 min 05 s"), (7300, "2 h 01 min"), (None, "—")]
)
def test_durations_read_well(seconds: float | None, text: str) -> None:
    """Durations are given in their two largest units."""
    assert formatting.duration(seconds) == text


def test_the_seeds_of_a_run_share_a_chart_without_their_mean() -> None:
    """Sixty-four seeds are one chart, not sixty-four; the mean is not counted as a further seed."""
    curves = {
        "charts/episodic_return": Series(),
        "charts/episodic_return@seed=1": Series(),
        "charts/episodic_return@seed=2": Series(),
        "losses/entropy": Series(),
    }
    charts = by_chart(curves)
    assert {tag: list(seeds) for tag, seeds in charts.items()} == {
        "charts/episodic_return": [Member(1), Member(2)],
        "losses/entropy": [None],
    }
