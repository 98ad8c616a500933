"""Conversations and texts in files, the rows that they are packed into, and pretrained networks."""

import json
import math
import os
from dataclasses import replace
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
import safetensors.torch
import torch
import transformers
from tokenizers import processors
from torch import Tensor
from torch.testing import assert_close

import config
import data
import documents
import model
from support import common, hub, processes

FAULTY = "/proc/self/mem"  # its first bytes cannot be read
TURNS = {"system": "Be brief.", "user": "Where is {}?", "assistant": "In {}'s house."}
CHATS = [
    [{"role": role, "content": text.format(name)} for role, text in TURNS.items()]
    + [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "Who knows."}]
    for name in ("Ada", "Ben", "Cleo", "Dora", "Eve", "Finn", "Gus", "Hal")
]
SHAPE = data.Shape(300, 24, weights="", tokenizer="", chat=True, words="")
SAID = ["In {}'s house.<|im_end|>\n", "Who knows.<|im_end|>\n"]  # what is learnt of them


def settings(folder: Path, **changes: Any) -> config.Data:
    """The small data config, with what is prepared in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    chosen = {"folder": str(folder), "length": 96, "vocabulary": 300, "validation": 0.25, **changes}
    return replace(common.settings(folder).data, **chosen)


def write(path: Path, rows: list[Any], column: str = "messages") -> str:
    """The rows as a file of the format that the path's ending names."""
    records = [{column: row, "number": number} for number, row in enumerate(rows)]
    if path.suffix.lower() == ".parquet":
        pyarrow.parquet.write_table(pa.Table.from_pylist(records), path)
    else:
        path.write_text("".join(json.dumps(r) + "\n" for r in records), encoding="utf-8")
    return str(path)


def opened(cfg: config.Data) -> tuple[data.Splits, Any]:
    """The prepared data, and their tokenizer."""
    data.prepare(cfg)
    splits = data.open_splits(cfg)
    return splits, transformers.AutoTokenizer.from_pretrained(splits.shape.tokenizer)


def whole(split: data.Rows) -> data.Batch:
    return split.__getitems__(list(range(len(split))))


def inside(split: data.Rows) -> list[tuple[Tensor, Tensor]]:
    """Inputs and targets of each document; the last of a row may be what fills it up."""
    found = []
    for inputs, positions, targets in zip(*whole(split), strict=True):
        begins = [*(positions == 0).nonzero().flatten().tolist(), len(inputs)]
        sizes = [end - begin for begin, end in pairwise(begins)]
        assert positions.tolist() == [place for size in sizes for place in range(size)]
        found += list(zip(inputs.split(sizes), targets.split(sizes), strict=True))
    return found


def learnt(split: data.Rows, tokenizer: Any) -> list[str]:
    """The text of the targets that count, document by document."""
    parts = [targets[data.counts(targets)] for _, targets in inside(split)]
    return [tokenizer.decode(part) for part in parts if len(part)]


def test_prepared_data_appear_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under their final name other ranks find all of them, or nothing yet."""
    cfg = settings(tmp_path, source=write(tmp_path / "chats.jsonl", CHATS))
    monkeypatch.setattr(os, "replace", lambda *_: None)  # as if the process ended just before
    data.prepare(cfg)
    assert not data.prepared_path(cfg).exists(), "half written, and taken for whole"


@pytest.mark.parametrize("ending", ["jsonl", "PARQUET"])
def test_only_answers_are_learnt(tmp_path: Path, ending: str) -> None:
    """With the token that ends them: neither questions, nor the system's words, nor padding."""
    source = write(tmp_path / f"chats.{ending}", CHATS)
    splits, tokenizer = opened(settings(tmp_path, source=source))
    found = learnt(splits.train, tokenizer) + learnt(splits.val, tokenizer)
    names = [chat[1]["content"][9:-1] for chat in CHATS]
    assert sorted(found) == ["".join(SAID).format(name) for name in names]
    asked = [tokenizer.decode(inputs) for inputs, _ in inside(splits.train)]
    assert sum("<|im_start|>user\nWhere is" in text for text in asked) == 6


def test_template_alone_says_how_a_conversation_begins(tmp_path: Path) -> None:
    """Some tokenizers put a token before each text, which their templates have, too."""
    tokenizer = documents.train_tokenizer(settings(tmp_path), [documents.Record("", CHATS[0])])
    begin = {"single": "<|pad|> $A", "special_tokens": [("<|pad|>", 0)]}
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(**begin)
    (found,) = documents.encode([documents.Record("", CHATS[0])], tokenizer)
    assert found.tokens[0] == tokenizer("<|im_start|>")["input_ids"][1], "begins twice"


def test_text_in_parts_is_a_text(tmp_path: Path) -> None:
    """As OpenAI and Hugging Face write turns; pictures are refused."""
    parts = [{"type": "text", "text": "At "}, {"type": "text", "text": "home."}]
    said = {**PAIR[1], "content": parts, "tool_calls": []}
    source = Path(write(tmp_path / "chats.jsonl", [[PAIR[0], said]]))
    (found,) = documents.read_file(source, "messages")
    assert found.content == PAIR
    picture = [{"type": "image_url", "image_url": {"url": "x"}}]
    write(source, [[{**PAIR[0], "content": picture}, PAIR[1]]])
    with pytest.raises(config.ConfigError, match="record 1 is neither a text nor a list"):
        [*documents.read_file(source, "messages")]


@pytest.mark.parametrize("names", [("role", "content"), ("from", "value")])
def test_answers_that_nobody_asked_for_or_wants_are_not_learnt(
    names: tuple[str, str], tmp_path: Path
) -> None:
    """Words before the first question, and answers of weight 0; all of them are read."""
    words, weights = ("Hello!", "Where?", "Not so.", "Where?", "This."), (1, 1, 0, 1, 1)
    roles = ("assistant", "user", "assistant", "user", "assistant")
    every = zip(roles, words, weights, strict=True)
    turns = [{"role": role, "content": said, "weight": weight} for role, said, weight in every]
    new = dict(zip(("role", "content"), names, strict=True))
    renamed = [{new.get(name, name): part for name, part in turn.items()} for turn in turns]
    (record,) = documents.read_file(Path(write(tmp_path / "chats.jsonl", [renamed])), "messages")
    tokenizer = documents.train_tokenizer(settings(tmp_path), [record])
    (found,) = documents.encode([record], tokenizer)
    tokens = zip(found.tokens, found.counts, strict=True)
    assert tokenizer.decode([token for token, counts in tokens if counts]) == "This.<|im_end|>\n"
    assert "Hello!" in tokenizer.decode(found.tokens)


@pytest.mark.parametrize("weight", ["0", 0.5])
def test_weights_are_zero_or_one(weight: object, tmp_path: Path) -> None:
    """Anything else would be learnt as if it were 1."""
    write(tmp_path / "chats.jsonl", [[PAIR[0], {**PAIR[1], "weight": weight}]])
    with pytest.raises(config.ConfigError, match=rf"record 1 has a turn of the .* {weight!r}:"):
        [*documents.read_file(tmp_path / "chats.jsonl", "messages")]


def test_calls_of_tools_are_written_by_the_template(tmp_path: Path) -> None:
    """Where the template has none, they would be lost in silence."""
    call = {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "find"}}]}
    write(tmp_path / "chats.jsonl", [[PAIR[0], call, {"role": "tool", "content": "?"}, PAIR[1]]])
    (record,) = documents.read_file(tmp_path / "chats.jsonl", "messages")
    tokenizer = documents.train_tokenizer(settings(tmp_path), [record])
    with pytest.raises(config.ConfigError, match="has tool_calls, which the chat template"):
        documents.encode([record], tokenizer)
    said = "(message.content or message.tool_calls[0].function.name)"
    tokenizer.chat_template = documents.CHAT.replace("message.content", said)
    (found,) = documents.encode([record], tokenizer)
    assert "find<|im_end|>" in tokenizer.decode(found.tokens)


def test_end_of_an_answer_is_learnt(tmp_path: Path) -> None:
    """The template's token for it, or the one that ends texts where the template has none."""
    record = documents.Record("", PAIR)
    tokenizer = documents.train_tokenizer(settings(tmp_path), [record])
    assert documents.ends_of_answers(tokenizer) == [tokenizer.convert_tokens_to_ids("<|im_end|>")]
    unmarked = documents.CHAT.replace("<|im_end|>", "").replace("<|im_start|>", "")
    tokenizer.chat_template = unmarked
    assert documents.ends_of_answers(tokenizer) == []
    (found,) = documents.encode([record], tokenizer)
    assert found.tokens[-1] == tokenizer.eos_token_id
    assert found.counts[-1]
    ended = [5, tokenizer.eos_token_id]  # as some tokenizers end texts by themselves
    assert documents._whole(ended, tokenizer).tokens == ended, "each text ends twice"


def test_tokenizers_that_lack_something(tmp_path: Path) -> None:
    """Without a token that ends texts the run says so; without a template it ends."""
    save_pretrained(tmp_path / "small")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "small")
    tokenizer.eos_token = None
    tokenizer.save_pretrained(tmp_path / "small")
    chats, texts = (tmp_path / f"{name}.jsonl" for name in ("chats", "texts"))
    source, lines = write(chats, CHATS), write(texts, ["the cat sleeps"] * 9, "text")
    small = {"pretrained": str(tmp_path / "small"), "length": 96}
    said = str(opened(settings(tmp_path, source=lines, column="text", **small))[0].shape)
    assert said.endswith("; the tokenizer has no token that ends texts, so the model learns no end")
    # The template has a token that ends answers.
    assert "no end" not in str(opened(settings(tmp_path, source=source, **small))[0].shape)
    tokenizer.chat_template = None
    tokenizer.save_pretrained(tmp_path / "bare")
    (tmp_path / "small" / "config.json").rename(tmp_path / "bare" / "config.json")
    bare = {"pretrained": str(tmp_path / "bare"), "length": 96}
    with pytest.raises(config.ConfigError, match=r"no chat template: name a file with one in data"):
        data.prepare(settings(tmp_path, source=source, **bare))
    in_python: Any = transformers.ByT5Tokenizer()
    in_python.chat_template = documents.CHAT
    with pytest.raises(config.ConfigError, match=r"ByT5Tokenizer cannot tell which tokens"):
        documents.encode([documents.Record("record 1", CHATS[0])], in_python)


def test_texts_are_learnt_whole(tmp_path: Path) -> None:
    """Long ones in several rows, in which each token is a target once, and the end of the text."""
    texts = [f"{n}: " + "the cat sleeps, and nobody knows why. " * n for n in range(1, 9)]
    (tmp_path / "texts").mkdir()
    write(tmp_path / "texts" / "train.jsonl", texts, "text")
    write(tmp_path / "texts" / "val.parquet", texts[:2], "text")
    source = str(tmp_path / "texts")
    splits, tokenizer = opened(settings(tmp_path, source=source, column="text", length=24))
    ids = [[*tokenizer(text)["input_ids"], tokenizer.eos_token_id] for text in texts]
    found = whole(splits.train).targets
    assert sorted(found[data.counts(found)].tolist()) == sorted(
        chain.from_iterable(each[1:] for each in ids)
    )
    assert learnt(splits.val, tokenizer)[-1].startswith(": the cat")
    assert "longer than 24 tokens" in str(splits.shape)


def test_order_of_files_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes would hold out other texts, and train on other rows."""
    for name in ("b.jsonl", "a.jsonl", "c.jsonl"):
        write(tmp_path / name, [f"{name} {n}" for n in range(4)], "text")
    cfg = settings(tmp_path / "prepared", source=str(tmp_path), column="text")
    found, listed = [], Path.iterdir
    for end in (False, True):
        monkeypatch.setattr(Path, "iterdir", lambda at, end=end: sorted(listed(at), reverse=end))
        found.append(documents.read_splits(cfg))
    assert found[0] == found[1], "files are read in the order of the disk"


ASKED, SAID_ALONE = "Where is Ada?", "At home."
PAIR = [{"role": "user", "content": ASKED}, {"role": "assistant", "content": SAID_ALONE}]
LAYOUTS: list[dict[str, Any]] = [
    {"messages": PAIR},
    {"messages": [{"from": "human", "value": ASKED}, {"from": "gpt", "value": SAID_ALONE}]},
    {"messages": [{"from": "user", "value": ASKED}, {"from": "chatgpt", "value": SAID_ALONE}]},
    {"messages": [PAIR[0], {"role": "model", "content": SAID_ALONE}]},
    {"prompt": ASKED, "completion": SAID_ALONE},
    {"prompt": PAIR[:1], "completion": PAIR[1:]},
    {"instruction": ASKED, "input": "", "output": SAID_ALONE},
    {"question": ASKED, "response": SAID_ALONE, "system": None},
    {"instruction": "Where", "context": "is Ada?", "response": SAID_ALONE, "category": "qa"},
]
LONGER: list[dict[str, Any]] = [
    {"instruction": "Where", "input": "Ada", "output": "Home.", "system": "Be brief."},
    {"messages": [{"from": "system", "value": "Be brief."}, {"from": "tool", "value": "3"}]},
]


@pytest.mark.parametrize("ending", [".jsonl", ".JSON"])
def test_questions_and_answers_are_conversations(ending: str, tmp_path: Path) -> None:
    """In the layouts that data sets have, with empty lines between."""
    path, (about, broken) = tmp_path / f"records{ending}", LONGER
    records = [*map(json.dumps, [*LAYOUTS, about])]
    path.write_text("\n\n".join(records) if ending == ".jsonl" else f"[{', '.join(records)}]")
    *found, last = (record.content for record in documents.read_file(path, "messages"))
    assert found[:-1] == [PAIR] * (len(LAYOUTS) - 1)
    assert found[-1] == [{"role": "user", "content": "Where\n\nis Ada?"}, PAIR[1]]
    said = ("Be brief.", "Where\n\nAda", "Home.")
    turns = zip(("system", "user", "assistant"), said, strict=True)
    assert last == [{"role": role, "content": content} for role, content in turns]
    path.write_text(json.dumps(broken) if ending == ".jsonl" else json.dumps([broken]))
    with pytest.raises(config.ConfigError, match="role 'assistant', only with 'system', 'tool'"):
        list(documents.read_file(path, "messages"))
    empty = {"prompt": ASKED, "completion": ""}
    path.write_text(json.dumps(empty) if ending == ".jsonl" else json.dumps([empty]))
    with pytest.raises(config.ConfigError, match="record 1 has no answer: 'completion' is empty"):
        list(documents.read_file(path, "messages"))
    with pytest.raises(config.ConfigError, match=r"set data\.column"):
        list(documents.read_file(path, "text"))


def test_what_is_not_read_is_said(tmp_path: Path) -> None:
    """Files of a test split, and columns beside the conversations; a file that is named is read."""
    (folder := tmp_path / "chats").mkdir()
    for name in ("train.jsonl", "test.jsonl", "part-testing-1.jsonl"):
        write(folder / name, CHATS)
    cfg = settings(tmp_path, source=str(folder))
    splits, _ = opened(cfg)
    assert f"{len(CHATS)} conversations or texts" in str(splits.shape)
    left_out = "; files left out: part-testing-1.jsonl, test.jsonl; columns ignored: number"
    assert str(splits.shape).endswith(left_out)
    (folder / "train.jsonl").unlink()
    with pytest.raises(config.ConfigError, match=r"has 0 records .* files left out: part-te"):
        data.prepare(cfg)
    named = documents.read_splits(replace(cfg, source=str(folder / "test.jsonl")))
    assert len(named["train"] + named["val"]) == len(CHATS)


def test_other_speakers_are_said(tmp_path: Path) -> None:
    """What they say is not learnt, though it may be meant as an answer."""
    source = write(tmp_path / "chats.jsonl", [[*chat, PAIR[0] | {"role": "bot"}] for chat in CHATS])
    splits, _ = opened(settings(tmp_path, source=source))
    assert str(splits.shape).endswith("; columns ignored: number; roles not learnt: bot")


def test_parts_of_turns_that_nothing_writes_are_said(tmp_path: Path) -> None:
    """What was thought is lost where the chat template does not write it."""
    thought = {"reasoning_content": "They live in the city."}
    chats = [[*chat[:-1], chat[-1] | thought] for chat in CHATS]
    cfg = settings(tmp_path, source=write(tmp_path / "chats.jsonl", chats))
    said = "; the chat template does not write what turns have in: reasoning_content"
    assert said in str(opened(cfg)[0].shape)
    both = "message.reasoning_content ~ message.content"
    (tmp_path / "chat.jinja").write_text(documents.CHAT.replace("message.content", both))
    splits, tokenizer = opened(replace(cfg, template=str(tmp_path / "chat.jinja")))
    assert "does not write" not in str(splits.shape)
    assert "in the city." in tokenizer.decode(splits.train.inputs.flatten())


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"messages": "a"}\n{"messages": "b"}\n', "each line .jsonl"),
        ('{"data": []}', r"no list of records, but an object with \['data'\]: write the"),
    ],
)
def test_files_that_hold_no_list_are_named(text: str, reason: str, tmp_path: Path) -> None:
    """With what to do."""
    (tmp_path / "chats.json").write_text(text)
    with pytest.raises(config.ConfigError, match=rf"chats\.json .*{reason}"):
        list(documents.read_file(tmp_path / "chats.json", "messages"))


def test_conversations_that_are_in_both_splits_are_said(tmp_path: Path) -> None:
    """The validation loss of such conversations shows nothing."""
    (folder := tmp_path / "chats").mkdir()
    write(folder / "train.jsonl", CHATS[1:])
    write(folder / "dev.jsonl", [*CHATS[:1], *CHATS[2:4]])
    splits, _ = opened(settings(tmp_path, source=str(folder)))
    assert "; 2 of the 3 held out are for training, too" in str(splits.shape)


@pytest.mark.parametrize("ending", [".jsonl", ".json"])
def test_file_that_is_marked_as_utf_8_is_read(ending: str, tmp_path: Path) -> None:
    """As Windows writes it."""
    path, record = tmp_path / f"records{ending}", {"messages": PAIR}
    content = json.dumps(record) if ending == ".jsonl" else json.dumps([record])
    path.write_text(content, encoding="utf-8-sig")
    assert [record.content for record in documents.read_file(path, "messages")] == [PAIR]


def test_fields_that_a_turn_lacks_stay_away(tmp_path: Path) -> None:
    """Parquet gives each turn the fields of all, and templates would write "None"."""
    chat = [CHATS[0][0], CHATS[0][1] | {"name": "Ada"}, *CHATS[0][2:]]
    (found,) = documents.read_file(Path(write(tmp_path / "chats.parquet", [chat])), "messages")
    assert found.content == chat


def test_rows_are_full(tmp_path: Path) -> None:
    """Every document is in a row, once and whole; there is hardly any padding."""
    torch.manual_seed(0)
    sizes = torch.randint(2, 33, (500,)).tolist()
    every = [documents.Document([n] * size, [True] * size) for n, size in enumerate(sizes, 1)]
    rows = data.Rows(*documents.pack(every, 32))
    found = [targets.tolist() for _, targets in inside(rows) if data.counts(targets).any()]
    assert sorted(found) == [[n] * (size - 1) for n, size in enumerate(sizes, 1)]
    assert data.counts(whole(rows).targets).float().mean() > 0.97


def loss_behind(network: torch.nn.Module, *row: documents.Document) -> float:
    """The loss of the last document of a row; those before it are longer."""
    inputs, positions, targets = (t.long() for t in documents.pack(list(row), 24))
    begin = sum(len(document.tokens) - 1 for document in row[:-1])
    end = begin + len(row[-1].tokens) - 1
    assert inputs[0, begin:end].tolist() == row[-1].tokens[:-1]
    outputs = network(inputs, positions)[:, begin:end]
    return model.loss_sum(outputs, targets[:, begin:end]).item()


def learnt_positions() -> model.LanguageModel:
    """A small GPT-2, whose positions are numbers in a row: its begin is not that of a document."""
    size = transformers.GPT2Config(vocab_size=300, n_positions=24, n_embd=16, n_layer=1, n_head=2)
    network = transformers.GPT2LMHeadModel(size)
    return model.LanguageModel(network, network.config)


def windows() -> model.LanguageModel:
    """A small Qwen2: a layer sees all tokens before, another the last four."""
    size = transformers.Qwen2Config(
        vocab_size=300,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        use_sliding_window=True,
        sliding_window=4,
        max_window_layers=1,
    )
    network = transformers.Qwen2ForCausalLM(size)
    return model.LanguageModel(network, network.config)


OTHERS = {"positions": learnt_positions, "windows": windows}


@pytest.mark.parametrize("attention", ["sdpa", "eager", *OTHERS])
def test_neighbours_change_nothing(tmp_path: Path, attention: str) -> None:
    """A document's loss is that of the document alone, whatever lies before it in its row."""
    network: Any = model.build(common.settings(tmp_path).model, SHAPE).eval()
    if attention in OTHERS:
        network = OTHERS[attention]().eval()
    else:
        network.settings._attn_implementation = attention
    one, two, three, last = (
        documents.Document(list(range(n, n + size)), [True] * size)
        for n, size in ((100, 12), (200, 12), (250, 9), (50, 6))
    )
    rows = [[last], [one, last], [two, last], [one, three, last]]
    found = [loss_behind(network, *row) for row in rows]
    ids = torch.tensor([last.tokens])
    plain = model.loss_sum(network.inner(ids).logits[:, :-1], ids[:, 1:]).item()  # nothing packed
    assert found == pytest.approx([plain] * 4, rel=1e-5)


def test_loss_and_metrics_are_known(tmp_path: Path) -> None:
    """Even odds cost the logarithm of their number per target, and the right answers less."""
    splits = data.open_splits(common.settings(tmp_path).data)
    batch = whole(splits.val)
    count = data.counts(batch.targets).sum().item()
    assert 0 < count < batch.targets.numel()
    even = torch.zeros(*batch.targets.shape, splits.shape.vocabulary)
    right = even.scatter(2, batch.targets.clamp(min=0)[..., None], 5.0)
    expected = count * math.log(splits.shape.vocabulary)
    tokens = torch.arange(splits.shape.vocabulary)
    assert data.counts(tokens).all(), "what has this number is never learnt"
    assert model.loss_sum(right, batch.targets).item() < expected, "other targets"
    assert model.loss_sum(even, batch.targets).item() == pytest.approx(expected)
    assert model.metric_sums(right, batch.targets)["accuracy"].item() == count
    second = right + 2 * right.roll(1, -1)
    assert model.metric_sums(second, batch.targets)["accuracy"].item() == 0


def test_answer_that_is_written_differently_later(tmp_path: Path) -> None:
    """Thoughts that the template drops from earlier turns: each answer has a text of its own."""
    thought = "('<think></think>' if loop.last and message.role == 'assistant' else '')"
    template = documents.CHAT.replace("message.content", f"{thought} ~ message.content")
    (tmp_path / "chat.jinja").write_text(template)
    source = write(tmp_path / "chats.jsonl", CHATS)
    cfg = settings(tmp_path, source=source, template=str(tmp_path / "chat.jinja"))
    splits, tokenizer = opened(cfg)
    found = learnt(splits.val, tokenizer)
    assert len(found) == 4
    assert all(text.startswith("<think></think>") for text in found)


def test_edited_file_is_read_anew(tmp_path: Path) -> None:
    """What was prepared from the file before does not count any more; nor with another template."""
    source = write(tmp_path / "chats.jsonl", CHATS[:6])
    before = settings(tmp_path, source=source)
    first = data.prepared_path(before)
    write(tmp_path / "chats.jsonl", CHATS)
    assert data.prepared_path(before) != first
    first = data.prepared_path(before)
    os.utime(source, (1, 1))  # other words of the same length
    assert data.prepared_path(before) != first
    tokenizer = tmp_path / "pretrained" / "tokenizer.json"
    tokenizer.parent.mkdir()
    tokenizer.write_text("first")
    given = replace(before, pretrained=str(tokenizer.parent))
    first = data.prepared_path(given)
    tokenizer.write_text("another")
    assert data.prepared_path(given) != first
    (tmp_path / "chat.jinja").write_text("another")
    changed = replace(before, template=str(tmp_path / "chat.jinja"))
    changes: list[dict[str, Any]] = [{"length": 16}, {"vocabulary": 310}, {"validation": 0.5}]
    changes += [{"split_seed": 1}, {"column": "text"}, {"pretrained": "some/network"}]
    places = {data.prepared_path(replace(before, **change)) for change in changes}
    places |= {data.prepared_path(changed), data.prepared_path(before)}
    assert len(places) == len(changes) + 2, "what was prepared otherwise is read"


# {% include "parts/prepare/test_programs.py" %}


def test_other_tokens_are_other_data(tmp_path: Path) -> None:
    """A run does not go on with tokens that its weights do not know."""
    names = []
    for word in ("leopard", "dolphin"):
        texts = [f"The {word} {place}" for place in ("here", "there", "nowhere", "beside")]
        source = write(tmp_path / f"{word}.jsonl", texts, column="text")
        splits, _ = opened(settings(tmp_path, source=source, column="text", length=24))
        names.append(splits.shape.names[0])
    assert names[0] != names[1]


def test_validation_teaches_the_tokenizer_nothing(tmp_path: Path) -> None:
    """Its words follow from the training texts alone."""
    (folder := tmp_path / "texts").mkdir()
    words = ["one two three four five", "six seven eight nine ten", "one three five seven nine"]
    (folder / "train.jsonl").write_text("".join(json.dumps({"text": w}) + "\n" for w in words * 5))
    found = []
    for word in ("giraffe", "tricycle"):
        (folder / "val.jsonl").write_text(json.dumps({"text": f"{word} " * 9}) + "\n")
        cfg = settings(tmp_path, source=str(folder), column="text", vocabulary=300)
        data.prepare(cfg)
        place = data.prepared_path(cfg) / documents.TOKENIZER / "tokenizer.json"
        found.append(place.read_text())
    assert found[0] == found[1], "the tokenizer has seen what is held out"


def prepare_there(folder: Path) -> list[data.Batch]:
    """Both splits, as on a node whose disk lists files in another order, as its sets are."""
    listed, cfg = Path.rglob, replace(common.settings(folder).data, folder=str(folder))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "rglob", lambda *given: sorted(listed(*given), reverse=True))
        data.prepare(cfg)
    splits = data.open_splits(cfg)
    return [whole(splits.train), whole(splits.val)]


def test_preparation_repeats(tmp_path: Path) -> None:
    """Each node prepares for itself, so tokenizer and rows must come out alike."""
    splits = data.open_splits(common.settings(tmp_path).data)
    (there,) = processes.run(1, prepare_there, tmp_path)
    assert_close([whole(splits.train), whole(splits.val)], there, rtol=0, atol=0)


ANSWER = {"role": "assistant", "content": "Yes."}
MISTAKES = {
    "line 2 is no JSON": '{"messages": "a text"}\nhello\n',
    "line 1 has half of a character": '{"messages": "\\ud83d"}\n',
    "record 1 is a conversation within a text": json.dumps({"messages": json.dumps([ANSWER])}),
    "record 1 has no 'messages': that is null": '{"messages": null}\n',
    "record 1 has no 'messages' but .'text'.: set data.column": '{"text": "hello"}\n',
    "record 1 is neither a text nor a list": '{"messages": [{"role": "user", "text": "?"}]}\n',
    "record 1 is neither .*type": '{"messages": [{"role": "user", "content": [{"type": "text"}]}]}',
    "record 1 is neither .*'x'": '{"messages": [{"from": ["x"], "value": "?"}]}\n',
    "no answer of the train split would be learnt": 9
    * (json.dumps({"messages": [{"role": "user", "content": "?"}, ANSWER | {"weight": 0}]}) + "\n"),
    "record 2 is an empty text: leave the record out": '{"messages": "a"}\n{"messages": "  "}\n',
    "record 1 has no answer": '{"messages": [{"role": "user", "content": "?"}]}\n',
    "record 1 is a list: call a file with one list .json": json.dumps([{"messages": "a"}]),
    "record 1 has an empty answer.*leave the record out": json.dumps(
        {"messages": [{"role": "user", "content": "?"}, ANSWER, ANSWER | {"content": " "}]}
    ),
    "record 1 begins with its only answer": json.dumps({"messages": [ANSWER]}) + "\n",
    "0 records for training": json.dumps({"messages": "a text"}) + "\n",
}


@pytest.mark.parametrize("reason", MISTAKES)
def test_mistakes_are_named(reason: str, tmp_path: Path) -> None:
    """With the file and the place in it, and nothing half prepared is left."""
    (tmp_path / "chats.jsonl").write_text(MISTAKES[reason])
    with pytest.raises(config.ConfigError, match=rf"chats\.jsonl.*{reason}"):
        data.prepare(settings(tmp_path, source=str(tmp_path / "chats.jsonl")))
    assert not [*tmp_path.glob("*.partial")]


def test_more_mistakes(tmp_path: Path) -> None:
    """Of settings, of a file that is no table, and of a template that refuses."""
    source = write(tmp_path / "chats.jsonl", CHATS)
    (tmp_path / "rows.parquet").write_text("hello")
    refusing = documents.CHAT.replace("message.role", "raise_exception('roles must alternate')")
    (tmp_path / "chat.jinja").write_text(refusing)
    wrong: dict[str, dict[str, Any]] = {
        "neither 'stdlib' nor": {"source": str(tmp_path / "absent.jsonl")},
        r"rows\.parquet is no \.parquet file": {"source": str(tmp_path / "rows.parquet")},
        "record [0-9]: the chat template says: roles": {"template": str(tmp_path / "chat.jinja")},
        r"data\.template = ": {"template": str(tmp_path / "absent.jinja")},
        r"no answer of the \w+ split begins so early": {"length": 2},
        r"data\.vocabulary = 100 must be at least 259": {"vocabulary": 100},
        "is no folder, and cannot be fetched": {"pretrained": "absent/model/name"},
    }
    for reason, changes in wrong.items():
        with pytest.raises(config.ConfigError, match=reason):
            data.prepare(settings(tmp_path, **{"source": source, **changes}))


def save_pretrained(folder: Path) -> Any:
    """A small Llama in bfloat16 with dropout, and a tokenizer with a template; the network."""
    tokenizer = documents.train_tokenizer(settings(folder), [documents.Record("", CHATS[0])])
    tokenizer.save_pretrained(folder)
    size = transformers.LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=3,
        num_attention_heads=2,
        max_position_embeddings=128,
        attention_dropout=0.5,
    )
    network: Any = transformers.LlamaForCausalLM(size)
    network.to(torch.bfloat16).save_pretrained(folder)
    return network


def test_pretrained_network(tmp_path: Path) -> None:
    """By path: tokenizer and weights are used, in float32, and the network is one to train."""
    pretrained = save_pretrained(tmp_path / "pretrained")
    source = write(tmp_path / "chats.jsonl", CHATS)
    cfg = settings(tmp_path, source=source, pretrained=str(tmp_path / "pretrained"))
    splits, _ = opened(cfg)
    network = model.build(common.settings(tmp_path).model, splits.shape)
    expected = pretrained.state_dict()["model.layers.2.mlp.up_proj.weight"]
    found = [w for n, w in network.state_dict().items() if "layers.2.mlp.up_proj" in n]
    assert found[0].dtype == torch.float32
    assert found[0].equal(expected.float())
    assert all(part.training for part in network.modules()), "dropout would be off"
    with pytest.raises(config.ConfigError, match="length = 129: the model has 128 positions"):
        data.prepare(replace(cfg, length=129))


@pytest.mark.parametrize("added", ["module.", "_orig_mod."])
def test_weights_of_other_names_are_no_pretrained_network(tmp_path: Path, added: str) -> None:
    """As DDP and torch.compile name them: all weights would be drawn, without a word."""
    save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    weights = safetensors.torch.load_file(path)
    renamed = {added + name: weight for name, weight in weights.items()}
    safetensors.torch.save_file(renamed, path, {"format": "pt"})
    shape = replace(SHAPE, weights=str(tmp_path))
    with pytest.raises(config.ConfigError, match=rf"no weights that fit for .*, but for {added}"):
        model.build(common.settings(tmp_path).model, shape)


def test_weights_of_another_size_are_named(tmp_path: Path) -> None:
    """As of a config.json from another network: transformers says no name."""
    save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(path.read_text().replace('"intermediate_size": 32', '"intermediate_size": 64'))
    with pytest.raises(config.ConfigError, match=r"no weights that fit for .*mlp"):
        model.build(common.settings(tmp_path).model, replace(SHAPE, weights=str(tmp_path)))


def test_layers_that_the_config_leaves_out_are_named(tmp_path: Path) -> None:
    """The network would be a smaller network, without a word."""
    save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    fewer = json.loads(path.read_text()) | {"num_hidden_layers": 2, "layer_types": None}
    path.write_text(json.dumps(fewer))
    with pytest.raises(config.ConfigError, match=r"has weights for model\.layers\.2\."):
        model.build(common.settings(tmp_path).model, replace(SHAPE, weights=str(tmp_path)))


def test_files_that_hold_no_causal_network_are_refused(tmp_path: Path) -> None:
    """An encoder would be trained as one, and then write as it never was trained to."""
    size = transformers.BertConfig(hidden_size=16, num_attention_heads=2, num_hidden_layers=1)
    transformers.BertForMaskedLM(size).save_pretrained(tmp_path)
    shape = replace(SHAPE, weights=str(tmp_path))
    with pytest.raises(config.ConfigError, match="holds an encoder"):
        model.build(common.settings(tmp_path).model, shape)
    (tmp_path / "model.safetensors").unlink()
    (tmp_path / "pytorch_model.bin").write_text("<html>")
    with pytest.raises(config.ConfigError, match="holds no causal language model"):
        model.build(common.settings(tmp_path).model, shape)


def test_adapters_are_no_networks(tmp_path: Path) -> None:
    """Such as those that LoRA leaves: transformers would add their weights to the network's."""
    save_pretrained(tmp_path / "network")
    (tmp_path / "network" / "adapter_config.json").write_text("{}")
    cfg = settings(tmp_path, pretrained=str(tmp_path / "network"))
    with pytest.raises(config.ConfigError, match="holds an adapter"):
        data.prepare(cfg)


def test_weights_that_are_tied_are_there_once(tmp_path: Path) -> None:
    """Those of the output are then the tokens' own, and missing from the file."""
    size = transformers.GPT2Config(vocab_size=300, n_embd=16, n_layer=1, n_head=2)
    transformers.GPT2LMHeadModel(size).save_pretrained(tmp_path)
    shape = replace(SHAPE, weights=str(tmp_path))
    inner: Any = model.build(common.settings(tmp_path).model, shape).inner
    assert inner.get_output_embeddings().weight.equal(inner.get_input_embeddings().weight)


def test_tokens_that_the_network_does_not_know_are_refused(tmp_path: Path) -> None:
    """Where tokens were added, and texts have them: a GPU would only abort. Unused ones may be."""
    save_pretrained(tmp_path / "pretrained")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "pretrained")
    known = len(tokenizer)
    tokenizer.add_tokens([f"<{number}>" for number in range(9)])
    tokenizer.save_pretrained(tmp_path / "pretrained")
    source = write(tmp_path / "chats.jsonl", CHATS)
    cfg = settings(tmp_path, source=source, pretrained=str(tmp_path / "pretrained"))
    splits, _ = opened(cfg)
    assert splits.shape.vocabulary == known
    more = [{"role": "user", "content": "What?"}, {"role": "assistant", "content": "A <3> here."}]
    source = write(tmp_path / "more.jsonl", [*CHATS, *[more] * 9])
    reason = rf"the texts have the token <3> \({known + 3}\), and the model knows {known}: call"
    with pytest.raises(config.ConfigError, match=reason):
        data.prepare(replace(cfg, source=source))


def test_node_without_the_network_fetches_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nodes may share the data and not the cache; what ranks open is on their own node."""
    save_pretrained(tmp_path / "origin")
    source = write(tmp_path / "chats.jsonl", CHATS)
    cfg = settings(tmp_path, source=source, pretrained="some/model")
    shape = hub.of_another_node(monkeypatch, tmp_path / "origin", cfg)
    model.build(common.settings(tmp_path).model, shape)


def test_network_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The data's preparation fetches the model; the ranks open this node's copy, by its path."""
    cache = tmp_path / "hub"
    save_pretrained(cache / "models--some--model" / "snapshots" / hub.REVISION)
    (cache / "models--some--model" / "refs").mkdir()
    (cache / "models--some--model" / "refs" / "main").write_text(hub.REVISION)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(cache))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    source = write(tmp_path / "chats.jsonl", CHATS)
    cfg = settings(tmp_path, source=source, pretrained="some/model")
    splits, _ = opened(cfg)
    assert splits.shape.weights == str(cache / "models--some--model" / "snapshots" / hub.REVISION)
    model.build(common.settings(tmp_path).model, splits.shape)
    cache.rename(tmp_path / "elsewhere")
    with pytest.raises(config.ConfigError, match="the pretrained network is gone"):
        data.open_splits(cfg)
    with pytest.raises(config.ConfigError, match="cannot be fetched by name"):
        data.prepare(replace(cfg, pretrained="some/other"))


class Stateful(torch.nn.Module):
    """Takes positions, but what is known of a token goes on to the next."""

    _is_stateful = True

    def forward(self, inputs: Tensor, position_ids: Tensor) -> Tensor:
        return inputs + position_ids


class WithoutPositions(torch.nn.Module):
    """Numbers the tokens of a row itself."""

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs


@pytest.mark.parametrize("name", ["chats.json", "chats.jsonl"])
def test_fault_of_the_disk_is_no_damaged_file(name: str, tmp_path: Path) -> None:
    """Such an error is raised as an error, after which launchers start the run again."""
    (tmp_path / name).symlink_to(FAULTY)
    with pytest.raises(OSError, match="Input/output error"):
        [*documents.read_file(tmp_path / name, "messages")]


def test_networks_that_mix_documents_are_refused(tmp_path: Path) -> None:
    """Models whose state goes on from token to token, whatever the mask."""
    size = transformers.MambaConfig(vocab_size=300, hidden_size=8, num_hidden_layers=1)
    transformers.MambaForCausalLM(size).save_pretrained(tmp_path)
    shape = replace(SHAPE, weights=str(tmp_path))
    with pytest.raises(config.ConfigError, match="MambaForCausalLM cannot keep the documents"):
        model.build(common.settings(tmp_path).model, shape)
    for network in (Stateful(), WithoutPositions()):
        with pytest.raises(config.ConfigError, match="cannot keep the documents"):
            model.check(network)
# {% if lora %}


def test_only_additions_are_trained(tmp_path: Path) -> None:
    """A network with new additions is the pretrained network; each layer but the output has one."""
    save_pretrained(tmp_path / "pretrained")
    shape = replace(SHAPE, weights=str(tmp_path / "pretrained"))
    network: Any = model.build(common.settings(tmp_path).model, shape).eval()
    trained = {name for name, p in network.named_parameters() if p.requires_grad}
    assert len(trained) == 3 * 7 * 2
    assert all("lora_" in name for name in trained)
    plain = transformers.AutoModelForCausalLM.from_pretrained(shape.weights, dtype="float32")
    ids = torch.arange(20).view(1, -1)
    assert_close(network(ids, ids), plain(ids).logits)
    # {% if checkpoint %}


def test_additions_belong_to_their_network(tmp_path: Path) -> None:
    """On another one they would say nothing, and nobody would notice."""
    cfg = common.settings(tmp_path).model
    networks = []
    for seed in range(2):
        torch.manual_seed(seed)
        save_pretrained(tmp_path / str(seed))
        networks.append(model.build(cfg, replace(SHAPE, weights=str(tmp_path / str(seed)))))
    weights = model.kept(networks[0])
    model.take_over(model.build(cfg, replace(SHAPE, weights=str(tmp_path / "0"))), weights)
    with pytest.raises(ValueError, match="additions to another pretrained network"):
        model.take_over(networks[1], weights)
    # {% endif %}
# {% endif %}
