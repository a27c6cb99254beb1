"""Word pieces: units, escapes, and the vocabulary learned from them."""

import pytest
import tensorflow as tf

from keras_transformer import tokenization
from keras_transformer.tokenization import training_text, units


def split(alphabet, text):
    (found,) = units.UnitSplitter(alphabet).split(tf.constant([text])).to_list()
    return [unit.decode() for unit in found]


def test_units_are_words_and_single_characters_with_their_space():
    found = split("abcr-é!.#", "bar-bar  é! ##a 12.5")
    assert found == ["▁bar", "-", "bar", "▁é", "!", "▁#", "#", "a", "▁12", ".", "5"]


def test_combining_marks_belong_to_their_word():
    assert split("cafe\u0301!", "cafe\u0301!") == ["▁cafe\u0301", "!"]


def test_characters_outside_the_alphabet_are_written_as_code_points():
    """U+1F600 is 128512, U+005C is 92."""
    assert split("ab", "a😀b \\") == ["▁a", "\\", "128512", ";", "b", "▁\\", "92", ";"]


def test_long_words_are_cut_where_the_op_would_give_up():
    """25 characters of 4 bytes are the 100 bytes that the op still looks up."""
    found = split("𝐚", "𝐚" * 53 + " 𝐚")
    assert [len(unit) for unit in found] == [25, 25, 4, 2]
    assert max(len(unit.encode()) for unit in found) <= 100


def test_joining_keeps_what_only_looks_like_an_escape():
    rows = tf.ragged.constant([["▁\\", "12", "▁a;"], ["\\1234567", "8;"], ["\\65;"]])
    joined = [text.decode() for text in units.join(rows).numpy()]
    assert joined == ["\\12 a;", "\\12345678;", "A"]


def test_joining_turns_impossible_code_points_into_replacement_characters():
    """55296 is half of a surrogate pair, 9999999 is above U+10FFFF."""
    rows = tf.ragged.constant([["\\55296;", "\\9999999;"]])
    assert units.join(rows).numpy()[0].decode() == "\ufffd\ufffd"


def test_training_gives_the_size_asked_for(wordpiece):
    assert wordpiece.vocab_size == 307
    assert wordpiece.kind == "wordpiece"


def test_frequent_words_become_one_piece():
    tokenizer = tokenization.train_wordpiece(["the cat and the dog"] * 7, 61)
    pieces = tokenizer.pieces(tokenizer.tokenize(["the cat"])).to_list()
    assert pieces == [["▁the".encode(), "▁cat".encode()]]


def test_the_longest_piece_that_fits_is_taken():
    lines = ["[PAD]", "[UNK]", "[BOS]", "[EOS]", "▁"]
    for character in "0123456789;\\abc":
        lines += [character, f"##{character}"]
    lines += ["▁a", "▁ab", "##bc", "ab"]
    vocabulary = "".join(f"{line}\n" for line in lines).encode()
    tokenizer = tokenization.WordPieceTokenizer(vocabulary)
    (pieces,) = tokenizer.pieces(tokenizer.tokenize(["abc;abc acab"])).to_list()
    shown = " ".join(piece.decode() for piece in pieces)
    assert shown == "▁ab ##c ; ab ##c ▁a ##c ##a ##b"


def test_an_unknown_piece_of_a_model_is_shown(wordpiece):
    cat = wordpiece.encode(["cat"])[0].tolist()
    assert wordpiece.decode([[*cat, wordpiece.unk_id]]) == ["cat \u2047 "]


def test_rare_characters_get_no_piece():
    texts = ["a b a b a b a b a b"] * 7 + ["é"]
    tokenizer = tokenization.train_wordpiece(texts, 33, character_coverage=0.98)
    pieces = tokenizer.pieces(tokenizer.tokenize(["é"])).to_list()[0]
    assert "é".encode() not in pieces
    assert tokenizer.decode(tokenizer.encode(["é"])) == ["é"]


def test_a_vocabulary_larger_than_the_text_allows_says_the_largest():
    texts = ["the cat sat", "der Hund"]
    with pytest.raises(ValueError, match="`vocab_size` must be at most") as caught:
        tokenization.train_wordpiece(texts, 5003)
    largest = int(str(caught.value).split("--vocab_size=")[1].split()[0])
    assert tokenization.train_wordpiece(texts, largest).vocab_size == largest


def test_a_vocabulary_smaller_than_the_alphabet_says_the_smallest():
    """4 special pieces, the space, and twice: a, b, ten digits, ";" and the escape."""
    with pytest.raises(ValueError, match="`vocab_size` must be at least 33: .*=32"):
        tokenization.train_wordpiece(["ab ba"], 32)


@pytest.mark.parametrize(
    ("vocabulary", "complaint"),
    [
        (b"", "first lines must be"),
        (b"the\ncat\n", "first lines must be"),
        (b"[PAD]\n[UNK]\n[BOS]\n[EOS]", "its last must end"),
        (b"[PAD]\n[UNK]\n[BOS]\n[EOS]\n", "pieces missing"),
        (b"\xff\n", "can't decode byte 0xff"),
    ],
)
def test_a_file_that_is_no_vocabulary_is_refused(vocabulary, complaint):
    with pytest.raises(ValueError, match="not a word-piece vocabulary .*" + complaint):
        tokenization.WordPieceTokenizer(vocabulary)


def test_pieces_given_twice_are_refused(wordpiece, tmp_path):
    wordpiece.save(tmp_path / "tokenizer")
    vocabulary = (tmp_path / "tokenizer" / "vocabulary.txt").read_bytes()
    with pytest.raises(ValueError, match="pieces given twice: 1"):
        tokenization.WordPieceTokenizer(vocabulary + "▁\n".encode())


def test_training_sentences_are_cut_and_cleaned():
    long = "word " * 20_000
    found = list(training_text.sentences(["a\tb\x00c▁d▅", "", " ", long, "x" * 2003]))
    assert found[0] == "a b c d"
    assert " ".join(found[1:101]) == long.strip()
    assert [len(part) for part in found[101:]] == [1000, 1000, 3]
    assert max(len(part.encode()) for part in found) <= training_text.MAX_BYTES


def test_a_sample_is_drawn_evenly():
    """Each of 1,000 numbers is kept with p = 0.1: the mean place is near the middle."""
    kept = training_text.sample([str(number) for number in range(1000)], 100)
    places = [int(number) for number in kept]
    assert len(set(places)) == 100
    # The mean of 100 such draws has a standard deviation of 27.
    assert abs(sum(places) / 100 - 499.5) < 3 * 27


def test_a_line_too_long_for_the_trainer_is_learned_from():
    tokenizer = tokenization.train_bpe(["the cat " * 12_500], 273)
    pieces = tokenizer.pieces(tokenizer.tokenize(["the cat"])).to_list()
    assert pieces == [["▁the".encode(), "▁cat".encode()]]
