"""Encoders of Hugging Face, small and with random weights, are fine-tuned by a project as it is."""

import json
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tokenizers import BertWordPieceTokenizer
from tokenizers.processors import BertProcessing

from product import forkserver, template

WORDS = {"good": ["lovely", "great", "warm"], "bad": ["dull", "cold", "broken"]}
SIZE: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 40,
}
BART = {
    f"{part}_{name}": 2 for part in ("encoder", "decoder") for name in ("layers", "attention_heads")
}
# By the name that transformers has for the architecture: what makes it small, or usual.
ENCODERS: dict[str, dict[str, Any]] = {
    "bert": {},
    "roberta": {},
    "distilbert": {"dim": 16, "hidden_dim": 32, "n_layers": 2, "n_heads": 2},
    "deberta-v2": {
        "relative_attention": True,
        "pos_att_type": ["p2c", "c2p"],
        "position_biased_input": False,
        "share_att_key": True,
        "position_buckets": 8,
    },
    "modernbert": {"classifier_pooling": "mean", "local_attention": 4},
    "big_bird": {"attention_type": "original_full"},  # has a pooler that nothing uses
    "bart": BART | {"d_model": 16, "encoder_layerdrop": 0.9, "decoder_layerdrop": 0.9},
}
PROGRAM = """
import json, sys
from pathlib import Path
import torch, transformers
import config, data, model
cfg = config.load(config.DEFAULTS, sys.argv[1:])
data.prepare(cfg.data)
splits = data.open_splits(cfg.data)
network = model.build(cfg.model, splits.shape)
trained = [weight for weight in network.parameters() if weight.requires_grad]
batch = splits.train.__getitems__(list(range(8)))
model.loss_sum(network(batch.inputs), batch.targets).backward()
missing = [name for name, weight in network.named_parameters()
           if weight.requires_grad and weight.grad is None]
network.eval()
plain = transformers.AutoModelForSequenceClassification.from_pretrained(
    cfg.data.pretrained, dtype="float32").eval()
mask = (batch.inputs != splits.shape.padding).long()
longer = torch.nn.functional.pad(batch.inputs, (0, 3), value=splits.shape.padding)
with torch.no_grad():
    other = plain(batch.inputs, attention_mask=mask).logits
    found = [network(batch.inputs), other, network(longer)]
frozen = [name for name, weight in network.named_parameters() if not weight.requires_grad]
print(json.dumps({"missing": missing, "frozen": frozen,
                  "logits": [each.tolist() for each in found],
                  "padded": int((mask == 0).sum()), "words": str(splits.shape)}))
"""


def write_reviews(path: Path) -> list[str]:
    """Texts of several lengths, with labels; returns the texts."""
    draw = random.Random(0)
    rows = []
    for _ in range(60):
        verdict = draw.choice(list(WORDS))
        text = " ".join(draw.choice(WORDS[verdict]) for _ in range(draw.randint(1, 9)))
        rows.append({"text": text, "label": verdict})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return [row["text"] for row in rows]


def save(folder: Path, kind: str, texts: list[str]) -> None:
    """A checkpoint for the same two classes in another order than that of the alphabet."""
    pieces = BertWordPieceTokenizer()
    pieces.train_from_iterator(texts, vocab_size=120, show_progress=False)
    ends = [(token, pieces.token_to_id(token)) for token in ("[SEP]", "[CLS]")]
    pieces._tokenizer.post_processor = BertProcessing(*ends)
    names = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=pieces._tokenizer, **names)
    tokenizer.save_pretrained(folder)
    about: dict[str, Any] = {
        f"{name}_token_id": tokenizer.sep_token_id for name in ("eos", "bos", "decoder_start")
    }
    about |= {"cls_token_id": tokenizer.cls_token_id, "sep_token_id": tokenizer.sep_token_id}
    about |= {"vocab_size": len(tokenizer), "pad_token_id": 0, "id2label": {0: "good", 1: "bad"}}
    sizes = SIZE if kind not in ("bart", "distilbert") else {"max_position_embeddings": 40}
    size = transformers.AutoConfig.for_model(kind, **{**sizes, **about, **ENCODERS[kind]})
    torch.manual_seed(0)
    network: Any = transformers.AutoModelForSequenceClassification.from_config(size)
    for weight in network.parameters():  # so that logits depend on all of the text
        if weight.ndim > 1:
            torch.nn.init.normal_(weight, std=0.3)
    network.save_pretrained(folder)


@pytest.mark.parametrize("kind", ENCODERS)
def test_encoder(kind: str, tmp_path: Path, forked: Path) -> None:
    """Logits are those of transformers, padding changes nothing, and no gradient is missing."""
    project = tmp_path / "project"
    template.write({"model": "text-classifier"}, project)
    save(tmp_path / "encoder", kind, write_reviews(tmp_path / "reviews.jsonl"))
    overrides = [f"data.source={tmp_path}/reviews.jsonl", f"data.pretrained={tmp_path}/encoder"]
    overrides += [f"data.folder={tmp_path}/data", "data.length=12", "log.curve=false"]
    (tmp_path / "data").mkdir()
    (project / "look.py").write_text(PROGRAM)
    command = [forked / "python", "look.py", *overrides]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["missing"] == []
    assert all("pooler" in name for name in found["frozen"])
    assert bool(found["frozen"]) == (kind == "big_bird")
    assert "the pretrained head is kept" in found["words"]
    assert found["padded"] > 0
    own, others, longer = (torch.tensor(logits) for logits in found["logits"])
    torch.testing.assert_close(own, others, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(longer, own, atol=1e-5, rtol=1e-5)
    assert own.std(dim=0).min() > 1e-3, "the text decides nothing"
    if kind in ("bert", "bart", "big_bird"):
        run = forkserver.train(project, 2, [*overrides, "run.name=run", "train.max_steps=3"])
        assert run.codes == [0, 0], run.output[-3000:]
