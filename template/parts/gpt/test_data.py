"""Tokens from text files, folders and token files, and the stream that shares them out."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader

import config
import corpus
import data
import model
from support import common


def settings(folder: Path, **changes: Any) -> config.Data:
    """The small data config, with what is prepared in `folder`."""
    cfg = common.settings(folder, "data.validation=0.05").data
    return replace(cfg, folder=str(folder), **changes)


def whole(tokens: corpus.Tokens) -> list[int]:
    """Every token of a split."""
    read: list[int] = tokens.read(torch.arange(len(tokens))).tolist()
    return read


def write(path: Path, tokens: torch.Tensor, dtype: str) -> Path:
    """A file of tokens."""
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(bytes(tokens.to(getattr(torch, dtype)).view(torch.uint8).tolist()))
    return path


def prepared(folder: Path, **changes: Any) -> tuple[list[int], list[int]]:
    """The tokens of both splits."""
    cfg = settings(folder, **{"vocabulary": 50_000, "window": 2, **changes})
    data.prepare(cfg)
    splits = data.open_splits(cfg)
    return whole(splits.train.tokens), whole(splits.val.tokens)


def test_prepared_data_appear_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under their final name other ranks find all of them, or nothing yet."""
    (tmp_path / "book.txt").write_text("a word, " * 300)
    cfg = settings(tmp_path, source=str(tmp_path / "book.txt"), validation=0.1)
    monkeypatch.setattr(os, "replace", lambda *_: None)  # as if the process ended just before
    data.prepare(cfg)
    assert not data.prepared_path(cfg).exists(), "half written, and taken for whole"


def test_text_file_is_divided_at_its_end(tmp_path: Path) -> None:
    """A single file: the last part is held out, and nothing is lost or read twice."""
    text = bytes(range(32, 127)) * 20
    (tmp_path / "book.txt").write_bytes(text)
    cfg = settings(tmp_path, source=str(tmp_path / "book.txt"), validation=0.1)
    data.prepare(cfg)
    splits = data.open_splits(cfg)
    read = [bytes(whole(part)) for part in (splits.train.tokens, splits.val.tokens)]
    assert b"".join(read) == text
    assert len(read[1]) == 190


def test_edited_text_is_read_anew(tmp_path: Path) -> None:
    """What was prepared from the text before does not count any more."""
    path = tmp_path / "book.txt"
    cfg = settings(tmp_path, source=str(path), validation=0.5)
    for text in ("one " * 300, "two " * 300):
        path.write_text(text)
        data.prepare(cfg)
        assert bytes(whole(data.open_splits(cfg).train.tokens)).decode() == text[:600]


def test_folder_holds_out_whole_files(tmp_path: Path) -> None:
    """Files go to one split or the other, and only those that match the pattern."""
    for name in range(10):
        (tmp_path / "texts" / str(name)).mkdir(parents=True)
        (tmp_path / "texts" / str(name) / "a.txt").write_text(f"{name}" * 100)
    (tmp_path / "texts" / "notes.md").write_text("x" * 100)
    cfg = settings(tmp_path, source=str(tmp_path / "texts"), validation=0.3)
    data.prepare(cfg)
    splits = data.open_splits(cfg)
    train, val = (set(whole(part)) for part in (splits.train.tokens, splits.val.tokens))
    assert (len(train), len(val)) == (7, 3)
    assert train.isdisjoint(val)
    assert bytes(sorted(train | val)) == b"0123456789"


DTYPES = ["uint8", "uint16", "uint32", "int16", "int32", "int64"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_token_file_is_read_where_it_lies(tmp_path: Path, dtype: str) -> None:
    """Tokens of every type come back as they were written, and no copy is made."""
    tokens = torch.arange(1, 1001) % 250 * (1 if dtype == "uint8" else 100) + 1
    path = write(tmp_path / "tokens.bin", tokens, dtype)
    cfg = settings(tmp_path, source=str(path), token_dtype=dtype, vocabulary=25_001)
    data.prepare(cfg)
    splits = data.open_splits(cfg)
    assert [path] == list(tmp_path.rglob("*.bin"))
    assert len(splits.val.tokens) == 50
    assert whole(splits.train.tokens) + whole(splits.val.tokens) == tokens.tolist()
    batch = splits.val.__getitems__([0])
    assert torch.equal(batch.inputs[0], tokens[950 : 950 + cfg.window])
    assert torch.equal(batch.targets[0], tokens[951 : 951 + cfg.window])
    path.write_bytes(bytes(path.stat().st_size))
    assert whole(splits.val.tokens) == [0] * 50, "each rank and worker holds a copy of the file"


@pytest.mark.parametrize("dtype", DTYPES)
def test_shards_are_one_stream(tmp_path: Path, dtype: str, monkeypatch: Any) -> None:
    """Windows run across the files of a folder, as their names order them; its end is held out."""
    glob = Path.glob  # a file system lists them in an order of its own
    monkeypatch.setattr(Path, "glob", lambda *given: sorted(glob(*given), reverse=True))
    tokens = torch.randint(1, 120, (1000,))
    for number, part in enumerate(tokens.split([300, 1, 99, 500, 100])):
        write(tmp_path / "shards" / f"{number:03d}.bin", part, dtype)
    folder = str(tmp_path / "shards")
    train, val = prepared(tmp_path, source=folder, token_dtype=dtype, validation=0.3)
    assert (train, val) == (tokens[:700].tolist(), tokens[700:].tolist())
    cfg = settings(tmp_path, source=folder, token_dtype=dtype, validation=0.3, vocabulary=50_000)
    stream = data.open_splits(replace(cfg, window=2)).train.tokens
    places = torch.tensor([[298, 299, 300, 301, 302], [699, 0, 400, 399, 1]])
    assert torch.equal(stream.read(places), tokens[places])


def test_texts_of_a_folder_are_divided_alike_everywhere(tmp_path: Path, monkeypatch: Any) -> None:
    """Each node prepares for itself, and each disk lists the files in an order of its own."""
    for number in range(9):
        (tmp_path / "texts" / f"{number}").mkdir(parents=True)
        (tmp_path / "texts" / f"{number}" / "a.txt").write_text(f"{number} " * 40)
    cfg = settings(tmp_path, source=str(tmp_path / "texts"), pattern="**/*.txt")
    found, glob = [], Path.glob
    for turned in (False, True):
        monkeypatch.setattr(
            Path, "glob", lambda *given, turned=turned: sorted(glob(*given), reverse=turned)
        )
        found.append(corpus.find_files(cfg))
    assert found[0] == found[1], "what one node holds out, another one trains on"
    assert found[0] != sorted(found[0]), "the last folder by name would be held out"


def test_a_token_too_large_is_found_anywhere(tmp_path: Path, monkeypatch: Any) -> None:
    """At the end of a large file, too: a GPU would stop in the middle of the training."""
    monkeypatch.setattr(corpus, "BLOCK", 2)
    write(tmp_path / "train.bin", torch.tensor([1] * 400 + [101]), "uint16")
    source = str(tmp_path / "train.bin")
    cfg = settings(tmp_path, source=source, token_dtype="uint16", vocabulary=100)
    with pytest.raises(config.ConfigError, match="the token 101"):
        data.prepare(cfg)


@pytest.mark.parametrize(
    "names",
    [
        ["train", "val"],
        ["a_train_000", "a_train_001", "a_val_000"],
        ["0", "validation"],
        ["train", "dev"],
    ],
)
def test_files_for_validation_are_known_by_name(tmp_path: Path, names: list[str]) -> None:
    """As nanoGPT has them; files for a test are in neither split."""
    tokens = {name: torch.full((60,), number) for number, name in enumerate(names, start=1)}
    for name, part in {**tokens, "test": torch.zeros(9)}.items():
        write(tmp_path / "shards" / f"{name}.bin", part, "uint16")
    train, val = prepared(tmp_path, source=str(tmp_path / "shards"), token_dtype="uint16")
    assert train == [number for number in range(1, len(names)) for _ in range(60)]
    assert val == [len(names)] * 60


def test_files_for_a_test_are_never_trained_on(tmp_path: Path) -> None:
    """Also where no file is for validation: the end of the others is held out then."""
    for name in ("train_0", "testing", "train_1"):
        tokens = torch.full((60,), 9 if name == "testing" else 1)
        write(tmp_path / "shards" / f"{name}.bin", tokens, "uint16")
    train, val = prepared(tmp_path, source=str(tmp_path / "shards"), token_dtype="uint16")
    assert {*train, *val} == {1}


def letters(folder: Path, texts: dict[str, str]) -> tuple[set[str], set[str]]:
    """The letters of which the splits consist, where each text repeats its own."""
    for name, letter in texts.items():
        (folder / "texts" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "texts" / name).write_text(letter * 100)
    cfg = settings(folder, source=str(folder / "texts"), pattern="**/*.txt")
    data.prepare(cfg)
    splits = data.open_splits(cfg)
    train, val = (bytes(whole(part)).decode() for part in (splits.train.tokens, splits.val.tokens))
    return set(train), set(val)


@pytest.mark.parametrize(
    "texts",
    [
        {"wiki.train.txt": "t", "wiki.valid.txt": "v", "wiki.test.txt": "-"},
        {"train/0.txt": "t", "train/test.txt": "t", "dev/0.txt": "v", "dev/1.txt": "v"},
    ],
)
def test_splits_of_texts_are_known_by_name(tmp_path: Path, texts: dict[str, str]) -> None:
    """By the names of files, or of folders; files for a test are in neither split."""
    assert letters(tmp_path, texts) == ({"t"}, {"v"})


def test_texts_for_a_test_are_left_out_without_others_for_validation(tmp_path: Path) -> None:
    """What is held out is drawn from the texts for training then."""
    train, val = letters(tmp_path, {"train/0.txt": "a", "train/1.txt": "b", "test/0.txt": "c"})
    assert train | val == {"a", "b"}
    assert train.isdisjoint(val)


def test_names_divide_no_texts_where_others_have_other_names(tmp_path: Path) -> None:
    """Such a text may be about a test."""
    texts = {"train.txt": "a", "test.txt": "b", "val.txt": "c", "notes.txt": "d"}
    train, val = letters(tmp_path, texts)
    assert train | val == {*"abcd"}


REFUSED = {
    "uint8": "the token 200, but data.vocabulary = 100, read as uint8",
    "uint16": "which are no numbers of type uint16",
    "absent": "there is no such file or folder",
}


@pytest.mark.parametrize("how", REFUSED)
def test_tokens_that_do_not_fit_are_named(tmp_path: Path, how: str) -> None:
    """Before the first step, instead of aborting the GPU."""
    path = write(tmp_path / "tokens.bin", torch.arange(201), "uint8")
    source = str(path) + (how if how == "absent" else "")
    cfg = settings(tmp_path, source=source, token_dtype=how, vocabulary=100)
    with pytest.raises(config.ConfigError, match=REFUSED[how]) as error:
        data.prepare(cfg)
    assert "tokens.bin" in str(error.value)


@pytest.mark.parametrize("dtype", ["uint16", "uint32", "int64"])
def test_narrower_type_is_noticed(tmp_path: Path, dtype: str) -> None:
    """Half of each number would be a token of its own, and all fit into the vocabulary."""
    path = write(tmp_path / "tokens.bin", torch.randint(1, 200, (500,)), dtype)
    half = {"uint16": "uint8", "uint32": "uint16", "int64": "int32"}[dtype]
    with pytest.raises(config.ConfigError, match="every second number is 0"):
        data.prepare(settings(tmp_path, source=str(path), token_dtype=half))


@pytest.mark.parametrize("content", [b"PK\x03\x04\xff", b"\x93NUMPY", b"caf\xe9", b"{}\0\0"])
@pytest.mark.parametrize("by", ["bytes", "tokenizer"])
def test_files_that_are_no_texts_are_refused(by: str, content: bytes, tmp_path: Path) -> None:
    """By name: a model would learn what no text has."""
    (tmp_path / "a.txt").write_text("a word, " * 300)
    (tmp_path / "b.txt").write_bytes(b"text " * 99 + content)
    changes: dict[str, Any] = {"source": str(tmp_path), "vocabulary": 400}
    if by == "tokenizer":
        make_tokenizer(tmp_path)
        changes["tokenizer"] = str(tmp_path / "tokenizer.json")
    with pytest.raises(config.ConfigError, match=r"b\.txt is no text in UTF-8"):
        data.prepare(settings(tmp_path, **changes))


def test_records_are_no_text(tmp_path: Path) -> None:
    """As a file, and in a folder of files: the words say which project reads them."""
    for name in ("a.txt", "b.jsonl", "c.JSONL"):
        (tmp_path / name).write_text('{"text": "a word"}\n' * 300)
    for changes in ({"source": f"{tmp_path}/b.jsonl"}, {"source": str(tmp_path), "pattern": "*"}):
        with pytest.raises(config.ConfigError, match=r"(?i)\.jsonl has records.* model=causal-lm"):
            data.prepare(settings(tmp_path, **changes))
    (tmp_path / "d.json").write_text("[]")
    with pytest.raises(config.ConfigError, match=r"d\.json has records"):
        data.prepare(settings(tmp_path, source=f"{tmp_path}/d.json"))
    data.prepare(settings(tmp_path, source=str(tmp_path), pattern="?.[tj]*[tn]"))


@pytest.mark.parametrize(("magic", "dtype"), [(20240520, "uint16"), (20240801, "uint32")])
def test_header_of_a_shard_is_no_token(magic: int, dtype: str, tmp_path: Path) -> None:
    """Files of llm.c are known by their first number; those of other programs are refused."""
    header = torch.zeros(256, dtype=torch.int32)
    header[0], header[2] = magic, 1000
    path = write(tmp_path / "shards" / "1.bin", torch.arange(1000) + 40_000, dtype)
    path.write_bytes(bytes(header.view(torch.uint8).tolist()) + path.read_bytes())
    source = str(tmp_path / "shards")
    train, val = prepared(tmp_path, source=source, token_dtype=dtype)
    assert train + val == [40_000 + n for n in range(1000)]
    with pytest.raises(config.ConfigError, match=f"set data.token_dtype={dtype}"):
        prepared(tmp_path, source=source, token_dtype="uint8")
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(config.ConfigError, match=r"1\.bin has 9\d0 tokens.* says 1,000: fetch"):
        prepared(tmp_path, source=source, token_dtype=dtype)
    path.write_bytes(b"PK\x03\x04" + path.read_bytes())
    with pytest.raises(config.ConfigError, match="as no file of tokens does"):
        prepared(tmp_path, source=source, token_dtype=dtype)


@pytest.mark.parametrize("first", [0x0280, 0x8B1F])
def test_any_token_may_come_first(first: int, tmp_path: Path) -> None:
    """Its bytes begin pickles, or files of gzip: more than that is needed to refuse a file."""
    path = write(tmp_path / "tokens.bin", torch.tensor([first, *range(1, 400)]), "uint16")
    train, _ = prepared(tmp_path, source=str(path), token_dtype="uint16")
    assert train[0] == first


def test_edited_shards_are_read_anew(tmp_path: Path) -> None:
    """Another file in the folder, or other numbers in one, have another place."""
    folder = str(tmp_path / "shards")
    sizes: list[int] = []
    for name in ("0", "1", "1"):
        write(tmp_path / "shards" / f"{name}.bin", torch.arange(1, 101 + len(sizes)), "uint16")
        sizes.append(sum(map(len, prepared(tmp_path, source=folder, token_dtype="uint16"))))
    assert sizes == [100, 201, 202]


TEXTS = ["Every cat sleeps.\n\n" * 30, "A dog is awake.\n" * 40, "Caf\u00e9, \u6771\u4eac\n" * 20]


def make_tokenizer(folder: Path) -> tokenizers.Tokenizer:
    """A tokenizer of 300 tokens, in folder/tokenizer.json."""
    made = tokenizers.ByteLevelBPETokenizer()
    made.train_from_iterator(TEXTS, 300, show_progress=False, special_tokens=["<|end|>"])
    made.save(str(folder / "tokenizer.json"))
    return tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))


def test_texts_by_a_tokenizer(tmp_path: Path) -> None:
    """The tokens are those of the whole texts, with an end behind each, and mean the same."""
    tokenizer = make_tokenizer(tmp_path)
    (tmp_path / "texts").mkdir()
    for number, text in enumerate(TEXTS):
        (tmp_path / "texts" / f"{number}.txt").write_text(text, encoding="utf-8")
    read = prepared(
        tmp_path,
        source=str(tmp_path / "texts"),
        tokenizer=str(tmp_path / "tokenizer.json"),
        end_of_text="<|end|>",
        vocabulary=300,
    )
    texts = [tokenizer.encode(text + "<|end|>").ids for text in TEXTS]
    assert read[1] in texts
    assert sorted(read[0] + read[1]) == sorted(token for text in texts for token in text)
    assert tokenizer.decode(read[1]) in TEXTS


def test_long_texts_are_not_cut_off(tmp_path: Path) -> None:
    """Though many files of tokenizers say so, for the short texts they were made for."""
    tokenizer = make_tokenizer(tmp_path)
    ids = tokenizer.encode(TEXTS[0] * 9).ids
    (tmp_path / "book.txt").write_text(TEXTS[0] * 9, encoding="utf-8")
    path = str(tmp_path / "tokenizer.json")
    tokenizer.enable_truncation(16)
    tokenizer.enable_padding(length=8192, pad_id=7)
    tokenizer.save(path)
    read = prepared(tmp_path, source=str(tmp_path / "book.txt"), tokenizer=path, vocabulary=300)
    assert read[0] + read[1] == ids


@pytest.mark.parametrize("ending", ["txt", "bin"])
def test_hidden_copies_are_left_out(ending: str, tmp_path: Path) -> None:
    """A copy of a text would be in training and in validation."""
    texts = tmp_path / "texts"
    for folder in (texts, texts / ".ipynb_checkpoints", texts / "part" / ".trash" / "old"):
        folder.mkdir(parents=True)
        for number in range(4):
            (folder / f"{number}.{ending}").write_bytes(bytes([number + 1]) * 100)
    (texts / f"._0.{ending}").write_bytes(b"resources!" * 9)
    read = prepared(tmp_path, source=str(texts), token_dtype="uint8", validation=0.25)
    assert sorted(read[0] + read[1]) == [1] * 100 + [2] * 100 + [3] * 100 + [4] * 100


def test_tokenizer_that_does_not_fit(tmp_path: Path) -> None:
    """A vocabulary too small, an unknown end, a file that is none, a text that is none."""
    size = make_tokenizer(tmp_path).get_vocab_size()
    (tmp_path / "book.txt").write_bytes(b"caf\xe9 " * 100)
    source, tokenizer = str(tmp_path / "book.txt"), str(tmp_path / "tokenizer.json")
    wrong: dict[str, dict[str, Any]] = {
        f"has {size} tokens": {"vocabulary": size - 1},
        "'<eos>' is no token of": {"vocabulary": 300, "end_of_text": "<eos>"},
        r"book\.txt is no text in UTF-8": {"vocabulary": 300},
        "data.tokenizer = ": {"tokenizer": source},
    }
    for reason, changes in wrong.items():
        with pytest.raises(config.ConfigError, match=reason):
            data.prepare(settings(tmp_path, source=source, **{"tokenizer": tokenizer, **changes}))
    assert not [*tmp_path.glob("*.partial")]


def test_other_tokenizer_is_prepared_anew(tmp_path: Path) -> None:
    """What the tokenizer before has made does not count any more."""
    (tmp_path / "book.txt").write_text(TEXTS[0] * 9, encoding="utf-8")
    source, path = str(tmp_path / "book.txt"), str(tmp_path / "tokenizer.json")
    tokenizer = make_tokenizer(tmp_path)
    before = prepared(tmp_path, source=source, tokenizer=path, vocabulary=400)
    chosen: dict[str, Any] = {"source": source, "tokenizer": path, "vocabulary": 400}
    names = [data.open_splits(settings(tmp_path, **chosen)).shape.names[0]]
    tokenizer.add_tokens(["cat sleeps"])
    tokenizer.save(path)
    assert prepared(tmp_path, **chosen) != before
    names.append(data.open_splits(settings(tmp_path, **chosen)).shape.names[0])
    assert names[0] != names[1], "a run goes on with tokens that its weights do not know"
    changes: list[dict[str, Any]] = [{}, {"validation": 0.5}, {"end_of_text": "cat"}]
    changes += [{"token_dtype": "uint32"}, {"vocabulary": 500}, {"pattern": "*.md"}]
    places = {data.prepared_path(settings(tmp_path, source=source, **each)) for each in changes}
    assert len(places) == len(changes), "what was prepared by other settings is read"


# {% include "parts/prepare/test_programs.py" %}


def test_validation_predicts_each_token_once(tmp_path: Path) -> None:
    """All but the first token are a target exactly once; the rest of the last window is IGNORE."""
    val = data.open_splits(common.settings(tmp_path).data).val
    batch = val.__getitems__(list(range(len(val))))
    targets = batch.targets.flatten()
    tokens = torch.tensor(whole(val.tokens)[1:])
    assert torch.equal(targets[: len(tokens)], tokens), "not each token is predicted once"
    assert torch.all(targets[len(tokens) :] == data.IGNORE), "what fills up counts"


def stream(folder: Path, rank: int, world: int, micro_batch: int) -> data.TokenStream:
    split = data.open_splits(common.settings(folder).data).train
    return data.TokenStream(split, 5, rank, world, micro_batch)


def joined(batches: list[data.Batch]) -> torch.Tensor:
    return torch.cat([torch.cat((batch.inputs, batch.targets), dim=1) for batch in batches])


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_workers_keep_the_stream(tmp_path: Path, workers: int) -> None:
    """However many workers read it, from any place of any epoch, it is the same."""
    tokens = stream(tmp_path, 0, 1, 4)
    loader = DataLoader(
        tokens, batch_size=None, num_workers=workers, persistent_workers=workers > 0
    )
    for epoch, first in ((0, 0), (1, 0), (1, 20)):
        tokens.start(epoch, 4 * first)
        read = joined(list(loader))
        assert torch.equal(read, joined(list(tokens)))
        assert len(read) == 128 - 4 * first


def test_ranks_share_one_stream(tmp_path: Path) -> None:
    """The global batches of two ranks hold the windows that one rank reads alone."""
    alone = joined(list(stream(tmp_path, 0, 1, 8)))
    ranks = [list(stream(tmp_path, rank, 2, 4)) for rank in (0, 1)]
    dealt = joined([batch for pair in zip(*ranks, strict=True) for batch in pair])
    assert torch.equal(alone, dealt), "two ranks read other windows than one rank"


def test_windows_come_from_everywhere(tmp_path: Path) -> None:
    """From the begin, the middle and the end of the training tokens, here numbers of places."""
    path = write(tmp_path / "tokens.bin", torch.arange(1000), "int16")
    tokens = corpus.Tokens("int16", [corpus.Piece(str(path), 0, 1000)])
    batches = data.TokenStream(data.RandomWindows(tokens, 8, 300), 5, 0, 1, 4)
    tenths = {int(token) // 100 for batch in batches for token in batch.inputs.flatten()}
    assert tenths == {*range(10)}, "parts of the text are never read"


def test_epochs_differ_and_what_fills_up_does_not_count(tmp_path: Path) -> None:
    """125 windows in micro-batches of 4: on three places no target counts."""
    tokens = stream(tmp_path, 0, 1, 4)
    first = list(tokens)
    tokens.start(1, 0)
    assert not torch.equal(joined(first), joined(list(tokens))), "each epoch has the same windows"
    counts = torch.cat([data.counts(batch.targets).sum(dim=1) for batch in first])
    assert counts.tolist() == [tokens.split.window] * 125 + [0] * 3, "what fills up counts"
    long = replace(tokens.split, window=len(tokens.split.tokens) - 1, windows=8)
    (batch,) = data.TokenStream(long, 5, 0, 1, 8)
    assert data.counts(batch.targets).all(), "a window goes past the last token"


def test_output_has_the_tokens_that_there_are(tmp_path: Path, monkeypatch: Any) -> None:
    """Zeros that fill the matrix up are not seen; angles are computed once for all layers."""
    once = iter([model.turns(6, 8, torch.device("cpu"))])
    monkeypatch.setattr(model, "turns", lambda *_: next(once))
    rows, product = list[int](), F.linear

    def note(x: torch.Tensor, weight: torch.Tensor, *bias: torch.Tensor) -> torch.Tensor:
        rows.append(len(weight))
        return product(x, weight, *bias)

    monkeypatch.setattr(F, "linear", note)
    network = model.build(common.settings(tmp_path).model, data.Shape(300, ""))
    ends: list[torch.Tensor] = []
    *_, norm = (part for part in network.modules() if isinstance(part, torch.nn.LayerNorm))
    norm.register_forward_hook(lambda _, inputs, output: ends.append(output))
    outputs = network(torch.arange(12).view(2, 6))
    (matrix,) = (p for name, p in network.named_parameters() if name == "embedding.weight")
    assert (rows[-1], len(matrix)) == (384, 300)
    torch.testing.assert_close(outputs, ends[0] @ matrix.T)
    (grad,) = torch.autograd.grad(outputs.square().sum(), matrix)
    assert grad[12:].any(), "what is no input is not learnt: the output has another matrix"


def test_compiled_layers_are_given_the_angles(tmp_path: Path) -> None:
    """In one graph with the angles, each layer would compute all of them anew."""
    graphs = list[set[str]]()

    def note(graph: torch.fx.GraphModule, _: object) -> Any:
        parts = [part for part in graph.modules() if isinstance(part, torch.fx.GraphModule)]
        graphs.append({str(node.target) for part in parts for node in part.graph.nodes})
        return graph.forward

    network = model.build(common.settings(tmp_path).model, data.Shape(300, ""))
    network.compile(backend=note)
    network(torch.arange(12).view(2, 6))
    found = [("cos" in nodes, "scaled_dot" in " ".join(nodes)) for nodes in graphs]
    assert found == [(True, False), (False, True)], "angles, and the layers that use them"
