"""A published model by its name, from a server that speaks as the Hub does."""

import os
import pathlib
import shutil
import subprocess
import sys

import huggingface_hub
import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.opening import folder_of
from keras_transformer.pretrained import hub
from tests import model_cards
from tests.pretrained.local_hub import LocalHub
from tests.pretrained.small_published import write_huggingface, write_json, write_marian

NAME = "some-group/opus-mt-en-de"


@pytest.fixture
def local_hub(tmp_path, monkeypatch):
    """A running server with one model, its `address`, and an empty cache."""
    served = LocalHub(tmp_path / "uploads")
    write_huggingface(tmp_path / "published")
    # What its owner has beside what is read.
    for name in ("tf_model.h5", "pytorch_model.bin"):
        (tmp_path / "published" / name).write_text("not to be read")
    card = "---\nlanguage: [en, de]\nlicense: cc-by-4.0\n---\n# A model\n"
    (tmp_path / "published" / "README.md").write_text(card)
    served.add(NAME, tmp_path / "published")
    with served.running() as address:
        use(monkeypatch, address, tmp_path)
        served.address = address
        yield served


def use(monkeypatch, address, tmp_path, offline=False):
    """Let the Hub's client of this process ask a server, with an own cache."""
    for name, value in {
        "ENDPOINT": address,
        "HUGGINGFACE_CO_URL_TEMPLATE": f"{address}/{{repo_id}}/resolve/{{revision}}/"
        "{filename}",
        "HF_HUB_CACHE": str(tmp_path / "hub_cache"),
        "HF_HUB_OFFLINE": offline,
        "HF_HUB_DISABLE_PROGRESS_BARS": True,
    }.items():
        monkeypatch.setattr(huggingface_hub.constants, name, value)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("HF_TOKEN", raising=False)


def environment(local_hub, tmp_path, **more):
    """Return the same for another process."""
    return {
        **os.environ,
        "HF_ENDPOINT": local_hub.address,
        "HF_HOME": str(tmp_path / "hf_home"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "HF_HUB_OFFLINE": "0",
        **more,
    }


def files_below(folder):
    return [path for path in pathlib.Path(folder).rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Helsinki-NLP/opus-mt-en-de", ("Helsinki-NLP/opus-mt-en-de", None)),
        ("facebook/m2m100_418M@v1.0", ("facebook/m2m100_418M", "v1.0")),
        ("a/b@refs/pr/1", ("a/b", "refs/pr/1")),
        ("runs/base", ("runs/base", None)),
        ("base", None),
        ("./runs/base", None),
        ("/runs/base", None),
        ("~/runs", None),
        ("runs/base/", None),
        ("runs/multi30k/model", None),
        ("gs://bucket/model", None),
        ("a/b@", None),
        ("a b/c", None),
        ("runs/x-", None),
        ("a/b.git", None),
    ],
)
def test_a_name_has_an_owner_and_a_model(text, name):
    assert hub.parse(text) == name


def test_only_what_is_read_is_downloaded(local_hub):
    folder = hub.download(hub.parse(NAME))
    assert sorted(path.name for path in files_below(folder)) == [
        "README.md",
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "source.spm",
        "target.spm",
        "vocab.json",
    ]
    # The vocabularies of the two sides have the same content.
    assert len(local_hub.sent) == 6
    assert folder.name == local_hub.commit_of(NAME)


def test_a_name_is_imported_once_and_then_loaded_without_the_server(
    local_hub, tmp_path, monkeypatch
):
    translator = kt.Translator.from_pretrained(NAME, beam_size=2)
    assert translator.decoding.beam_size == 2
    first, asked = translator("a b c"), len(local_hub.sent)
    use(monkeypatch, local_hub.address, tmp_path, offline=True)
    again = kt.open_model(NAME)
    assert len(local_hub.sent) == asked
    assert again.searcher.model.config == translator.model.config
    assert kt.Translator.from_pretrained(NAME, beam_size=2)("a b c") == first
    (config,) = (tmp_path / "cache").rglob("config.json")
    assert f'"name": "{NAME}"' in config.read_text()


def test_a_download_without_the_card_is_whole(local_hub, tmp_path, monkeypatch):
    folder = hub.download(hub.parse(NAME))
    (folder / "README.md").unlink()
    use(monkeypatch, local_hub.address, tmp_path, offline=True)
    assert hub.download(hub.parse(NAME)) == folder


def test_what_is_imported_has_a_card_of_its_own_with_the_licence(local_hub):
    card = (hub.imported(hub.parse(f"{NAME}@v1")) / "README.md").read_text()
    head = model_cards.head(card)
    assert (head["license"], head["base_model"]) == ("cc-by-4.0", NAME)
    assert "Its licence: cc-by-4.0." in card and f"[{NAME}@v1](https://" in card


def test_a_revision_has_a_place_of_its_own(local_hub):
    commit = local_hub.commit_of(NAME)
    assert hub.imported(hub.parse(f"{NAME}@v1")) == hub.imported(hub.parse(NAME))
    assert commit in hub.imported(hub.parse(f"{NAME}@{commit}")).name
    (local_hub.models[NAME] / "generation_config.json").write_text("{}")
    assert commit not in hub.imported(hub.parse(NAME)).name


def test_a_model_of_marian_has_a_name_too(local_hub, tmp_path, monkeypatch):
    write_marian(tmp_path / "marian")
    local_hub.add("a/marian", tmp_path / "marian")
    assert kt.open_model("a/marian").searcher is not None
    use(monkeypatch, local_hub.address, tmp_path, offline=True)
    assert (folder_of("a/marian") / "config.json").is_file()


def test_languages_that_a_model_needs_are_those_asked_for(local_hub, tmp_path):
    write_huggingface(tmp_path / "many", "m2m_100")
    local_hub.add("a/m2m100", tmp_path / "many")
    with pytest.raises(ValueError, match="`source_language` must be one of"):
        folder_of("a/m2m100")
    model = kt.open_model("a/m2m100", languages=("en", "de"))
    assert model.target_language == "de"


def test_programs_import_and_evaluate_by_name(local_hub, tmp_path, program_of):
    own = tmp_path / "own"
    program_of("bin/import_model.py")(input=NAME, model_dir=own)
    assert f'"name": "{NAME}"' in (own / "config.json").read_text()
    text = tmp_path / "text"
    text.write_text("a b\nc\n")
    evaluate = program_of("bin/evaluate.py")
    scores = [
        evaluate(model_dir=model, source=text, reference=text)["sacrebleu"]
        for model in (NAME, own)
    ]
    assert scores[0] == scores[1]


def test_languages_are_part_of_the_place(local_hub, tmp_path):
    name = hub.parse(NAME)
    places = {
        hub.imported(name, *languages)
        for languages in (
            (None, None),
            ("zh-deu", None),
            ("zh", "deu"),
            (None, "deu"),
            ("../../../zh", "deu"),
        )
    }
    assert len(places) == 5
    assert len({place.parent for place in places}) == 1


def test_what_was_imported_is_loaded_if_the_hub_refuses(local_hub):
    place = folder_of(NAME)
    local_hub.private.add(NAME)
    assert folder_of(NAME) == place


def test_an_existing_folder_is_no_name(local_hub, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pathlib.Path(NAME).mkdir(parents=True)
    assert folder_of(NAME) == NAME
    assert not local_hub.sent


def test_an_export_is_no_translator(small_export):
    with pytest.raises(ValueError, match="is an export, whose search is in its graph"):
        kt.Translator.from_pretrained(small_export)


def without_model(local_hub, folder):
    local_hub.models.clear()


def private(local_hub, folder):
    local_hub.private.add(NAME)


def gated(local_hub, folder):
    local_hub.gated.add(NAME)


def of_another_architecture(local_hub, folder):
    write_json(folder / "config.json", {"model_type": "bert"})


def only_a_pickle(local_hub, folder):
    (folder / "model.safetensors").unlink()
    # What is not read does not count.
    (folder / "onnx").mkdir()
    for other in ("outputs.npz", "onnx/model.safetensors"):
        (folder / other).write_bytes(b"1")


def no_model(local_hub, folder):
    for path in files_below(folder):
        if path.name != "README.md":
            path.unlink()


def broken(local_hub, folder):
    local_hub.broken.add("model.safetensors")


def damaged(local_hub, folder):
    (folder / "model.safetensors").write_bytes(b"12345678")


@pytest.mark.parametrize(
    ("change", "name", "message"),
    [
        (without_model, NAME, "There is no folder .* has no model of this name"),
        (without_model, "runs/bsae", "no folder runs/bsae, and http.* has no model"),
        (private, NAME, "or only for those who may see it: .*`hf auth login`"),
        (gated, NAME, "accept its conditions: do so at http.*/some-group/opus"),
        (None, f"{NAME}@v7", "opus-mt-en-de has no revision v7 at http"),
        (
            of_another_architecture,
            NAME,
            f"{NAME}/config.json: model_type is 'bert'; marian",
        ),
        (only_a_pickle, NAME, r"install keras_transformer\[pytorch\]"),
        (no_model, NAME, "opus-mt-en-de has neither config.json .* nor decoder"),
        (damaged, NAME, "model.safetensors is damaged"),
    ],
)
def test_what_cannot_be_imported_is_said_in_one_line(
    local_hub, tmp_path, monkeypatch, change, name, message
):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    if change:
        change(local_hub, tmp_path / "published")
    with pytest.raises((ValueError, OSError), match=message) as raised:
        folder_of(name)
    assert "\n" not in str(raised.value)
    assert change is damaged or "model.safetensors" not in local_hub.sent
    assert not list((tmp_path / "cache").rglob("config.json"))


def test_a_broken_download_goes_on_at_the_next_start(local_hub, tmp_path):
    broken(local_hub, tmp_path / "published")
    with pytest.raises(OSError, match=f"failed to give {NAME}|Consistency check"):
        folder_of(NAME)
    assert not list((tmp_path / "cache").rglob("config.json"))
    local_hub.broken.clear()
    assert kt.open_model(NAME).searcher is not None


@pytest.mark.parametrize("offline", [True, False])
def test_without_network_the_reason_is_given(local_hub, tmp_path, monkeypatch, offline):
    use(monkeypatch, "http://127.0.0.1:1", tmp_path, offline=offline)
    reason = "HF_HUB_OFFLINE is set" if offline else "cannot be reached"
    with pytest.raises(FileNotFoundError, match=reason):
        folder_of(NAME)


def test_a_token_opens_a_private_model(local_hub, monkeypatch):
    local_hub.private.add(NAME)
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    assert (folder_of(NAME) / "config.json").is_file()


def convert(program_of, tmp_path, name):
    """Convert the imported model and push it; return the summary."""
    return program_of("export/convert_huggingface.py")(
        model_dir=NAME, output_dir=str(tmp_path / "converted"), push_to_hub=name
    )


def test_a_converted_model_is_pushed_and_found(
    local_hub, tmp_path, monkeypatch, program_of
):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    summary = convert(program_of, tmp_path, "me/mine")
    assert summary["address"] == f"{local_hub.address}/me/mine"
    model = kt.open_model("me/mine").searcher.model
    own = kt.open_model(NAME).searcher.model
    assert model.config == own.config
    np.testing.assert_array_equal(model.get_weights()[0], own.get_weights()[0])
    names = {path.name for path in local_hub.files_of("me/mine")}
    assert {"README.md", "config.json", "model.safetensors"} <= names


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("me/mine", "did not take .*converted as me/mine .*401.*: log in with `hf"),
        ("./mine", "--push_to_hub must be OWNER/MODEL or OWNER/MODEL@BRANCH"),
    ],
)
def test_what_cannot_be_pushed_is_said(local_hub, tmp_path, program_of, name, message):
    with pytest.raises((ValueError, OSError), match=message):
        convert(program_of, tmp_path, name)


def test_a_full_disk_leaves_nothing_behind(local_hub, tmp_path, monkeypatch):
    def full(*arguments, **named):
        raise OSError(28, "No space left on device", "model.keras")

    monkeypatch.setattr("keras.saving.save_model", full)
    monkeypatch.setattr("keras.Model.save", full)
    with pytest.raises(OSError, match="No space left"):
        folder_of(NAME)
    left = files_below(tmp_path / "cache" / "keras_transformer" / "models")
    assert [path.name for path in left] == [".importing.lock"]


@pytest.mark.long
def test_two_programs_import_a_model_once(local_hub, tmp_path, repository):
    text = tmp_path / "text"
    text.write_text("a b c\n")
    command = [sys.executable, "bin/translate.py", f"--model_dir={NAME}"]
    command.append(f"--input={text}")
    running = [
        subprocess.Popen(
            command,
            cwd=repository,
            env=environment(local_hub, tmp_path),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    answers = [process.communicate() for process in running]
    assert [process.returncode for process in running] == [0, 0], answers
    assert answers[0][0] == answers[1][0] != ""
    assert local_hub.sent.count("model.safetensors") == 1
    assert len(list((tmp_path / "cache").rglob("config.json"))) == 1


@pytest.mark.long
def test_programs_take_a_name_and_need_no_network_afterwards(
    local_hub, tmp_path, repository
):
    text = tmp_path / "text"
    text.write_text("a b c\n")

    def run(*command, **more):
        return subprocess.run(
            [sys.executable, *command],
            cwd=repository,
            env=environment(local_hub, tmp_path, **more),
            capture_output=True,
            text=True,
        )

    done = run(
        "export/export_saved_model.py",
        f"--model_dir={NAME}",
        f"--export_dir={tmp_path / 'export'}",
        "--signatures=serving_default",
    )
    assert done.returncode == 0, done.stderr
    shutil.rmtree(tmp_path / "published")
    translations = {
        run("bin/translate.py", option, f"--input={text}", HF_HUB_OFFLINE="1").stdout
        for option in (
            f"--model_dir={NAME}",
            f"--saved_model={tmp_path / 'export' / '1'}",
        )
    }
    assert len(translations) == 1 and "".join(translations).strip()
    done = run("bin/translate.py", "--model_dir=runs/bsae", f"--input={text}")
    assert done.returncode == 1
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert "There is no folder runs/bsae, and" in done.stderr
