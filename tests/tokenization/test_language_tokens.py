"""What a text that begins with a language becomes, for every kind of vocabulary."""

import numpy as np
import pytest

from keras_transformer import language_tokens, tokenization
from keras_transformer.tokenization import mapped

TEXTS = ["one two three", "zwei eins", "5, 7"]
# Two languages whose codes have a script, a region or a case of their own.
CODES = ("de", "zh_Hans", "pt-BR", "formal")


def trained():
    symbols = [f">>{code}<<" for code in CODES]
    return tokenization.train_bpe(TEXTS * 7, 285, symbols=symbols)


def imported():
    """The same vocabulary as the files of Marian."""
    own = trained()
    source, target, ids = own.sentencepiece_models()
    special = {name: own.ids()[name] for name in ("pad_id", "bos_id", "eos_id")}
    return mapped.MappedTokenizer(mapped.pack(source, target, [ids], special))


@pytest.fixture(scope="module", params=[trained, imported])
def tokenizer(request):
    return request.param()


def ids_of(tokenizer, text):
    """The ids in the graph, which are those outside of it."""
    (in_graph,) = tokenizer.tokenize([text]).to_list()
    assert in_graph == tokenizer.encode([text])[0].tolist()
    return in_graph


def test_the_languages_are_pieces_of_the_vocabulary(tokenizer):
    assert tuple(tokenizer.languages) == CODES
    assert tokenizer.language_tokens == tuple(f">>{code}<<" for code in CODES)
    pieces = tokenizer.pieces([*tokenizer.languages.values()]).numpy()
    codes = [language_tokens.code_of(piece.decode()) for piece in pieces]
    assert tuple(codes) == CODES


def test_a_text_tells_its_language_or_has_the_default():
    """A language that the model lacks is not told."""
    texts = [">>pt-BR<< one", "one", " >>de<<two", ">>fr<< one", ""]
    tokens = [f">>{code}<<" for code in CODES]
    told = language_tokens.codes_told(texts, tokens, "zh")
    assert told == ["pt-BR", "zh", "de", "zh", "zh"]


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize(
    "form", ["{} {}", "{}{}", " {}  {}", "\t{}\u00a0{}", "\ufeff{}\n{}", "{}\u3000{}"]
)
def test_a_language_before_a_text_is_one_id(tokenizer, code, form):
    told = ids_of(tokenizer, form.format(f">>{code}<<", "one two"))
    plain = ids_of(tokenizer, "one two")
    assert told == [tokenizer.languages[code], *plain]


@pytest.mark.parametrize("text", [">>de<<", ">>de<< ", "\u200b>>de<<\u00a0"])
def test_a_language_alone_is_its_id_alone(tokenizer, text):
    assert ids_of(tokenizer, text) == [tokenizer.languages["de"]]


@pytest.mark.parametrize("token", [">>zz<<", ">>DE<<", ">>zh_Hant<<", ">>pt-PT<<"])
def test_a_text_in_an_unknown_language_has_no_ids(tokenizer, token):
    assert ids_of(tokenizer, f"{token} one two") == []
    assert language_tokens.unknown(f" {token} one", tokenizer.language_tokens) == token
    assert language_tokens.unknown(f"one {token}", tokenizer.language_tokens) == ""


@pytest.mark.parametrize(
    "text",
    [">> one two", ">>three<<", ">one", "one >>de<< two", ">>de <<", "<<de>> one"],
)
def test_other_marks_are_text(tokenizer, text):
    """Also of a vocabulary that is told a language by a flag."""
    told = tokenizer.with_languages(None, "de")
    plain = ids_of(tokenizer, text)
    assert plain
    assert ids_of(told, text) == [tokenizer.languages["de"], *plain]


def test_the_language_of_a_text_comes_before_that_of_the_flag(tokenizer):
    told = tokenizer.with_languages("en", "de")
    assert ids_of(told, "one") == ids_of(tokenizer, ">>de<< one")
    assert ids_of(told, ">>formal<< one") == ids_of(tokenizer, ">>formal<< one")
    assert told.fingerprint == tokenizer.fingerprint
    assert tokenizer.with_languages("en", None) is tokenizer
    with pytest.raises(ValueError, match=r"must be one of .*\(de, formal, pt-BR, zh_H"):
        tokenizer.with_languages(None, "fr")


def test_targets_have_no_language(tokenizer):
    """Not one of their own, and not that of the flag."""
    told = tokenizer.with_languages(None, "de")
    (ids,) = told.encode_target(["one two"])
    np.testing.assert_array_equal(ids, tokenizer.encode(["one two"])[0])
    assert told.tokenize_target(["one two"]).to_list() == [ids.tolist()]


def test_a_vocabulary_without_languages_reads_all_as_text():
    tokenizer = tokenization.train_bpe(TEXTS * 7, 281)
    assert tokenizer.languages == {}
    (ids,) = tokenizer.encode([">>de<< one"])
    assert tokenizer.decode([ids]) == [">>de<< one"]
    assert language_tokens.divide(">>de<< one", ()) == ("", ">>de<< one")
    assert language_tokens.unknown(">>de<< one", ()) == ""
