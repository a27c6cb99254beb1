"""Training in Hugging Face Transformers with torch.compile, as a peer of ours.

    python benchmarks/lib/huggingface_train.py base mixed_bfloat16 200x64 20

compiles a step of a Marian model of base's size with random weights, writes "ready",
waits for a line, and then times 20 steps, several times: same arguments and results as
training_rate.py. Run by a Python of its own, with PyTorch and Transformers; needs
nothing of this project.
"""

import json
import os
import statistics
import sys
import time

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from transformers import MarianConfig, MarianMTModel

VOCAB_SIZE = 37_000
# d_model, d_ff, heads, dropout
SIZES = {"base": (512, 2048, 8, 0.1), "big": (1024, 4096, 16, 0.3)}
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def make_model(preset):
    """Return a model with random weights that trains."""
    torch.manual_seed(0)
    d_model, d_ff, heads, dropout = SIZES[preset]
    sides = ("encoder", "decoder")
    config = MarianConfig(
        vocab_size=VOCAB_SIZE,
        d_model=d_model,
        **{f"{side}_layers": 6 for side in sides},
        **{f"{side}_attention_heads": heads for side in sides},
        **{f"{side}_ffn_dim": d_ff for side in sides},
        activation_function="relu",
        dropout=dropout,
        attention_dropout=0.0,
        activation_dropout=0.0,
        max_position_embeddings=256,
        scale_embedding=True,
        share_encoder_decoder_embeddings=True,
        tie_word_embeddings=True,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
        forced_eos_token_id=None,
        attn_implementation="sdpa",
    )
    return MarianMTModel(config).to(DEVICE).train()


def make_step(model, precision, rows, length):
    """Return a function that takes a step on a random batch without padding."""
    source, target = (
        torch.randint(4, VOCAB_SIZE, (rows, length), device=DEVICE) for _ in range(2)
    )
    start = torch.full((rows, 1), 1, device=DEVICE)
    inputs = torch.cat([start, target[:, :-1]], dim=1)
    mask = torch.ones_like(source)
    optimizer = torch.optim.Adam(
        model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=True
    )

    def loss_of(source, mask, inputs, target):
        logits = model(
            input_ids=source,
            attention_mask=mask,
            decoder_input_ids=inputs,
            use_cache=False,
        ).logits
        return torch.nn.functional.cross_entropy(
            logits.reshape(-1, VOCAB_SIZE).float(),
            target.reshape(-1),
            ignore_index=0,
            label_smoothing=0.1,
        )

    compiled = torch.compile(loss_of)
    is_bfloat16 = precision == "mixed_bfloat16"

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(DEVICE, torch.bfloat16, enabled=is_bfloat16):
            loss = compiled(source, mask, inputs, target)
        loss.backward()
        optimizer.step()
        return loss

    return step


def main(preset, precision, shape, steps):
    """Compile, wait, time, and write a line of JSON."""
    torch.set_float32_matmul_precision("high")  # TF32, as TensorFlow multiplies
    rows, length = map(int, shape.split("x"))
    step = make_step(make_model(preset), precision, rows, length)

    def take(number):
        began = time.perf_counter()
        for _ in range(number):
            loss = step()
        loss.item()  # waits for the steps
        return time.perf_counter() - began

    first = take(1)
    take(3)
    print("ready", flush=True)
    sys.stdin.readline()
    seconds = statistics.median(take(steps) for _ in range(3)) / steps
    peak = None
    if DEVICE == "cuda":
        peak = round(torch.cuda.max_memory_allocated() / 2**30, 2)
    line = {
        "part": "train",
        "peer": "Transformers, torch.compile",
        "preset": preset,
        "precision": precision,
        "shape": shape,
        "first_step_s": round(first, 1),
        "step_s": round(seconds, 5),
        "tokens_per_s": round(2 * rows * length / seconds),
        "peak_gib": peak,
    }
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:4], int(sys.argv[4]))
