"""Labelled texts from files and folders, and with a pretrained network."""

import csv
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import safetensors.torch
import torch
import transformers
from pyarrow import parquet
from torch import Tensor

import config
import data
import model
from support import common, hub, processes

FAULTY = "/proc/self/mem"  # its first bytes cannot be read
ROWS = [(f'He said "good, {word}"\nand left.', "yes") for word in ("one", "two", "three", "four")]
ROWS += [(f"Nothing of {word}", "no") for word in ("five", "six", "seven", "eight")]


def settings(folder: Path, **changes: Any) -> config.Data:
    """The small data config, with what is prepared in `folder`."""
    return replace(common.settings(folder).data, folder=str(folder), **changes)


def write(path: Path, rows: list[tuple[str, str]]) -> str:
    """The rows as a file of the format that the path's ending names."""
    ending = path.suffix.lower()
    if ending in (".csv", ".tsv"):
        with path.open("w", newline="", encoding="utf-8-sig") as file:  # as spreadsheets write it
            writer = csv.writer(file, delimiter="," if ending == ".csv" else "\t")
            writer.writerows([("text", "label"), *rows])
    elif ending == ".parquet":
        names = ["no", "yes"]
        table = {"text": [text for text, _ in rows], "label": [names.index(n) for _, n in rows]}
        notes = json.dumps({"info": {"features": {"text": {}, "label": {"names": names}}}})
        path.parent.mkdir(parents=True, exist_ok=True)
        parquet.write_table(pa.table(table).replace_schema_metadata({"huggingface": notes}), path)
    else:
        lines = [json.dumps({"text": text, "label": label}) for text, label in rows]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def texts(split: data.Texts, cfg: config.Data) -> list[tuple[str, int]]:
    """The texts of a split, decoded from its tokens, and the targets."""
    (prepared,) = Path(cfg.folder).glob("*/tokenizer")
    tokenizer = transformers.AutoTokenizer.from_pretrained(prepared)
    batch = split.__getitems__(list(range(len(split))))
    assert batch.inputs.shape == (len(split), cfg.length)
    padding = (batch.inputs == tokenizer.pad_token_id).long()
    assert padding.diff(dim=1).min() >= 0, "padding before a text moves it to other positions"
    begins = set(batch.inputs[:, 0].tolist())
    assert begins == {tokenizer.cls_token_id}, "a text begins as none in the network's training"
    words = tokenizer.batch_decode(batch.inputs, skip_special_tokens=True)
    return [
        ("".join(part.split()), target)
        for part, target in zip(words, batch.targets.tolist(), strict=True)
    ]


def expected(rows: list[tuple[str, str]]) -> list[tuple[str, int]]:
    return [("".join(text.lower().split()), int(label == "yes")) for text, label in rows]


def test_prepared_data_appear_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under their final name other ranks find all of them, or nothing yet."""
    source = write(tmp_path / "texts.csv", ROWS)
    cfg = settings(tmp_path, source=source, length=32, vocabulary=300, validation=0.25)
    monkeypatch.setattr(os, "replace", lambda *_: None)  # as if the process ended just before
    data.prepare(cfg)
    assert not data.prepared_path(cfg).exists(), "half written, and taken for whole"


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet", "JSONL", "PARQUET"])
def test_file_is_divided(tmp_path: Path, ending: str) -> None:
    """Each row is in one split, with its label; quotes, commas and line breaks survive."""
    source = write(tmp_path / f"texts.{ending}", ROWS)
    cfg = settings(tmp_path, source=source, length=32, vocabulary=300, validation=0.25)
    data.prepare(cfg)
    splits = data.open_splits(cfg)
    assert (len(splits.train), len(splits.val), splits.shape.classes) == (6, 2, 2)
    read = texts(splits.train, cfg) + texts(splits.val, cfg)
    assert sorted(read) == sorted(expected(ROWS))


def test_edited_file_is_read_anew(tmp_path: Path) -> None:
    """What was prepared from the file before does not count any more."""
    names = set()
    for rows in (ROWS[:6], ROWS):
        source = write(tmp_path / "texts.jsonl", rows)
        cfg = settings(tmp_path, source=source, length=32, vocabulary=300)
        data.prepare(cfg)
        splits = data.open_splits(cfg)
        assert len(splits.train) + len(splits.val) == len(rows)
        names.add(splits.shape.names[-2])
    assert len(names) == 2, "a run goes on with tokens that its weights do not know"
    places = {data.prepared_path(cfg)}
    changes: list[dict[str, Any]] = [{"length": 16}, {"vocabulary": 310}, {"validation": 0.5}]
    changes += [{"split_seed": 1}, {"text": "a"}, {"label": "a"}, {"pretrained": "some/network"}]
    places |= {data.prepared_path(replace(cfg, **change)) for change in changes}
    os.utime(source, (1, 1))  # edited, and as long as before
    places.add(data.prepared_path(cfg))
    assert len(places) == len(changes) + 2, "what was prepared otherwise is read"


# {% include "parts/prepare/test_programs.py" %}


def test_validation_teaches_the_tokenizer_nothing(tmp_path: Path) -> None:
    """Its words follow from the training texts alone."""
    (folder := tmp_path / "texts").mkdir()
    write(folder / "train.csv", ROWS)
    found = []
    for word in ("giraffe", "tricycle"):
        write(folder / "val.csv", [(f"{word} {word} {word}", label) for label in ("yes", "no")])
        cfg = settings(tmp_path, source=str(folder), length=32, vocabulary=400)
        data.prepare(cfg)
        found.append((data.prepared_path(cfg) / "tokenizer" / "tokenizer.json").read_text())
    assert found[0] == found[1], "the tokenizer has seen what is held out"


def test_folder_of_splits(tmp_path: Path) -> None:
    """train.* and val.* are taken as they are, in whatever format."""
    folder = tmp_path / "texts"
    folder.mkdir()
    write(folder / "train.csv", ROWS)
    write(folder / "val.jsonl", [*ROWS[3:5], ("Nine", "zero or one")])
    cfg = settings(tmp_path, source=str(folder), length=32, vocabulary=300)
    data.prepare(cfg)
    splits = data.open_splits(cfg)
    assert texts(splits.train, cfg) == expected(ROWS)
    # A class that training has no text of is a class, too.
    assert texts(splits.val, cfg) == [*expected(ROWS[3:5]), ("nine", 2)]
    again, untaught = str(splits.shape).split("; ")[1:]
    assert again == "2 of the 3 texts held out are for training, too"
    assert untaught == "no text for training is 'zero or one'"
    write(folder / "val.jsonl", ROWS[4:5])
    data.prepare(cfg)
    assert "; no text held out is 'yes'" in str(data.open_splits(cfg).shape)


def test_file_that_holds_nothing_out(tmp_path: Path) -> None:
    """No texts of the training take the place of those that are missing."""
    (folder := tmp_path / "texts").mkdir()
    write(folder / "train.csv", ROWS)
    write(folder / "val.csv", [])
    with pytest.raises(config.ConfigError, match="8 texts for training and 0 for validation"):
        data.prepare(settings(tmp_path, source=str(folder), length=32, vocabulary=300))


def test_folder_as_the_hub_has_it(tmp_path: Path) -> None:
    """All files of a split count, validation or not; those of the test split never."""
    folder = tmp_path / "texts"
    write(folder / "data/train-00000-of-00002.parquet", ROWS[:3])
    write(folder / "data/train-00001-of-00002.parquet", ROWS[3:])
    write(folder / "data/test-00000-of-00001.parquet", [("Nine", "yes"), ("Ten", "no")])
    cfg = settings(tmp_path, source=str(folder), length=32, vocabulary=300, validation=0.25)
    data.prepare(cfg)
    splits = data.open_splits(cfg)
    assert sorted(texts(splits.train, cfg) + texts(splits.val, cfg)) == sorted(expected(ROWS))
    (folder / "validation.csv").write_text("text,label\nNine,yes\nTen,no\n")
    cfg = replace(cfg, folder=str(folder))  # what is prepared lies beside the files
    data.prepare(cfg)
    splits = data.open_splits(cfg)
    assert splits.shape.labels == ["no", "yes"]
    assert len(splits.train) == len(ROWS)
    assert len(splits.val) == 2


def test_order_of_files_is_that_of_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nodes list folders in orders of their own, and have to read the same."""
    for number, part in enumerate((ROWS[:3], ROWS[3:5], ROWS[5:])):
        write(tmp_path / f"texts/data/train-0000{number}-of-00003.parquet", part)
    glob, found = Path.glob, []
    for end in (False, True):
        monkeypatch.setattr(
            Path, "glob", lambda path, name, end=end: iter(sorted(glob(path, name), reverse=end))
        )
        (folder := tmp_path / str(end)).mkdir()
        cfg = settings(folder, source=str(tmp_path / "texts"), length=32, vocabulary=300)
        data.prepare(cfg)
        found.append(data.open_splits(cfg).train.inputs)
    assert found[0].equal(found[1]), "nodes have other rows"


def test_row_of_parquet_without_a_class(tmp_path: Path) -> None:
    """-1 stands for none, and is not the last of the names."""
    path = Path(write(tmp_path / "texts.parquet", ROWS))
    table = parquet.read_table(path)
    parquet.write_table(table.set_column(1, "label", pa.array([0, 1, -1, *[0] * 5])), path)
    with pytest.raises(config.ConfigError, match="record 3 has no 'label'"):
        data.prepare(settings(tmp_path, source=str(path), length=32, vocabulary=300))


def test_column_that_is_missing(tmp_path: Path) -> None:
    """The message names the columns that there are."""
    source = write(tmp_path / "texts.csv", ROWS)
    cfg = settings(tmp_path, source=source, text="sentence")
    with pytest.raises(config.ConfigError, match=r"'label', 'text'.*set data\.text"):
        data.prepare(cfg)


@pytest.mark.parametrize("name", ["val.csv", "valid.CSV", "validation.csv", "dev.csv"])
def test_names_of_validation(name: str, tmp_path: Path) -> None:
    """A file under any of the usual names is held out."""
    (folder := tmp_path / "texts").mkdir()
    write(folder / "train.csv", ROWS)
    write(folder / name, ROWS[3:5])
    cfg = settings(tmp_path, source=str(folder), length=32, vocabulary=300)
    data.prepare(cfg)
    splits = data.open_splits(cfg)
    assert (len(splits.train), len(splits.val)) == (len(ROWS), 2)


MISREAD = {
    "surplus.csv": ("text,label\nOne,no\nGood, but,yes\n", "record 2 has 3 cells.*in quotes"),
    "open.tsv": ('text\tlabel\nOne\tno\n"Two\tyes\nSix\tno\n', "record 2.*quotation mark"),
    "marks.tsv": ('text\tlabel\n"One\tno\n"Two\tyes\nSix\tno\n', "record 1.*quotation mark"),
    "twice.csv": ("text,label,label\nOne,no,a\n", "two columns are called 'label'"),
    "short.csv": ("text,label,more\nOne,no\n", r"record 1 has 2 cells, the first line has 3"),
    "line.jsonl": ('{"text": "One", "label": 1}\n\n{"text": "T\n', "line 3 is no JSON from col"),
    "half.jsonl": ('{"text": "\\ud83d", "label": 1}\n', "line 1 has half of a character"),
    "several.jsonl": ('{"text": "One", "label": ["a", "b"]}\n', r"\['a', 'b'\].*one label per"),
    "turns.jsonl": ('{"text": ["One"], "label": "a"}\n', r"\['One'\] in 'text'.*one text"),
    "null.jsonl": ('{"text": null, "label": "a"}\n', "record 1 has no 'text': that is null"),
    "nan.csv": ("text,label\nOne,no\nTwo,nan\n", "record 2 has an empty 'label', written 'nan'"),
    "empty.csv": ("", "has 0 texts"),
    "rows.xlsx": ("PK", "neither 'stdlib' nor a .csv, .tsv"),
}


@pytest.mark.parametrize("name", MISREAD)
def test_records_that_would_be_misread(name: str, tmp_path: Path) -> None:
    """Commas without quotes shift labels, open quotes swallow rows, several labels are no class."""
    content, reason = MISREAD[name]
    (tmp_path / name).write_text(content)
    with pytest.raises(config.ConfigError, match=f"{name}.*{reason}"):
        data.prepare(settings(tmp_path, source=str(tmp_path / name)))


def test_labels_are_classes(tmp_path: Path) -> None:
    """A score or a number of each text of its own says nothing about other texts."""
    source = write(tmp_path / "scores.csv", [("One", "0.1"), ("Two", "0.2"), ("Six", "0.3")])
    with pytest.raises(config.ConfigError, match=r"'label' has 3 different labels in 3 texts"):
        data.prepare(settings(tmp_path, source=source))
    source = write(tmp_path / "two.csv", [("One", "odd"), ("Two", "even"), ("Six", "even")])
    data.prepare(settings(tmp_path, source=source))  # few texts are no mistake


def test_long_texts_are_read(tmp_path: Path) -> None:
    """Those beyond the limit that Python's reader begins with."""
    source = write(tmp_path / "texts.csv", [*ROWS, ("word " * 40_000, "yes")])
    rows = data.read_table(Path(source), ["text", "label"])
    assert len(rows[-1]["text"]) == 200_000


def prepare_few(folder: Path) -> tuple[Tensor, Tensor]:
    """Few docstrings; returns tokens for training and targets for validation."""
    folder.mkdir()
    few = {topic: modules.split()[2] for topic, modules in data.TOPICS.items()}  # short modules
    few |= {"text": "logging"}  # which has several files
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data, "TOPICS", few)
        data.prepare(cfg := settings(folder))
    splits = data.open_splits(cfg)
    assert splits.shape.labels == sorted(few), "a set has another order on each node"
    return splits.train.inputs, splits.val.targets


def test_preparation_repeats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each node prepares for itself, so tokenizer and tokens must come out alike."""
    (there,) = processes.run(1, prepare_few, tmp_path / "there")  # its sets have another order
    listed = Path.rglob  # and its disk lists files in another one
    monkeypatch.setattr(Path, "rglob", lambda *given: sorted(listed(*given), reverse=True))
    torch.testing.assert_close(there, prepare_few(tmp_path / "here"), rtol=0, atol=0)


def test_padding_changes_nothing(tmp_path: Path) -> None:
    """The model does not look at what fills a text up."""
    cfg = common.settings(tmp_path)
    # Not 0, as for many pretrained networks.
    shape = replace(data.open_splits(cfg.data).shape, padding=3)
    network = model.build(cfg.model, shape).double().eval()  # new weights change little
    ids = torch.randint(5, shape.vocabulary, (2, 8))
    padded = torch.nn.functional.pad(ids, (0, 4), value=shape.padding)
    torch.testing.assert_close(network(padded), network(ids))


def save_pretrained(folder: Path, labels: list[str], **changes: Any) -> Any:
    """A small RoBERTa in bfloat16 with dropout and a head for labels, and a tokenizer."""
    tokenizer = data.train_tokenizer([text for text, _ in ROWS], 300)
    tokenizer.save_pretrained(folder)
    path = folder / "tokenizer_config.json"
    about = json.loads(path.read_text()) | {"padding_side": "left"}  # as decoders have
    path.write_text(json.dumps(about))
    size = transformers.RobertaConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=3,
        num_attention_heads=2,
        max_position_embeddings=34,
        pad_token_id=tokenizer.pad_token_id,
        classifier_dropout=0.5,
        id2label=dict(enumerate(labels)),
        **changes,
    )
    network: Any = transformers.RobertaForSequenceClassification(size)
    network.to(torch.bfloat16).save_pretrained(folder)
    return network


def fine_tuned(folder: Path, labels: list[str], **changes: Any) -> tuple[data.Splits, Any, Any]:
    """The data of a run that begins with a checkpoint for `labels`; its network and the other."""
    source = write(folder / "texts.csv", ROWS)
    network = save_pretrained(folder / "checkpoint", labels, **changes)
    cfg = settings(folder, source=source, length=33, pretrained=str(folder / "checkpoint"))
    data.prepare(cfg)
    splits = data.open_splits(cfg)
    first = splits.train.__getitems__([0]).inputs[0, 0]
    assert first != splits.shape.padding, "padding before a text moves it to other positions"
    return splits, model.build(common.settings(folder).model, splits.shape), network


def test_pretrained_network(tmp_path: Path) -> None:
    """By path: tokenizer, weights in float32, head and the order of its classes are taken over."""
    splits, network, pretrained = fine_tuned(tmp_path, ["yes", "no"])
    assert splits.shape.labels == ["yes", "no"]
    assert "the pretrained head is kept" in str(splits.shape)
    batch = splits.train.__getitems__(list(range(len(splits.train))))
    said = texts(splits.train, settings(tmp_path, length=33))
    assert all(text.startswith("hesaid") == (label == 0) for text, label in said)
    mask = (batch.inputs != splits.shape.padding).long()
    expected = pretrained.float().eval()(batch.inputs, attention_mask=mask).logits
    assert all(part.training for part in network.modules()), "dropout would be off"
    torch.testing.assert_close(network.eval()(batch.inputs), expected)
    model.loss_sum(network(batch.inputs), batch.targets).backward()
    assert all(weight.grad is not None for weight in network.parameters())


def test_network_waits_for_no_gradient(tmp_path: Path) -> None:
    """{{ "No layer is skipped by chance, and parts for other tasks are not trained" if sharded else "DDP would: for those of layers that are skipped by chance, and of parts for other tasks" }}."""
    for_another_task = {"is_decoder": True, "add_cross_attention": True}
    splits, network, _ = fine_tuned(tmp_path, ["no", "yes"], layerdrop=0.5, **for_another_task)
    assert network.inner.config.layerdrop == 0, "skips layers"
    batch = splits.train.__getitems__([0, 1])
    model.loss_sum(network(batch.inputs), batch.targets).backward()
    trained = [weight for weight in network.parameters() if weight.requires_grad]
    assert all(weight.grad is not None for weight in trained), "trained, and not used"
    assert len(trained) < len(list(network.parameters())), "the test shows nothing"


@pytest.mark.parametrize("labels", [["bad", "good"], ["a", "b", "c"]])
def test_head_for_other_classes_is_new(tmp_path: Path, labels: list[str]) -> None:
    """Whatever their number is; the rest is taken over, and the run says so."""
    splits, network, pretrained = fine_tuned(tmp_path, labels)
    assert splits.shape.labels == ["no", "yes"]
    assert f"the head is new, the pretrained head is for {', '.join(labels)}" in str(splits.shape)
    found, before = network.inner.state_dict(), pretrained.float().state_dict()
    equal = {name for name in before if found[name].equal(before[name])}
    new = {"classifier.out_proj.weight", "classifier.out_proj.bias"}
    assert before.keys() - equal == new


def rename(folder: Path, before: str, after: str) -> data.Shape:
    """Write the weights of a checkpoint under other names; the shape that a run has with them."""
    splits, _, _ = fine_tuned(folder, ["bad", "good"])
    path = folder / "checkpoint" / "model.safetensors"
    weights = safetensors.torch.load_file(path)
    renamed = {name.replace(before, after, 1): weight for name, weight in weights.items()}
    safetensors.torch.save_file(renamed, path, {"format": "pt"})
    return splits.shape


@pytest.mark.parametrize("other", ["module.roberta.", "roberta.old_"])
def test_weights_of_other_names_are_no_pretrained_network(tmp_path: Path, other: str) -> None:
    """As DDP names them: all weights would be drawn, without a word."""
    shape = rename(tmp_path, "roberta.", other)
    with pytest.raises(config.ConfigError, match=rf"no weights that fit for .*, but for {other}"):
        model.build(common.settings(tmp_path).model, shape)


def test_weights_of_another_size_are_named(tmp_path: Path) -> None:
    """As of a config.json from another network; transformers says no name."""
    splits, _, _ = fine_tuned(tmp_path, ["yes", "no"])
    path = tmp_path / "checkpoint" / "config.json"
    about = json.loads(path.read_text())
    path.write_text(json.dumps(about | {"intermediate_size": 2 * about["intermediate_size"]}))
    with pytest.raises(config.ConfigError, match=r"no weights that fit for roberta\."):
        model.build(common.settings(tmp_path).model, splits.shape)


def test_layers_that_the_config_leaves_out_are_named(tmp_path: Path) -> None:
    """The network would be a smaller network, without a word."""
    splits, _, _ = fine_tuned(tmp_path, ["yes", "no"])
    path = tmp_path / "checkpoint" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"num_hidden_layers": 2}))
    with pytest.raises(config.ConfigError, match=r"has weights for .*layer\.2\."):
        model.build(common.settings(tmp_path).model, splits.shape)


def test_adapters_are_no_networks(tmp_path: Path) -> None:
    """Such as those that LoRA leaves: transformers would add their weights to the network's."""
    fine_tuned(tmp_path, ["yes", "no"])
    (tmp_path / "checkpoint" / "adapter_config.json").write_text("{}")
    source, network = write(tmp_path / "texts.csv", ROWS), str(tmp_path / "checkpoint")
    with pytest.raises(config.ConfigError, match="holds an adapter"):
        data.prepare(settings(tmp_path, source=source, length=33, pretrained=network))


def test_texts_that_are_bytes(tmp_path: Path) -> None:
    """As Spark and Impala write them into Parquet."""
    columns = {"text": [b"caf\xc3\xa9", b"b"], "label": [b"x", b"y"], "image": [b"\xff", b""]}
    parquet.write_table(pa.table(columns), tmp_path / "rows.PARQUET")
    rows = data.read_table(tmp_path / "rows.PARQUET", ["text", "label"])
    assert [(row["text"], row["label"]) for row in rows] == [("café", "x"), ("b", "y")]


def test_a_head_that_is_replaced_may_be_missing(tmp_path: Path) -> None:
    """Networks that filled in words before have another."""
    shape = rename(tmp_path, "classifier.", "lm_head.")
    model.build(common.settings(tmp_path).model, shape)
    with pytest.raises(config.ConfigError, match=r"no weights that fit for classifier\."):
        model.build(common.settings(tmp_path).model, replace(shape, before=shape.labels))


def test_node_without_the_network_fetches_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nodes may share the data and not the cache; what ranks open is on their own node."""
    save_pretrained(tmp_path / "origin", ["no", "yes"])
    source = write(tmp_path / "texts.csv", ROWS)
    cfg = settings(tmp_path, source=source, length=33, pretrained="some/model")
    shape = hub.of_another_node(monkeypatch, tmp_path / "origin", cfg)
    model.build(common.settings(tmp_path).model, shape)


def test_network_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The data's preparation fetches the model; the ranks open this node's copy, by its path."""
    cache = tmp_path / "hub"
    save_pretrained(cache / "models--some--model" / "snapshots" / hub.REVISION, ["no", "yes"])
    (cache / "models--some--model" / "refs").mkdir()
    (cache / "models--some--model" / "refs" / "main").write_text(hub.REVISION)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(cache))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    source = write(tmp_path / "texts.csv", ROWS)
    cfg = settings(tmp_path, source=source, pretrained="some/model")
    data.prepare(cfg)
    shape = data.open_splits(cfg).shape
    assert shape.weights == str(cache / "models--some--model" / "snapshots" / hub.REVISION)
    model.build(common.settings(tmp_path).model, shape)
    cache.rename(tmp_path / "elsewhere")
    with pytest.raises(config.ConfigError, match="the pretrained network is gone"):
        data.open_splits(cfg)


@pytest.mark.parametrize("name", ["texts.csv", "texts.jsonl"])
def test_fault_of_the_disk_is_no_damaged_file(name: str, tmp_path: Path) -> None:
    """Such an error is raised as an error, after which launchers start the run again."""
    (tmp_path / name).symlink_to(FAULTY)
    with pytest.raises(OSError, match="Input/output error"):
        data.read_table(tmp_path / name, ["text"])


def test_texts_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    """Before anything is prepared, with the number that would be right."""
    source = write(tmp_path / "texts.csv", ROWS)
    save_pretrained(tmp_path / "good", ["no", "yes"])
    save_pretrained(tmp_path / "narrow", ["no", "yes"])
    tokenizer = data.train_tokenizer([text * 3 for text, _ in ROWS], 310)
    tokenizer.add_tokens([text for text, _ in ROWS])
    tokenizer.save_pretrained(tmp_path / "narrow")
    transformers.FNetConfig().save_pretrained(tmp_path / "mixing")
    tokenizer.save_pretrained(tmp_path / "mixing")
    tokenizer.pad_token = None
    tokenizer.save_pretrained(tmp_path / "endless")
    transformers.GPT2Config().save_pretrained(tmp_path / "endless")
    wrong: dict[str, dict[str, Any]] = {
        r"data\.length = 1 must be at least 2": {"length": 1, "pretrained": ""},
        r"the model has 33 positions, data\.length is 34": {"length": 34, "pretrained": "good"},
        r"the texts have the token .* \(\d+\), and the model knows \d+: call resize": {
            "pretrained": "narrow"
        },
        "FNetForSequenceClassification cannot leave padding out": {"pretrained": "mixing"},
        "no token for padding": {"pretrained": "endless"},
        "is no folder, and cannot be fetched": {"pretrained": "absent/model/name"},
    }
    for reason, changes in wrong.items():
        folder = tmp_path / str(changes["pretrained"])
        if changes["pretrained"] and folder.is_dir():
            changes["pretrained"] = str(folder)
        with pytest.raises(config.ConfigError, match=reason):
            data.prepare(settings(tmp_path, **{"source": source, "length": 16, **changes}))
    assert not [*tmp_path.glob("*.partial")]


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([*ROWS, ("Ten", " ")], rf"record {len(ROWS) + 1} has an empty 'label'"),
        ([(text, "same") for text, _ in ROWS], "names one class only: 'same'"),
    ],
)
def test_labels_that_tell_nothing(rows: list[tuple[str, str]], reason: str, tmp_path: Path) -> None:
    """A gap would be a class of its own."""
    source = write(tmp_path / "texts.csv", rows)
    with pytest.raises(config.ConfigError, match=reason):
        data.prepare(settings(tmp_path, source=source, length=32, vocabulary=300))


def test_labels_of_several_classes_are_said(tmp_path: Path) -> None:
    """Nothing would be learnt of `sad` from a text that is `calm, sad`."""
    labels = ("calm", "sad", "calm, sad")
    rows = [(text, labels[n % 3]) for n, (text, _) in enumerate(ROWS)]
    cfg = settings(tmp_path, source=write(tmp_path / "texts.csv", rows))
    data.prepare(cfg)
    said = "; 'calm, sad' is a class of its own: a text has one class"
    assert said in str(data.open_splits(cfg).shape)


@pytest.mark.parametrize("alike", [("No", "no "), ("V1", "v1")])
def test_labels_that_look_alike_are_said(alike: tuple[str, str], tmp_path: Path) -> None:
    """They are rather one class, written in several ways; an empty text teaches nothing."""
    rows = [(text, alike[n % 2]) for n, (text, _) in enumerate(ROWS)]
    cfg = settings(tmp_path, source=write(tmp_path / "texts.csv", [*rows, ("", alike[0])]))
    data.prepare(cfg)
    said = str(data.open_splits(cfg).shape)
    assert f"; empty texts: 1; {' and '.join(map(repr, alike))} are different classes" in said


SPELLINGS = [
    ("1", "0", "1.0", "0.0"),
    ("True", "False", "true", "FALSE"),
    ("1", "v1.0", "1", "v1.0"),
]


@pytest.mark.parametrize("labels", SPELLINGS)
def test_labels_are_the_same_in_all_files(labels: tuple[str, ...], tmp_path: Path) -> None:
    """A program writes floats where a cell was empty, and each has its own words for bools."""
    (folder := tmp_path / "texts").mkdir()
    for name, some in {"train.csv": labels[:2], "val.csv": labels[2:]}.items():
        write(folder / name, [(text, some[n % 2]) for n, (text, _) in enumerate(ROWS)])
    cfg = settings(tmp_path, source=str(folder), length=32, vocabulary=300)
    data.prepare(cfg)
    train, val, shape = data.open_splits(cfg)
    assert shape.classes == 2
    assert train.targets.equal(val.targets)


def test_labels_that_may_stand_for_none_are_said(tmp_path: Path) -> None:
    """R writes NA for a cell without a value, and others for North America."""
    rows = [(text, ("NA", "EU")[n % 2]) for n, (text, _) in enumerate(ROWS)]
    cfg = settings(tmp_path, source=write(tmp_path / "texts.csv", rows))
    data.prepare(cfg)
    said = "; 'NA' is a class: leave the texts out if they have no label"
    assert said in str(data.open_splits(cfg).shape)


def test_folder_in_the_place_of_a_file_holds_no_texts(tmp_path: Path) -> None:
    """As programs that write in parts leave them: no traceback."""
    (tmp_path / "texts/train.csv").mkdir(parents=True)
    with pytest.raises(config.ConfigError, match=r"holds no file called train\.csv"):
        data.prepare(settings(tmp_path, source=str(tmp_path / "texts")))


@pytest.mark.parametrize("noted", [None, 5])
def test_decoders_know_the_padding_of_the_tokenizer(noted: int | None, tmp_path: Path) -> None:
    """Their own config often has none, or another; they classify by the last token before it."""
    save_pretrained(tmp_path / "small", ["no", "yes"])
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "small")
    size = transformers.GPT2Config(
        vocab_size=len(tokenizer), n_embd=16, n_layer=1, n_head=2, pad_token_id=noted
    )
    transformers.GPT2ForSequenceClassification(size).save_pretrained(tmp_path / "small")
    source = write(tmp_path / "texts.csv", ROWS)
    chosen = str(tmp_path / "small")
    cfg = replace(settings(tmp_path), source=source, pretrained=chosen, length=32)
    data.prepare(cfg)
    train, _, shape = data.open_splits(cfg)
    network = model.build(common.settings(tmp_path).model, shape).eval()
    batch = train.__getitems__([0, 1])
    long = int((batch.inputs[0] != shape.padding).sum())
    with torch.no_grad():
        together = network(batch.inputs)[:1]
        assert torch.allclose(together, network(batch.inputs[:1, :long]), atol=1e-5)
