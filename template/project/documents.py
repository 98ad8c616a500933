"""Conversations and texts: read, tokenised, and packed into rows of equal length."""

import ast
import json
import re
import sys
import sysconfig
from bisect import bisect_left, insort
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

import config
from engine import hub, jsonl

IGNORE = -100  # the target of a token that does not count: of questions, of padding
ROWS, TOKENIZER, ABOUT = "rows.pt", "tokenizer", "about.json"  # what is prepared
VALIDATION = {"val", "valid", "validation", "dev"}  # in the name of a file that is held out
TEST = {"test", "testing"}  # in the name of a file in a folder that is left out
ENDINGS = (".jsonl", ".parquet")  # in a folder; .json is read where it is named
CONVERSATIONS = "messages"  # the column in whose place a record may have a pair
# Columns of a question and its answer, and other words for who speaks.
PAIRS = {
    "prompt": ("completion", "response"),
    "instruction": ("output", "response"),
    "question": ("answer", "response"),
}
MORE = ("input", "context")  # columns of what an instruction or a question is about
SPEAKERS = {
    "human": "user",
    **dict.fromkeys(("gpt", "chatgpt", "bot", "model", "bard", "bing"), "assistant"),
}
ROLES = {"system", "developer", "user", "assistant", "tool"}  # of which only one is learnt
WEIGHTS = ["*.json", "*.jinja", "*.model", "*.safetensors", "*.txt"]  # what is fetched of a model
WRITTEN = re.compile(r"\s*\[\s*\{\s*[\"'](role|from|content|value)[\"']")  # turns in a text
AT_ONCE = 1000  # records that are tokenised together
MODULES = (  # of the standard library, whose functions are asked about
    "_pydecimal calendar codecs collections ftplib functools importlib inspect ipaddress logging "
    "mailbox pathlib random socket statistics tarfile tempfile threading traceback"
)
CHAT = (  # the template where nothing is pretrained
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


class Record(NamedTuple):
    """A conversation or a text, and its place in words."""

    place: str
    content: list[dict[str, Any]] | str
    ignored: tuple[str, ...] = ()  # columns beside it


class Rendered(NamedTuple):
    """A conversation as the model sees it."""

    text: str
    answers: list[tuple[int, int]]  # begin and end of each, in characters


class Document(NamedTuple):
    """Tokens that see each other, and no others."""

    tokens: list[int]
    counts: list[bool]  # whether the token is to be learnt


def prepare(cfg: config.Data, folder: Path) -> None:
    """Write tokenizer, rows of tokens, and what the model has to know of them."""
    weights = fetch(cfg.pretrained) if cfg.pretrained else ""
    hub.check_folder(weights)
    splits = read_splits(cfg)
    tokenizer = open_tokenizer(cfg, weights) if weights else train_tokenizer(cfg, splits["train"])
    vocabulary = count_known(weights) if weights else len(tokenizer)
    if cfg.template:
        tokenizer.chat_template = _read(Path(cfg.template))
    encoded = {name: encode(records, tokenizer) for name, records in splits.items()}
    rows = {name: pack(cut(some, cfg.length), cfg.length) for name, some in encoded.items()}
    for name, (inputs, _, targets) in rows.items():
        if not any(any(counts) for _, counts in encoded[name]):
            raise config.ConfigError(
                f"data.source = {cfg.source!r}: no answer of the {name} split would be learnt: "
                'give some "weight": 1, with a chat template that writes them'
            )
        if not len(inputs):
            raise config.ConfigError(
                f"data.length = {cfg.length}: no answer of the {name} split begins so early"
            )
        if unknown := hub.unknown(torch.cat((inputs, targets)), tokenizer, vocabulary):
            raise config.ConfigError(f"data.pretrained = {cfg.pretrained!r}: {unknown}")
    torch.save(rows, folder / ROWS)
    tokenizer.save_pretrained(folder / TOKENIZER)
    words = _words([document for some in encoded.values() for document in some], cfg.length)
    every = splits["train"] + splits["val"]
    words += _again(**splits) + _left_out(cfg, every) + _unwritten(every, tokenizer.chat_template)
    chat = any(isinstance(record.content, list) for record in splits["train"])
    if tokenizer.eos_token_id is None and not (chat and ends_of_answers(tokenizer)):
        words += "; the tokenizer has no token that ends texts, so the model learns no end"
    names = [hub.name_of(tokenizer), hub.name_of_values(*rows["train"], *rows["val"])]
    names += [hub.name_of_network(weights)] if weights else []
    about = {"vocabulary": vocabulary, "weights": weights, "chat": chat, "words": words}
    about["names"] = names
    (folder / ABOUT).write_text(json.dumps(about), encoding="utf-8")


def _words(documents: list[Document], length: int) -> str:
    """The numbers of documents: of all, and of the long ones that were cut or left out."""
    long = sum(len(document.tokens) > length + 1 for document in documents)
    gone = sum(not cut([document], length) for document in documents)
    words = f"{len(documents):,} conversations or texts, {long:,} longer than {length} tokens"
    return f"{words}, {gone:,} left out" if gone else words


def _again(train: list[Record], val: list[Record]) -> str:
    """How many records were held out from training in vain."""
    seen = {repr(record.content) for record in train}
    again = sum(repr(record.content) in seen for record in val)
    return f"; {again:,} of the {len(val):,} held out are for training, too" if again else ""


def _left_out(cfg: config.Data, records: list[Record]) -> str:
    """What of the source is not read: files of a test split, and columns."""
    tests = [path.name for path in source_files(cfg) if _is_test(path, cfg)]
    columns = sorted({name for record in records for name in record.ignored})
    chats = [record.content for record in records if not isinstance(record.content, str)]
    roles = sorted({turn["role"] for turns in chats for turn in turns} - ROLES)
    parts = {"files left out": tests, "columns ignored": columns, "roles not learnt": roles}
    return "".join(f"; {what}: {', '.join(names)}" for what, names in parts.items() if names)


def _unwritten(records: list[Record], template: Any) -> str:
    """Parts of turns that the chat template does not name, such as what was thought."""
    chats = [record.content for record in records if not isinstance(record.content, str)]
    parts = {name for turns in chats for turn in turns for name in turn} - {"weight"}
    known = {*re.findall(r"\w+", str(template))}
    names = ", ".join(sorted(parts - known))
    return f"; the chat template does not write what turns have in: {names}" if names else ""


# --- Reading --------------------------------------------------------------------------------------


def source_files(cfg: config.Data) -> list[Path]:
    """The files of the data; none for the standard library. Raises ConfigError for no file."""
    if cfg.source == "stdlib":
        return []
    source = Path(cfg.source)
    inside = sorted(source.iterdir()) if source.is_dir() else [source]
    endings = ENDINGS if source.is_dir() else (*ENDINGS, ".json")
    found = [path for path in inside if path.suffix.lower() in endings and path.is_file()]
    if not found:
        raise config.ConfigError(
            f"data.source = {cfg.source!r}: neither 'stdlib' nor a .jsonl, .json or .parquet file, "
            "or a folder of .jsonl or .parquet files"
        )
    return found


def tokenizer_files(cfg: config.Data) -> list[Path]:
    """The files that decide how texts become tokens."""
    own = [Path(cfg.template)] if cfg.template else []
    return own + sorted(Path(cfg.pretrained).glob("*.*") if cfg.pretrained else [])


def read_splits(cfg: config.Data) -> dict[str, list[Record]]:
    """The records of both splits, by their files' names or divided by chance.

    Raises ConfigError where a split has none.
    """
    held_out, rest = list[Path](), list[Path]()
    for path in source_files(cfg):
        if not _is_test(path, cfg):
            (held_out if _words_of(path) & VALIDATION else rest).append(path)
    records = [record for path in rest for record in read_file(path, cfg.column)]
    records += _read_stdlib() if cfg.source == "stdlib" else []
    val = [record for path in held_out for record in read_file(path, cfg.column)]
    if not held_out:
        generator = torch.Generator().manual_seed(cfg.split_seed)
        order = torch.randperm(len(records), generator=generator).tolist()
        size = max(1, round(cfg.validation * len(records)))
        val, records = ([records[i] for i in part] for part in (order[:size], order[size:]))
    if not (val and records):
        found = f"{len(records)} records for training and {len(val)} for validation"
        raise config.ConfigError(
            f"data.source = {cfg.source!r} has {found}: both are needed{_left_out(cfg, [])}"
        )
    return {"train": records, "val": val}


def _is_test(path: Path, cfg: config.Data) -> bool:
    """Whether a file of a folder is of the test split, by its name."""
    return Path(cfg.source).is_dir() and bool(_words_of(path) & TEST)


def _words_of(path: Path) -> set[str]:
    """The words in a file's name: part_val_01.jsonl has part and val."""
    return set(re.split(r"[^a-z]+", path.stem.lower()))


def read_file(path: Path, column: str) -> Iterator[Record]:
    """The conversations or texts of a file. Raises ConfigError for the first that is none."""
    for number, row in enumerate(_rows(path), start=1):
        place = f"{path}: record {number}"
        names = _columns(row, column) if isinstance(row, dict) else ()
        if not names:
            raise config.ConfigError(f"{place} {_lack(row, column)}")
        content = row[column] if names == (column,) else _pair(row, names, place)
        read = {*names, *MORE, "system"} if len(names) > 1 else {*names}
        yield Record(place, _checked(content, place), tuple(row.keys() - read))


def _lack(row: Any, column: str) -> str:
    """Why a record has nothing to learn from."""
    if isinstance(row, list):
        return "is a list: call a file with one list .json"
    if isinstance(row, dict) and column in row:
        return f"has no {column!r}: that is null"
    found = sorted(map(str, row)) if isinstance(row, dict) else repr(row)[:80]
    return f"has no {column!r} but {found}: set data.column"


def _columns(row: dict[str, Any], column: str) -> tuple[str, ...]:
    """The column that is wanted; in place of conversations a question and its answer; or none."""
    if row.get(column) is not None or column != CONVERSATIONS:
        return (column,) if row.get(column) is not None else ()
    pairs = ((q, a) for q, answers in PAIRS.items() for a in answers if {q, a} <= row.keys())
    return next(pairs, ())


def _pair(row: dict[str, Any], names: tuple[str, ...], place: str) -> list[Any]:
    """The conversation that a question and its answer are. Raises ConfigError for no answer."""
    asked, answered = (row[name] for name in names)
    if not answered or (isinstance(answered, str) and not answered.strip()):
        raise config.ConfigError(f"{place} has no answer: {names[1]!r} is empty")
    if isinstance(asked, str):
        asked = "\n\n".join([asked, *(str(row[name]) for name in MORE if row.get(name))])
    said = (("system", row.get("system")), ("user", asked), ("assistant", answered))
    return [turn for role, words in said if words for turn in _turns(role, words)]


def _turns(role: str, words: Any) -> list[Any]:
    """What is said, where it is not written as turns already."""
    return words if isinstance(words, list) else [{"role": role, "content": words}]


def _rows(path: Path) -> Iterator[Any]:
    """Each row of a file, as an object with names where the file is good."""
    import pyarrow.parquet

    try:
        if path.suffix.lower() == ".parquet":
            for batch in pyarrow.parquet.ParquetFile(path).iter_batches():
                yield from batch.to_pylist()
            return
        with path.open(encoding="utf-8-sig") as file:  # Windows marks files as UTF-8
            if path.suffix.lower() == ".json":
                yield from _list(file.read(), path)
                return
            for number, text in enumerate(file, start=1):
                if text.strip():
                    yield jsonl.line(text, f"{path}: line {number}")
    except (OSError, ValueError) as error:
        if getattr(error, "errno", None):
            raise  # of the disk; Arrow's errors of a file have no number
        raise config.ConfigError(f"{path} is no {path.suffix} file: {error}") from error


def _list(text: str, path: Path) -> list[Any]:
    try:
        content = jsonl.loads(text, str(path))
    except json.JSONDecodeError as error:
        more = ": call a file with a record in each line .jsonl" * error.msg.startswith("Extra")
        raise config.ConfigError(f"{path} is no .json file: {error}{more}") from error
    if not isinstance(content, list):
        names = f", but an object with {sorted(content)}" if isinstance(content, dict) else ""
        raise config.ConfigError(f"{path} holds no list of records{names}: write the list alone")
    return content


def _checked(content: Any, place: str) -> list[dict[str, Any]] | str:
    """A text, or the turns of a conversation without what Parquet and others leave empty."""
    if isinstance(content, str) and WRITTEN.match(content):
        raise config.ConfigError(f"{place} is a conversation within a text: write the list alone")
    if isinstance(content, str):
        if not content.strip():
            raise config.ConfigError(f"{place} is an empty text: leave the record out")
        return content
    turns = [_named(turn) for turn in content] if isinstance(content, list) else []
    wrong = [turn for turn in turns if not (isinstance(turn, dict) and _is_turn(turn))]
    if not turns or wrong:
        shown = repr(wrong[0] if wrong else content)[:80]
        raise config.ConfigError(
            f'{place} is neither a text nor a list of {{"role": ..., "content": ...}}: {shown}'
        )
    if not any(turn["role"] == "assistant" for turn in turns):
        roles = ", ".join(sorted({repr(turn["role"]) for turn in turns}))
        raise config.ConfigError(
            f"{place} has no answer: no turn with the role 'assistant', only with {roles}: leave "
            "the record out, or write 'assistant' where the model is to speak"
        )
    if not any(turn["role"] == "assistant" for turn in turns[1:]):
        raise config.ConfigError(
            f"{place} begins with its only answer, which answers nothing: write before it what was "
            "asked or said, leave the record out, or give texts alone, in a column of texts"
        )
    if odd := [turn["weight"] for turn in turns if turn.get("weight") not in (None, 0, 1)]:
        raise config.ConfigError(
            f'{place} has a turn of the "weight" {odd[0]!r}: write 0 for an answer that is not '
            "to be learnt, and 1 for one that is"
        )
    if any(_is_learnt(turn) and not _says(turn) for turn in turns):
        raise config.ConfigError(
            f"{place} has an empty answer, and the model would learn to say nothing: leave the "
            'record out, or give the answer "weight": 0'
        )
    return [{name: p for name, p in turn.items() if p not in (None, [])} for turn in turns]


def _says(turn: dict[str, Any]) -> bool:
    """Whether there are words, or calls of tools."""
    return bool((turn.get("content") or "").strip() or turn.get("tool_calls"))


def _named(turn: Any) -> Any:
    """A turn by the names of chat templates, where its own are from and value."""
    if not isinstance(turn, dict):
        return turn
    if not {"from", "value"} <= turn.keys() - {"role"}:
        named = {"role": "assistant"} if turn.get("role") == "model" else {}  # as Gemini's
        return {**turn, **named, "content": _joined(turn.get("content"))}
    speaker = turn["from"]
    role = SPEAKERS.get(speaker, speaker) if isinstance(speaker, str) else speaker
    return {"role": role, "content": turn["value"], "weight": turn.get("weight")}


def _is_turn(turn: dict[str, Any]) -> bool:
    calls = not turn.get("content") and bool(turn.get("tool_calls"))
    said = calls or isinstance(turn.get("content"), str)
    return isinstance(turn.get("role"), str) and said


def _joined(parts: Any) -> Any:
    """A text that is written in parts, where all of them are texts."""
    if not (isinstance(parts, list) and parts and all(map(_is_text, parts))):
        return parts
    return "".join(part["text"] for part in parts)


def _is_text(part: Any) -> bool:
    is_part = isinstance(part, dict) and part.get("type") == "text"
    return is_part and isinstance(part.get("text"), str)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise config.ConfigError(f"data.template = {str(path)!r}: {error}") from error


def _read_stdlib() -> Iterator[Record]:
    """Questions about functions of the standard library; the answer begins their docstring."""
    root = Path(sysconfig.get_path("stdlib"))
    seen = set[str]()
    for module in MODULES.split():
        for path in [root / f"{module}.py", *sorted((root / module).rglob("*.py"))]:
            tree = ast.parse(path.read_bytes()) if path.is_file() else ast.Module([], [])
            for node in (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)):
                answer = (ast.get_docstring(node) or "").split("\n\n")[0]
                if len(answer) >= 40 and answer not in seen:  # no answer is in both splits
                    seen.add(answer)
                    question = {"role": "user", "content": f"What is {node.name} of {module}?"}
                    turns = [question, {"role": "assistant", "content": answer}]
                    yield Record(str(path), turns)


# --- Tokens ---------------------------------------------------------------------------------------


def fetch(name: str, **options: Any) -> str:
    """The folder of a pretrained model: as it is named, or this node's copy from the hub.

    The options are those of `snapshot_download`.
    """
    if Path(name).is_dir():
        return str(Path(name).absolute())
    import huggingface_hub

    try:
        return str(huggingface_hub.snapshot_download(name, allow_patterns=WEIGHTS, **options))
    except (OSError, ValueError) as error:
        raise config.ConfigError(
            f"data.pretrained = {name!r} is no folder, and cannot be fetched by name: {error}"
        ) from error


def open_tokenizer(cfg: config.Data, folder: str) -> Any:
    """The tokenizer of a pretrained model. Raises ConfigError where rows do not fit the model."""
    import transformers

    try:
        size = transformers.AutoConfig.from_pretrained(folder).get_text_config()
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    except Exception as error:  # of a tokenizer that is cut off; the library has no narrower one
        raise config.ConfigError(
            f"data.pretrained = {cfg.pretrained!r}: no config or no tokenizer to read: {error}"
        ) from error
    positions = getattr(size, "max_position_embeddings", cfg.length)
    if cfg.length > positions:
        raise config.ConfigError(f"data.length = {cfg.length}: the model has {positions} positions")
    return tokenizer


def count_known(folder: str) -> int:
    """How many tokens a pretrained model has vectors for; its tokenizer may have more or fewer."""
    import transformers

    size = transformers.AutoConfig.from_pretrained(folder).get_text_config()
    return int(getattr(size, "vocab_size", sys.maxsize))


def train_tokenizer(cfg: config.Data, records: list[Record]) -> Any:
    """Pairs of bytes, merged as often as `data.vocabulary` allows, and a chat template."""
    import tokenizers
    import transformers

    special = ["<|pad|>", "<|im_start|>", "<|im_end|>"]
    if cfg.vocabulary < 256 + len(special):
        raise config.ConfigError(f"data.vocabulary = {cfg.vocabulary} must be at least 259")
    contents = (record.content for record in records)
    texts = (c if isinstance(c, str) else "\n".join(map(_words_said, c)) for c in contents)
    pairs = tokenizers.ByteLevelBPETokenizer()
    pairs.train_from_iterator(texts, cfg.vocabulary, show_progress=False, special_tokens=special)
    options = {"pad_token": special[0], "eos_token": special[2], "chat_template": CHAT}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=pairs._tokenizer, **options)


def _words_said(turn: dict[str, Any]) -> str:
    words: str = turn.get("content", "")
    return words


def ends_of_answers(tokenizer: Any) -> list[int]:
    """The token with which the chat template ends an answer; none where it has none such."""
    turns = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "!"}]
    behind = tokenizer.apply_chat_template(turns, tokenize=False).rpartition("!")[2]
    found = tokenizer(behind.lstrip(), add_special_tokens=False)["input_ids"][:1]
    return [token for token in found if token in tokenizer.added_tokens_decoder]


def encode(records: list[Record], tokenizer: Any) -> list[Document]:
    """The tokens of records; of a conversation only the answers count."""
    found: list[Document] = []
    for first in range(0, len(records), AT_ONCE):
        part = records[first : first + AT_ONCE]
        texts = [record.content for record in part if isinstance(record.content, str)]
        if texts:
            found += [_whole(ids, tokenizer) for ids in tokenizer(texts)["input_ids"]]
        chats = [record for record in part if not isinstance(record.content, str)]
        if chats and not tokenizer.chat_template:
            raise config.ConfigError(
                f"{chats[0].place} is a conversation, and the tokenizer has no chat template: name "
                "a file with one in data.template"
            )
        if chats and not tokenizer.is_fast:
            raise config.ConfigError(
                f"{chats[0].place} is a conversation, and {type(tokenizer).__name__} cannot tell "
                "which tokens are of an answer: save the tokenizer as a tokenizer.json"
            )
        rendered = [text for chat in chats for text in render(chat, tokenizer)]
        if rendered:
            found += _answers(rendered, tokenizer)
    return found


def _whole(ids: list[int], tokenizer: Any) -> Document:
    """A text, of which all tokens count, and the token that ends texts."""
    end = tokenizer.eos_token_id
    tokens = ids if end is None or ids[-1:] == [end] else [*ids, end]
    return Document(tokens, [True] * len(tokens))


def _answers(chats: list[Rendered], tokenizer: Any) -> Iterator[Document]:
    """The tokens of conversations, of which those count that begin within an answer."""
    options = {"add_special_tokens": False, "return_offsets_mapping": True}  # the template has them
    encoded = tokenizer([chat.text for chat in chats], **options)
    every = zip(chats, encoded["input_ids"], encoded["offset_mapping"], strict=True)
    # Where the template has no token for it, the one that ends texts ends the last answer.
    last = tokenizer.eos_token_id
    missing = [] if last is None or ends_of_answers(tokenizer) else [last]
    for chat, ids, offsets in every:
        counts = [any(begin <= at < end for begin, end in chat.answers) for at, _ in offsets]
        end = missing if counts[-1] and ids[-1] != last else []
        yield Document([*ids, *end], [*counts, *(True for _ in end)])


def _is_learnt(turn: dict[str, Any]) -> bool:
    """Whether a turn is an answer; those that OpenAI's files leave out have the weight 0."""
    return turn["role"] == "assistant" and turn.get("weight") != 0


def render(record: Record, tokenizer: Any) -> list[Rendered]:
    """A conversation by the tokenizer's template, and where the answers are.

    Words with which a conversation begins answer nothing, and are not learnt. Some templates write
    an answer differently once other turns follow, as without what was thought. Then each answer has
    a text of its own, which the answer ends.
    """
    import jinja2

    turns: Any = record.content
    if any("tool_calls" in turn for turn in turns) and "tool_calls" not in tokenizer.chat_template:
        raise config.ConfigError(
            f"{record.place} has tool_calls, which the chat template does not write: name a file "
            "with another, data.template"
        )
    write = partial(tokenizer.apply_chat_template, tokenize=False)
    try:
        whole = write(turns)
        places = [n for n, turn in enumerate(turns) if n and _is_learnt(turn)]
        asked = [write(turns[:place], add_generation_prompt=True) for place in places]
        through = [write(turns[: place + 1]) for place in places]
    except (ValueError, TypeError, ArithmeticError, jinja2.TemplateError) as error:
        raise config.ConfigError(f"{record.place}: the chat template says: {error}") from error
    pairs = list(zip(asked, through, strict=True))
    if not all(after.startswith(before) for before, after in pairs):
        raise config.ConfigError(
            f"{record.place}: the chat template does not begin an answer as it asks for one: name "
            "a file with another, data.template"
        )
    if all(whole.startswith(after) for after in through):
        return [Rendered(whole, [(len(before), len(after)) for before, after in pairs])]
    return [Rendered(after, [(len(before), len(after))]) for before, after in pairs]


# --- Rows -----------------------------------------------------------------------------------------


def cut(documents: list[Document], length: int) -> list[Document]:
    """Documents of at most `length` tokens and a successor; those where a target counts.

    Texts go on in further documents. Conversations end, as answers mean nothing without questions.
    """
    found = []
    for tokens, counts in documents:
        begins = range(0, len(tokens) - 1, length) if all(counts) else [0]
        found += [Document(tokens[b : b + length + 1], counts[b : b + length + 1]) for b in begins]
    return [document for document in found if any(document.counts[1:])]


def pack(documents: list[Document], length: int) -> tuple[Tensor, Tensor, Tensor]:
    """Inputs, positions and targets [rows, length] int32, with little padding.

    The longest document comes first, each into the fullest row that has room for it. What fills a
    row up is a document, too, of which no target counts.
    """
    rows: list[list[Document]] = []
    room: list[tuple[int, int]] = []  # of each row: free places, number
    for document in sorted(documents, key=lambda document: -len(document.tokens)):
        size = len(document.tokens) - 1
        place = bisect_left(room, (size, 0))
        if place == len(room):
            room.append((length, len(rows)))
            rows.append([])
        free, row = room.pop(place)
        rows[row].append(document)
        insort(room, (free - size, row))
    shape = (len(rows), length)
    inputs, positions = torch.zeros(shape, dtype=torch.int32), torch.zeros(shape, dtype=torch.int32)
    targets = torch.full(shape, IGNORE, dtype=torch.int32)
    for row, inside in enumerate(rows):
        begin = 0
        for tokens, counts in inside:
            numbers = torch.tensor(tokens, dtype=torch.int32)
            end = begin + len(tokens) - 1
            inputs[row, begin:end] = numbers[:-1]
            positions[row, begin:end] = torch.arange(end - begin)
            targets[row, begin:end] = numbers[1:].where(torch.tensor(counts[1:]), IGNORE)
            begin = end
        positions[row, begin:] = torch.arange(length - begin)
    return inputs, positions, targets
