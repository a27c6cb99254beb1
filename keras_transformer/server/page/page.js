"use strict";
const DEBOUNCE_MS = 250;
const RETRY_MS = 1000;
const at = (id) => document.getElementById(id);
// Each of `sentences` has its text, the words of its translation, and in sources[n] the weights of the source words for word n.
// `around` has the text before, between and after them.
const state = { settings: null, around: [""], sentences: [], request: 0, abort: null, timer: null, chosen: null };

class GoneError extends Error {}

const has = (signature) => state.settings.signatures.includes(signature);
const wordsOf = (text) => text.trim().split(/\s+/u).filter(Boolean);

function element(name, properties = {}, parent = null) {
  const made = Object.assign(document.createElement(name), properties);
  parent?.append(made);
  return made;
}

function say(text, isWarning = false) {
  at("status").textContent = text;
  at("status").classList.toggle("warning", isWarning);
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

async function ask(signature, inputs, signal) {
  const address = `/v1/models/${encodeURIComponent(state.settings.model)}:predict`;
  const body = JSON.stringify({ signature_name: signature, inputs });
  return (await fetchJson(address, { method: "POST", body, signal })).outputs;
}

// Returns the indices of the pieces of each word; a word begins at a piece that begins with "▁".
function groupPieces(pieces) {
  const groups = [];
  for (const [index, piece] of pieces.entries()) {
    if (piece === "" || piece === "</s>") break;
    if (piece.startsWith("▁")) groups.push([]);
    groups.at(-1)?.push(index);
  }
  return groups;
}

// Returns the share of each source word for each target word, or null where words and pieces do not match.
function wordWeights(text, translation, sourcePieces, targetPieces, attention) {
  const sources = groupPieces(sourcePieces);
  const targets = groupPieces(targetPieces);
  if (sources.length !== wordsOf(text).length || targets.length !== wordsOf(translation).length) return null;
  return targets.map((target) => {
    const weights = sources.map((source) => {
      const each = target.flatMap((row) => source.map((column) => attention[row][column]));
      return each.reduce((sum, weight) => sum + weight, 0);
    });
    const total = weights.reduce((sum, weight) => sum + weight, 0) || 1;
    return weights.map((weight) => weight / total);
  });
}

function schedule(delay) {
  clearTimeout(state.timer);
  state.timer = setTimeout(translate, delay);
}

async function translate() {
  const number = (state.request += 1);
  state.abort?.abort();
  state.abort = new AbortController();
  const body = JSON.stringify({ text: at("source").value });
  const { signal } = state.abort;
  try {
    const { around, sentences } = await fetchJson("/page/sentences", { method: "POST", body, signal });
    if (number !== state.request) return;
    const outputs = sentences.length ? await ask(has("align") ? "align" : "serving_default", { text: sentences }, signal) : null;
    if (number !== state.request) return;
    state.around = around;
    state.sentences = sentences.map((text, row) => {
      const translation = outputs.translation[row];
      const sources = outputs.attention &&
        wordWeights(text, translation, outputs.source_pieces[row], outputs.target_pieces[row], outputs.attention[row]);
      return { text, words: wordsOf(translation), sources, isCut: outputs.truncated?.[row] };
    });
    say(state.sentences.some((sentence) => sentence.isCut) ? "A sentence is too long: only its beginning is translated." : "");
    close();
    showTarget();
  } catch (error) {
    if (number === state.request) fail(error, translate);
  }
}

// Says what went wrong; if the server is gone, tries again until it answers.
function fail(error, again) {
  if (error.name === "AbortError") return;
  if (!(error instanceof GoneError)) {
    say(error.message, true);
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
    at("target").append(state.around[row + 1]);
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

// Marks the source words that a word of the translation came from; without a word removes the marks.
function showSource(row, index) {
  const weights = state.sentences[row]?.sources?.[index];
  at("marks").replaceChildren();
  if (!weights) return;
  state.sentences.forEach((sentence, other) => {
    at("marks").append(state.around[other]);
    if (other !== row) {
      at("marks").append(sentence.text);
      return;
    }
    let word = -1;
    for (const part of sentence.text.split(/(\s+)/u)) {
      if (!part.trim()) {
        at("marks").append(part);
        continue;
      }
      word += 1;
      const mark = element("span", { textContent: part }, at("marks"));
      mark.style.setProperty("--weight", weights[word].toFixed(2));
      mark.dataset.weight = weights[word].toFixed(2);
    }
  });
  at("marks").append(state.around.at(-1));
  at("marks").scrollTop = at("source").scrollTop;
  const words = wordsOf(state.sentences[row].text);
  const best = weights.map((weight, word) => [weight, word]).sort((one, other) => other[0] - one[0]).slice(0, 2)
    .filter(([weight]) => weight >= 0.1).map(([weight, word]) => `“${words[word]}” ${Math.round(100 * weight)} %`);
  say(`“${state.sentences[row].words[index]}” comes from ${best.join(", ")}`);
}

async function choose(row, index) {
  if (!has("prefix") && !has("nbest")) return;
  state.chosen = { row, index };
  for (const word of at("target").querySelectorAll(".chosen")) word.classList.remove("chosen");
  at("target").children[row].querySelectorAll(".word")[index].classList.add("chosen");
  showSource(row, index);
  at("panel").hidden = false;
  at("prefix").value = state.sentences[row].words.slice(0, index + 1).join(" ");
  at("alternatives").replaceChildren();
  if (has("nbest")) await replaceSentence(row, "nbest", {}, showAlternatives);
}

function showAlternatives(outputs, row) {
  const current = state.sentences[row].words.join(" ");
  for (const translation of outputs.translations[0]) {
    if (!translation || wordsOf(translation).join(" ") === current) continue;
    const button = element("button", { type: "button", textContent: translation }, element("li", {}, at("alternatives")));
    button.addEventListener("click", () => setSentence(row, translation));
  }
  if (!at("alternatives").children.length) element("li", { textContent: "There are none." }, at("alternatives"));
}

// Asks a signature about one sentence; drops the answer if the text has changed meanwhile.
async function replaceSentence(row, signature, inputs, use) {
  const number = state.request;
  try {
    const outputs = await ask(signature, { text: [state.sentences[row].text], ...inputs });
    if (number === state.request && state.chosen?.row === row) use(outputs, row);
  } catch (error) {
    if (number === state.request) fail(error, translate);
  }
}

function setSentence(row, translation) {
  Object.assign(state.sentences[row], { words: wordsOf(translation), sources: null });
  close();
  showTarget();
}

function close() {
  state.chosen = null;
  at("panel").hidden = true;
  for (const word of at("target").querySelectorAll(".chosen")) word.classList.remove("chosen");
}

async function start() {
  try {
    state.settings = await fetchJson("/page/settings");
  } catch (error) {
    fail(error, start);
    return;
  }
  const { source, target, maxCharacters } = state.settings;
  at("languages").textContent = source && target ? `${source} → ${target}` : "";
  at("source").lang = source;
  at("target").lang = target;
  at("source").maxLength = maxCharacters;
  at("prefix-form").hidden = !has("prefix");
  at("alternatives-box").hidden = !has("nbest");
  const hints = [];
  if (has("align")) hints.push("Point at a word of the translation to see what it came from.");
  if (has("nbest") || has("prefix")) hints.push("Click it, or press Enter, for other translations.");
  at("help").textContent = hints.join(" ");
  at("help").hidden = !hints.length;
  say("");
  if (at("source").value) translate();
}

at("source").addEventListener("input", () => {
  at("target").classList.add("old");
  at("marks").replaceChildren();
  if (state.settings) schedule(DEBOUNCE_MS);
});
at("source").addEventListener("scroll", () => { at("marks").scrollTop = at("source").scrollTop; });
at("prefix-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const row = state.chosen.row;
  replaceSentence(row, "prefix", { prefix: [at("prefix").value.trim()] }, (outputs) => setSentence(row, outputs.translation[0]));
});
at("close").addEventListener("click", close);
document.addEventListener("keydown", (event) => { if (event.key === "Escape") { close(); showSource(); } });
start();
