"""The equations of the paper in plain NumPy, float64, one function each."""

import numpy as np


def softmax(logits):
    """Softmax over the last axis."""
    shifted = np.exp(logits - logits.max(-1, keepdims=True))
    return shifted / shifted.sum(-1, keepdims=True)


def attention(query, key, value, mask):
    """Eq. 1 for one head: [T, d_k], [S, d_k], [S, d_v] and bool [T, S]."""
    logits = query @ key.T / np.sqrt(query.shape[-1])
    return softmax(np.where(mask, logits, -1e30)) @ value


def multi_head_attention(query, source, mask, weights, num_heads):
    """§3.2.2 for one sentence: [T, d_model], [S, d_model], bool [T, S].

    `weights` maps "query", "key", "value" to [d_model, heads * depth], head after head,
    and "output" to [heads * depth, d_model].
    """
    per_head = {
        name: np.split(weights[name], num_heads, axis=1)
        for name in ("query", "key", "value")
    }
    heads = [
        attention(query @ query_map, source @ key_map, source @ value_map, mask)
        for query_map, key_map, value_map in zip(*per_head.values(), strict=True)
    ]
    return np.concatenate(heads, axis=-1) @ weights["output"]


def feed_forward(inputs, kernel_1, bias_1, kernel_2, bias_2):
    """Eq. 2."""
    return np.maximum(inputs @ kernel_1 + bias_1, 0.0) @ kernel_2 + bias_2


def layer_norm(inputs, gamma, beta, epsilon=1e-6):
    """Ba et al. 2016, over the last axis."""
    mean = inputs.mean(-1, keepdims=True)
    variance = ((inputs - mean) ** 2).mean(-1, keepdims=True)
    return (inputs - mean) / np.sqrt(variance + epsilon) * gamma + beta


def positions(length, d_model, first=0):
    """§3.5: sine at 2i, cosine at 2i + 1."""
    table = np.zeros((length, d_model))
    for position in range(length):
        for pair in range(d_model // 2):
            angle = (position + first) / 10000 ** (2 * pair / d_model)
            table[position, 2 * pair] = np.sin(angle)
            table[position, 2 * pair + 1] = np.cos(angle)
    return table


class Transformer:
    """The whole of Figure 1 for one sentence pair, post-norm or pre-norm.

    Args:
        weights: By the path inside the model, such as
            "encoder/layer_0/feed_forward/hidden/kernel".
        num_layers: N.
        num_heads: h.
        pre_norm: x + Sublayer(LayerNorm(x)), and a norm after each stack.
    """

    def __init__(self, weights, num_layers, num_heads, pre_norm=False):
        self.weights = weights
        self.num_layers = num_layers
        self.num_heads = num_heads
        self.pre_norm = pre_norm

    def __call__(self, source, decoder_inputs):
        """Logits [T, vocab] of int [S] and int [T], with no padding."""
        encoded = self.stack("encoder", self.embed(source), None)
        decoded = self.stack("decoder", self.embed(decoder_inputs), encoded)
        return decoded @ self.weights["embedding/embeddings"].T

    def embed(self, tokens):
        table = self.weights["embedding/embeddings"]
        d_model = table.shape[1]
        return table[tokens] * np.sqrt(d_model) + positions(len(tokens), d_model)

    def stack(self, name, x, memory):
        length = len(x)
        everything = np.ones((length, length), bool)
        mask = everything if memory is None else np.tril(everything)
        for number in range(self.num_layers):
            layer = f"{name}/layer_{number}"
            x = self.sublayer(
                f"{layer}/self_attention",
                x,
                lambda y, at=f"{layer}/self_attention": self.attend(at, y, y, mask),
            )
            if memory is not None:
                cross = np.ones((length, len(memory)), bool)
                x = self.sublayer(
                    f"{layer}/cross_attention",
                    x,
                    lambda y, at=f"{layer}/cross_attention", m=cross: self.attend(
                        at, y, memory, m
                    ),
                )
            x = self.sublayer(
                f"{layer}/feed_forward",
                x,
                lambda y, at=f"{layer}/feed_forward": feed_forward(
                    y,
                    self.weights[f"{at}/hidden/kernel"],
                    self.weights[f"{at}/hidden/bias"],
                    self.weights[f"{at}/output/kernel"],
                    self.weights[f"{at}/output/bias"],
                ),
            )
        return self.norm(f"{name}/final_norm", x) if self.pre_norm else x

    def sublayer(self, name, x, function):
        norm = f"{name}_residual/norm"
        if self.pre_norm:
            return x + function(self.norm(norm, x))
        return self.norm(norm, x + function(x))

    def attend(self, name, query, source, mask):
        kernels = {
            part: self.weights[f"{name}/{part}/kernel"]
            for part in ("query", "key", "value", "output")
        }
        return multi_head_attention(query, source, mask, kernels, self.num_heads)

    def norm(self, name, x):
        gamma, beta = self.weights[f"{name}/gamma"], self.weights[f"{name}/beta"]
        return layer_norm(x, gamma, beta)
