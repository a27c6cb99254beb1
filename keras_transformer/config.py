"""Frozen configurations that check themselves; the defaults are the paper's base.

Sections and tables are those of "Attention Is All You Need" (arXiv 1706.03762v7).
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import numbers
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

# The special ids of every vocabulary this package trains. A vocabulary made elsewhere
# may have others: its tokenizer says which, and `ModelConfig` carries them.
PAD_ID = 0  # fills a row up to the length of its batch; never attended to, never scored
UNK_ID = 1  # what cannot be spelled with the vocabulary (never with byte fallback)
BOS_ID = 2  # the decoder's first input: the target shifted right begins with it (§3.1)
EOS_ID = 3  # ends every source and every target

# Begins a piece that begins a word: replaces the space before it.
SPACE = "\u2581"
# Pieces of a vocabulary that stand for what a translation must not change, by number
# from 1: a span such as an address, and the tags around a span.
PLACEHOLDER = "<ph{}>"
OPENING_TAG = "<pc{}>"
CLOSING_TAG = "</pc{}>"

# A tag before a source, such as <news>; not a special piece, a byte or a placeholder.
TAG = re.compile(r"<(?!(?:pad|unk|s|0x[0-9A-F]{2}|p[hc][0-9]+)>)[\w.-]+>")

NORM_PLACEMENTS = ("post", "pre")
POSITION_ENCODINGS = ("sinusoidal", "learned")
POSITION_LAYOUTS = ("interleaved", "halves", "concatenated")
ACTIVATIONS = ("relu", "silu", "gelu")
LENGTH_PENALTIES = ("wu", "power")
INT8 = "int8"
SEARCH_PRECISIONS = ("float32", "bfloat16", INT8)
LEARNING_RATE_SCHEDULES = ("paper", "constant", "linear")
FROZEN_PARTS = ("embeddings", "encoder", "decoder")


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """The architecture of §3. `ModelConfig()` is the base model of Table 3.

    Raises:
        ValueError: If a size is below 1, a rate outside [0, 1), a choice unknown, or
            the sizes do not fit each other; the message names the field.

    Examples:
        >>> config = kt.ModelConfig(
        ...     vocab_size=8000, num_layers=2, d_model=64, num_heads=4
        ... )
        >>> config.d_ff
        2048
    """

    # Words of the vocabulary; source and target share it (§5.1: about 37,000).
    vocab_size: int = 37_000
    # Words of a separate target vocabulary; None: shared with the source.
    target_vocab_size: int | None = None
    # N: layers of the encoder, and of the decoder.
    num_layers: int = 6
    # d_model: width of every sub-layer's output.
    d_model: int = 512
    # Layers of the encoder; None: num_layers.
    num_encoder_layers: int | None = None
    # Layers of the decoder; None: num_layers.
    num_decoder_layers: int | None = None
    # d_ff: width inside the position-wise feed-forward network.
    d_ff: int = 2048
    # d_ff of the encoder; None: d_ff.
    encoder_d_ff: int | None = None
    # d_ff of the decoder; None: d_ff.
    decoder_d_ff: int | None = None
    # Activation of the feed-forward network: "relu" (Eq. 2), "silu" or "gelu".
    activation: str = "relu"
    # h: attention heads.
    num_heads: int = 8
    # d_k: width of queries and keys per head; None: d_model / num_heads.
    key_dim: int | None = None
    # d_v: width of values per head; None: d_model / num_heads.
    value_dim: int | None = None
    # P_drop: on each sub-layer's output and on embedding + position (§5.4).
    dropout_rate: float = 0.1
    # Dropout on the attention weights; the paper's translation models have none.
    attention_dropout_rate: float = 0.0
    # Dropout on the hidden activation of the feed-forward network; the paper has none.
    ffn_dropout_rate: float = 0.0
    # "post": LayerNorm(x + Sublayer(x)), the paper's; "pre":
    # x + Sublayer(LayerNorm(x)), with one more LayerNorm after each stack.
    norm_placement: str = "post"
    # Added to the variance in layer normalization.
    layer_norm_epsilon: float = 1e-6
    # Bias in the four projections of multi-head attention (§3.2.2 has none).
    attention_bias: bool = False
    # r of §4: positions that self-attention sees, centred on the query in the encoder,
    # ending at it in the decoder; None: all.
    attention_window: int | None = None
    # One matrix for source embedding, target embedding and pre-softmax map (§3.4).
    share_embeddings: bool = True
    # Without `share_embeddings`: one matrix for target embedding and pre-softmax map,
    # as in models of Marian with two vocabularies.
    share_decoder_embeddings: bool = False
    # Bias of the pre-softmax map.
    output_bias: bool = False
    # "sinusoidal" (§3.5) or "learned" (Table 3, row E).
    position_encoding: str = "sinusoidal"
    # "interleaved": sine and cosine alternate, as published; "halves": all sines, then
    # all cosines, with tensor2tensor's frequencies; "concatenated": the same with
    # the paper's frequencies, as in Marian.
    position_layout: str = "interleaved"
    # Layer normalization of embedding + position, as in some models of Marian.
    normalize_embeddings: bool = False
    # Use a vector of zeros, not the embedding of BOS, as the decoder's first input, as
    # in Marian.
    zero_first_input: bool = False
    # Ids that a search never chooses.
    suppressed_ids: tuple[int, ...] = dataclasses.field(
        default=(), metadata={"flag": None}
    )
    # Layer and head of the decoder, from 0, whose attention to the source learns to
    # align words; None: none does.
    alignment_head: tuple[int, int] | None = dataclasses.field(
        default=None, metadata={"flag": None}
    )
    # The position of a sentence's first token.
    first_position: int = 0
    # Rows of the learned position table; sinusoids have no limit.
    num_positions: int = 1024
    # Id of padding; the vocabulary decides.
    pad_id: int = PAD_ID
    # Id that begins the decoder's input; the vocabulary decides.
    bos_id: int = BOS_ID
    # Id that ends a sequence; the vocabulary decides.
    eos_id: int = EOS_ID

    def __post_init__(self):
        _use_plain_numbers(self)
        sizes = ("vocab_size", "num_layers", "d_model", "d_ff", "num_heads")
        for name in (*sizes, "num_positions"):
            check_at_least(name, getattr(self, name), 1)
        for name in (
            "target_vocab_size",
            "num_encoder_layers",
            "num_decoder_layers",
            "encoder_d_ff",
            "decoder_d_ff",
            "key_dim",
            "value_dim",
            "attention_window",
        ):
            if getattr(self, name) is not None:
                check_at_least(name, getattr(self, name), 1)
        for name in ("dropout_rate", "attention_dropout_rate", "ffn_dropout_rate"):
            check_rate(name, getattr(self, name))
        check_choice("norm_placement", self.norm_placement, NORM_PLACEMENTS)
        check_choice("position_encoding", self.position_encoding, POSITION_ENCODINGS)
        check_choice("position_layout", self.position_layout, POSITION_LAYOUTS)
        check_choice("activation", self.activation, ACTIVATIONS)
        check_above_zero("layer_norm_epsilon", self.layer_norm_epsilon)
        self._check_heads()
        self._check_vocabulary()

    def _check_heads(self):
        heads_fit = self.d_model % self.num_heads == 0
        if not heads_fit and (self.key_dim is None or self.value_dim is None):
            raise ValueError(
                "`num_heads` must divide `d_model` (or set both `key_dim` and "
                f"`value_dim`). Received: num_heads={self.num_heads}, "
                f"d_model={self.d_model}."
            )
        if self.alignment_head is not None:
            self._check_alignment_head()
        if self.d_model % 2 and self.position_encoding == "sinusoidal":
            raise ValueError(
                "`d_model` must be even: sinusoidal positions come in pairs of sine "
                f"and cosine (§3.5). Received: d_model={self.d_model}."
            )

    def _check_alignment_head(self):
        # JSON has lists only.
        object.__setattr__(self, "alignment_head", tuple(self.alignment_head))
        limits = (self.decoder_depth, self.num_heads)
        for number in self.alignment_head:
            check_integer("alignment_head", number)
        if len(self.alignment_head) != 2 or not all(
            0 <= number < limit
            for number, limit in zip(self.alignment_head, limits, strict=True)
        ):
            raise ValueError(
                f"`alignment_head` must be one of {limits[0]} layers and one of "
                f"{limits[1]} heads, counted from 0. Received: "
                f"alignment_head={self.alignment_head}."
            )

    def _check_vocabulary(self):
        separate = self.target_vocab_size not in (None, self.vocab_size)
        if separate and self.share_embeddings:
            raise ValueError(
                "`share_embeddings` needs one vocabulary for source and target. "
                f"Received: vocab_size={self.vocab_size}, "
                f"target_vocab_size={self.target_vocab_size}. "
                "Set share_embeddings=False."
            )
        # JSON has lists only.
        object.__setattr__(self, "suppressed_ids", tuple(self.suppressed_ids))
        special_ids = [
            (name, getattr(self, name)) for name in ("pad_id", "bos_id", "eos_id")
        ]
        suppressed_ids = [("suppressed_ids", value) for value in self.suppressed_ids]
        for name, value in (*special_ids, *suppressed_ids):
            check_integer(name, value)
            if not 0 <= value < self.output_vocab_size:
                raise ValueError(
                    f"`{name}` must be an id of the target vocabulary, in "
                    f"[0, {self.output_vocab_size}). Received: {name}={value}."
                )
        if self.pad_id == self.eos_id:
            raise ValueError(
                "`pad_id` and `eos_id` must differ, or the end of a sentence is "
                f"masked. Received: pad_id={self.pad_id}, eos_id={self.eos_id}."
            )

    @property
    def output_vocab_size(self) -> int:
        """Words the decoder chooses from."""
        return self.target_vocab_size or self.vocab_size

    @property
    def encoder_depth(self) -> int:
        """N of the encoder: `num_encoder_layers`, else `num_layers`."""
        return self.num_encoder_layers or self.num_layers

    @property
    def decoder_depth(self) -> int:
        """N of the decoder: `num_decoder_layers`, else `num_layers`."""
        return self.num_decoder_layers or self.num_layers

    @property
    def encoder_ffn_dim(self) -> int:
        """d_ff of the encoder: `encoder_d_ff`, else `d_ff`."""
        return self.encoder_d_ff or self.d_ff

    @property
    def decoder_ffn_dim(self) -> int:
        """d_ff of the decoder: `decoder_d_ff`, else `d_ff`."""
        return self.decoder_d_ff or self.d_ff

    @property
    def head_key_dim(self) -> int:
        """d_k: `key_dim`, else `d_model / num_heads`."""
        return self.key_dim or self.d_model // self.num_heads

    @property
    def head_value_dim(self) -> int:
        """d_v: `value_dim`, else `d_model / num_heads`."""
        return self.value_dim or self.d_model // self.num_heads


@dataclasses.dataclass(frozen=True)
class TrainingConfig:
    """How a model is trained: batches (§5.1), optimizer (§5.3), regularization (§5.4).

    Raises:
        ValueError: If a number is outside its range; the message names the field.

    Examples:
        >>> kt.TrainingConfig(train_steps=8000, warmup_steps=2000).tokens_per_batch
        25000
    """

    # Optimizer steps.
    train_steps: int = 100_000
    # Padded tokens of one side (source or target) in the batch of one optimizer step,
    # over all replicas (§5.1: about 25,000 source and 25,000 target tokens).
    tokens_per_batch: int = 25_000
    # Microbatches that a batch is split into; their gradients are added before the
    # update, so the result is the same with less memory.
    accumulate_steps: int = 1
    # Pairs with more tokens than this on a side, EOS included, are left out.
    max_length: int = 256
    # Pack several pairs, masked from one another, into each row, which leaves less
    # padding and one shape for XLA to compile; the paper has one pair per row. None:
    # where XLA compiles and pairs can be kept apart, decided when a run begins.
    pack: bool | None = None
    # Learning rate after the warm-up: "paper" is Eq. 3; "constant" stays at
    # --learning_rate; "linear" falls from it to 0 at the last step.
    learning_rate_schedule: str = "paper"
    # Peak of the constant and the linear schedule, for fine-tuning.
    learning_rate: float = 1e-4
    # Factor on the learning rate of Eq. 3.
    learning_rate_scale: float = 1.0
    # Steps over which the learning rate rises (§5.3).
    warmup_steps: int = 4000
    # beta_1 of Adam (§5.3).
    adam_beta_1: float = 0.9
    # beta_2 of Adam (§5.3).
    adam_beta_2: float = 0.98
    # epsilon of Adam (§5.3).
    adam_epsilon: float = 1e-9
    # epsilon_ls of label smoothing (§5.4).
    label_smoothing: float = 0.1
    # alpha of R-Drop (Liang et al., 2021): each pair is in a batch twice, with other
    # dropout masks, and the two predictions are drawn together; 0: off, as in the
    # paper. A step takes twice as long.
    r_drop: float = 0.0
    # Weight of a loss on attention to the source; 0: none, as in the paper. Parsing: a
    # head of each decoder layer looks at the next word. Translation: a head of the
    # second-to-last layer looks at the words that --train_alignments of
    # bin/prepare_data.py aligns with the next one; 0.05 is usual.
    guided_alignment: float = 0.0
    # Parts of the model that are not trained, separated by commas: embeddings, encoder,
    # decoder.
    freeze: str = ""
    # Train only low-rank adapters of this rank, added to every linear map of encoder
    # and decoder (LoRA, Hu et al. 2021); 0: train the weights themselves.
    lora_rank: int = 0
    # Checkpoints averaged at the end (§6.1: 5 for base, 20 for big).
    average_last: int = 5

    def __post_init__(self):
        _use_plain_numbers(self)
        for name in (
            "train_steps",
            "tokens_per_batch",
            "accumulate_steps",
            "max_length",
            "warmup_steps",
            "average_last",
        ):
            check_at_least(name, getattr(self, name), 1)
        check_at_least("lora_rank", self.lora_rank, 0)
        for name in ("label_smoothing", "adam_beta_1", "adam_beta_2"):
            check_rate(name, getattr(self, name))
        for name in ("learning_rate", "learning_rate_scale", "adam_epsilon"):
            check_above_zero(name, getattr(self, name))
        check_choice(
            "learning_rate_schedule",
            self.learning_rate_schedule,
            LEARNING_RATE_SCHEDULES,
        )
        for part in self.frozen_parts:
            check_choice("freeze", part, FROZEN_PARTS)
        for name in ("guided_alignment", "r_drop"):
            check_weight(name, getattr(self, name))
        if self.pack and self.guided_alignment:
            raise ValueError(
                "`pack` must be False with `guided_alignment`, which aligns the words "
                "of one pair per row. Received: pack=True, "
                f"guided_alignment={self.guided_alignment}. Leave out one of the two."
            )
        if self.tokens_per_batch < self.max_length:
            raise ValueError(
                "`tokens_per_batch` must be at least `max_length`, or the longest pair "
                f"fits no batch. Received: tokens_per_batch={self.tokens_per_batch}, "
                f"max_length={self.max_length}."
            )

    @property
    def frozen_parts(self) -> tuple[str, ...]:
        """The names in `freeze`."""
        return tuple(self.freeze.split(",")) if self.freeze else ()


@dataclasses.dataclass(frozen=True)
class DecodingConfig:
    """Beam search as in §6.1.

    Raises:
        ValueError: If a number is outside its range; the message names the field.

    Examples:
        >>> decoding = kt.DecodingConfig(beam_size=1, max_input_length=64)
        >>> decoding.length_penalty_alpha
        0.6
    """

    # Hypotheses kept alive; 1 is greedy search.
    beam_size: int = dataclasses.field(default=4, metadata={"minimum": 1})
    # alpha of the length penalty; 0 switches it off.
    length_penalty_alpha: float = dataclasses.field(
        default=0.6, metadata={"minimum": 0.0}
    )
    # "wu": ((5 + length) / 6) ** alpha (§6.1); "power": length ** alpha, as in Marian,
    # Transformers and CTranslate2.
    length_penalty: str = "wu"
    # An output has at most as many tokens as its input, plus these.
    extra_decode_length: int = dataclasses.field(default=50, metadata={"minimum": 0})
    # An output has at most this many tokens, EOS included; None: no such limit.
    max_output_length: int | None = dataclasses.field(
        default=None, metadata={"minimum": 1}
    )
    # Sources are cut at the end to this many tokens, EOS included.
    max_input_length: int = dataclasses.field(default=512, metadata={"minimum": 1})
    # Force EOS at the output limit and score it, instead of leaving the hypothesis
    # unfinished.
    force_eos: bool = False
    # With `force_eos`: the forced EOS counts as certain, as in Transformers.
    certain_eos: bool = False
    # No n-gram of this many tokens occurs twice in an output, as in Transformers; 0:
    # off. Translation only.
    no_repeat_ngram_size: int = dataclasses.field(default=0, metadata={"minimum": 0})
    # A phrase of up to 8 tokens occurs at most this often in a row; 0: off. Translation
    # only.
    max_repetitions: int = dataclasses.field(default=0, metadata={"minimum": 0})
    # Stop the search of a sentence as soon as `beam_size` hypotheses have ended, as in
    # CTranslate2, Marian and fairseq. By default it stops when no other can be better.
    early_stopping: bool = False
    # Score each token by its share of the probability of the tokens that may follow,
    # instead of all, as `renormalize_logits` of Transformers does.
    renormalize: bool = False
    # A translation may have the unknown token of a vocabulary that cannot write every
    # character, as `allow-unk` of Marian.
    allow_unk: bool = False

    def __post_init__(self):
        _use_plain_numbers(self)
        for field in dataclasses.fields(self):
            value, minimum = getattr(self, field.name), field.metadata.get("minimum")
            may_be_none = field.default is None and value is None
            if isinstance(minimum, int) and not may_be_none:
                check_at_least(field.name, value, minimum)
        check_choice("length_penalty", self.length_penalty, LENGTH_PENALTIES)
        _check_number("length_penalty_alpha", self.length_penalty_alpha)
        if not 0 <= self.length_penalty_alpha < math.inf:
            raise ValueError(
                "`length_penalty_alpha` must be a number of at least 0. "
                f"Received: length_penalty_alpha={self.length_penalty_alpha}."
            )


@dataclasses.dataclass(frozen=True)
class PairFilters:
    """Which pairs are left out when a corpus is encoded.

    Differs from the paper: §5.1 names no filters. The default ratio, 9, comes from
    the cleaning script commonly used for these corpora; 256 tokens is tensor2tensor's
    limit.

    Raises:
        ValueError: If a number is outside its range; the message names the field.

    Examples:
        >>> kt.config.PairFilters(max_length=100, drop_duplicates=True).max_length_ratio
        9.0
    """

    # Maximum number of tokens per side of a training pair, EOS included.
    max_length: int = 256
    # Training pairs are dropped if one side has more than this many times the tokens of
    # the other, EOS included; 0 for no limit.
    max_length_ratio: float | None = 9.0
    # Keep a training pair that occurs again only once.
    drop_duplicates: bool = False
    # Drop training pairs that are not valid UTF-8 instead of stopping. In other splits
    # invalid bytes are replaced by U+FFFD.
    drop_invalid_utf8: bool = False
    # Drop training pairs that are too long instead of stopping.
    drop_too_long: bool = True

    def __post_init__(self):
        _use_plain_numbers(self)
        check_at_least("max_length", self.max_length, 2)
        if self.max_length_ratio is None:
            return
        _check_number("max_length_ratio", self.max_length_ratio)
        if not self.max_length_ratio >= 1:
            raise ValueError(
                "`max_length_ratio` must be at least 1, or None for no limit. "
                f"Received: max_length_ratio={self.max_length_ratio}."
            )


@dataclasses.dataclass(frozen=True)
class PairEncoding:
    """How training pairs are encoded: BPE-dropout, and placeholders.

    Differs from the paper, which encodes each pair once and as it is. BPE-dropout:
    Provilkov et al. 2020.

    Raises:
        ValueError: If a number is outside its range; the message names the field.

    Examples:
        >>> kt.config.PairEncoding(placeholders=1).symbols
        ('<ph1>',)
    """

    # Random encodings of each training pair, all of them in every epoch; 1: only the
    # usual encoding, without dropout.
    subword_encodings: int = dataclasses.field(default=1, metadata={"minimum": 1})
    # With several encodings: the probability that BPE leaves out a merge.
    subword_dropout: float = 0.1
    # Pieces <ph1>, <ph2>, ... of the vocabulary for what must not change, and a quarter
    # as many pairs <pc1>, </pc1>; a search gives those of the source once. 0: none.
    placeholders: int = dataclasses.field(default=0, metadata={"minimum": 0})
    # With placeholders: the probability that a number, name or address which both texts
    # of a training pair have becomes one, and that it gets a pair around it.
    placeholder_rate: float = 0.5

    def __post_init__(self):
        _use_plain_numbers(self)
        check_at_least("subword_encodings", self.subword_encodings, 1)
        check_rate("subword_dropout", self.subword_dropout)
        check_at_least("placeholders", self.placeholders, 0)
        check_rate("placeholder_rate", self.placeholder_rate)

    @property
    def tags(self) -> tuple[tuple[str, str], ...]:
        """The pairs of an opening and a closing tag."""
        numbers = range(1, self.placeholders // 4 + 1)
        return tuple((OPENING_TAG.format(n), CLOSING_TAG.format(n)) for n in numbers)

    @property
    def symbols(self) -> tuple[str, ...]:
        """The pieces that the vocabulary must have: placeholders and tags."""
        numbers = range(1, self.placeholders + 1)
        singles = (PLACEHOLDER.format(n) for n in numbers)
        return *singles, *(tag for pair in self.tags for tag in pair)


def check_integer(name: str, value: Any) -> int:
    """Return an integer, also one of NumPy, as an int; raise TypeError for others.

    Examples:
        >>> kt.config.check_integer("rows", np.int64(3))
        3
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"`{name}` must be an integer. Received: {name}={value!r}.")
    return int(value)


def check_at_least(name: str, value: Any, minimum: int) -> int:
    """Return an integer of at least `minimum`, as `check_integer` does, or raise.

    Examples:
        >>> kt.config.check_at_least("rows", 0, 1)
        Traceback (most recent call last):
            ...
        ValueError: `rows` must be at least 1. Received: rows=0.
    """
    value = check_integer(name, value)
    if value < minimum:
        raise ValueError(
            f"`{name}` must be at least {minimum}. Received: {name}={value}."
        )
    return value


def _check_number(name, value):
    if not isinstance(value, numbers.Real):
        raise TypeError(f"`{name}` must be a number. Received: {name}={value!r}.")


def check_weight(name: str, value: float) -> None:
    """Raise ValueError unless `value` is finite and at least 0.

    Examples:
        >>> kt.config.check_weight("alpha", -0.5)
        Traceback (most recent call last):
            ...
        ValueError: `alpha` must be a finite number, at least 0. Received: alpha=-0.5.
    """
    _check_number(name, value)
    if not 0 <= value < math.inf:
        raise ValueError(
            f"`{name}` must be a finite number, at least 0. Received: {name}={value}."
        )


def check_above_zero(name: str, value: float) -> None:
    """Raise unless `value` is a finite number above 0.

    Examples:
        >>> kt.config.check_above_zero("rate", 0.0)
        Traceback (most recent call last):
            ...
        ValueError: `rate` must be a finite number above 0. Received: rate=0.0.
    """
    _check_number(name, value)
    if not 0 < value < math.inf:
        raise ValueError(
            f"`{name}` must be a finite number above 0. Received: {name}={value}."
        )


def check_rate(name: str, value: float) -> None:
    """Raise unless `value` is in [0, 1).

    Examples:
        >>> kt.config.check_rate("dropout_rate", 1.0)
        Traceback (most recent call last):
            ...
        ValueError: `dropout_rate` must be in [0, 1). Received: dropout_rate=1.0.
    """
    _check_number(name, value)
    if not 0 <= value < 1:
        raise ValueError(f"`{name}` must be in [0, 1). Received: {name}={value}.")


def check_choice(name: str, value: str, choices: Collection[str]) -> None:
    """Raise unless `value` is one of `choices`; suggest the nearest.

    Examples:
        >>> kt.config.check_choice("kind", "rellu", ("relu", "gelu"))
        Traceback (most recent call last):
            ...
        ValueError: `kind` must be one of 'relu', 'gelu'. Received:...
    """
    if value not in choices:
        near = difflib.get_close_matches(str(value), choices, n=1, cutoff=0.4)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        listed = ", ".join(repr(choice) for choice in choices)
        raise ValueError(
            f"`{name}` must be one of {listed}. Received: {value!r}.{hint}"
        )


def from_dict(config_class: type, values: Mapping[str, Any]) -> Any:
    """Build a config from a mapping, as read from JSON; ValueError for other keys.

    Examples:
        >>> kt.config.from_dict(kt.DecodingConfig, {"beam_size": 2}).beam_size
        2
    """
    if not isinstance(values, Mapping):
        raise TypeError(
            f"`config` must be a {config_class.__name__} or a mapping of its fields. "
            f"Received: {values!r}."
        )
    _check_fields(config_class, values)
    return config_class(**values)


def _use_plain_numbers(config):
    """Replace NumPy's numbers, which JSON and Keras do not take, by Python's."""
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if isinstance(value, (bool, int, float)) or not isinstance(value, numbers.Real):
            continue
        plain = int if isinstance(value, numbers.Integral) else float
        object.__setattr__(config, field.name, plain(value))


def replaced(config: Any, values: Mapping[str, Any]) -> Any:
    """Return a config with other values of some fields; ValueError for other keys.

    Examples:
        >>> kt.config.replaced(kt.DecodingConfig(), {"beam_size": 2}).beam_size
        2
    """
    _check_fields(type(config), values)
    return dataclasses.replace(config, **values)


def _check_fields(config_class: type, names: Iterable[str]) -> None:
    known = [field.name for field in dataclasses.fields(config_class)]
    for name in names:
        check_choice(f"{config_class.__name__} field", name, known)
