"""Another attention in the model: it sees how far apart two positions are.

    python examples/other_attention.py

The encoder's attention gets a learned bias for each head and distance, as in T5 (Raffel
et al. 2020). The model learns to remove repeated neighbours: "aabbbc" becomes "abc".
Prints the loss of each epoch and the bias that the heads have learned, most for the
neighbour before, after 20 seconds.
"""

import keras_transformer as kt  # isort: skip  before TensorFlow, which it sets up
import keras
import numpy as np
from keras import ops

PAD, EOS = 0, 3
FARTHEST = 4  # longer distances share the bias of this one
CONFIG = kt.ModelConfig(vocab_size=8, num_layers=1, d_model=32, d_ff=64, num_heads=4)


# `attend` is Eq. 1 for all heads. Change it to try a score of your own.
class RelativeAttention(kt.layers.MultiHeadAttention):
    """Attention with a bias for each head and distance."""

    def build(self, query_shape, source_shape=None):
        super().build(query_shape, source_shape)
        shape = (self.num_heads, 2 * FARTHEST + 1)
        self.bias = self.add_weight(shape=shape, initializer="zeros", name="bias")

    def attend(self, query, key, value, attention_mask, dropout):
        """Return outputs and weights; heads are `[batch, heads, length, width]`."""
        logits = ops.matmul(query, ops.swapaxes(key, 2, 3)) / self.key_dim**0.5
        here, there = ops.arange(ops.shape(query)[2]), ops.arange(ops.shape(key)[2])
        distance = ops.clip(there - here[:, None], -FARTHEST, FARTHEST)
        # [heads, query_length, key_length]
        logits += ops.take(self.bias, distance + FARTHEST, axis=1)
        if attention_mask is not None:  # True = may attend
            logits = ops.where(attention_mask, logits, -1e9)
        weights = ops.softmax(logits)
        return ops.matmul(dropout(weights), value), weights


# A layer makes its self-attention in `own_attention`, and a stack makes its layers in
# `build`. A decoder can be changed in the same way, but `kt.Translator` ignores this:
# its search has another implementation of the decoder.
class RelativeEncoderLayer(kt.layers.EncoderLayer):
    """An encoder layer with this attention."""

    def own_attention(self, name, causal):
        del causal  # of restricted attention
        return self.attention(name, RelativeAttention)


class RelativeEncoder(kt.layers.Encoder):
    """A stack of these layers."""

    def build(self, inputs_shape=None):
        self.add_layers(RelativeEncoderLayer)
        self.norm = self.final_norm()
        self.built = True


@keras.saving.register_keras_serializable(package="examples")
class RelativeTransformer(kt.Transformer):
    """The Transformer with this encoder; `save` and `load_model` know it."""

    def build(self, *shapes):
        if not self.built:
            dtype = self.dtype_policy
            self.encoder = RelativeEncoder(self.config, dtype=dtype, name="encoder")
        super().build(*shapes)


# Letters are the tokens 4 to 7; 2 is the decoder's first input.
def make_data(num_rows, seed):
    """Return sources and targets, int32 `[num_rows, length]`."""
    draw = np.random.default_rng(seed)
    sources = [draw.integers(4, 8, size=draw.integers(5, 13)) for _ in range(num_rows)]
    targets = [row[np.append(True, row[1:] != row[:-1])] for row in sources]
    return tuple(
        keras.utils.pad_sequences(
            [np.append(row, EOS) for row in rows], padding="post", value=PAD
        )
        for rows in (sources, targets)
    )


def main(steps_per_epoch=50, epochs=8):
    """Train, and return the model with its history."""
    keras.utils.set_random_seed(1)
    model = RelativeTransformer(CONFIG)
    model.compile(keras.optimizers.Adam(0.003), kt.LabelSmoothedCrossEntropy(0.1))
    sources, targets = make_data(64 * steps_per_epoch * epochs, seed=1)
    history = model.fit(
        sources,
        targets,
        batch_size=64,
        steps_per_epoch=steps_per_epoch,
        epochs=epochs,
        verbose=2,
    )
    bias = model.encoder.layers[0].self_attention.bias
    print(f"bias of each head for distances of {-FARTHEST} to {FARTHEST}:")
    print(np.round(bias, 1))
    return model, history


if __name__ == "__main__":
    main()
