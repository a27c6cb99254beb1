"""BLEU against hand-worked sentences and against published scores of real systems."""

import dataclasses
import json
import logging
import re
import subprocess
import sys

import numpy as np
import pytest
import sacrebleu

from keras_transformer import evaluation
from tests.evaluation.texts_without_spaces import PAIRS


def score(hypotheses, references, **options):
    """Scores without the interval, which most tests do not need."""
    options = {"bootstrap_samples": 0, **options}
    return evaluation.score_translations(hypotheses, references, **options)


def read_lines(path):
    """Lines of a file, cut at line feeds alone: text may hold other separators."""
    return path.read_bytes().decode("utf-8").removesuffix("\n").split("\n")


def read_expected(folder, start):
    """The BLEU on the line of EXPECTED_BLEU.txt that begins with `start`."""
    for line in (folder / "EXPECTED_BLEU.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith(start):
            return float(re.search(r" = ([0-9.]+)", line)[1])
    raise AssertionError(f"no line in {folder.name} starts with {start!r}")


NEWSTEST2017_SYSTEMS = (
    "transformer-marian",
    "transformer-sockeye",
    "transformer-tensor2tensor",
)


@pytest.mark.long
@pytest.mark.parametrize("system", NEWSTEST2017_SYSTEMS)
def test_sacrebleu_of_newstest2017_systems_is_the_published_one(shared_data, system):
    """To 0.01, for outputs of the year that the paper was published."""
    folder = shared_data / "mt_outputs" / "newstest2017_ende"
    expected = read_expected(folder, f"{system}.en-de.detok")
    scores = score(
        read_lines(folder / f"{system}.en-de.detok"),
        read_lines(folder / "newstest2017.de"),
    )
    assert scores.num_sentences == 3004
    np.testing.assert_allclose(scores.sacrebleu, expected, atol=0.01)


@pytest.mark.long
def test_three_conventions_on_newstest2014_are_the_published_ones(shared_data):
    """sacreBLEU to 0.01, the others to 0.1; splitting compounds adds half a point."""
    folder = shared_data / "mt_outputs" / "newstest2014_ende"
    scores = score(
        read_lines(folder / "bpe2char.newstest2014.detok.de"),
        read_lines(folder / "reference.de"),
    )
    expected = [
        read_expected(folder, f"bpe2char {convention}")
        for convention in ("sacre13a", "tok  ", "tok+ATAT")
    ]
    assert abs(scores.sacrebleu - expected[0]) <= 0.01
    assert abs(scores.bleu_tokenized - expected[1]) <= 0.1
    assert abs(scores.bleu_compound_split - expected[2]) <= 0.1
    assert scores.bleu_compound_split > scores.bleu_tokenized + 0.4


def test_bleu_is_the_geometric_mean_of_four_precisions():
    """One wrong last word of five: 4/5 * 3/4 * 2/3 * 1/2 = 1/5, to the power 1/4."""
    scores = score(["a b c d e"], ["a b c d f"])
    np.testing.assert_allclose(scores.sacrebleu, 100 * 0.2**0.25)
    np.testing.assert_allclose(scores.bleu_tokenized, 100 * 0.2**0.25)


def test_short_translations_pay_the_brevity_penalty():
    """All n-grams match, but 5 words became 4: exp(1 - 5/4)."""
    scores = score(["a b c d"], ["a b c d e"])
    np.testing.assert_allclose(scores.sacrebleu, 100 * np.exp(-0.25))


def test_counts_are_summed_over_the_corpus_before_dividing():
    """Matches 5+2 of 5+6 words, 4+0 of 4+5 pairs, 3+0 of 3+4, 2+0 of 2+3."""
    scores = score(["a b c d e", "a x b y z w"], ["a b c d e", "b a k l m n"])
    product = (7 / 11) * (4 / 9) * (3 / 7) * (2 / 5)
    np.testing.assert_allclose(scores.sacrebleu, 100 * product**0.25)


def test_tokenized_bleu_is_not_smoothed_but_sacrebleu_is():
    """No four-gram matches: 4/5 * 2/4 * 1/3 * 0/2; 13a's smoothing counts it half."""
    scores = score(["a b x d e"], ["a b c d e"])
    # Trigrams: none of "a b x", "b x d", "x d e" either, so 1/2 of 1/3 and 1/4 of 1/2.
    product = (4 / 5) * (2 / 4) * (1 / 2 / 3) * (1 / 4 / 2)
    np.testing.assert_allclose(scores.sacrebleu, 100 * product**0.25)
    assert scores.bleu_tokenized == 0.0


def test_splitting_compounds_rewards_half_a_hyphenated_word():
    """Whole: 5/6 * 3/5 * 2/4 * 1/3 = 1/12. Split: 7/8 * 5/7 * 3/6 * 1/5 = 1/16."""
    scores = score(
        ["der rot-grüne Ball rollt über Rasen"], ["der rot-blaue Ball rollt über Rasen"]
    )
    np.testing.assert_allclose(scores.bleu_tokenized, 100 * (1 / 12) ** 0.25)
    np.testing.assert_allclose(scores.bleu_compound_split, 100 * (1 / 16) ** 0.25)


def test_a_hyphen_alone_is_no_compound():
    """A dash between spaces stays one token, so both scores agree."""
    scores = score(["er kam - sie ging nicht fort"], ["er kam - sie ging noch fort"])
    assert scores.bleu_tokenized == scores.bleu_compound_split > 0


def test_only_the_lower_case_score_forgives_case():
    """4 of 5 words match in case, but no four-gram does."""
    scores = score(["Der hund rennt über Rasen"], ["Der Hund rennt über Rasen"])
    assert scores.bleu_tokenized == 0.0
    np.testing.assert_allclose(scores.bleu_tokenized_lowercase, 100.0)


def test_moses_tokens_part_punctuation_and_keep_abbreviations():
    """German tokens: `Herr Dr. Kurz schläft heute .` against `... nicht .`, 6 tokens.

    Unigrams 5/6, bigrams 3/5, trigrams 2/4, four-grams 1/3: again 1/12. Were "Dr." cut
    into two tokens, it would be 6/7 * 4/6 * 3/5 * 2/4.
    """
    scores = score(["Herr Dr. Kurz schläft heute."], ["Herr Dr. Kurz schläft nicht."])
    np.testing.assert_allclose(scores.bleu_tokenized, 100 * (1 / 12) ** 0.25)


def test_chrf_averages_character_orders_before_the_f_score():
    """Order 1: 1 of 2 matches; order 2: 0 of 1; both averages are 1/4, and so is F2."""
    np.testing.assert_allclose(score(["ab"], ["ac"]).chrf, 25.0)


def test_exact_match_is_a_percentage_and_ignores_outer_whitespace_only():
    """Of four lines the first two are equal."""
    scores = score(
        ["eins", " zwei ", "Drei", "vier  fünf"], ["eins", "zwei", "drei", "vier fünf"]
    )
    assert scores.exact_match == 50.0


def test_perfect_translations_score_a_hundred_everywhere():
    lines = ["Das ist ein gut-gemeinter Satz.", "Hier steht noch einer!"]
    scores = score(lines, list(lines), bootstrap_samples=7)
    values = dataclasses.asdict(scores)
    for name in (
        "sacrebleu",
        "sacrebleu_low",
        "sacrebleu_high",
        "bleu_tokenized",
        "bleu_tokenized_lowercase",
        "bleu_compound_split",
        "chrf",
        "exact_match",
    ):
        np.testing.assert_allclose(values[name], 100.0, err_msg=name)


def test_empty_translations_score_zero():
    """A model that says nothing gets numbers, not an error."""
    scores = score(["", ""], ["eins zwei", "drei"], bootstrap_samples=3)
    assert scores.sacrebleu == scores.bleu_tokenized == scores.chrf == 0.0
    assert (scores.sacrebleu_low, scores.sacrebleu_high) == (0.0, 0.0)


def test_sacrebleu_is_what_the_library_says_of_the_whole_corpus():
    """Odd spaces and separators included: the text reaches sacreBLEU as it is."""
    hypotheses = [
        "ein\u00a0Satz , mit\u2028 Zeichen",
        "  2,5 % von «uns»  ",
        "",
        "a-b c d",
    ]
    references = ["ein Satz, mit\u2028 Zeichen", "2.5 % von «uns»\r", "x", "a-b c d"]
    metric = sacrebleu.BLEU()
    expected = metric.corpus_score(hypotheses, [references])
    scores = score(hypotheses, references)
    assert scores.sacrebleu == expected.score
    assert 0 < scores.sacrebleu < 100
    assert scores.signature == str(metric.get_signature())


def test_signatures_say_how_the_scores_were_made():
    scores = score(["a"], ["a"], target_language="fr")
    assert scores.signature.startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|")
    assert scores.tokenized_signature.startswith(
        "nrefs:1|case:mixed|tok:moses-fr|smooth:none|sacremoses:"
    )


def noisy_lines(number):
    """Pairs of sentences of which some differ in one word, from few words."""
    generator = np.random.default_rng(5)
    words = np.array(["der", "die", "das", "Hund", "Katze", "rennt", "schläft"])
    references = [
        " ".join(generator.choice(words, size=generator.integers(5, 13)))
        for _ in range(number)
    ]
    hypotheses = [
        line.replace("Hund", "Katze") if generator.random() < 0.5 else line
        for line in references
    ]
    return hypotheses, references


def test_bootstrap_interval_agrees_with_sacrebleu_own():
    """sacreBLEU gives the middle of its interval's sample and half its width."""
    hypotheses, references = noisy_lines(number=101)
    scores = score(hypotheses, references, bootstrap_samples=1000)
    metric = sacrebleu.BLEU()
    result = metric.corpus_score(hypotheses, [references], n_bootstrap=1000)
    theirs = json.loads(
        result.format(is_json=True, signature=str(metric.get_signature()))
    )
    half_width = (scores.sacrebleu_high - scores.sacrebleu_low) / 2
    assert scores.sacrebleu_low < scores.sacrebleu < scores.sacrebleu_high
    np.testing.assert_allclose(half_width, theirs["confidence_var"], rtol=0.1)
    np.testing.assert_allclose(
        (scores.sacrebleu_high + scores.sacrebleu_low) / 2,
        theirs["confidence_mean"],
        atol=0.1 * theirs["confidence_var"],
    )


def test_bootstrap_depends_on_the_seed_and_nothing_else():
    hypotheses, references = noisy_lines(number=31)

    def interval(seed):
        scores = score(hypotheses, references, bootstrap_samples=53, seed=seed)
        return scores.sacrebleu_low, scores.sacrebleu_high

    assert interval(seed=3) == interval(seed=3)
    assert interval(seed=3) != interval(seed=5)


def test_no_bootstrap_samples_give_no_interval():
    scores = score(["a b"], ["a b"], bootstrap_samples=0)
    assert (scores.sacrebleu_low, scores.sacrebleu_high) == (None, None)


def test_scores_are_json_with_the_names_that_reports_promise():
    scores = dataclasses.replace(score(["a b"], ["a b"]), perplexity=4.92)
    report = json.loads(json.dumps(scores.to_dict()))
    promised = {"sacrebleu", "bleu_tokenized", "bleu_compound_split", "chrf"}
    promised |= {"exact_match", "perplexity", "signature"}
    assert promised <= report.keys()
    assert report["perplexity"] == 4.92
    assert report["num_sentences"] == 1


def test_regions_of_a_language_share_its_moses_rules():
    assert (
        "moses-pt|" in score(["a"], ["a"], target_language="pt-BR").tokenized_signature
    )


def test_a_language_that_moses_does_not_know_is_scored_with_a_warning(
    caplog, monkeypatch
):
    """Turkish has no list of abbreviations: the English one serves, as in Moses."""
    monkeypatch.setattr(logging.getLogger("absl"), "propagate", True)
    with caplog.at_level(logging.WARNING, logger="absl"):
        scores = score(["a b c d"], ["a b c d"], target_language="tr")
    np.testing.assert_allclose(scores.bleu_tokenized, 100.0)
    assert "no abbreviations of language 'tr'" in caplog.text


@pytest.mark.parametrize("language", ["", "German", "d", "de DE"])
def test_what_is_no_language_code_is_refused(language):
    message = r'`target_language` must be a language code such as "de" or "pt-BR"\. '
    with pytest.raises(ValueError, match=message + f"Received: .*{language!r}"):
        score(["a"], ["a"], target_language=language)


def test_unequal_line_counts_are_refused_with_both_counts():
    message = "must have equally many lines. Received: 3 hypotheses, 2 references"
    with pytest.raises(ValueError, match=message):
        score(["a", "b", "c"], ["a", "b"])


def test_no_lines_are_refused():
    with pytest.raises(ValueError, match="nothing to score: `hypotheses` has no lines"):
        score([], [])


def test_one_string_instead_of_lines_is_refused():
    with pytest.raises(TypeError, match="`references` must be a sequence of lines"):
        score(["a"], "a")


def test_a_line_that_is_no_string_is_refused_with_its_number():
    with pytest.raises(
        TypeError, match="`hypotheses` must hold strings. Received: b'b' as line 2"
    ):
        score(["a", b"b"], ["a", "b"])


def test_a_negative_number_of_samples_is_refused():
    with pytest.raises(ValueError, match="`bootstrap_samples` must be at least 0"):
        score(["a"], ["a"], bootstrap_samples=-1)


@pytest.mark.parametrize("language", PAIRS)
def test_scores_are_those_of_sacrebleu_with_the_language_pair(
    language, tmp_path, program_of
):
    """Through bin/evaluate.py, with the signature of sacreBLEU's command line."""
    paths = [tmp_path / "output", tmp_path / "reference"]
    for path, lines in zip(paths, zip(*PAIRS[language], strict=True), strict=True):
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    command = [sys.executable, "-m", "sacrebleu", str(paths[1]), "-i", str(paths[0])]
    command += ["-l", f"en-{language}", "-m", "bleu", "chrf", "-w", "6"]
    expected = json.loads(
        subprocess.run(command, check=True, capture_output=True, text=True).stdout
    )
    scores = program_of("bin/evaluate.py")(
        hypothesis=paths[0], reference=paths[1], target_language=language
    )
    bleu, chrf = expected
    assert [scores["sacrebleu"], scores["chrf"]] == pytest.approx(
        [bleu["score"], chrf["score"]], abs=1e-6
    )
    assert 20 < bleu["score"] < 95
    assert scores["signature"] == bleu["signature"]
    assert 0 < scores["bleu_tokenized"] < 95
    tokenizer = bleu["tok"]
    assert scores["tokenized_signature"].startswith(
        f"nrefs:1|case:mixed|tok:{tokenizer}|smooth:none|version:"
    )


@pytest.mark.parametrize(
    ("language", "known"), [("zh-TW", "zh"), ("jpn_Jpan", "ja"), ("kor_Hang", "ko")]
)
def test_equal_short_lines_have_full_scores_in_any_language(language, known):
    lines = [line for line, _ in PAIRS[known]]
    scores = score([lines[0], ""], [lines[0], lines[1]], target_language=language)
    assert scores.bleu_tokenized == scores.sacrebleu > 0
    scores = score(lines, lines, target_language=language)
    np.testing.assert_allclose(
        [scores.sacrebleu, scores.bleu_tokenized, scores.bleu_compound_split], 100.0
    )


def test_lines_of_several_languages_have_each_its_own_tokenizer():
    """Matches of both are added before BLEU divides them."""
    german = ("der alte Hund rennt über Rasen", "der alte Hund rennt über Gras")
    chinese = PAIRS["zh"][1]
    pairs = [german, chinese]
    scores = score(*zip(*pairs, strict=True), target_language=["de", "zh"])
    matches, totals, lengths = np.zeros(4, int), np.zeros(4, int), np.zeros(2, int)
    for tokenizer, (hypothesis, reference) in zip(("13a", "zh"), pairs, strict=True):
        part = sacrebleu.corpus_bleu([hypothesis], [[reference]], tokenize=tokenizer)
        matches, totals = matches + part.counts, totals + part.totals
        lengths += [part.sys_len, part.ref_len]
    assert (matches > 0).all()
    penalty = min(1.0, np.exp(1 - lengths[1] / lengths[0]))
    expected = 100 * penalty * (matches / totals).prod() ** 0.25
    np.testing.assert_allclose(scores.sacrebleu, expected)
    assert "|tok:13a+zh|" in scores.signature
    assert "|tok:moses-de+zh|" in scores.tokenized_signature


def test_text_without_spaces_is_warned_of(caplog, monkeypatch):
    """Chinese that is scored as the default language."""
    monkeypatch.setattr(logging.getLogger("absl"), "propagate", True)
    line = PAIRS["zh"][0][0]
    with caplog.at_level(logging.WARNING, logger="absl"):
        scores = score([line], [line])
    assert scores.sacrebleu < 100
    assert "language 'de' splits words at spaces (tokenizer 13a)" in caplog.text
