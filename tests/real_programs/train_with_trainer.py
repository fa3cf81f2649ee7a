"""The Trainer of transformers on a tiny Llama, over the given backend."""

import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import transformers

import atp.torch

TOKENS = 64


class Words(torch.utils.data.Dataset):
    """Sequences that count upward, so that there is something to learn."""

    def __len__(self):
        return 48

    def __getitem__(self, index):
        ids = (torch.arange(12) + index) % TOKENS
        return {"input_ids": ids, "labels": ids}


def main(backend, folder):
    # The Trainer knows no backend by this name, but takes an existing group.
    dist.init_process_group(backend)
    transformers.set_seed(1)
    config = transformers.LlamaConfig(
        vocab_size=TOKENS,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=32,
        use_cache=False,
    )
    trainer = transformers.Trainer(
        model=transformers.LlamaForCausalLM(config),
        args=transformers.TrainingArguments(
            output_dir=str(folder / "trainer"),
            use_cpu=True,
            num_train_epochs=2,
            per_device_train_batch_size=6,
            learning_rate=0.01,
            logging_steps=1,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
        ),
        train_dataset=Words(),
    )
    trainer.train()
    said = {
        "losses": [entry["loss"] for entry in trainer.state.log_history if "loss" in entry],
        "evaluated": trainer.evaluate(Words())["eval_loss"],
        "steps": trainer.state.global_step,
        "weights": [p.detach().sum().item() for p in trainer.model.parameters()],
        "kind": str(trainer.args.parallel_mode),
    }
    if backend == "atp":
        stats = atp.torch.stats()
        said["summed by us"] = sorted(stats["innetwork"] or stats["ring"])
    (folder / f"{dist.get_rank()}.json").write_text(json.dumps(said))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
