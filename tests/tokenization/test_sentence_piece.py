"""BPE through SentencePiece, trained here or brought along."""

import io

import pytest
import sentencepiece

from keras_transformer import tokenization


def own_file(path, texts, **options):
    """A model as `spm_train` writes it."""
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=written,
        hard_vocab_limit=False,
        minloglevel=2,
        **options,
    )
    path.write_bytes(written.getvalue())
    return path


def test_training_gives_the_size_asked_for(bpe):
    assert bpe.vocab_size == 409
    assert bpe.kind == "bpe"


def test_frequent_words_become_one_piece(texts):
    tokenizer = tokenization.train_bpe(["the cat and the dog"] * 7, 283)
    pieces = tokenizer.pieces(tokenizer.tokenize(["the cat"])).to_list()
    assert pieces == [["▁the".encode(), "▁cat".encode()]]


def test_a_character_never_seen_is_spelled_as_bytes(bpe):
    """U+1F600 is F0 9F 98 80 in UTF-8."""
    pieces = bpe.pieces(bpe.tokenize(["😀"])).to_list()
    assert pieces == [["▁".encode(), b"<0xF0>", b"<0x9F>", b"<0x98>", b"<0x80>"]]


def test_digits_can_be_kept_apart():
    texts = ["1984 1984 and 1984"] * 7
    together = tokenization.train_bpe(texts, 272)
    apart = tokenization.train_bpe(texts, 270, split_digits=True)
    (pieces,) = together.pieces(together.tokenize(["1984"])).to_list()
    assert pieces == ["▁1984".encode()]
    (pieces,) = apart.pieces(apart.tokenize(["1984"])).to_list()
    assert pieces == ["▁".encode(), b"1", b"9", b"8", b"4"]


def test_symbols_are_one_piece_outside_and_in_the_graph():
    """After a space and at the beginning; text that has none is as without them."""
    texts = ["the cat <news> and the dog"] * 7
    symbols = [">>de<<", "<news>"]
    tokenizer = tokenization.train_bpe(texts, 290, symbols=symbols)
    text = ">>de<< <news> the cat"
    expected = [f"▁{word}" for word in (">>de<<", "<news>", "the", "cat")]
    (ids,) = tokenizer.encode([text])
    in_graph = tokenizer.tokenize([text])
    assert tokenizer.pieces(ids).numpy().tolist() == [p.encode() for p in expected]
    assert in_graph.to_list() == [ids.tolist()]
    assert tokenizer.decode([ids]) == [text]
    assert [tokenizer.has_symbol(symbol) for symbol in symbols] == [True, True]
    assert not tokenizer.has_symbol("<bt>")
    (inside,) = tokenizer.encode(["the<news>cat"])
    assert ids[1] not in inside
    assert tokenizer.decode([inside]) == ["the<news>cat"]


def test_random_encodings_decode_to_the_same_text(bpe, texts):
    """The same for a seed; without dropout, the usual ones."""
    drawn = [bpe.sample(texts, 0.3, seed) for seed in (5, 5, 6)]
    rows = [[ids.tolist() for ids in each] for each in drawn]
    assert rows[0] == rows[1] != rows[2]
    for each in drawn:
        assert bpe.decode(each) == list(texts)
    usual = [ids.tolist() for ids in bpe.encode(texts)]
    assert [ids.tolist() for ids in bpe.sample(texts, 0.0, 5)] == usual
    assert sum(map(len, rows[0])) > sum(map(len, usual))


def test_random_encodings_leave_symbols_whole():
    texts = ["the cat <news> and the dog"] * 7
    tokenizer = tokenization.train_bpe(texts, 290, symbols=["<news>"])
    (symbol,) = tokenizer.encode(["<news>"])
    for ids in tokenizer.sample(["<news> the cat"] * 7, 0.9, 3):
        assert ids[0] == symbol


def test_other_vocabularies_have_no_random_encodings(tmp_path):
    path = own_file(tmp_path / "own.model", ["the cat and the dog"] * 7, vocab_size=40)
    tokenizer = tokenization.from_sentencepiece_file(path)
    with pytest.raises(ValueError, match="of the kind sentencepiece has no known merg"):
        tokenizer.sample(["the cat"], 0.1, 0)


def test_a_symbol_of_a_file_made_elsewhere_is_known(tmp_path):
    """Without the space before it in the piece, it is two tokens."""
    path = own_file(
        tmp_path / "own.model",
        ["the cat and the dog"] * 7,
        vocab_size=40,
        user_defined_symbols=["<bt>"],
    )
    tokenizer = tokenization.from_sentencepiece_file(path)
    assert tokenizer.has_symbol("<bt>")
    assert not tokenizer.has_symbol("<news>")


def test_lower_coverage_spells_rare_characters_as_bytes():
    """U+00E9 is one of 86 characters, and C3 A9 in UTF-8."""
    texts = ["a b a b a b a b a b a b"] * 7 + ["é"]
    everything = tokenization.train_bpe(texts, 266, character_coverage=1.0)
    frequent = tokenization.train_bpe(texts, 265, character_coverage=0.98)
    (pieces,) = everything.pieces(everything.tokenize(["aé"])).to_list()
    assert pieces == ["▁a".encode(), "é".encode()]
    (pieces,) = frequent.pieces(frequent.tokenize(["aé"])).to_list()
    assert pieces == ["▁a".encode(), b"<0xC3>", b"<0xA9>"]


def test_the_model_file_works_without_this_package(bpe, round_trips, tmp_path):
    bpe.save(tmp_path / "tokenizer")
    path = str(tmp_path / "tokenizer" / "sentencepiece.model")
    processor = sentencepiece.SentencePieceProcessor(model_file=path)
    expected = [row.tolist() for row in bpe.encode(round_trips)]
    assert processor.encode(list(round_trips)) == expected
    assert processor.decode(expected) == list(round_trips)


def test_a_vocabulary_larger_than_the_text_allows_says_the_largest():
    texts = ["the cat sat", "der Hund"]
    with pytest.raises(ValueError, match="`vocab_size` must be at most") as caught:
        tokenization.train_bpe(texts, 5003)
    largest = int(str(caught.value).split("--vocab_size=")[1].split()[0])
    assert tokenization.train_bpe(texts, largest).vocab_size == largest


def test_a_vocabulary_smaller_than_the_alphabet_says_the_smallest():
    """4 special ids, 256 bytes, the letters a, b, c and the mark for a space."""
    with pytest.raises(ValueError, match="`vocab_size` must be at least 264: .*=11"):
        tokenization.train_bpe(["abc cab bac abc cab"], 11)


@pytest.mark.parametrize("texts", [[], [""], ["", "  ", "\n"]])
@pytest.mark.parametrize(
    "train", [tokenization.train_bpe, tokenization.train_wordpiece]
)
def test_no_text_is_refused(train, texts):
    with pytest.raises(ValueError, match="no text to learn a vocabulary from"):
        train(texts, 300)


@pytest.mark.parametrize(
    "train", [tokenization.train_bpe, tokenization.train_wordpiece]
)
def test_bad_arguments_of_training_are_named(train):
    with pytest.raises(TypeError, match="`texts` must be several strings"):
        train("one text", 300)
    with pytest.raises(TypeError, match="`vocab_size` must be an integer"):
        train(["text"], 300.5)
    with pytest.raises(ValueError, match="`vocab_size` must be at least 1"):
        train(["text"], 0)
    with pytest.raises(ValueError, match="`max_sentences` must be at least 1"):
        train(["text"], 300, max_sentences=0)
    with pytest.raises(ValueError, match="`character_coverage` must be in .0.98, 1"):
        train(["text"], 300, character_coverage=0.97)


@pytest.mark.parametrize(
    "train", [tokenization.train_bpe, tokenization.train_wordpiece]
)
def test_an_error_while_reading_the_text_comes_through(train):
    def broken():
        yield "the cat sat on the mat"
        raise ValueError("corpus.en, line 2: not UTF-8")

    with pytest.raises(ValueError, match="corpus.en, line 2: not UTF-8"):
        train(broken(), 300)


def test_training_says_nothing(texts, capfd):
    tokenization.train_bpe(texts, 359)
    tokenization.train_wordpiece(texts, 211)
    assert capfd.readouterr() == ("", "")


def test_an_own_file_keeps_its_ids_and_gets_those_it_lacks(texts, tmp_path):
    """SentencePiece's own defaults: unk 0, bos 1, eos 2, no padding."""
    path = own_file(tmp_path / "own.model", texts, vocab_size=101)
    size = sentencepiece.SentencePieceProcessor(model_file=str(path)).vocab_size()
    tokenizer = tokenization.from_sentencepiece_file(path)
    assert tokenizer.kind == "sentencepiece"
    assert tokenizer.ids() == {
        "vocab_size": size + 1,
        "pad_id": size,
        "unk_id": 0,
        "bos_id": 1,
        "eos_id": 2,
    }
    padded = tokenizer.tokenize(["the cat", "the cat sat"]).to_tensor(size)
    assert tokenizer.detokenize(padded).numpy().tolist() == [b"the cat", b"the cat sat"]


def test_an_own_file_without_bos_and_eos_gets_them_at_the_end(texts, tmp_path):
    path = own_file(
        tmp_path / "own.model",
        texts,
        vocab_size=307,
        model_type="bpe",
        byte_fallback=False,
        bos_id=-1,
        eos_id=-1,
        pad_id=-1,
    )
    size = sentencepiece.SentencePieceProcessor(model_file=str(path)).vocab_size()
    tokenizer = tokenization.from_sentencepiece_file(path)
    assert (tokenizer.pad_id, tokenizer.bos_id) == (size, size + 1)
    assert (tokenizer.eos_id, tokenizer.vocab_size) == (size + 2, size + 3)
    row = tokenizer.encode(["the cat"])[0].tolist()
    rows = [[size + 1, *row, size + 2, *row, size]]
    assert tokenizer.decode(rows) == ["the cat"]
    shown = tokenizer.pieces([[size, size + 1, size + 2]]).numpy().tolist()
    assert shown == [[b"", b"<s>", b"</s>"]]


def test_an_own_file_is_saved_and_loaded(texts, tmp_path):
    path = own_file(tmp_path / "own.model", texts, vocab_size=101)
    tokenizer = tokenization.from_sentencepiece_file(path)
    tokenizer.save(tmp_path / "tokenizer")
    loaded = tokenization.load(tmp_path / "tokenizer")
    assert (loaded.kind, loaded.ids()) == ("sentencepiece", tokenizer.ids())
    assert (tmp_path / "tokenizer" / "sentencepiece.model").read_bytes() == (
        path.read_bytes()
    )


def test_an_absent_own_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="No SentencePiece model at .*gone.mod"):
        tokenization.from_sentencepiece_file(tmp_path / "gone.model")


@pytest.mark.parametrize(
    "content", [b"", b"the cat sat\non the mat\n", bytes(range(97))]
)
def test_a_file_that_is_no_model_is_named(tmp_path, content):
    path = tmp_path / "own.model"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="own.model: not a SentencePiece model"):
        tokenization.from_sentencepiece_file(path)
