"""(e) The Hugging Face Trainer, for the text model."""

from typing import Any

import model
import torch
import transformers

from bench.cases import LOG_EVERY, received
from bench.clock import Clock
from bench.sides.project import Parts

task = received()
clock = Clock(task)


class Network(torch.nn.Module):
    """The project's model, with the loss that the Trainer wants among the outputs."""

    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        outputs = self.inner(inputs)
        return {"loss": model.loss_sum(outputs, labels) / labels.numel(), "logits": outputs}


class Watch(transformers.TrainerCallback):
    """The clock."""

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        clock.ready()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        clock.step()


def main() -> None:
    """Train."""
    parts = Parts(task)
    cuda = torch.cuda.is_available()
    arguments = transformers.TrainingArguments(
        task.folder,
        max_steps=task.steps,
        per_device_train_batch_size=task.micro_batch,
        per_device_eval_batch_size=task.micro_batch,
        use_cpu=not cuda,
        ddp_backend="nccl" if cuda else "gloo",
        ddp_find_unused_parameters=False,
        bf16=task.amp,
        max_grad_norm=parts.cfg.train.clip_norm,
        logging_steps=LOG_EVERY,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        remove_unused_columns=False,
        prediction_loss_only=True,
        torch_compile=False,
    )
    optimizer = parts.optimizer()
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, parts.schedule(task.steps))
    trainer = transformers.Trainer(
        Network(parts.model),
        arguments,
        data_collator=lambda batch: {"inputs": batch.inputs, "labels": batch.targets},
        train_dataset=parts.train,
        eval_dataset=parts.val,
        optimizers=(optimizer, schedule),
        callbacks=[Watch()],
    )
    trainer.train()
    clock.repeat("evaluation", trainer.evaluate)
    # What it does itself at every `save_steps`; there is no public name for it.
    clock.repeat("save", lambda: trainer._save_checkpoint(trainer.model, trial=None))
    clock.close()


if __name__ == "__main__":
    main()
