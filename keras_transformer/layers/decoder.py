"""The decoder stack, §3.1: self-attention, attention to the encoder, feed-forward."""

from __future__ import annotations

import keras

from keras_transformer.config import ModelConfig
from keras_transformer.layers import masks
from keras_transformer.layers.stack import ConfiguredLayer


@keras.saving.register_keras_serializable(package="keras_transformer")
class DecoderLayer(ConfiguredLayer):
    """One layer of the decoder, §3.1 (right half of Figure 1).

    Without `encoder_output` in its first call the layer has no attention to an encoder,
    and no weights for it, as in a language model.

    Args:
        config: Configuration of the model, or its fields as a mapping.
        causal: Whether self-attention hides later positions.

    Call arguments:
        inputs: float `[batch, target_length, d_model]`.
        encoder_output: float `[batch, source_length, d_model]`, or None. Padding that
            its Keras mask tells is hidden.
        self_attention_mask: `attention_mask` of self-attention, in the forms of
            `MultiHeadAttention`; combined with the causal mask.
        cross_attention_mask: `attention_mask` of attention to the encoder.
        mask: bool `[batch, target_length]`, True = real token; None: the mask that
            Keras keeps at `inputs`.

    Returns:
        float `[batch, target_length, d_model]`, the self-attention weights, float
        `[batch, heads, target_length, target_length]`, and, with `encoder_output`, the
        encoder-decoder attention weights, float
        `[batch, heads, target_length, source_length]`.

    Raises:
        ValueError: If `encoder_output` is given to a layer built without, or left out
            of one built with it.

    Examples:
        >>> config = kt.ModelConfig(num_layers=2, d_model=8, d_ff=16, num_heads=2)
        >>> layer = kt.layers.DecoderLayer(config)
        >>> output, weights = layer(np.ones([3, 7, 8]))  # without an encoder
        >>> output.shape.as_list(), weights.shape.as_list()
        ([3, 7, 8], [3, 2, 7, 7])
    """

    def __init__(self, config: ModelConfig | dict, causal: bool = True, **kwargs):
        super().__init__(config, causal, **kwargs)

    def build(self, inputs_shape=None, encoder_output_shape=None):
        self.self_attention = self.own_attention("self_attention", self.causal)
        self.self_attention_residual = self.residual("self_attention_residual")
        # Without any shape, the paper's layer.
        self.has_cross_attention = inputs_shape is None or bool(encoder_output_shape)
        if self.has_cross_attention:
            self.cross_attention = self.attention("cross_attention")
            self.cross_attention_residual = self.residual("cross_attention_residual")
        self.ffn = self.feed_forward("feed_forward", self.config.decoder_ffn_dim)
        self.ffn_residual = self.residual("feed_forward_residual")
        self.built = True

    def call(
        self,
        inputs,
        encoder_output=None,
        self_attention_mask=None,
        cross_attention_mask=None,
        training=None,
        mask=None,
    ):
        self._check_encoder_output(encoder_output)
        inputs = masks.masked(inputs, mask)
        query = self.self_attention_residual.sublayer_input(inputs, training)
        attended, *weights = self.self_attention(
            query,
            attention_mask=self.self_attention_mask(inputs, self_attention_mask),
            training=training,
        )
        x = self.self_attention_residual(inputs, attended, training=training)
        if self.has_cross_attention:
            attended, cross_weights = self.cross_attention(
                self.cross_attention_residual.sublayer_input(x, training),
                encoder_output,
                attention_mask=cross_attention_mask,
                training=training,
            )
            x = self.cross_attention_residual(x, attended, training=training)
            weights.append(cross_weights)
        widened = self.ffn(
            self.ffn_residual.sublayer_input(x, training), training=training
        )
        return self.ffn_residual(x, widened, training=training), *weights

    def compute_output_shape(self, inputs_shape, encoder_output_shape=None):
        shapes = tuple(inputs_shape), self.self_weights_shape(inputs_shape)
        if encoder_output_shape is None:
            return shapes
        (batch, length, _), (_, source_length, _) = inputs_shape, encoder_output_shape
        return *shapes, (batch, self.config.num_heads, length, source_length)

    @classmethod
    def from_config(cls, config):
        # Before the layer had this option, it hid later positions only in a `Decoder`.
        return cls(**{"causal": False, **config})

    def _check_encoder_output(self, encoder_output):
        if self.has_cross_attention == (encoder_output is not None):
            return
        built = "with" if self.has_cross_attention else "without"
        received = None if encoder_output is None else tuple(encoder_output.shape)
        raise ValueError(
            f"The decoder was built {built} attention to an encoder, so "
            f"`encoder_output` must {'' if built == 'with' else 'not '}be given. "
            f"Received: shape={received}. The first call, or `build`, decides; make "
            "another decoder for the other kind."
        )


@keras.saving.register_keras_serializable(package="keras_transformer")
class Decoder(ConfiguredLayer):
    """The decoder: a stack of N layers, §3.1.

    Without `encoder_output` in its first call the decoder has no attention to an
    encoder, and no weights for it, as in a language model.

    Args:
        config: Configuration of the model, or its fields as a mapping.
        causal: Whether self-attention hides later positions.

    Call arguments:
        inputs: float `[batch, target_length, d_model]`: embeddings of the target
            shifted right, plus positions.
        encoder_output: float `[batch, source_length, d_model]`, or None. Padding that
            its Keras mask tells is hidden.
        target_mask: `attention_mask` of self-attention, in the forms of
            `MultiHeadAttention`; this layer combines it with the causal mask.
        source_mask: `attention_mask` of attention to the encoder.
        mask: bool `[batch, target_length]`, True = real token; None: the mask that
            Keras keeps at `inputs`.

    Returns:
        float `[batch, target_length, d_model]`, and one or two lists: the weights of
        every layer's self-attention and, with `encoder_output`, of its encoder-decoder
        attention.

    Raises:
        ValueError: Same as in `DecoderLayer`.

    Examples:
        >>> config = kt.ModelConfig(num_layers=2, d_model=8, d_ff=16, num_heads=2)
        >>> inputs, encoder_output = np.ones([3, 7, 8]), np.ones([3, 5, 8])
        >>> decoder = kt.layers.Decoder(config)
        >>> output, self_weights, cross_weights = decoder(inputs, encoder_output)
        >>> output.shape.as_list(), len(self_weights), cross_weights[0].shape.as_list()
        ([3, 7, 8], 2, [3, 2, 7, 5])
    """

    def __init__(self, config: ModelConfig | dict, causal: bool = True, **kwargs):
        super().__init__(config, causal, **kwargs)

    @property
    def depth(self) -> int:
        """N, the number of layers."""
        return self.config.decoder_depth

    def build(self, inputs_shape=None, encoder_output_shape=None):
        self.add_layers(DecoderLayer, inputs_shape, encoder_output_shape)
        self.norm = self.final_norm()
        self.built = True

    def call(
        self,
        inputs,
        encoder_output=None,
        target_mask=None,
        source_mask=None,
        training=None,
        mask=None,
    ):
        self_mask = self.self_attention_mask(inputs, target_mask)
        x, all_weights = masks.masked(inputs, mask), []
        for layer in self.layers:
            x, *weights = layer(
                x,
                encoder_output,
                self_attention_mask=self_mask,
                cross_attention_mask=source_mask,
                training=training,
            )
            all_weights.append(weights)
        return self.normed(x, training), *map(list, zip(*all_weights, strict=True))

    def compute_output_shape(self, inputs_shape, encoder_output_shape=None):
        layer = DecoderLayer(self.config, self.causal)
        output, *weights = layer.compute_output_shape(
            inputs_shape, encoder_output_shape
        )
        return output, *([shape] * self.depth for shape in weights)
