"""Hugging Face Transformers' `generate` on a GPU, as a peer of our search.

    python benchmarks/lib/huggingface_generate.py bfloat16 1 32 128

times a Marian model of base's size with random weights: 30 tokens to 40, beam 4. Run by
a Python of its own, with PyTorch and Transformers; needs nothing of this project.
"""

import json
import os
import statistics
import sys
import time

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from transformers import MarianConfig, MarianMTModel

VOCAB_SIZE, SOURCE_LENGTH, STEPS = 37_000, 30, 40


def make_model(precision):
    """Return a model with random weights."""
    torch.manual_seed(0)
    sides = ("encoder", "decoder")
    config = MarianConfig(
        vocab_size=VOCAB_SIZE,
        d_model=512,
        **{f"{side}_layers": 6 for side in sides},
        **{f"{side}_attention_heads": 8 for side in sides},
        **{f"{side}_ffn_dim": 2048 for side in sides},
        activation_function="relu",
        max_position_embeddings=256,
        scale_embedding=True,
        share_encoder_decoder_embeddings=True,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
        forced_eos_token_id=None,
    )
    return MarianMTModel(config).cuda().eval().to(getattr(torch, precision))


def main(precision, batch_sizes):
    """Write a line of JSON for each batch size."""
    model = make_model(precision)
    for size in batch_sizes:
        source = torch.randint(4, VOCAB_SIZE, (size, SOURCE_LENGTH), device="cuda")

        def generate(source=source):
            with torch.inference_mode():
                model.generate(
                    input_ids=source,
                    attention_mask=torch.ones_like(source),
                    num_beams=4,
                    do_sample=False,
                    min_new_tokens=STEPS,
                    max_new_tokens=STEPS,
                    length_penalty=0.6,
                )
            torch.cuda.synchronize()

        generate()
        times = []
        for _ in range(3):
            began = time.perf_counter()
            generate()
            times.append(time.perf_counter() - began)
        rate = size * STEPS / statistics.median(times)
        line = {
            "part": "search",
            "peer": "Transformers",
            "precision": precision,
            "sentences": size,
            "tokens_per_s": round(rate),
        }
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], [int(size) for size in sys.argv[2:]])
