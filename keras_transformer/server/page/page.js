"use strict";
const DEBOUNCE_MS = 250;
const RETRY_MS = 1000;
const STORAGE_KEY = "keras_transformer.protection";
const at = (id) => document.getElementById(id);
// Each of `sentences` has its text, sourceWords, the words of its translation, and in weights[n] the shares of sourceWords in word n.
// A protected name of several words may be one word. `around` has the text before, between and after the sentences, `after` of a
// sentence what follows its translation.
const state = {
  settings: null, around: [""], sentences: [], canChange: true, request: 0, abort: null, timer: null, chosen: null,
};

class GoneError extends Error {}

const has = (signature) => state.settings.signatures.includes(signature);
const kindBoxes = () => [...document.querySelectorAll("#kinds input")];
const wordsOf = (text) => text.trim().split(/\s+/u).filter(Boolean);
const withSingleSpaces = (text) => wordsOf(text).join(" ");

function element(name, properties = {}, parent = null) {
  const made = Object.assign(document.createElement(name), properties);
  parent?.append(made);
  return made;
}

function say(text, isWarning = false) {
  at("status").textContent = text;
  at("status").classList.toggle("warning", isWarning);
}

function sayOfGlossary(text) {
  at("glossary-error").textContent = text;
  at("glossary").setAttribute("aria-invalid", String(text !== ""));
  if (text) at("protection").open = true;
}

async function fetchJson(address, options = {}) {
  let response;
  try {
    response = await fetch(address, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new GoneError();
  }
  if ([502, 503, 504].includes(response.status)) throw new GoneError();
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error);
  return answer;
}

async function post(path, inputs, signal) {
  return fetchJson(path, { method: "POST", body: JSON.stringify({ ...inputs, ...protection() }), signal });
}

const chosenKinds = () => kindBoxes().filter((box) => box.checked);

// Returns what must not change, as the routes take it; "=" stands for the first tab of a line.
function protection() {
  if (!state.settings.canProtect) return {};
  const glossary = at("glossary").value.replace(/^([^\t\n=]*)=/gmu, "$1\t");
  return { protect: chosenKinds().map((box) => box.value), glossary };
}

function schedule(delay) {
  clearTimeout(state.timer);
  state.timer = setTimeout(translate, delay);
}

async function translate() {
  const number = (state.request += 1);
  state.abort?.abort();
  state.abort = new AbortController();
  try {
    const answer = await post("/page/translate", { text: at("source").value, target: at("into").value }, state.abort.signal);
    if (number !== state.request) return;
    Object.assign(state, answer);
    say(state.sentences.some((sentence) => sentence.isCut) ? "A sentence is too long: only its beginning is translated." : "");
    sayOfGlossary("");
    close();
    showTarget();
    showHelp();
  } catch (error) {
    if (number === state.request) fail(error, translate);
  }
}

// The server quotes a line with a tab where a person may have typed "=".
function withLineAsTyped(message) {
  const number = /^glossary line (\d+) /u.exec(message)?.[1];
  const line = at("glossary").value.split("\n")[number - 1];
  return message.replace(/Received: ['"].*/u, () => `Received: ${line.slice(0, 100)}`);
}

// Says what went wrong; if the server is gone, tries again until it answers.
function fail(error, again) {
  if (error.name === "AbortError") return;
  if (!(error instanceof GoneError)) {
    const isOfGlossary = error.message.includes("glossary");
    say(isOfGlossary ? "" : error.message, true);
    sayOfGlossary(isOfGlossary ? withLineAsTyped(error.message) : "");
    return;
  }
  say("The server does not answer. Trying again …", true);
  clearTimeout(state.timer);
  state.timer = setTimeout(again, RETRY_MS);
}

function showTarget() {
  at("target").classList.remove("old");
  at("target").replaceChildren(state.around[0]);
  state.sentences.forEach((sentence, row) => {
    const box = element("span", { className: "sentence" }, at("target"));
    at("target").append(sentence.after);
    sentence.words.forEach((word, index) => {
      if (index) box.append(" ");
      const button = element("button", { type: "button", className: "word", textContent: word }, box);
      button.addEventListener("pointerenter", () => showSource(row, index));
      button.addEventListener("pointerleave", () => showSource(state.chosen?.row, state.chosen?.index));
      button.addEventListener("focus", () => showSource(row, index));
      button.addEventListener("blur", () => showSource(state.chosen?.row, state.chosen?.index));
      button.addEventListener("click", () => choose(row, index));
      button.addEventListener("keydown", (event) => moveFocus(event, button));
    });
  });
  showSource();
}

function moveFocus(event, button) {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!step) return;
  event.preventDefault();
  const buttons = [...at("target").querySelectorAll(".word")];
  buttons[buttons.indexOf(button) + step]?.focus();
}

// Without the language tokens of the text, marks would be at other places.
function isWholeText() {
  const parts = state.around.map((before, row) => before + (state.sentences[row]?.text ?? ""));
  return parts.join("") === at("source").value;
}

// Marks the source words that a word of the translation came from; without a word removes the marks.
function showSource(row, index) {
  const weights = state.sentences[row]?.weights?.[index];
  at("marks").replaceChildren();
  if (!weights || !isWholeText()) return;
  state.sentences.forEach((sentence, other) => {
    at("marks").append(state.around[other]);
    if (other !== row) {
      at("marks").append(sentence.text);
      return;
    }
    let done = 0;
    for (const [number, word] of sentence.sourceWords.entries()) {
      const start = sentence.text.indexOf(word, done);
      at("marks").append(sentence.text.slice(done, start));
      const mark = element("span", { textContent: word }, at("marks"));
      mark.style.setProperty("--weight", weights[number].toFixed(2));
      mark.dataset.weight = weights[number].toFixed(2);
      done = start + word.length;
    }
    at("marks").append(sentence.text.slice(done));
  });
  at("marks").append(state.around.at(-1));
  at("marks").scrollTop = at("source").scrollTop;
  const words = state.sentences[row].sourceWords;
  const best = weights.map((weight, word) => [weight, word]).sort((one, other) => other[0] - one[0]).slice(0, 2)
    .filter(([weight]) => weight >= 0.1).map(([weight, word]) => `“${words[word]}” ${Math.round(100 * weight)} %`);
  say(`“${state.sentences[row].words[index]}” comes from ${best.join(", ")}`);
}

async function choose(row, index) {
  if (!state.canChange || (!has("prefix") && !has("nbest"))) return;
  state.chosen = { row, index };
  for (const word of at("target").querySelectorAll(".chosen")) word.classList.remove("chosen");
  at("target").children[row].querySelectorAll(".word")[index].classList.add("chosen");
  showSource(row, index);
  at("choice").hidden = false;
  at("prefix").value = state.sentences[row].words.slice(0, index + 1).join(" ");
  at("alternatives").replaceChildren();
  if (has("nbest")) await replaceSentence(row, "/page/alternatives", {}, showAlternatives);
}

function showAlternatives(answer, row) {
  const shown = new Set([withSingleSpaces(state.sentences[row].words.join(" "))]);
  for (const translation of answer.translations) {
    const text = withSingleSpaces(translation);
    if (shown.has(text)) continue;
    shown.add(text);
    const button = element("button", { type: "button", textContent: translation }, element("li", {}, at("alternatives")));
    button.addEventListener("click", () => setSentence(row, translation));
  }
  if (!at("alternatives").children.length) element("li", { textContent: "There are none." }, at("alternatives"));
}

// Asks about one sentence; drops the answer if the text has changed meanwhile.
async function replaceSentence(row, path, inputs, use) {
  const number = state.request;
  try {
    const answer = await post(path, { text: state.sentences[row].text, target: state.sentences[row].target, ...inputs });
    if (number === state.request && state.chosen?.row === row) use(answer, row);
  } catch (error) {
    if (number === state.request) fail(error, translate);
  }
}

function setSentence(row, translation) {
  const index = state.chosen?.index ?? 0;
  Object.assign(state.sentences[row], { words: wordsOf(translation), weights: null });
  close();
  showTarget();
  // The chosen word is made anew; the keyboard goes on from it.
  const words = at("target").children[row].querySelectorAll(".word");
  words[Math.min(index, words.length - 1)]?.focus();
}

function close() {
  const hadFocus = at("choice").contains(document.activeElement);
  state.chosen = null;
  at("choice").hidden = true;
  for (const word of at("target").querySelectorAll(".chosen")) {
    word.classList.remove("chosen");
    if (hadFocus) word.focus();
  }
}

// Returns what the browser keeps of an earlier visit, null if nothing or something else.
function remembered() {
  try {
    const value = JSON.parse(localStorage.getItem(STORAGE_KEY));
    return Array.isArray(value?.protect) && typeof value.glossary === "string" ? value : null;
  } catch {
    return null;
  }
}

function remember() {
  const value = { protect: chosenKinds().map((box) => box.value), glossary: at("glossary").value };
  try {
    localStorage.setItem(STORAGE_KEY, JSON.stringify(value));
  } catch {
    // A browser may forbid it: the choice is good until the page is left.
  }
}

function showProtection() {
  const numTerms = at("glossary").value.split("\n").filter((line) => line.trim()).length;
  const chosen = chosenKinds().map((box) => box.parentElement.textContent.trim());
  if (numTerms) chosen.push(numTerms === 1 ? "1 term" : `${numTerms} terms`);
  if (state.settings.hasTerms) chosen.push("the server’s terms");
  at("protected").textContent = chosen.join(", ") || "nothing";
}

function showHelp() {
  const hints = [];
  if (has("align")) hints.push("Point at a word of the translation to see what it came from.");
  if (has("nbest") || has("prefix")) {
    hints.push(state.canChange
      ? "Click it, or press Enter, for other translations."
      : "For other translations keep nothing and leave the glossary empty: this model has no placeholders.");
  }
  at("help").textContent = hints.join(" ");
  at("help").hidden = !hints.length;
}

async function start() {
  try {
    state.settings = await fetchJson("/page/settings");
  } catch (error) {
    fail(error, start);
    return;
  }
  const { source, target, targets, maxCharacters } = state.settings;
  at("languages").textContent = source && target ? `${source} → ${target}` : "";
  for (const code of targets) element("option", { value: code, textContent: code }, at("into"));
  if (targets.length) {
    at("languages").textContent = source ? `${source} →` : "";
    at("into").value = target;
  }
  at("into").hidden = !targets.length;
  at("source").lang = source;
  at("target").lang = target;
  at("source").maxLength = maxCharacters;
  at("protection").hidden = !state.settings.canProtect;
  const { protect, glossary } = remembered() ?? { protect: state.settings.protect, glossary: "" };
  for (const box of kindBoxes()) box.checked = protect.includes(box.value);
  at("glossary").value = glossary;
  showProtection();
  at("prefix-form").hidden = !has("prefix");
  at("alternatives-box").hidden = !has("nbest");
  showHelp();
  say("");
  if (at("source").value) translate();
}

function onChange() {
  at("target").classList.add("old");
  at("marks").replaceChildren();
  if (state.settings) schedule(DEBOUNCE_MS);
}

at("source").addEventListener("input", onChange);
at("into").addEventListener("change", () => {
  at("target").lang = at("into").value;
  onChange();
});
at("protection").addEventListener("input", () => {
  remember();
  showProtection();
  onChange();
});
at("source").addEventListener("scroll", () => { at("marks").scrollTop = at("source").scrollTop; });
at("prefix-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const row = state.chosen.row;
  replaceSentence(row, "/page/continuation", { prefix: at("prefix").value.trim() }, (answer) => setSentence(row, answer.translation));
});
at("close").addEventListener("click", close);
document.addEventListener("keydown", (event) => { if (event.key === "Escape") { close(); showSource(); } });
start();
