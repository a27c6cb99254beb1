"""Small tokenizers, trained once, that the tests of this folder share."""

import pytest

from keras_transformer import tokenization

TEXTS = (
    "The cat sat on the mat, and the dog sat on the cat.",
    "A well-known author's book costs $12.50 at 9:30 p.m.",
    '"Where are you going?" asked the girl; nobody answered!',
    "In 1984 there were 1,234,567 people (more or less) in the city.",
    "Der Hund läuft über die Straße, weil die Katze schläft.",
    "„Wie spät ist es?“, fragte das Mädchen auf dem Marktplatz.",
    "Die Donaudampfschifffahrtsgesellschaft hat 37 Schiffe – und fünf Kapitäne.",
    "L’été dernier, nous avons mangé des crêpes à Besançon\u00a0; c'était bon.",
    "« Où vas-tu ? », demanda-t-elle. Le garçon n'a pas répondu…",
    "email@example.com wrote: 100% of #tags & [brackets] {are} <fine>, aren't they?",
)

# Each comes back as it went in: no leading, trailing or double U+0020 in them.
ROUND_TRIPS = (
    *TEXTS,
    "Hello, world!",
    "",
    "x",
    "Die Straßenbahn kostet 3,50 €, sagte „Jürgen“.",
    "L’élève a dit : « C’est l’œuvre d’un fou\u00a0! »",
    "rock-'n'-roll -- it's 5'11\" tall/wide; 3\u2009%",
    "😀👩‍👩‍👧 🇩🇪 漢字かな 한국어 العربية हिन्दी",
    "ﬁ ½ ² Å e\u0301 \u00ad \u200b \ufeff \u3000",
    "tab\there\nline\r\nNUL\x00end\x7f\x85\u2028.",
    "<s> </s> <pad> <unk> <0x41> [PAD] [UNK] [EOS] ## ##a a##b ###",
    "▁ a▁b \ufdd0 \ufdd00 \ufdd01 \ufdd0▁ \ue000 ⁇ ▅",
    r"\ \\ \65; \128512; C:\92;\new &#65; \;",
    "\U0010ffff \ufffd \ufffe",
    "averyveryveryveryveryveryveryveryveryveryverylongword",
)


@pytest.fixture(scope="session")
def texts():
    return TEXTS


@pytest.fixture(scope="session")
def round_trips():
    return ROUND_TRIPS


# Of a module, no longer: a run in another one sets TensorFlow's seed, which drops what
# tokenizers hold.
@pytest.fixture(scope="module")
def bpe():
    return tokenization.train_bpe(TEXTS, 409)


@pytest.fixture(scope="module")
def wordpiece():
    return tokenization.train_wordpiece(TEXTS, 307)


@pytest.fixture(scope="module", params=["bpe", "wordpiece"])
def tokenizer(request):
    """Either kind, for what both promise."""
    return request.getfixturevalue(request.param)
