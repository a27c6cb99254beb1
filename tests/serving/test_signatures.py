"""The signatures of an export: types, meaning, independent rows."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.inference import packed_kernels
from keras_transformer.inference.translator import Translator
from keras_transformer.model.transformer import Transformer
from keras_transformer.opening import open_model
from keras_transformer.serving import saved_model as saved_model_lib
from keras_transformer.serving import warmup
from keras_transformer.serving.signatures import ServingModule
from keras_transformer.translation import exported_model
from keras_transformer.translation.opened_model import OpenedModel
from keras_transformer.translation.pipeline import translate_in_batches
from robustness import hostile
from tests.small_models import (
    inputs_of,
    make_translator,
    prepared_variables,
    stored_numbers,
)

# Mixed lengths, empty, only spaces, emoji, invalid UTF-8, longer than the limit.
MIXED = [
    b"one two three",
    b"",
    b"A dog",
    b"   ",
    b"2, 3, 5, 7 " * 9,
    "\u00e9\U0001f600".encode(),
    b"\xff\xfe dog",
]


@pytest.fixture(scope="module")
def module():
    return ServingModule(make_translator(), num_best=3)


@pytest.fixture(scope="module")
def signatures(small_export):
    return tf.saved_model.load(str(small_export)).signatures


OUTPUTS = {
    "serving_default": {"translation": "s", "score": "f", "truncated": "b"},
    "nbest": {"translations": "s", "scores": "f"},
    "prefix": {"translation": "s", "score": "f", "truncated": "b"},
    "sample": {"translation": "s", "log_probability": "f", "truncated": "b"},
    "align": {
        "translation": "s",
        "score": "f",
        "truncated": "b",
        "source_pieces": "s",
        "source_words": "i",
        "target_pieces": "s",
        "attention": "f",
        "log_probabilities": "f",
    },
    "score": {"log_probability": "f", "num_tokens": "i"},
    "document": {"translation": "s", "truncated": "b"},
}
NAMES = [*OUTPUTS]
DTYPES = {"s": tf.string, "f": tf.float32, "b": tf.bool, "i": tf.int32}


def test_the_export_has_every_signature(signatures):
    assert sorted(signatures) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("texts", [MIXED, []], ids=["mixed", "none"])
def test_every_row_gets_an_answer_of_the_documented_type(signatures, name, texts):
    result = signatures[name](**inputs_of(name, texts))
    assert {key: value.dtype for key, value in result.items()} == {
        key: DTYPES[letter] for key, letter in OUTPUTS[name].items()
    }
    assert {len(value) for value in result.values()} == {len(texts)}
    for value in result.values():
        if value.dtype.is_floating:
            assert np.all(np.isfinite(value))


@pytest.fixture(scope="module")
def with_several_inputs(signatures):
    """The signatures that take more than the text, `multilingual` among them."""
    module = ServingModule(make_translator(placeholders=(">>de<<", ">>fr<<")))
    several = {**signatures, "multilingual": module.signatures()["multilingual"]}
    yield {  # bound functions do not keep their module alive
        name: signature
        for name, signature in several.items()
        if len(inputs_of(name, [])) > 1
    }


@pytest.mark.parametrize("sizes", [(1, 2), (2, 1), (2, 0), (0, 1)])
@pytest.mark.parametrize("name", ["prefix", "score", "sample", "multilingual"])
def test_inputs_of_other_sizes_are_refused_by_name(with_several_inputs, name, sizes):
    """The first size is that of one input, the second that of all others."""
    assert len(with_several_inputs) == 4
    few, others = (inputs_of(name, ["A dog"] * size) for size in sizes)
    for one in few:
        inputs = {**others, one: few[one]}
        with pytest.raises(tf.errors.InvalidArgumentError) as error:
            with_several_inputs[name](**inputs)
        _, shown = str(error.value).split("one for each text. Received: ")
        shown = shown.split(".")[0].split(", ")
        assert {*shown} == {f"{key}={len(value)}" for key, value in inputs.items()}


@pytest.mark.parametrize("name", NAMES)
def test_a_row_does_not_depend_on_its_batch(signatures, name):
    """A server may put the requests of several clients into one batch."""
    inputs = inputs_of(name, MIXED)
    together = signatures[name](**inputs)
    for row in range(len(MIXED)):
        own_inputs = {key: value[row : row + 1] for key, value in inputs.items()}
        alone = signatures[name](**own_inputs)
        for key, value in alone.items():
            ours, own = together[key][row].numpy(), np.asarray(value[0].numpy())
            if own.ndim:  # padding of pieces and attention depends on the batch
                ours = ours[tuple(slice(size) for size in own.shape)]
            if value.dtype.is_floating:
                np.testing.assert_allclose(ours, own, atol=1e-4)
            else:
                np.testing.assert_array_equal(ours, own)


@pytest.mark.parametrize("name", ["serving_default", "nbest", "prefix", "sample"])
def test_a_much_longer_row_does_not_change_the_others(signatures, name):
    """There are enough short rows to form a length group of their own."""
    texts = [b"one", b"A"] * 31
    texts.insert(30, b"2, 3, 5, 7 " * 9)
    inputs = inputs_of(name, texts)
    together = signatures[name](**inputs)
    rows = [0, 29, 31, 62]
    few = {key: tf.gather(value, rows) for key, value in inputs.items()}
    for key, wanted in signatures[name](**few).items():
        ours = tf.gather(together[key], rows)
        if wanted.dtype.is_floating:
            np.testing.assert_allclose(ours, wanted, atol=1e-4)
        else:
            np.testing.assert_array_equal(ours, wanted)


def test_the_first_of_nbest_is_the_default_translation(signatures):
    one = signatures["serving_default"](text=tf.constant(MIXED))
    several = signatures["nbest"](text=tf.constant(MIXED))
    assert several["translations"].shape == (len(MIXED), 3)
    np.testing.assert_array_equal(several["translations"][:, 0], one["translation"])
    np.testing.assert_allclose(several["scores"][:, 0], one["score"], atol=1e-5)
    assert np.all(np.diff(several["scores"], axis=1) <= 1e-6)


def test_only_the_long_source_is_marked_as_truncated(signatures):
    truncated = signatures["serving_default"](text=tf.constant(MIXED))["truncated"]
    assert truncated.numpy().tolist() == [text == MIXED[4] for text in MIXED]


def test_outputs_begin_with_the_prefix_if_there_is_one(signatures):
    texts = tf.constant(["A dog", "A dog", ""])
    prefix = tf.constant(["Ein Hund", "", "zwei"])
    result = signatures["prefix"](text=texts, prefix=prefix)
    first, free, nothing = result["translation"].numpy().tolist()
    assert first.startswith(b"Ein Hund")
    default = signatures["serving_default"](text=tf.constant(["A dog"]))
    assert free == default["translation"].numpy()[0]
    assert nothing == b""
    np.testing.assert_allclose(result["score"][1], default["score"][0], atol=1e-5)
    assert result["score"][0] < result["score"][1]


def test_the_same_seed_gives_the_same_sample(signatures):
    inputs = inputs_of("sample", ["A dog"] * 40)
    inputs["seed"] %= 20
    drawn = signatures["sample"](**inputs)["translation"].numpy()
    np.testing.assert_array_equal(drawn[:20], drawn[20:])
    assert len(set(drawn)) > 3


def test_temperature_zero_is_greedy_search(signatures):
    inputs = inputs_of("sample", [b"one two three", b"A dog"])
    drawn = signatures["sample"](**{**inputs, "temperature": tf.zeros([2])})
    greedy = make_translator(beam_size=1)
    assert drawn["translation"].numpy().tolist() == [
        text.encode() for text in greedy(["one two three", "A dog"])
    ]


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("temperature", [np.nan, -1.0, -np.inf, np.inf, 1e-45, 3e38]),
        ("top_p", [np.nan, -1.0, -np.inf, np.inf, 1e-45, 3e38]),
        ("top_k", [-1, -(2**31), 2**31 - 1]),
        ("seed", [-1, -(2**31), 2**31 - 1]),
    ],
)
def test_odd_parameters_of_one_client_do_not_affect_others(signatures, name, values):
    """An error in one row would fail the server's whole batch."""
    inputs = inputs_of("sample", [b"A dog"] * len(values) + [b"one two three", b"one"])
    usual = {key: value[-2:] for key, value in inputs.items()}
    odd = tf.constant(values, inputs[name].dtype)
    mixed = {**inputs, name: tf.concat([odd, usual[name]], axis=0)}
    together, alone = signatures["sample"](**mixed), signatures["sample"](**usual)
    ours = together["translation"][-2:]
    np.testing.assert_array_equal(ours, alone["translation"])
    log_probs = together["log_probability"].numpy()
    np.testing.assert_allclose(log_probs[-2:], alone["log_probability"], atol=1e-4)
    assert np.all(np.isfinite(log_probs))


def test_a_given_translation_has_the_models_probability(module, signatures):
    """The sum of log softmax over its tokens, from one teacher-forced pass."""
    translator = module.translator
    result = signatures["score"](
        text=tf.constant(["A dog runs!", "one"]),
        target_text=tf.constant(["zwei eins", ""]),
    )
    for row, pair in enumerate([("A dog runs!", "zwei eins"), ("one", "")]):
        source, target = (translator.tokenizer.encode_rows([text]) for text in pair)
        target = tf.constant(target)
        logits = translator.model(
            tf.constant(source), translator.model.shift_right(target)
        )
        log_probs = tf.gather(tf.nn.log_softmax(logits), target, batch_dims=2)
        np.testing.assert_allclose(
            result["log_probability"][row], tf.reduce_sum(log_probs), rtol=1e-4
        )
        assert result["num_tokens"].numpy()[row] == target.shape[1]


@pytest.mark.long
def test_the_score_of_a_translation_is_its_probability_over_the_penalty(module):
    """The score of the search is (log p) / ((5 + length) / 6) ** 0.6."""
    tokens, _ = module.translator.source_tokens(tf.constant(["A dog runs!"]))
    best = module.translator.search(tokens)
    length = int(best.lengths[0, 0])
    _, cross = module.translator.ensemble.decode(tokens, best.tokens[:, 0, :length])
    aligned = module.align(tf.constant(["A dog runs!"]))
    np.testing.assert_allclose(
        aligned["attention"][0], tf.reduce_mean(cross[0][0], axis=0), atol=1e-5
    )
    served = module.serving_default(tf.constant(["A dog runs!"]))
    log_prob = float(served["score"][0]) * ((5 + length) / 6) ** 0.6
    logits = module.translator.model(
        tokens, module.translator.model.shift_right(best.tokens[:, 0, :length])
    )
    each = tf.gather(
        tf.nn.log_softmax(logits), best.tokens[:, 0, :length], batch_dims=2
    )
    np.testing.assert_allclose(log_prob, tf.reduce_sum(each), rtol=1e-4)
    np.testing.assert_allclose(aligned["log_probabilities"], each, rtol=1e-4)


def test_pieces_label_the_axes_of_the_attention(signatures):
    result = signatures["align"](text=tf.constant(MIXED))
    source, target = result["source_pieces"].numpy(), result["target_pieces"].numpy()
    attention = result["attention"].numpy()
    assert attention.shape == (len(MIXED), target.shape[1], source.shape[1])
    is_target, is_source = target != b"", source != b""
    np.testing.assert_allclose(attention.sum(axis=2), is_target, atol=1e-5)
    assert not attention[~(is_target[:, :, None] & is_source[:, None])].any()
    joined = b"".join(source[0]).decode()
    assert joined.replace("▁", " ") == " one two three</s>"
    assert not is_target[1].any()  # nothing to translate
    assert np.all((result["log_probabilities"].numpy() < 0) == is_target)


@pytest.mark.release
def test_aligned_translations_are_those_of_a_search(module):
    texts = [text.decode("utf-8", "replace") for text in MIXED]
    found = translate_in_batches(texts, 3, module.translator.align_batch)
    plain = module.translator.translate(texts)
    assert [each.text for each in found] == [each.text for each in plain]
    np.testing.assert_allclose(
        [each.score for each in found], [each.score for each in plain], rtol=1e-5
    )
    for source, each in zip(texts, found, strict=True):
        assert bool(each.token_scores) == bool(each.text)
        sources, targets = zip(*each.alignment, strict=True) if each.text else ((), ())
        assert set(sources) <= set(range(len(source.split())))
        assert sorted(targets) == [*range(len(each.text.split()))]


def test_documents_keep_their_layout_and_lose_nothing(module, signatures):
    """Sentences over the limit of 23 tokens are translated in parts."""
    words = " ".join(["one two three"] * 40)
    texts = [
        "A dog runs! One two.\n\n- zwei eins\n  42\n",
        "",
        f"{words}. one",
        "\n".join(["one two"] * 300),
        "A d\u00adog\u200b runs!",
    ]
    result = signatures["document"](text=tf.constant(texts))
    assert not any(result["truncated"])
    found = [text.decode() for text in result["translation"].numpy()]
    first, second, third = module.translator(["A dog runs!", "One two.", "zwei eins"])
    assert found[0] == f"{first} {second}\n\n- {third}\n  42\n"
    assert found[1] == ""
    assert "\n" not in found[2]
    assert found[3] == "\n".join(module.translator(["one two"]) * 300)
    assert found[4] == first
    # Each part of the long sentence gave something.
    assert len(found[2].split()) > 2 * len(module.translator(words).split())


def test_an_export_without_the_scores_of_tokens_is_named(plain_export):
    with pytest.raises(ValueError, match="must have the signature 'align'"):
        open_model(plain_export, "align")
    with pytest.raises(ValueError, match="has no more, as an earlier .* Export the"):
        exported_model.check_signature(
            plain_export, "serving_default", ["score", "more"]
        )


def test_the_export_describes_itself(small_export):
    stored = stored_numbers(small_export)[tf.float32]
    expected = {"preset": "tiny", "weights_bytes": 4 * stored}
    assert exported_model.read_description(small_export) == expected
    path = small_export / "assets.extra" / "keras_transformer.json"
    assert json.loads(path.read_text()) == expected


@pytest.fixture(scope="module")
def plain_export(module, tmp_path_factory):
    """An export with one signature, which loads faster."""
    folder = tmp_path_factory.mktemp("plain")
    return saved_model_lib.export(
        make_translator(),
        folder,
        signatures=["serving_default"],
        has_packed_kernels=False,
    )


@pytest.mark.parametrize("damage", ["absent", "cut", "changed"])
@pytest.mark.parametrize("name", ["variables.index", "variables.data-00000-of-00001"])
def test_an_export_without_its_weights_is_named(plain_export, tmp_path, name, damage):
    path = shutil.copytree(plain_export, tmp_path / "1") / "variables" / name
    content = bytearray(path.read_bytes())
    if damage == "absent":
        path.unlink()
    elif damage == "cut":
        path.write_bytes(content[: len(content) // 2])
    else:
        content[len(content) // 2] ^= 0xFF
        path.write_bytes(content)
    message = r"^The model in .*/1 cannot be loaded, perhaps because a file is missing"
    with pytest.raises(ValueError, match=message) as found:
        open_model(tmp_path / "1")
    assert "\n" not in str(found.value)
    assert str(found.value).endswith("again, or export the model again.")


@pytest.mark.parametrize("content", [b"", b'{"preset": "ti', b"\xff", b"null"])
def test_a_damaged_description_is_named(tmp_path, content):
    path = tmp_path / exported_model.DESCRIPTION
    path.parent.mkdir()
    path.write_bytes(content)
    message = rf"{exported_model.DESCRIPTION} is damaged: export the model again\.$"
    with pytest.raises(ValueError, match=message):
        exported_model.read_description(tmp_path)


@pytest.mark.long
def test_an_export_that_translates_differently_is_rejected(small_export):
    with pytest.raises(ValueError, match="2 of 2 texts differently.*'A dog': '"):
        saved_model_lib.check_same(
            make_translator(seed=5), small_export, ["A dog", "one two"]
        )


@pytest.fixture(scope="module")
def bfloat16_translator():
    return make_translator(precision="bfloat16")


@pytest.mark.long(first=2)
@pytest.mark.parametrize(
    ("precision", "worse", "is_rejected"),
    [
        ("float32", 1e-6, False),
        ("float32", 1e-4, True),
        ("float32", 0.1, True),
        ("bfloat16", 0.05, False),
        ("bfloat16", 0.3, True),
    ],
)
def test_one_wrong_answer_of_sixteen_is_rejected_unless_it_is_a_tie(
    module, bfloat16_translator, monkeypatch, precision, worse, is_rejected
):
    """A different text is a tie only if its score differs by rounding."""
    choices = {"float32": module.translator, "bfloat16": bfloat16_translator}
    translator = choices[precision]
    texts = saved_model_lib.trial_texts(translator, 16)

    def answer(batch):
        result = translator.translate_batch(batch)
        is_wrong = (batch == texts[2])[:, tf.newaxis]
        return {
            **result,
            "translations": tf.where(is_wrong, "wrong", result["translations"]),
            "scores": result["scores"] * tf.where(is_wrong, 1 + worse, 1.0),
        }

    opened = OpenedModel(run_batch=lambda text: answer(text))
    monkeypatch.setattr(exported_model, "open_export", lambda *_: opened)
    if is_rejected:
        message = "1 of 16 texts differently.*became 'wrong'"
        with pytest.raises(ValueError, match=message):
            saved_model_lib.check_same(translator, "unused", texts)
    else:
        saved_model_lib.check_same(translator, "unused", texts)


def test_only_the_signatures_asked_for_are_exported(module, tmp_path):
    """Without the signature that translates, no text is checked."""
    version = saved_model_lib.export(
        module.translator, tmp_path, signatures=["score"], check_texts=["A dog"]
    )
    assert list(tf.saved_model.load(str(version)).signatures) == ["score"]
    assert not (version / warmup.FILE).exists()
    with pytest.raises(ValueError, match="Did you mean 'align'"):
        saved_model_lib.export(module.translator, tmp_path, signatures=["aling"])
    assert [path.name for path in tmp_path.iterdir()] == ["1"]


@pytest.mark.long
def test_bfloat16_exports_store_each_weight_once_in_half_the_size(tmp_path):
    translator = make_translator(precision="bfloat16")
    version = saved_model_lib.export(
        translator,
        tmp_path,
        signatures=["serving_default"],
        check_texts=["A dog runs!", "one two"],
        has_packed_kernels=False,
    )
    sizes = stored_numbers(version)
    assert sizes[tf.bfloat16] == translator.model.count_params()
    assert sizes[tf.float32] == 0
    ours = translator.translate(["zwei eins", "Ein Hund"])
    theirs = open_model(version).translate(["zwei eins", "Ein Hund"])
    assert [own.text for own in ours] == [other.text for other in theirs]


@pytest.mark.long(first=1)
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_exports_store_packed_kernels_and_the_weights_that_are_read(
    precision, tmp_path
):
    translator = make_translator(precision=precision)
    stored = {}
    for name in ("serving_default", "align", "score"):
        version = saved_model_lib.export(translator, tmp_path, signatures=[name])
        stored[name] = stored_numbers(version)[tf.as_dtype(precision)]
    packed = sum(
        map(tf.size, prepared_variables(translator.with_prepared_weights()))
    ).numpy()
    # The output embedding is by far the largest matrix, and packing adds padding.
    assert packed >= translator.model.config.vocab_size * 6
    assert stored["align"] == translator.model.count_params() + packed
    assert stored["score"] == translator.model.count_params()
    # Of the decoder's original weights, only the cross-attention's key and value
    # projections are read.
    decoder = translator.model.decoder.count_params() - 2 * 2 * 6 * 6
    assert stored["serving_default"] == stored["align"] - decoder


@pytest.mark.long(first=1)
@pytest.mark.parametrize("has_packed_kernels", [True, False])
def test_an_export_has_no_more_variables_for_more_layers(has_packed_kernels, tmp_path):
    """Loading time grows with the variables of each function."""
    translator = make_translator()
    config, counts = translator.model.config, []
    for encoder, decoder in ((1, 1), (2, 3)):
        depths = {"num_encoder_layers": encoder, "num_decoder_layers": decoder}
        model = Transformer(dataclasses.replace(config, **depths))
        version = saved_model_lib.export(
            Translator(model, translator.tokenizer, extra_decode_length=5),
            tmp_path,
            signatures=["serving_default", "align"],
            has_packed_kernels=has_packed_kernels,
        )
        stored = tf.train.list_variables(str(version / "variables" / "variables"))
        counts.append(len([name for name, _ in stored if "weights" in name]))
    assert counts[0] == counts[1] > 20


@pytest.mark.long(first=1)
@pytest.mark.parametrize("is_embedding", [True, False])
def test_an_export_with_a_damaged_kernel_is_rejected(
    is_embedding, tmp_path, monkeypatch
):
    """A single text is translated with other kernels than a batch."""
    translator = make_translator()
    prepared = translator.with_prepared_weights()
    variables = prepared_variables(prepared)
    shapes = [tuple(each.shape) for each in variables]
    embedding = packed_kernels.pack_transposed(
        translator.model.output_embedding.embeddings
    ).blocks.shape
    assert shapes.count(tuple(embedding)) == 1
    for variable, shape in zip(variables, shapes, strict=True):
        if len(shape) > 2 and is_embedding == (shape == tuple(embedding)):
            variable.assign(-variable)
    monkeypatch.setattr(translator, "with_prepared_weights", lambda **_: prepared)
    texts = saved_model_lib.trial_texts(translator, 16)
    with pytest.raises(ValueError, match="texts differently from the model"):
        saved_model_lib.export(
            translator, tmp_path, signatures=["serving_default"], check_texts=texts
        )
    assert not any(tmp_path.iterdir())


def test_trial_texts_are_edge_cases_and_random_texts(module):
    texts = saved_model_lib.trial_texts(module.translator, 11)
    assert len(texts) == 11
    assert "" in texts
    assert saved_model_lib.trial_texts(module.translator, 11) == texts
    assert saved_model_lib.trial_texts(module.translator, 0) == []


@pytest.mark.long
def test_hostile_strings_are_answered(signatures, module, tmp_path):
    """Random bytes, all of Unicode, 100,000 characters, long and short in a batch."""
    strings = hostile.hostile_strings(400, seed=1)
    assert {len(string) for string in strings} > {0, 100_000}
    letters = set("".join(text.decode(errors="ignore") for text in strings))
    assert len(letters) == 0x110000 - 0x800  # surrogates are no letters
    module.translator.tokenizer.save(tmp_path / "tokenizer")
    [path] = (tmp_path / "tokenizer").glob("*.model")
    wanted = hostile.too_long(strings, path.read_bytes(), limit=23)
    truncated = hostile.send(signatures["serving_default"], strings, 100)
    assert truncated == wanted
    assert set(wanted) == {True, False}
