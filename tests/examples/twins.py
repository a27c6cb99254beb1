"""Models of `keras.layers` alone, of the same size as those of the examples."""

import keras

from keras_transformer.layers.positional_encoding import PositionalEncoding

layers = keras.layers


def encoder_classifier(config):
    """Return the twin of `examples/encoder_classifier.py`."""
    tokens = keras.Input((None,), dtype="int32")
    x = stack(config, embedded(new_embedding(config), tokens))
    x = layers.GlobalAveragePooling1D()(x)
    return keras.Model(tokens, layers.Dense(2)(x))


def language_model(config):
    """Return the twin of `examples/language_model.py`."""
    tokens = keras.Input((None,), dtype="int32")
    embedding = new_embedding(config)
    x = stack(config, embedded(embedding, tokens), use_causal_mask=True)
    return keras.Model(tokens, embedding(x, reverse=True))


def encoder_decoder(config):
    """Return the twin of `examples/encoder_decoder.py`."""
    source = keras.Input((None,), dtype="int32")
    inputs = keras.Input((None,), dtype="int32")
    embedding = new_embedding(config)
    encoded = stack(config, embedded(embedding, source))
    x = stack(config, embedded(embedding, inputs), encoded, use_causal_mask=True)
    return keras.Model([source, inputs], layers.Dense(config.vocab_size)(x))


def new_embedding(config):
    """Return a layer that masks padding."""
    return layers.ReversibleEmbedding(config.vocab_size, config.d_model, mask_zero=True)


def embedded(embedding, tokens):
    """Embed tokens and add positions."""
    return PositionalEncoding(embedding.output_dim)(embedding(tokens))


def stack(config, x, memory=None, **options):
    """Apply the N layers of an encoder, or of a decoder that attends to `memory`."""

    def add_and_norm(x, outputs):
        return layers.LayerNormalization(epsilon=1e-6)(layers.Add()([x, outputs]))

    def attended(x, source, **options):
        width = config.d_model // config.num_heads
        attention = layers.MultiHeadAttention(config.num_heads, width, use_bias=False)
        return add_and_norm(x, layers.Dropout(0.1)(attention(x, source, **options)))

    for _ in range(config.num_layers):
        x = attended(x, x, **options)
        if memory is not None:
            x = attended(x, memory)
        hidden = layers.Dense(config.d_ff, activation="relu")(x)
        outputs = layers.Dropout(0.1)(layers.Dense(config.d_model)(hidden))
        x = add_and_norm(x, outputs)
    return x
