"""Parsing sentences with a model and with its SavedModel."""

import dataclasses
import math
import random
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer import tokenization
from keras_transformer.config import DecodingConfig, ModelConfig
from keras_transformer.decoding import BeamSearchResult
from keras_transformer.model.transformer import Transformer
from keras_transformer.opening import open_model
from keras_transformer.parsing.constraint import ConstraintConfig
from keras_transformer.parsing.parser import Parser, parse_in_batches
from keras_transformer.parsing.symbols import SymbolVocabulary
from keras_transformer.presets import PARSER_DECODING
from keras_transformer.serving import saved_model, warmup
from keras_transformer.translation import exported_model
from keras_transformer.treebank import linearisation, trees
from tests.small_models import LINES, make_parser, stored_numbers

# Brackets as words, quotes, empty, only spaces, other white space, emoji, too long.
MIXED = [
    "A dog runs !",
    "(S ( [ ) :) )S {",
    "",
    "` one ' two 's '",
    "   ",
    "\ta\n\N{NO-BREAK SPACE}b \r c\v",
    "\u00e9\U0001f600 \u72d7",
    "one two " * 20,
    "XX",
]
# Rows of MIXED over the limit of 22 tokens: they have 7 words and 40.
TOO_LONG = (1, 7)


@pytest.fixture(scope="module")
def parser():
    return make_parser()


@pytest.fixture(scope="module")
def free_parser():
    return make_parser(constrained=False)


def words_of(sentence):
    """Return the words of a sentence in the treebank's form."""
    return [trees.escape(word.decode()) for word in sentence.encode().split()]


def batch_of(parser, texts):
    """Return the outputs of `parse_batch` as NumPy arrays."""
    answer = parser.parse_batch(tf.constant(texts, tf.string))
    return {name: value.numpy() for name, value in answer.items()}


def test_every_tree_of_an_untrained_model_is_valid_and_has_all_words_in_order(parser):
    """200 random sentences of 0 to 29 words; the model reads 22 tokens."""
    draw = random.Random(5)
    vocabulary = [*" ".join(LINES).split(), "(", ")", "(S", "`", "'", "-LRB-", "\u72d7"]
    sentences = [
        " ".join(draw.choices(vocabulary, k=draw.randint(0, 29))) for _ in range(200)
    ]
    answer = batch_of(parser, sentences)
    assert answer["valid"].all()
    assert set(answer["truncated"]) == {True, False}
    shapes = set()
    for sentence, text in zip(sentences, answer["tree"], strict=True):
        if not sentence:
            assert text == b""
            continue
        tree = trees.from_string(text.decode())
        assert tree.words == words_of(sentence)
        assert tree.tags == linearisation.tags_of(sentence.split())
        assert trees.depth(tree) <= 64
        shapes.add(" ".join(linearisation.linearise(tree)))
    assert len(shapes) > 20
    assert np.all((answer["score"] < 0) == [bool(sentence) for sentence in sentences])


@pytest.mark.long(first=1)
@pytest.mark.parametrize("constrained", [True, False])
def test_a_model_that_tags_gives_the_same_trees_in_the_graph(constrained):
    """Words have the model's tags, punctuation has the tag of its form."""
    parser = make_parser(tags=["NN", "VB"], constrained=constrained)
    together, answer = parser.parse(MIXED), batch_of(parser, MIXED)
    for parse, text in zip(together, answer["tree"], strict=True):
        if parse.valid:
            assert str(parse.tree or "") == text.decode()
        if parse.tree is not None:
            punctuation = linearisation.tags_of(parse.tree.words)
            for tag, of_form in zip(parse.tree.tags, punctuation, strict=True):
                assert tag == of_form or tag in ("NN", "VB")
    written = "".join(str(parse.tree) for parse in together)
    if constrained:  # else all trees may be repaired ones
        assert "(NN " in written or "(VB " in written


def test_trees_are_in_the_order_of_the_sentences(parser):
    """Batches are sorted by length, results are not; the graph gives the same trees."""
    together = parser.parse(MIXED, batch_size=2)
    answer = batch_of(parser, MIXED)
    assert ["" if parse.tree is None else str(parse.tree) for parse in together] == [
        text.decode() for text in answer["tree"]
    ]
    np.testing.assert_allclose(
        [parse.score for parse in together], answer["score"], rtol=1e-4
    )
    for sentence, parse in zip(MIXED, together, strict=True):
        if parse.tree is not None:
            assert parse.tree.words == [w.decode() for w in sentence.encode().split()]
    assert all(parse.valid for parse in together)
    truncated = [parse.truncated for parse in together]
    assert truncated == answer["truncated"].tolist()
    assert truncated == [row in TOO_LONG for row in range(len(MIXED))]


def test_a_row_does_not_depend_on_the_others(parser):
    together = batch_of(parser, MIXED)
    for row in range(len(MIXED)):
        alone = batch_of(parser, MIXED[row : row + 1])
        for name, value in alone.items():
            if name == "score":
                np.testing.assert_allclose(value[0], together[name][row], rtol=1e-4)
            else:
                assert value[0] == together[name][row]


def test_white_space_between_words_is_ignored(parser):
    answer = batch_of(parser, ["one two", "  one\t\n two\v"])
    assert answer["tree"][0] == answer["tree"][1]
    # The rows of a batch may differ in the last bit.
    assert answer["score"][0] == pytest.approx(answer["score"][1], rel=1e-6)


def test_the_model_reads_brackets_in_the_form_of_the_treebank(parser):
    """So "(" and "-LRB-" are the same input."""
    answer = batch_of(parser, ["a ( b", "a -LRB- b"])
    assert answer["tree"][0] == answer["tree"][1]
    # The rows of a batch may differ in the last bit.
    assert answer["score"][0] == pytest.approx(answer["score"][1], rel=1e-6)


def test_sentences_without_words_have_no_tree(parser):
    for parse in parser.parse(["", " \n", "\u00a0", "\u200b \t", " \u0301"]):
        assert parse == (None, 0.0, False, True)
    assert parser.parse([]) == []
    assert {len(value) for value in batch_of(parser, []).values()} == {0}


def test_words_over_the_input_limit_are_appended_to_the_root(parser):
    """The search covers 22 of 40 words; the others do not change the tree."""
    most = parser.decoding.max_input_length - 1
    words = ["a"] * 40
    long, other = parser.parse([" ".join(words), " ".join([*words, "("])])
    assert [leaf.word for leaf in long.tree.children[most - 40 :]] == ["a"] * 18
    assert str(other.tree) == f"{str(long.tree)[:-1]} (-LRB- -LRB-))"
    assert long.truncated and long.valid


def test_a_string_gives_a_tree_and_a_list_gives_a_list(parser):
    assert parser("A dog") == parser(["A dog"])[0]
    assert isinstance(parser("A dog"), trees.Tree)


@pytest.mark.long
def test_prepared_weights_give_the_same_parses_and_settings():
    plain = make_parser(constrained=False, beam_size=2)
    prepared = plain.with_prepared_weights()
    assert not prepared.constrained
    settings = ("vocabulary", "decoding", "constraint", "tokenizer", "model")
    assert all(getattr(prepared, name) == getattr(plain, name) for name in settings)
    assert prepared.parse(["A dog runs", "one"]) == plain.parse(["A dog runs", "one"])


@pytest.mark.long
def test_trees_stay_within_the_limits():
    parser = make_parser(
        constraint=ConstraintConfig(max_depth=3, max_openings=2), beam_size=2
    )
    sentences = ["A dog runs !", "one", "one two three 5 7"]
    deepest = max(trees.depth(tree) for tree in parser(sentences))
    assert deepest <= 3


@pytest.mark.release
def test_scores_are_log_probabilities_over_the_penalty():
    """Forbidden symbols keep their share of the model's probability."""
    parser = make_parser(beam_size=1, length_penalty_alpha=0.3)
    tokens, _ = parser.source_tokens(tf.constant(["A dog runs !"]))
    result = parser.search(tokens, tf.constant([4]))
    length = int(result.lengths[0, 0])
    target = result.tokens[0, :1, :length]
    logits = parser.model(tokens, parser.model.shift_right(target))
    log_probs = tf.nn.log_softmax(logits)
    assert np.any(np.argmax(logits, axis=2) != target.numpy())
    own = tf.reduce_sum(tf.gather(log_probs, target, batch_dims=2))
    np.testing.assert_allclose(
        parser.parse(["A dog runs !"])[0].score,
        own / ((5 + length) / 6) ** 0.3,
        rtol=1e-4,
    )


@pytest.mark.long
def test_without_the_constraint_invalid_trees_are_marked_and_repaired(
    parser, free_parser
):
    """An untrained model writes no valid trees; the free search finds better scores."""
    parses = free_parser.parse(MIXED)
    has_words = [bool(sentence.split()) for sentence in MIXED]
    assert [parse.valid for parse in parses] == [not has for has in has_words]
    answer = batch_of(free_parser, MIXED)
    assert answer["tree"].tolist() == [b""] * len(MIXED)
    for sentence, parse in zip(MIXED, parses, strict=True):
        if parse.tree is not None:
            assert parse.tree.words == [w.decode() for w in sentence.encode().split()]
    best = zip(free_parser.parse(MIXED[:1]), parser.parse(MIXED[:1]), strict=True)
    assert all(free.score > bound.score for free, bound in best)


def test_without_the_constraint_a_correct_tree_is_valid(monkeypatch):
    """The search is replaced by one that finds a tree over two words."""
    parser = make_parser(constrained=False)
    ids = parser.vocabulary.encode(["(S", "(NP", "XX", ")NP", "XX", ")S"])
    row = tf.constant([*ids, parser.model.config.eos_id, 0])

    def found(source_tokens, num_words):
        batch = tf.shape(num_words)[0]
        return BeamSearchResult(
            tokens=tf.tile(row[tf.newaxis, tf.newaxis], [batch, 1, 1]),
            lengths=tf.fill([batch, 1], 7),
            log_probs=tf.fill([batch, 1], -1.0),
            scores=tf.fill([batch, 1], -1.0),
            finished=tf.fill([batch, 1], True),
        )

    monkeypatch.setattr(parser, "search", found)
    answer = batch_of(parser, ["a b", "a b c"])
    assert answer["tree"].tolist() == [b"(S (NP (XX a)) (XX b))", b""]
    assert answer["valid"].tolist() == [True, False]
    whole, repaired = parser.parse(["a b", "a b c"])
    assert (str(whole.tree), whole.valid) == ("(S (NP (XX a)) (XX b))", True)
    assert str(repaired.tree) == "(S (NP (XX a)) (XX b) (XX c))"
    assert not repaired.valid


@pytest.mark.long
def test_a_broken_model_gives_a_flat_tree_that_is_marked_invalid():
    """With NaN logits, the search finds no hypothesis."""
    parser = make_parser()
    weights = parser.model.get_weights()
    parser.model.set_weights([np.full_like(weight, math.nan) for weight in weights])
    [parse] = parser.parse(["A dog"])
    assert (str(parse.tree), parse.valid) == ("(S (XX A) (XX dog))", False)
    answer = batch_of(parser, ["A dog"])
    assert (answer["tree"][0], answer["valid"][0]) == (b"", False)


def test_the_paper_parses_with_beam_21():
    """§6.3: beam 21, alpha 0.3, input + 300."""
    assert (
        dataclasses.replace(
            DecodingConfig(),
            **{
                "beam_size": 21,
                "length_penalty_alpha": 0.3,
                "extra_decode_length": 300,
            },
        )
        == PARSER_DECODING
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"max_input_length": 1},
            "`max_input_length` must be at least 2 for parsing.*max_input_length=1",
        ),
        (
            {"extra_decode_length": 1},
            "`extra_decode_length` must be at least 2 for parsing, so that the "
            "smallest tree fits. Received: extra_decode_length=1",
        ),
        (
            {"no_repeat_ngram_size": 3},
            "`no_repeat_ngram_size` must be 0 for parsing: brackets repeat",
        ),
        (
            {"max_repetitions": 2},
            "`max_repetitions` must be 0 for parsing: brackets repeat",
        ),
        (
            {"allow_unk": True},
            "`allow_unk` must be False for parsing: no tree has an unknown symbol",
        ),
    ],
)
def test_limits_that_no_tree_keeps_are_rejected(options, message):
    with pytest.raises(ValueError, match=message):
        make_parser(**options)


def test_symbols_that_do_not_match_the_model_are_rejected(parser):
    with pytest.raises(
        ValueError,
        match="The symbols do not match the model: `output_vocab_size` is 7 in the "
        "vocabulary and 15 in the model. Use the labels",
    ):
        Parser(parser.model, parser.tokenizer, SymbolVocabulary(["S"]))
    other = tokenization.train_bpe(LINES * 5, vocab_size=295)
    with pytest.raises(ValueError, match="The tokenizer is not the model's.*295"):
        Parser(parser.model, other, parser.vocabulary)


def test_learned_positions_limit_the_input_and_suffice_for_every_tree():
    tokenizer = tokenization.train_bpe(LINES * 5, vocab_size=300)
    vocabulary = SymbolVocabulary(["S", "NP"])
    config = ModelConfig(
        vocab_size=300,
        target_vocab_size=vocabulary.vocab_size,
        share_embeddings=False,
        num_layers=1,
        d_model=6,
        d_ff=7,
        num_heads=2,
        position_encoding="learned",
        num_positions=17,
    )
    parser = Parser(
        Transformer(config), tokenizer, vocabulary, extra_decode_length=2, beam_size=2
    )
    assert parser.decoding.max_input_length == 15
    [parse] = parser.parse(["a " * 31])
    assert (parse.truncated, parse.valid, len(parse.tree.words)) == (True, True, 31)


@pytest.mark.long
def test_the_export_parses_as_the_parser_does(parser, small_parser_export):
    theirs = parse_in_batches(
        MIXED, 3, open_model(small_parser_export, "parse").run_batch
    )
    for own, other in zip(parser.parse(MIXED), theirs, strict=True):
        assert other.text == ("" if own.tree is None else str(own.tree))
        np.testing.assert_allclose(other.score, own.score, atol=1e-4)
        assert (other.truncated, other.valid) == (own.truncated, own.valid)
    assert exported_model.read_description(small_parser_export) == {
        "preset": "tiny",
        "device": "cpu",
        "weights_bytes": 4 * stored_numbers(small_parser_export)[tf.float32],
    }
    assert small_parser_export.name == "1"


@pytest.mark.long
def test_parse_is_the_only_signature_and_has_these_types(small_parser_export):
    signatures = tf.saved_model.load(str(small_parser_export)).signatures
    assert list(signatures) == ["parse"]
    texts = tf.constant([b"\xff dog", b""])
    answer = signatures["parse"](text=texts)
    assert {name: value.dtype for name, value in answer.items()} == {
        "tree": tf.string,
        "score": tf.float32,
        "truncated": tf.bool,
        "valid": tf.bool,
    }
    assert b"(XX \xef\xbf\xbd)" in answer["tree"].numpy()[0]  # U+FFFD
    assert (small_parser_export / warmup.FILE).is_file()


@pytest.mark.long
def test_the_export_runs_in_a_process_without_this_package(parser, small_parser_export):
    """The process imports only TensorFlow and TensorFlow Text."""
    program = (
        "import sys, tensorflow as tf, tensorflow_text\n"
        f"loaded = tf.saved_model.load({str(small_parser_export)!r})\n"
        f"result = loaded.signatures['parse'](text=tf.constant({MIXED!r}))\n"
        "print(result['tree'].numpy().tolist())\n"
        "assert not [name for name in sys.modules if name == 'keras_transformer']\n"
    )
    result = subprocess.run(
        [sys.executable, "-I", "-c", program], capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr[-2000:]
    expected = batch_of(parser, MIXED)["tree"].tolist()
    assert result.stdout.splitlines()[-1] == str(expected)


@pytest.mark.release
def test_an_export_that_parses_differently_is_rejected(small_parser_export):
    with pytest.raises(ValueError, match="parses 2 of 2 texts differently.*'A dog': '"):
        saved_model.check_same(
            make_parser(seed=5), small_parser_export, ["A dog", "one two"]
        )


@pytest.mark.long
def test_a_parser_has_no_nbest_and_no_translation(
    parser, small_parser_export, tmp_path
):
    with pytest.raises(
        ValueError, match=r"`num_best` \(--nbest\) is for translation.*num_best=3"
    ):
        saved_model.export(parser, tmp_path, num_best=3)
    with pytest.raises(ValueError, match="`signature` must be one of 'parse'"):
        saved_model.export(parser, tmp_path, signatures=["align"])
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ValueError, match="'serving_default'. Received: parse"):
        open_model(small_parser_export).translate(["a"])
