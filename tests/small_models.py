"""Untrained models that choose, their tokenizers, and inputs for their signatures."""

import collections
import dataclasses
import io

import numpy as np
import sentencepiece
import tensorflow as tf

from keras_transformer import data, presets, tokenization
from keras_transformer.config import ModelConfig
from keras_transformer.inference.translator import Translator
from keras_transformer.model.transformer import Transformer
from keras_transformer.parsing.parser import Parser
from keras_transformer.parsing.symbols import SymbolVocabulary
from keras_transformer.runs.model_dir import ModelDir
from keras_transformer.runs.run_config import RunConfig
from keras_transformer.tokenization.mapped import MappedTokenizer, pack

LINES = ["one two three", "zwei eins", "Ein Hund läuft.", "A dog runs!", "2, 3, 5, 7"]


def vocabulary(**options):
    """Return a SentencePiece model, which lacks characters unless options say not."""
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES * 5),
        model_writer=written,
        model_type="bpe",
        minloglevel=2,
        **{"vocab_size": 100, "pad_id": 3, **options},
    )
    return written.getvalue()


def mapped_tokenizer():
    """Return a tokenizer as of a published model, which knows two words."""
    proto = vocabulary()
    pieces = {"</s>": 0, "<unk>": 1, "\u2581one": 2, "\u2581two": 3, "<pad>": 4}
    special_ids = {"pad_id": 4, "bos_id": 4, "eos_id": 0}
    return MappedTokenizer(pack(proto, proto, [pieces], special_ids))


# One tokenizer of each kind, made when it is called.
TOKENIZERS = {
    "bpe": lambda: tokenization.train_bpe(LINES * 5, 300),
    "wordpiece": lambda: tokenization.train_wordpiece(LINES * 5, 120),
    "sentencepiece": lambda: tokenization.SentencePieceTokenizer(vocabulary()),
    "mapped": mapped_tokenizer,
}


def make_translator(seed=3, precision="float32", placeholders=(), **options):
    """Return a translator of 2 layers whose sources have at most 23 tokens."""
    tokenizer = tokenization.train_bpe(
        LINES * 5, vocab_size=300 + len(placeholders), symbols=placeholders
    )
    config = ModelConfig(
        vocab_size=tokenizer.vocab_size, num_layers=2, d_model=6, d_ff=7, num_heads=2
    )
    model = choosing_model(config, seed, precision)
    return Translator(
        model, tokenizer, extra_decode_length=5, max_input_length=23, **options
    )


def make_parser(seed=3, labels=("S", "NP", "VP", "-LRB-", "XX"), tags=(), **options):
    """Return a parser of 2 layers that reads at most 23 tokens of a sentence.

    Args:
        seed: Of the weights.
        labels: Of constituents.
        tags: Of words.
        **options: Of `Parser`; the beam is 4 without.
    """
    tokenizer = tokenization.train_bpe(LINES * 5, vocab_size=300)
    vocabulary = SymbolVocabulary(labels, tags)
    config = ModelConfig(
        vocab_size=tokenizer.vocab_size,
        target_vocab_size=vocabulary.vocab_size,
        share_embeddings=False,
        num_layers=2,
        d_model=6,
        d_ff=7,
        num_heads=2,
    )
    settings = {"beam_size": 4, "extra_decode_length": 11, "max_input_length": 23}
    model = choosing_model(config, seed)
    return Parser(model, tokenizer, vocabulary, **(settings | options))


def write_run(folder, target_language="de"):
    """Write a corpus whose target is its source, and a run of its vocabulary.

    Args:
        folder: Gets the folders `data` and `model`.
        target_language: Of the corpus.
    """
    translator = make_translator()
    write_model(translator, folder / "model")
    (folder / "text").write_text("\n".join(LINES) + "\n")
    paths = folder / "text", folder / "text"
    source = data.TextFiles({"train": paths, "valid": paths}, "en", target_language)
    data.prepare(source, folder / "data", lambda texts: translator.tokenizer)


def write_model(translator, folder, **fields):
    """Write a run from English to German without checkpoints.

    Args:
        translator: Its model, tokenizer and settings.
        folder: The model_dir.
        **fields: Of `RunConfig`, to replace.
    """
    config = RunConfig(
        preset="tiny",
        model=translator.model.config,
        training=presets.get("tiny").training,
        decoding=translator.decoding,
        source_language="en",
        target_language="de",
        tokenizer_hash=translator.tokenizer.fingerprint,
    )
    config = dataclasses.replace(config, **fields)
    ModelDir(folder).write(translator.model, translator.tokenizer, config)


def prepared_variables(translator):
    """The variables that a search reads beside the model's own."""
    own = {weight.value.ref() for weight in translator.model.weights}
    return [each for each in translator.searched_variables if each.ref() not in own]


def choosing_model(config, seed, precision="float32", scale=0.7):
    """Return a model with weights large enough to choose by."""
    model = Transformer(config, dtype=precision)
    # Keras's own seed would be that of other tests, too.
    draw = np.random.default_rng(seed)
    model.set_weights(
        [draw.normal(scale=scale, size=weight.shape) for weight in model.get_weights()]
    )
    return model


def inputs_of(name, texts, second_texts=None):
    """Return the inputs of a signature for a batch of sources.

    Args:
        name: Of the signature.
        texts: The sources.
        second_texts: For the signatures that take another text.
    """
    batch = len(texts)
    if name in ("compile", "programs"):
        return {"program": tf.zeros([batch], tf.int32)}
    inputs = {"text": tf.constant(texts, tf.string)}
    if name in ("prefix", "score"):
        second = "prefix" if name == "prefix" else "target_text"
        inputs[second] = tf.constant(second_texts or ["zwei eins"] * batch, tf.string)
    if name == "multilingual":
        inputs["source_language"] = tf.constant(["en"] * batch, tf.string)
        inputs["target_language"] = tf.constant(["de"] * batch, tf.string)
    if name == "sample":
        inputs["temperature"] = inputs["top_p"] = tf.ones([batch])
        inputs["top_k"] = tf.zeros([batch], tf.int32)
        inputs["seed"] = tf.range(batch)
    return inputs


def stored_numbers(version):
    """Count the numbers in an export's variables, by their type."""
    stored = tf.train.load_checkpoint(str(version / "variables" / "variables"))
    shapes = stored.get_variable_to_shape_map()
    sizes = collections.Counter()
    for name, dtype in stored.get_variable_to_dtype_map().items():
        sizes[dtype] += int(np.prod(shapes[name]))
    return sizes
