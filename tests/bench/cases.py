"""What is measured: one table of cases and sizes for each kind of device.

Nothing here needs torch: the driver reads it, and each rank gets its share as a `Task`.
"""

import dataclasses
import json
import os
from dataclasses import dataclass
from typing import Any

VARIABLE = "DDPGEN_BENCH"
LOG_EVERY = 10  # optimizer steps; every side reports its loss so often
LIBRARIES = {"accelerate": "accelerate", "lightning": "pytorch_lightning", "trainer": "accelerate"}
ALL = ("generated", "plain", "again", "accelerate", "lightning")
# Sides that are another one, and what is changed in it.
VARIANTS = {
    "again": "plain",  # nothing: what two equal loops differ by
    "searched": "plain",  # DDP looks for parameters without a gradient, of which there are none
    "micro": "plain",  # neither reduction nor update
    "fixed": "generated",  # one batch all the time: nothing is loaded
    "uncounted": "generated",  # targets are counted, but not over all ranks
    "unlogged": "generated",  # no log points
    "unseeded": "generated",  # generators go on from step to step
    "bare": "generated",  # none of these three
}
SEARCHED = ("generated", "plain", "again", "searched")
TAKEN_APART = ("generated", "plain", "again", "uncounted", "unlogged", "unseeded", "bare")


@dataclass(frozen=True)
class Case:
    """One model in one size, trained by several sides."""

    name: str
    words: str
    model: str
    micro_batch: int
    overrides: tuple[str, ...] = ()
    amp: str = "off"
    sides: tuple[str, ...] = ALL
    sharding: str = "off"  # or fsdp: each side by its own way to FSDP2
    block: int = 10  # steps that are timed as one; a multiple of LOG_EVERY
    blocks: int = 10  # of each start
    starts: int = 1  # of all sides anew: two equal process trees differ by a few percent
    evaluated: int = 20  # micro-batches of one rank in an evaluation
    repeats: int = 4  # evaluations, saves, loads
    accumulate: int = 1  # micro-batches of a step of the generated project

    @property
    def answers(self) -> dict[str, Any]:
        """What ddpgen is asked for."""
        answers = {"model": self.model, "amp": self.amp, "accumulation": self.accumulate > 1}
        answers |= {"batch_norm": "local"} if self.model == "resnet" else {}
        return answers | ({"sharding": "fsdp", "saves": "shards"} if self.sharded else {})

    @property
    def sharded(self) -> bool:
        """Whether the ranks share weights and optimizer out among them."""
        return self.sharding == "fsdp"


@dataclass(frozen=True)
class Task:
    """What a rank is told: the case, and its part in the protocol of clock.py."""

    overrides: list[str]
    micro_batch: int
    amp: bool
    sharded: bool
    block: int
    blocks: int
    evaluated: int
    repeats: int
    began: float  # time.monotonic() when the processes were started
    report: int  # file descriptor
    folder: str
    warmup: int = 2 * LOG_EVERY
    variant: str = ""  # the side, where it is one of VARIANTS

    @property
    def steps(self) -> int:
        """Warm-up, timed blocks, and one log interval whose reads of tensors are counted."""
        return self.warmup + self.block * self.blocks + LOG_EVERY

    def environment(self) -> dict[str, str]:
        """What `received` finds."""
        return {VARIABLE: json.dumps(dataclasses.asdict(self))}


def received() -> Task:
    """The task of this process."""
    return Task(**json.loads(os.environ[VARIABLE]))


STDLIB_FILE = ("data.source={stdlib}/ast.py", "data.validation=0.2")
PLAIN_IMAGES = ("data.rotate=0.0", "data.zoom=0.0", "data.shift=0.0")
SMALL_TEXT = ("data.length=64", "model.width=128", "model.layers=2")
GPT2 = ("model.width=768", "model.layers=12", "model.heads=12", "data.window=1024")
GPT2_TEXT = (*STDLIB_FILE, "data.vocabulary=50304", *GPT2)
RESNET50 = ("data.image_size=224", "data.channels=3", "model.width=64", "model.stem_stride=4")

CPU = (
    Case("mlp", "MLP", "mlp", 32, blocks=27, starts=3),
    Case(
        "parts", "MLP, parts of the generated step left out", "mlp", 32,
        sides=TAKEN_APART,
        blocks=40, starts=3, evaluated=2, repeats=1,
    ),
    Case(
        "resnet", "ResNet, 8 × 8 images", "resnet", 32,
        (*PLAIN_IMAGES, "model.width=16"), blocks=20, starts=3,
    ),
    Case(
        "gpt", "GPT, 128 tokens", "gpt", 2,
        (*STDLIB_FILE, "data.window=128", "model.layers=2"), blocks=14, starts=3,
    ),
    Case(
        "fsdp", "GPT, 128 tokens, shared out by FSDP2", "gpt", 2,
        (*STDLIB_FILE, "data.window=128", "model.layers=2"), sharding="fsdp", blocks=10, starts=3,
    ),
    Case(
        "distilbert", "DistilBERT, 64 tokens", "text-classifier", 8, SMALL_TEXT,
        sides=(*ALL, "trainer"), blocks=14, starts=3,
    ),
    Case(
        "large", "MLP", "mlp", 4, ("model.width=1024", "model.depth=6"),
        blocks=3, starts=3, evaluated=2,
    ),
    Case(
        "accumulation", "MLP, 8 micro-batches", "mlp", 16,
        ("model.width=512", "model.depth=3"), sides=("generated", "plain", "micro"),
        blocks=3, starts=3, evaluated=2, repeats=1, accumulate=8,
    ),
    Case(
        "unused", "GPT, 64 tokens, 6 layers", "gpt", 8,
        (*STDLIB_FILE, "data.window=64", "model.width=128", "model.layers=6"),
        sides=SEARCHED, blocks=14, starts=3, evaluated=2, repeats=1,
    ),
)  # fmt: skip

FED = (*ALL, "parallel", "fixed")  # is the device ever without data?
CUDA = (
    Case("mlp", "MLP", "mlp", 64, amp="bf16", block=200, blocks=10),
    Case(
        "parts", "MLP, parts of the generated step left out", "mlp", 64, amp="bf16",
        sides=TAKEN_APART,
        block=200, blocks=10, evaluated=2, repeats=1,
    ),
    Case("gpt", "GPT-2 124 M, 1024 tokens", "gpt", 16, GPT2_TEXT, "bf16", FED, blocks=8),
    Case(
        "fsdp", "GPT-2 124 M, 1024 tokens, shared out by FSDP2", "gpt", 16, GPT2_TEXT, "bf16",
        sharding="fsdp", blocks=8,
    ),
    Case(
        "gpt, compiled", "GPT-2 124 M, 1024 tokens, torch.compile", "gpt", 16,
        (*GPT2_TEXT, "run.compile=true"), "bf16", blocks=8,
    ),
    Case(
        "resnet", "ResNet, stages of ResNet-50, 224 × 224 images", "resnet", 128,
        (*PLAIN_IMAGES, *RESNET50, "model.stages=[3,4,6,3]"), "bf16", FED, blocks=8, evaluated=5,
    ),
    Case(
        "distilbert", "DistilBERT-base, 512 tokens", "text-classifier", 32,
        ("data.length=512", "data.vocabulary=30522", "model.width=768", "model.layers=6",
         "model.heads=12"), "bf16", (*ALL, "trainer"), blocks=8, evaluated=5,
    ),
    Case(
        "accumulation", "MLP, 8 micro-batches", "mlp", 512,
        ("model.width=1024", "model.depth=6"), "bf16", ("generated", "plain", "micro"),
        blocks=8, evaluated=2, repeats=1, accumulate=8,
    ),
    Case(
        "unused", "GPT-2 124 M, 1024 tokens", "gpt", 16, GPT2_TEXT, "bf16", SEARCHED,
        blocks=8, evaluated=2, repeats=1,
    ),
)  # fmt: skip


def quick(case: Case) -> Case:
    """The same case with as few figures as still show that it works."""
    return dataclasses.replace(case, block=LOG_EVERY, blocks=3, starts=1, repeats=2, evaluated=2)


TABLE = {"cpu": CPU, "cuda": CUDA}
