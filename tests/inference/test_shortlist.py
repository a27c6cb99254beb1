"""A search with a shortlist is a search whose other pieces are impossible."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer import tokenization
from keras_transformer.config import ModelConfig, PairEncoding
from keras_transformer.decoding.rules import Hypotheses
from keras_transformer.inference.shortlist import FORMAT_VERSION, OutputIds, Shortlist
from keras_transformer.inference.translator import Translator
from keras_transformer.opening import open_model
from keras_transformer.serving import saved_model
from keras_transformer.serving.signatures import ServingModule
from tests.small_models import (
    LINES,
    choosing_model,
    inputs_of,
    make_translator,
    prepared_variables,
)

PLACEHOLDERS = PairEncoding(placeholders=8).symbols
# Enough short texts beside a long one for two length groups.
TEXTS = ["one two three", "", "A dog runs!", "2, 3, 5, 7 " * 9, *["zwei eins"] * 31]
CONFIG = ModelConfig(vocab_size=13, num_layers=1, d_model=6, d_ff=7, num_heads=2)


@pytest.fixture(scope="module")
def tokenizer():
    return tokenization.train_bpe(LINES * 5, vocab_size=320, symbols=PLACEHOLDERS)


@pytest.fixture(scope="module")
def plain_tokenizer():
    return tokenization.train_bpe(LINES * 5, vocab_size=300)


def translator_of(tokenizer, shortlist=None, config=None, **options):
    """Return a translator with a bias of the pre-softmax map and suppressed ids."""
    fields = {"output_bias": True, "suppressed_ids": (1, 37), **(config or {})}
    config = dataclasses.replace(CONFIG, vocab_size=tokenizer.vocab_size, **fields)
    settings = {"extra_decode_length": 5, "max_input_length": 23, **options}
    model = choosing_model(config, 3)
    return Translator(model, tokenizer, shortlist=shortlist, **settings)


def masked(translator, listed):
    """Make the logits of pieces outside of a list minus infinity, but for rounding."""
    bias = translator.model.output_embedding.output_bias
    if not hasattr(translator, "own_bias"):
        translator.own_bias = bias.numpy()
    is_listed = np.isin(np.arange(len(translator.own_bias)), listed)
    bias.assign(np.where(is_listed, translator.own_bias, -1e9))
    return translator


def random_list(size, seed=5):
    """A list in which each source piece has 7 target pieces, some of them twice."""
    draw = np.random.default_rng(seed)
    return Shortlist(np.arange(34), draw.integers(size, size=(size, 7)))


def searched(translator, texts, prefix=None):
    """Return the result of a search, and the ids that it had."""
    tokens, _ = translator.source_tokens(tf.constant(texts))
    if prefix is not None:
        prefix = tf.constant(prefix, tf.int32)
    result = translator.search(tokens, prefix, num_best=translator.decoding.beam_size)
    listed = None
    if translator.shortlist is not None:
        ids = translator.output_ids(tokens, prefix)
        listed = ids.listed.numpy()
    return result._asdict(), listed


def assert_equal(found, expected):
    for name, value in found.items():
        if value.dtype.is_floating:
            np.testing.assert_allclose(value, expected[name], rtol=1e-4, atol=1e-4)
        else:
            np.testing.assert_array_equal(value, expected[name], name)


def test_a_list_has_the_pieces_of_all_sources_of_a_batch_and_of_prefixes():
    table = np.full((13, 2), 3)
    table[4], table[5], table[6] = (9, 8), (8, 12), (10, 11)
    shortlist = Shortlist(np.array([0, 2, 3]), table)
    ids = shortlist.ids_of(CONFIG, tf.constant([[4, 5, 3], [4, 3, 0]]))
    assert ids.listed.numpy().tolist() == [0, 2, 3, 8, 9, 12]
    assert ids.special_ids == {"pad_id": 0, "bos_id": 1, "eos_id": 2}
    assert ids.of_model(tf.constant([[1, 2], [5, 0]])).numpy().tolist() == [
        [2, 3],
        [12, 0],
    ]
    assert ids.of_search(tf.constant([12, 0, 3])).numpy().tolist() == [5, 0, 2]
    ids = shortlist.ids_of(CONFIG, tf.constant([[4, 3]]), tf.constant([[7, 0], [3, 8]]))
    assert ids.listed.numpy().tolist() == [0, 2, 3, 7, 8, 9]


def test_a_rule_sees_the_models_ids_of_what_the_search_numbers():
    shortlist = Shortlist(np.array([0, 2, 3]), np.full((13, 1), 7))
    ids = shortlist.ids_of(CONFIG, tf.constant([[4]]))

    def rule(hypotheses, step, source):
        assert hypotheses.tokens.numpy().tolist() == [[[7, 0]]]
        return hypotheses.ids > step + source

    numbers = Hypotheses(tf.constant([[[3, 0]]]), tf.constant([2]), tf.range(4))
    allowed = ids.rule_of_search(rule)(numbers, 1, 1)
    assert allowed.numpy().tolist() == [False, False, True, True]


@pytest.mark.long(first=2)
@pytest.mark.parametrize("is_prepared", [False, True])
@pytest.mark.parametrize("beam_size", [4, 1])
def test_a_list_of_the_whole_vocabulary_changes_nothing(
    tokenizer, beam_size, is_prepared
):
    """With placeholders, suppressed ids and a bias."""
    size = tokenizer.vocab_size
    options = {"beam_size": beam_size, "no_repeat_ngram_size": 2}
    every = Shortlist(np.arange(size), np.full((size, 1), 3))
    plain = translator_of(tokenizer, **options)
    listed = translator_of(tokenizer, every, **options)
    if is_prepared:
        plain, listed = (
            each.with_prepared_weights(has_stacks=True) for each in (plain, listed)
        )
    texts = [*TEXTS, "<ph1> dog <pc1>one</pc1>"]
    (found, ids), (expected, _) = searched(listed, texts), searched(plain, texts)
    assert ids.tolist() == [*range(size)]
    assert_equal(found, expected)


@pytest.mark.long(first=1)
@pytest.mark.parametrize(
    ("config", "options"),
    [
        ({}, {}),
        ({"suppressed_ids": ()}, {"beam_size": 1}),
        ({"share_embeddings": False}, {"no_repeat_ngram_size": 2}),
    ],
)
def test_the_result_is_that_of_a_search_whose_other_logits_are_minus_infinity(
    plain_tokenizer, config, options
):
    """Batches of very different lengths, of equal ones, and of one text."""
    size = plain_tokenizer.vocab_size
    listed = translator_of(plain_tokenizer, random_list(size), config, **options)
    plain = translator_of(plain_tokenizer, None, config, **options)
    unlisted = set()
    for texts in (TEXTS, TEXTS[2:3] * 2, TEXTS[:1]):
        whole, _ = searched(masked(plain, range(size)), texts)
        found, ids = searched(listed, texts)
        assert 34 < len(ids) < size
        assert set(found["tokens"].numpy().flat) <= {*ids.tolist()}
        unlisted |= set(whole["tokens"].numpy().flat) - {*ids.tolist()}
        assert_equal(found, searched(masked(plain, ids), texts)[0])
    assert unlisted


@pytest.mark.long
def test_prefixes_are_in_the_list(plain_tokenizer):
    """Their pieces, 250 and 251, are no translations of the sources."""
    size = plain_tokenizer.vocab_size
    shortlist = Shortlist(np.arange(34), np.full((size, 1), 40))
    listed = translator_of(plain_tokenizer, shortlist)
    texts, prefix = [*LINES[:3]], [[250, 251, 0], [5, 0, 0], [0, 0, 0]]
    found, ids = searched(listed, texts, prefix)
    assert ids.tolist() == [*range(34), 40, 250, 251]
    assert found["tokens"][0, 0, :2].numpy().tolist() == [250, 251]
    assert found["tokens"][1, 0, 0] == 5
    plain = masked(translator_of(plain_tokenizer), ids)
    assert_equal(found, searched(plain, texts, prefix)[0])


@pytest.mark.long
def test_placeholders_are_kept(tokenizer):
    symbols = sorted(tokenizer.placeholders.values())
    size = tokenizer.vocab_size
    always = np.union1d(np.arange(40), symbols)
    listed = translator_of(tokenizer, Shortlist(always, np.full((size, 1), 3)))
    (found,) = listed.translate(["one <ph2> two <pc1>x</pc1>"])
    for symbol in ("<ph2>", "<pc1>", "</pc1>"):
        assert found.text.count(symbol) == 1


@pytest.mark.release
def test_samples_have_listed_pieces_alone(plain_tokenizer):
    size = plain_tokenizer.vocab_size
    always = np.union1d(np.arange(4), np.arange(270, 290))
    listed = translator_of(plain_tokenizer, Shortlist(always, np.full((size, 1), 3)))
    plain = masked(translator_of(plain_tokenizer), always)
    modules = ServingModule(listed), ServingModule(plain)
    inputs = inputs_of("sample", LINES * 3)
    for temperature in (0.0, 1.0):
        inputs["temperature"] = tf.fill([15], temperature)
        found, expected = (module.sample(**inputs) for module in modules)
        assert_equal(found, expected)
    assert len(set(found["translation"].numpy())) > 7


def test_without_a_list_no_operation_is_added():
    translator = make_translator()
    with tf.Graph().as_default() as graph:
        tokens = tf.zeros([3, 5], tf.int32)
        count = len(graph.get_operations())
        ids = translator.output_ids(tokens, tokens)
        assert ids.listed is None
        for unchanged in (ids.of_model, ids.of_search, ids.rule_of_search):
            assert unchanged(tokens) is tokens
        assert ids.special_ids == {"bos_id": 2, "eos_id": 3, "pad_id": 0}
        assert len(graph.get_operations()) == count
    assert type(ids) is OutputIds


def test_a_step_gathers_rows_once_and_multiplies_these_alone(plain_tokenizer):
    """The loop body has no operation on the pre-softmax matrix but the product."""
    size = plain_tokenizer.vocab_size
    listed = translator_of(plain_tokenizer, random_list(size)).with_prepared_weights()
    assert not any(
        each.shape.num_elements() >= size * 6
        for each in prepared_variables(listed)
        if each.dtype.is_floating
    )
    spec = tf.TensorSpec([None], tf.string)
    graph = listed._translate_batch.get_concrete_function(spec).graph.as_graph_def()
    bodies = [
        function
        for function in graph.library.function
        if "while_body" in function.signature.name
    ]
    assert bodies
    for body in bodies:
        assert "StatelessIf" not in {node.op for node in body.node_def}
    assert listed._translate_batch.experimental_get_tracing_count() == 1
    for texts in (TEXTS, TEXTS[:1]):
        listed.translate_batch(tf.constant(texts))
    assert listed._translate_batch.experimental_get_tracing_count() == 1


@pytest.mark.release
def test_scores_of_given_translations_are_those_of_the_whole_vocabulary(
    plain_tokenizer,
):
    size = plain_tokenizer.vocab_size
    shortlist = Shortlist(np.arange(34), np.full((size, 1), 3))
    modules = [
        ServingModule(translator_of(plain_tokenizer, each))
        for each in (shortlist, None)
    ]
    inputs = inputs_of("score", TEXTS[:3])
    ours, theirs = (module.score(**inputs)["log_probability"] for module in modules)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    aligned = modules[0].align(tf.constant(TEXTS[:3]))
    text = aligned["translation"]
    assert np.array_equal(
        text, modules[0].serving_default(tf.constant(TEXTS[:3]))["translation"]
    )


@pytest.mark.long(first=1)
@pytest.mark.parametrize("has_packed_kernels", [True, False])
def test_an_export_gives_the_same(plain_tokenizer, tmp_path, has_packed_kernels):
    size = plain_tokenizer.vocab_size
    listed = translator_of(plain_tokenizer, random_list(size))
    version = saved_model.export(
        listed,
        tmp_path,
        signatures=["serving_default", "sample"],
        check_texts=TEXTS[:7],
        has_packed_kernels=has_packed_kernels,
    )
    ours = listed.translate(TEXTS, batch_size=3)
    theirs = open_model(version).translate(TEXTS, batch_size=3)
    assert [each.text for each in ours] == [each.text for each in theirs]
    plain = translator_of(plain_tokenizer).translate(TEXTS, batch_size=3)
    assert [each.text for each in ours] != [each.text for each in plain]
    stored = tf.train.load_checkpoint(str(version / "variables" / "variables"))
    shapes = stored.get_variable_to_shape_map()
    tables = [
        name
        for name, dtype in stored.get_variable_to_dtype_map().items()
        if dtype == tf.int32 and shapes[name] == [size, 7]
    ]
    assert len(tables) == 1


def test_a_list_is_read_as_it_was_written(tmp_path):
    shortlist = random_list(300)
    shortlist.save(tmp_path / "shortlist.npz", "abc")
    found = Shortlist.load(tmp_path / "shortlist.npz", "abc")
    np.testing.assert_array_equal(found.always, shortlist.always)
    np.testing.assert_array_equal(found.translations, shortlist.translations)
    assert [path.name for path in tmp_path.iterdir()] == ["shortlist.npz"]


@pytest.mark.parametrize("content", [None, b"", b"PK\x03\x04", {"always": 3}, {}])
def test_files_that_cannot_be_used_are_named(tmp_path, content):
    path = tmp_path / "shortlist.npz"
    error, message = ValueError, r"shortlist\.npz is damaged\. Make it with bin/make_sh"
    if content is None:
        error, message = FileNotFoundError, "No shortlist.npz in .*, or drop --shortli"
    elif isinstance(content, bytes):
        path.write_bytes(content)
    elif content:
        np.savez(path, format_version=FORMAT_VERSION, tokenizer_hash="a", **content)
    else:
        random_list(300).save(path, "a")
        message = "was made for another vocabulary than the model's. Make it with bin"
    with pytest.raises(error, match=message):
        Shortlist.load(path, "b")


def test_another_format_version_is_named(tmp_path):
    path = tmp_path / "shortlist.npz"
    stored = {"tokenizer_hash": "a", "always": [3], "translations": [[3]]}
    np.savez(path, format_version=FORMAT_VERSION + 1, **stored)
    with pytest.raises(ValueError, match="has format version 2; this program reads ve"):
        Shortlist.load(path, "a")


@pytest.mark.parametrize(
    ("always", "rows", "highest", "message"),
    [
        (range(40), 299, 7, "not the model's: .* of 300 source.*Received: 299 rows"),
        (range(40), 300, 300, r"ids below 300, .*Received: 300 rows, ids up to 300\."),
        (range(1, 40), 300, 7, "the special ids in every list"),
        (range(7), 300, 7, "at most half the .*beam_size=4, and 7 pieces. Make the"),
    ],
)
def test_a_list_that_does_not_fit_the_model_is_refused(
    plain_tokenizer, always, rows, highest, message
):
    shortlist = Shortlist(np.array(always), np.full((rows, 2), highest))
    with pytest.raises(ValueError, match=message):
        translator_of(plain_tokenizer, shortlist)
