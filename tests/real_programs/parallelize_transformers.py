"""GPT-2 and Llama of transformers, with random weights, on every mesh and unsharded."""

import contextlib
import copy
import functools
import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import transformers
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    GPTBigCodeConfig,
    GPTBigCodeForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
)

from atp.tensor_parallel import full_state_dict, init_mesh, parallelize
from atp.tensor_parallel.sharding import cuts_of

VOCABULARY = 67  # which none of the meshes divides
GPT2 = GPT2Config(
    vocab_size=VOCABULARY,
    n_positions=32,
    n_embd=32,
    n_layer=2,
    n_head=8,
    resid_pdrop=0.0,
    embd_pdrop=0.0,
    attn_pdrop=0.0,
    bos_token_id=1,
    eos_token_id=2,
)
LLAMA = LlamaConfig(
    vocab_size=VOCABULARY,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=8,
    num_key_value_heads=2,
    max_position_embeddings=32,
    bos_token_id=1,
    eos_token_id=2,
)


def changed(config, **settings):
    config = copy.deepcopy(config)
    for name, value in settings.items():
        setattr(config, name, value)
    return config


MODELS = {
    "GPT-2": (GPT2LMHeadModel, GPT2),
    "GPT-2 with its own kernel": (GPT2LMHeadModel, changed(GPT2, _attn_implementation="eager")),
    "Llama": (LlamaForCausalLM, LLAMA),
    "Llama with tied embeddings and biases": (
        LlamaForCausalLM,
        changed(LLAMA, tie_word_embeddings=True, attention_bias=True, mlp_bias=True),
    ),
    "Llama with its own kernel": (
        LlamaForCausalLM,
        changed(LLAMA, _attn_implementation="eager", num_key_value_heads=4),
    ),
}
# In float64 their own kernel turns a row that is all padding into NaN.
TYPES = {
    "float32": (torch.float32, MODELS),
    "float64": (torch.float64, ("GPT-2", "Llama")),
    "bfloat16": (torch.bfloat16, ("GPT-2", "Llama")),
}

# Others that parallelize() takes, with what tells them from a Llama.
ALIKE = {
    "cwm": {},
    "ernie4_5": {},
    "granite": {"embedding_multiplier": 2.0, "residual_multiplier": 0.5, "logits_scaling": 3.0},
    "helium": {},
    "ministral": {},
    "mistral": {"sliding_window": 4},
    "qwen2": {},
    "seed_oss": {"attention_dropout": 0.0, "residual_dropout": 0.0},
    "smollm3": {},
    "stablelm": {},
    "starcoder2": {"attention_dropout": 0.0, "residual_dropout": 0.0, "embedding_dropout": 0.0},
}


def make_alike(name):
    settings = {"num_key_value_heads": 4, "head_dim": 4, "pad_token_id": 0} | ALIKE[name]
    config = AutoConfig.for_model(name)
    sizes = LLAMA.to_dict()
    for key in ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
                "num_attention_heads", "max_position_embeddings", "bos_token_id",
                "eos_token_id"):  # fmt: skip
        settings.setdefault(key, sizes[key])
    settings = {key: value for key, value in settings.items() if hasattr(config, key)}
    torch.manual_seed(1)
    return AutoModelForCausalLM.from_config(AutoConfig.for_model(name, **settings)).float()


def of_those_alike(mesh):
    """{model: its largest error} of logits, loss and gradients."""
    found = {}
    for name in ALIKE:
        whole, model = make_alike(name), parallelize(make_alike(name), mesh)
        each = []
        for one in (whole, model):
            output = one.train()(**batch())
            output.loss.backward()
            each.append({"logits": output.logits.detach(), "loss": output.loss.detach()})
            each[-1] |= {key: p.grad for key, p in one.named_parameters()}
        of_whole, own = each
        found[name] = max(errors(own, of_whole, cuts_of(model), mesh).values())
    return found


def make(name, dtype):
    """With values that bfloat16 can represent."""
    kind, config = MODELS[name]
    torch.manual_seed(1)
    model = kind(copy.deepcopy(config))
    with torch.no_grad():
        for parameter in model.parameters():  # also norms and biases, which start as ones and zeros
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
            parameter.copy_(parameter.bfloat16())
    return model.to(dtype)


def batch():
    """Sequences of several lengths: padding that is masked, and targets that do not count."""
    tokens = torch.randint(3, VOCABULARY, (4, 16), generator=torch.Generator().manual_seed(2))
    mask = torch.ones_like(tokens)
    mask[1, :3] = mask[3, :5] = 0
    labels = tokens.masked_fill(mask == 0, -100)
    labels[0, 4] = -100
    return {"input_ids": tokens, "attention_mask": mask, "labels": labels}


def results(model):
    """Logits, loss, each parameter's gradient, and the model's output in evaluation."""
    model.train()
    output = model(**batch())
    output.loss.backward()
    found = {"logits": output.logits.detach(), "loss": output.loss.detach()}
    found |= {name: parameter.grad for name, parameter in model.named_parameters()}
    model.eval()
    tokens, mask = batch()["input_ids"], batch()["attention_mask"]
    with torch.no_grad():
        found["logits in evaluation"] = model(tokens, attention_mask=mask).logits
        cached = model(tokens[:, :6], attention_mask=mask[:, :6], use_cache=True)
        rest = model(tokens[:, 6:], attention_mask=mask, past_key_values=cached.past_key_values)
        found["logits with a cache"] = torch.cat([cached.logits, rest.logits], 1)
        found["tokens"] = model.generate(
            tokens, attention_mask=mask, max_new_tokens=5, do_sample=False, pad_token_id=0
        )
    return found


class Exact:
    """In float64 transformers' RMSNorm goes through float32, and ours does not."""

    def __enter__(self):
        norm = transformers.models.llama.modeling_llama.LlamaRMSNorm
        self._norm, self._before = norm, norm.forward
        norm.forward = lambda self, x: torch.nn.functional.rms_norm(
            x, self.weight.shape, self.weight, self.variance_epsilon
        )

    def __exit__(self, *_):
        self._norm.forward = self._before


def errors(found, whole, cuts, mesh):
    """{tensor: relative L2 norm of the difference}, of this rank's piece."""
    outcome = {}
    for name, tensor in found.items():
        wanted = whole[name]
        if name in cuts:
            wanted = cuts[name].take(wanted, mesh.shape, mesh.row, mesh.column)
        if name == "tokens":
            outcome[name] = float(not torch.equal(tensor, wanted))
        else:
            scale = whole_norm(name, whole)
            error = float((tensor.double() - wanted.double()).norm() / scale)
            outcome[name] = error if error == error else float("inf")
    return outcome


def whole_norm(name, whole):
    """The keys' biases of a GPT-2 have no gradient except for rounding; their weight has one."""
    weight = whole.get(name.removesuffix("bias") + "weight", whole[name])
    return float(max(whole[name].double().norm(), weight.double().norm()))


@functools.cache
def of_whole(name, kind):
    """The unsharded model's results, computed once for all meshes."""
    with Exact() if kind == "float64" else contextlib.nullcontext():
        return results(make(name, TYPES[kind][0]))


def on_mesh(mesh):
    """{"model, type": {tensor: its error}}; for bfloat16 also the whole model's, from float32."""
    said = {}
    for kind, (dtype, names) in TYPES.items():
        if mesh.first.algorithm == "innetwork" and dtype == torch.float64:
            continue  # which switches do not sum
        for name in names:
            whole, model = of_whole(name, kind), parallelize(make(name, dtype), mesh)
            found, cuts = results(model), cuts_of(model)
            if dtype == torch.bfloat16:
                exact = of_whole(name, "float32")
                del found["tokens"]  # rounding may choose others
                own, theirs = (squared_errors(each, exact, cuts, mesh) for each in (found, whole))
                said[f"{name}, {kind}"] = {key: [own[key], theirs[key]] for key in own}
            else:
                said[f"{name}, {kind}"] = errors(found, whole, cuts, mesh)
            state, expected = full_state_dict(model), make(name, dtype).state_dict()
            assert state.keys() == expected.keys()
            assert all(torch.equal(state[key], expected[key]) for key in state)
    return said


def squared_errors(found, exact, cuts, mesh):
    """The errors of this rank's pieces; `found` may have the pieces or the whole tensors."""
    outcome = {}
    for name, tensor in found.items():
        if name == "tokens":
            continue
        wanted = exact[name]
        if name in cuts:
            take = cuts[name].take
            if tensor.shape == wanted.shape:
                tensor = take(tensor, mesh.shape, mesh.row, mesh.column)
            wanted = take(wanted, mesh.shape, mesh.row, mesh.column)
        outcome[name] = float((tensor.double() - wanted.double()).square().sum())
    return outcome


def with_dropout(mesh):
    """Whether activation checkpointing changes nothing, and values to compare with other ranks'."""
    config = changed(GPT2, resid_pdrop=0.2, embd_pdrop=0.2, attn_pdrop=0.2)
    torch.manual_seed(1)
    model = parallelize(GPT2LMHeadModel(config), mesh)
    found = []
    for with_checkpoints in (False, True):
        if with_checkpoints:
            model.gradient_checkpointing_enable({"use_reentrant": False})
        mesh.randomness.batches = 0
        model.zero_grad()
        model.train()
        loss = model(**batch()).loss
        loss.backward()
        found.append([loss.detach(), *(p.grad.clone() for p in model.parameters())])
    alike = all(
        torch.allclose(one, other, rtol=1e-5, atol=1e-7) for one, other in zip(*found, strict=True)
    )
    norms = [model.transformer.ln_f.weight.grad.sum().item(), mesh.column]
    model.eval()
    without = model(**batch()).loss
    return {
        "checkpoints change nothing": alike,
        "loss": found[0][0].item(),
        "loss without dropout": without.item(),
        "a norm's gradient, and its column": norms,
    }


def big_code(**settings):
    sizes = {"vocab_size": VOCABULARY, "n_embd": 32, "n_layer": 1, "n_head": 8}
    return GPTBigCodeForCausalLM(GPTBigCodeConfig(**sizes, **settings))


def refused(mesh):
    """The errors of a model on a mesh for requests that need more than its piece."""
    model = parallelize(make("Llama", torch.float32), mesh)
    texts = {}
    tokens = batch()["input_ids"]
    for name, ask in {
        "hidden states": lambda: model(tokens, output_hidden_states=True),
        "attentions": lambda: model(tokens, output_attentions=True),
        "embedded tokens": lambda: model(inputs_embeds=torch.zeros(1, 2, 32)),
        "save": lambda: model.save_pretrained("model"),
        "a model without a head": lambda: parallelize(make("Llama", torch.float32).model, mesh),
        "a GPT-2 with two attentions": lambda: parallelize(
            GPT2LMHeadModel(changed(GPT2, add_cross_attention=True)), mesh
        ),
        "one head after another": lambda: parallelize(big_code(multi_query=False), mesh),
        "keys and values for all heads": lambda: parallelize(big_code(multi_query=True), mesh),
        "chunks": lambda: parallelize(make("Llama", torch.float32), mesh, chunks=2),
    }.items():
        try:
            ask()
            texts[name] = ""
        except ValueError as error:
            texts[name] = str(error)
    return texts


def saved(mesh, folder):
    """Whether transformers loads what the ranks of a mesh have saved."""
    model = parallelize(make("Llama with tied embeddings and biases", torch.float32), mesh)
    state = full_state_dict(model)
    if dist.get_rank() == 0:
        model.save_pretrained(folder / "saved", state_dict=state)
    dist.barrier()
    loaded = LlamaForCausalLM.from_pretrained(folder / "saved").state_dict()
    return all(torch.equal(loaded[name], state[name]) for name in state)


def sampled(mesh):
    """What ranks with different seeds draw, and what the whole model draws with the first seed."""
    tokens, mask = batch()["input_ids"], batch()["attention_mask"]
    drawn = []
    for model in (parallelize(make("Llama", torch.float32), mesh), make("Llama", torch.float32)):
        torch.manual_seed(dist.get_rank() if hasattr(model, "atp_mesh") else 0)
        drawn.append(
            model.eval().generate(
                tokens, attention_mask=mask, max_new_tokens=5, do_sample=True, pad_token_id=0
            )
        )
    return [tokens[:, 16:].tolist() for tokens in drawn]


STEPS = 3


def trained(model, rows=slice(None)):
    """Trains it on these sequences of each batch; returns the losses and the gradients' norms."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    found = []
    for step in range(STEPS):
        tokens = torch.randint(
            3, VOCABULARY, (4, 12), generator=torch.Generator().manual_seed(step)
        )
        loss = model.train()(input_ids=tokens[rows], labels=tokens[rows]).loss
        optimizer.zero_grad()
        loss.backward()
        norm = whole_of(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0))
        optimizer.step()
        found.append([loss.item(), norm.item()])
    return torch.tensor(found, dtype=torch.float64)


def whole_of(tensor):
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def sharded_over_replicas(algorithm):
    """{model and mesh: (the largest error of losses, norms and weights, the dimensions of the
    parameters' meshes)}, with fully_shard on two replicas, relative to the unsharded model."""
    said = {}
    for name, shape, tokens in FULLY_SHARDED:
        if 2 * shape[0] * shape[1] != dist.get_world_size():
            continue
        mesh = init_mesh(*shape, data_parallel=2, algorithm=algorithm, data_algorithm="gloo",
                         sequence_parallel=tokens == "split")  # fmt: skip
        whole = make(name, torch.float64)
        model = parallelize(make(name, torch.float64), mesh, dtensors=True)
        inner = model.transformer.h if name == "GPT-2" else model.model.layers
        for module in (*inner, model):
            fully_shard(module, mesh=mesh.device_mesh["data"])
        with Exact():
            expected = trained(whole)
        found = trained(model, slice(2 * mesh.data.index, 2 * mesh.data.index + 2))
        losses = found[:, 0].clone()
        dist.all_reduce(losses, group=mesh.data.group)
        far = [(losses / 2 / expected[:, 0] - 1).abs().max(),
               (found[:, 1] / expected[:, 1] - 1).abs().max()]  # fmt: skip
        state, wanted = model.state_dict(), whole.state_dict()
        far += [(whole_of(state[key]) - wanted[key]).abs().max() for key in wanted]
        dimensions = {parameter.device_mesh.ndim for parameter in model.parameters()}
        said[f"{name} on {shape}, {tokens}"] = max(map(float, far)), sorted(dimensions)
        # The mesh stays open: torch takes a later one of the same shape for this one.
    return said


# As DTensors a GPT-2 needs one row, and a Llama no more rows than key-value heads.
FULLY_SHARDED = [
    ("Llama", (2, 1), "whole"),
    ("Llama", (2, 1), "split"),
    ("Llama", (1, 2), "whole"),
    ("Llama", (2, 2), "whole"),
    ("Llama with tied embeddings and biases", (2, 2), "whole"),
    ("GPT-2", (1, 2), "whole"),
]


def main(algorithm, *cases_and_folder):
    """Each case is a mesh and how it has sequences, e.g. 2x1-whole, or replicas-of-4."""
    *cases, folder = cases_and_folder
    folder = Path(folder)
    dist.init_process_group("gloo")
    said = {}
    for case in cases:
        if case.startswith("replicas"):
            said[case] = sharded_over_replicas(algorithm)
            continue
        shape, tokens = case.split("-")
        d1, d2 = map(int, shape.split("x"))
        mesh = init_mesh(d1, d2, algorithm=algorithm, sequence_parallel=tokens == "split")
        said[case] = {"errors": on_mesh(mesh)}
        if mesh.shape == (2, 2) and algorithm == "gloo":
            said[case]["dropout"] = with_dropout(mesh)
            said[case]["refused"] = refused(mesh)
            said[case]["saved"] = saved(mesh, folder / case)
            said[case]["sampled"] = sampled(mesh)
            said[case]["alike"] = of_those_alike(mesh)
        mesh.close()
    (folder / f"{dist.get_rank()}.json").write_text(json.dumps(said))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
