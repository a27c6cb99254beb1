"""The Transformer, §3: embeddings, encoder and decoder."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import keras
from keras import ops

from keras_transformer.config import ModelConfig, from_dict
from keras_transformer.layers import masks
from keras_transformer.layers.decoder import Decoder
from keras_transformer.layers.dropout import Dropout
from keras_transformer.layers.embedding import TokenEmbedding
from keras_transformer.layers.encoder import Encoder
from keras_transformer.layers.layer_norm import LayerNormalization
from keras_transformer.layers.positional_encoding import (
    PositionalEncoding,
    positions_in_segments,
)
from keras_transformer.model import layer_states
from keras_transformer.model.token_checks import check_argument
from keras_transformer.model.train_step import TokenTrainer

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_transformer")
class Transformer(TokenTrainer):
    """The Transformer of "Attention Is All You Need", §3 and Figure 1.

    The constructor builds the model, so `count_params()` works immediately.

    Args:
        config: The architecture; its defaults are the paper's base model.

    Call arguments:
        source_tokens: int32 `[batch, source_length]`, each row with EOS, then padding.
        decoder_inputs: int32 `[batch, target_length]`: the target shifted right, BOS
            first (`shift_right` makes it from the target).
        training: Whether dropout is active.
        return_attention: Whether to also return the attention weights.
        segments: For packed rows with several pairs each: the segment numbers of source
            and target, int32 `[batch, source_length]` and `[batch, target_length]`,
            from the method `segments`. Positions attend only to their own segment and
            are counted from 0 in each, so the logits equal those of unpacked pairs.
            None: one pair per row.

    Returns:
        Logits, float32 `[batch, target_length, vocab_size]`. With `return_attention`,
        also a dict with the keys "encoder", "decoder" and "cross", each a list with one
        float tensor `[batch, heads, query_length, key_length]` per layer.

    Raises:
        TypeError: If tokens are not integers.
        ValueError: If tokens have another shape, are not in the vocabulary (outside of
            a graph) or longer than the learned positions, or `segments` are given and
            attention is restricted.

    The tokens may also be one argument: `(source_tokens, decoder_inputs)`, or a dict
    with these names. `fit` and `evaluate` take pairs `(source_tokens, target_tokens)`;
    the train step shifts the targets.

    Examples:
        >>> config = kt.ModelConfig(
        ...     vocab_size=11, num_layers=1, d_model=8, d_ff=16, num_heads=2
        ... )
        >>> model = kt.Transformer(config)
        >>> source_tokens, target_tokens = np.array([[5, 7, 3]]), np.array([[6, 3]])
        >>> model(source_tokens, model.shift_right(target_tokens)).shape.as_list()
        [1, 2, 11]
    """

    def __init__(self, config: ModelConfig | dict | None = None, **kwargs):
        super().__init__(**kwargs)
        if config is None:
            config = ModelConfig()
        elif not isinstance(config, ModelConfig):
            config = from_dict(ModelConfig, config)
        self.config = config
        dtype = self.dtype_policy
        self.embedding, self.target_embedding, self.output_embedding = (
            self._embeddings()
        )
        self.source_positions = self._positions("source_positions")
        self.target_positions = self.source_positions
        if config.position_encoding == "learned":
            self.target_positions = self._positions("target_positions")
        self.source_norm = self._norm("source_norm")
        self.target_norm = self._norm("target_norm")
        rate = config.dropout_rate
        self.source_dropout = Dropout(rate, dtype=dtype, name="source_dropout")
        self.target_dropout = Dropout(rate, dtype=dtype, name="target_dropout")
        self.encoder = Encoder(config, dtype=dtype, name="encoder")
        self.decoder = Decoder(config, dtype=dtype, name="decoder")
        self.build(*self.input_shape)
        # Keras locks a built model, but a subclass may add layers in its constructor.
        self._tracker.unlock()

    def build(self, source_tokens_shape=None, decoder_inputs_shape=None):
        """Create all weights; the config determines their shapes."""
        if self.built:
            return self.build_added_layers()
        embedded = (None, None, self.config.d_model)
        for layer in (self.embedding, self.target_embedding, self.output_embedding):
            if not layer.built:
                layer.build((None, None))
        for layer in (self.source_positions, self.target_positions, self.encoder):
            if not layer.built:
                layer.build(embedded)
        for layer in (self.source_norm, self.target_norm):
            if layer is not None:
                layer.build(embedded)
        for layer in (self.source_dropout, self.target_dropout):
            layer.build(embedded)
        self.decoder.build(embedded, embedded)
        self.built = True
        return None

    @property
    def input_shape(self) -> list[tuple[None, None]]:
        """The shapes of `source_tokens` and `decoder_inputs`."""
        return [(None, None), (None, None)]

    @property
    def output_shape(self) -> tuple[None, None, int]:
        """The shape of the logits."""
        return self.compute_output_shape(*self.input_shape)

    @functools.cached_property
    def inputs(self) -> list[Tensor]:
        """Symbolic `source_tokens` and `decoder_inputs`.

        `keras.Model(model.inputs, model(*model.inputs))` is the model as a functional
        one.
        """
        return [
            keras.Input(shape=(None,), dtype="int32", name=name)
            for name in ("source_tokens", "decoder_inputs")
        ]

    def compute_output_shape(self, source_tokens_shape, decoder_inputs_shape):
        return (*decoder_inputs_shape, self.config.output_vocab_size)

    def compute_output_spec(self, *args, **kwargs):
        # Keras would take the shape from the method above, which has no attention
        # weights, and the dtype from the policy.
        return keras.Operation.compute_output_spec(self, *args, **kwargs)

    def export(
        self,
        filepath: Any,
        format: str = "tf_saved_model",
        verbose: Any = None,
        input_signature: Any = None,
        **kwargs: Any,
    ) -> None:
        """Export the forward pass; see `keras.Model.export`.

        Args:
            filepath: Same as in Keras.
            format: Same as in Keras.
            verbose: Same as in Keras.
            input_signature: Same as in Keras; None: int32 `[batch, length]` for source
                and decoder inputs, of any length.
            **kwargs: Same as in Keras.
        """
        super().export(
            filepath,
            format,
            verbose,
            self.inputs if input_signature is None else input_signature,
            **kwargs,
        )

    def __call__(self, *args, **kwargs):
        """Call the model; see the class. Takes tokens in one structure, too."""
        inputs = args[0] if len(args) == 1 else None
        if isinstance(inputs, dict):
            return super().__call__(**inputs, **kwargs)
        if isinstance(inputs, (tuple, list)) and len(inputs) == 2:
            return super().__call__(*inputs, **kwargs)
        return super().__call__(*args, **kwargs)

    def call(
        self,
        source_tokens,
        decoder_inputs,
        training=None,
        return_attention=False,
        segments=None,
    ):
        is_packed = segments is not None
        check_argument("source_tokens", source_tokens, self.config, is_packed)
        check_argument("decoder_inputs", decoder_inputs, self.config, is_packed)
        if segments is not None and self.config.attention_window is not None:
            raise ValueError(
                "Restricted attention does not support `segments`. Received: "
                f"attention_window={self.config.attention_window}. Use one pair per "
                "row."
            )
        encoder_output, encoder_weights = self._encode(
            source_tokens, training, segments
        )
        decoder_output, decoder_weights, cross_weights = self._decode(
            source_tokens, decoder_inputs, encoder_output, training, segments
        )
        logits = self.output_embedding.logits(decoder_output)
        if not return_attention:
            return logits
        return logits, {
            "encoder": _full_weights(self.encoder, encoder_weights, source_tokens),
            "decoder": _full_weights(self.decoder, decoder_weights, decoder_inputs),
            "cross": cross_weights,
        }

    def encode(self, source_tokens: Tensor, training: bool | None = None) -> Tensor:
        """Run only the encoder.

        Args:
            source_tokens: int32 `[batch, source_length]`.
            training: Whether dropout is active.

        Returns:
            The encoder output, float `[batch, source_length, d_model]` (paper: z).
        """
        return self._encode(source_tokens, training)[0]

    def shift_right(
        self, target_tokens: Tensor, segments: Tensor | None = None
    ) -> Tensor:
        """Put BOS before the target and drop its last position, Figure 1.

        Args:
            target_tokens: int32 `[batch, target_length]`.
            segments: For a packed target: from `segments`, int32
                `[batch, target_length]`. Each segment begins with BOS.

        Returns:
            The decoder inputs, int32 `[batch, target_length]`.
        """
        start = ops.full_like(target_tokens[:, :1], self.config.bos_id)
        previous = target_tokens[:, :-1]
        if segments is not None:
            is_same = ops.equal(segments[:, 1:], segments[:, :-1])
            previous = ops.where(is_same, previous, self.config.bos_id)
        return ops.concatenate([start, previous], axis=1)

    def segments(self, tokens: Tensor) -> Tensor:
        """Number the sentences of packed rows, separated by EOS.

        Args:
            tokens: int32 `[batch, length]`, sources or targets.

        Returns:
            int32 `[batch, length]`; see `masks.segments`.
        """
        return masks.segments(tokens, self.config.eos_id)

    def get_config(self):
        return {
            **super().get_config(),
            "config": dataclasses.asdict(self.config),
            **layer_states.get_config(self),
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        quantized, frozen = config.pop("quantized", {}), config.pop("frozen", ())
        model = cls(**config)
        layer_states.apply(model, quantized, frozen)
        return model

    def embed_source(
        self, source_tokens: Tensor, segments: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Embed the source (§3.4, §3.5) and compute its attention mask.

        Args:
            source_tokens: int32 `[batch, source_length]`.
            segments: For packed rows: from `segments`, int32 `[batch, source_length]`.

        Returns:
            Scaled embeddings plus positions, float `[batch, source_length, d_model]`,
            and the mask of the encoder's self-attention, bool, which broadcasts to
            `[batch, source_length, source_length]`.
        """
        positions = None
        if segments is None:
            mask = self._source_mask(source_tokens)
        else:
            mask = masks.segment_mask(segments, segments)
            positions = positions_in_segments(segments)
        embedded = self.embedding(source_tokens)
        embedded = self.source_positions(embedded, positions=positions)
        if self.source_norm is not None:
            embedded = self.source_norm(embedded)
        return embedded, mask

    def embed_target(
        self, decoder_inputs: Tensor, positions: Tensor | None = None
    ) -> Tensor:
        """Embed the decoder inputs, §3.4 and §3.5.

        Args:
            decoder_inputs: int32 `[batch, target_length]`.
            positions: int32 `[batch, target_length]`; None: consecutive from 0.

        Returns:
            Scaled embeddings plus positions, float `[batch, target_length, d_model]`.
        """
        embedded = self.target_embedding(decoder_inputs)
        if self.config.zero_first_input:
            is_first = ops.equal(decoder_inputs, self.config.bos_id)[:, :, None]
            embedded = ops.where(is_first, ops.zeros_like(embedded), embedded)
        embedded = self.target_positions(embedded, positions=positions)
        if self.target_norm is not None:
            embedded = self.target_norm(embedded)
        return embedded

    def _encode(self, source_tokens, training, segments=None):
        own = None if segments is None else segments[0]
        embedded, mask = self.embed_source(source_tokens, own)
        return self.encoder(
            self.source_dropout(embedded, training=training),
            attention_mask=mask,
            training=training,
        )

    def _decode(
        self, source_tokens, decoder_inputs, encoder_output, training, segments=None
    ):
        target_mask, positions = None, None
        if segments is None:
            source_mask = self._source_mask(source_tokens)
        else:
            source_mask = masks.segment_mask(segments[1], segments[0])
            target_mask = masks.segment_mask(segments[1], segments[1])
            positions = positions_in_segments(segments[1])
        embedded = self.embed_target(decoder_inputs, positions)
        return self.decoder(
            self.target_dropout(embedded, training=training),
            encoder_output,
            target_mask=target_mask,
            source_mask=source_mask,
            training=training,
        )

    def _source_mask(self, source_tokens):
        return masks.key_mask(masks.padding_mask(source_tokens, self.config.pad_id))

    def _embeddings(self) -> tuple[TokenEmbedding, TokenEmbedding, TokenEmbedding]:
        """Create the matrices of source, target and pre-softmax map, §3.4: one for all,
        one for each, or one for source and one for the decoder."""
        config = self.config

        def make(vocab_size: int, name: str, is_output: bool) -> TokenEmbedding:
            return TokenEmbedding(
                vocab_size,
                config.d_model,
                use_output_bias=config.output_bias and is_output,
                dtype=self.dtype_policy,
                name=name,
            )

        source = make(config.vocab_size, "embedding", config.share_embeddings)
        if config.share_embeddings:
            return source, source, source
        is_shared, size = config.share_decoder_embeddings, config.output_vocab_size
        target = make(size, "target_embedding", is_shared)
        output = target if is_shared else make(size, "output_embedding", True)
        return source, target, output

    def _norm(self, name: str) -> LayerNormalization | None:
        """Create the norm of one side's embeddings, if the config asks for it."""
        if not self.config.normalize_embeddings:
            return None
        return LayerNormalization(
            self.config.layer_norm_epsilon, dtype=self.dtype_policy, name=name
        )

    def _positions(self, name: str) -> PositionalEncoding:
        config = self.config
        return PositionalEncoding(
            config.d_model,
            config.position_encoding,
            config.position_layout,
            config.first_position,
            config.num_positions,
            dtype=self.dtype_policy,
            name=name,
        )


def weights_by_path(model: Transformer) -> dict[str, keras.Variable]:
    """Return the weights by their path inside the model."""
    return {weight.path.split("/", 1)[1]: weight for weight in model.weights}


def _full_weights(stack, weights, tokens):
    """Return the self-attention weights of every layer as full matrices."""
    length = ops.shape(tokens)[1]
    return [
        layer.self_attention.full_weights(own, length)
        for layer, own in zip(stack.layers, weights, strict=True)
    ]
