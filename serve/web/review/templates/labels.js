// Many labels: found by typing, those that are chosen in sight above the list, and labels above labels. Where there are
// very many, the page holds some of them and the server finds the others.
import { enter, isCommand, press } from "./keys.js";
import { heldDown, keyTooSoon, missed, taken } from "./guard.js";

const $ = (id) => document.getElementById(id);
let form, find, how, ticked, tally; // of the case that is shown
export let ticks = [];
let one = false; // exactly one label holds
let lookedUp; // the address where labels are found
const BOUNCE_MILLISECONDS = 250;
const PAUSE_MILLISECONDS = 120; // in which somebody types on, before the server is asked
const labels = (n) => `${n} ${n === 1 ? "label" : "labels"}`;

// ---- labels above labels ----

let above = new Map(), below = new Map(), byLabel = new Map();

function findLinks() {
  above = new Map(ticks.map((tick) => [tick.value, JSON.parse(tick.dataset.above ?? "[]")]));
  byLabel = new Map(ticks.map((tick) => [tick.value, tick]));
  below = new Map();
  for (const [label, parents] of above) for (const parent of parents) below.set(parent, [...(below.get(parent) ?? []), label]);
}

function spread(label, links, checked) {
  for (const next of links.get(label) ?? []) {
    const tick = byLabel.get(next);
    if (tick && tick.checked !== checked) { tick.checked = checked; spread(next, links, checked); }
  }
}

const nameOfLabel = (tick) => tick.dataset.text ?? tick.value;

function watch(tick) {
  tick.addEventListener("change", () => {
    spread(tick.value, tick.checked ? above : below, tick.checked);
    showChosen();
  });
}

// ---- those that are chosen ----

/** Show what is chosen, wherever the list stands. */
export function showChosen() {
  const chosen = ticks.filter((tick) => tick.checked);
  if (tally) tally.textContent = form.dataset.form === "ticks" ? `${chosen.length} ticked` : "";
  if (!ticked) return;
  ticked.hidden = chosen.length === 0;
  ticked.replaceChildren(...chosen.map((tick) => {
    const button = Object.assign(document.createElement("button"), { type: "button", className: "chip", textContent: nameOfLabel(tick) });
    button.setAttribute("aria-label", `Remove ${nameOfLabel(tick)}`);
    button.addEventListener("click", () => remove(tick));
    const item = document.createElement("li");
    item.append(button);
    return item;
  }));
}

function remove(tick) {
  const place = ticks.filter((other) => other.checked).indexOf(tick);
  tick.checked = false;
  tick.dispatchEvent(new Event("change", { bubbles: true }));
  tell(`${nameOfLabel(tick)} is removed.`);
  (ticked.querySelectorAll("button")[place] ?? find).focus();
}

// ---- found by typing ----

const itemOf = (tick) => ({ tick, item: tick.closest("li"), text: tick.value.toLowerCase(), all: `${tick.value} ${tick.dataset.title ?? ""}`.toLowerCase() });
let items = [];
let atFirst = new Set(); // what is listed while nothing is typed
const visible = () => items.filter(({ item }) => !item.hidden);
let tickedAt = -Infinity;

/** Of the labels that are found the one that Enter takes: that which is called so, else one that begins so, else the first. */
function best(query) {
  const found = visible();
  if (lookedUp) return items.find(({ item }) => item.classList.contains("first"));
  return found.find(({ text }) => text === query) ?? found.find(({ text }) => text.startsWith(query)) ?? found[0];
}

let hint = [];
const tell = (text) => (text ? how.replaceChildren(text) : how.replaceChildren(...hint));
const typed = () => find.value.trim().toLowerCase();
const commands = (prefix) => [...document.querySelectorAll("#help dt kbd")].filter((key) => key.textContent.startsWith(prefix))
  .map((key) => `${key.textContent}: ${key.parentElement.nextElementSibling.textContent}`).join(" · ");

function search() {
  const prefix = find.dataset.prefix, text = typed();
  if (text.startsWith(prefix) && text.length === prefix.length + 1 && isCommand(text)) {
    find.value = "";
    search();
    return press(text);
  }
  const query = text === prefix ? "" : text;
  if (lookedUp) return lookUp(query, text === prefix);
  const words = query.split(/\s+/).filter(Boolean);
  for (const { item, all } of items) item.hidden = !words.every((word) => all.includes(word));
  const marked = words.length ? best(query) : undefined;
  for (const found of items) found.item.classList.toggle("first", found === marked);
  marked?.item.scrollIntoView({ block: "nearest" });
  tell(text === prefix ? commands(prefix) : !words.length ? "" : marked
    ? `${labels(visible().length)}; Enter ${one ? "sends" : "ticks"} ${marked.tick.value}.` : "No label is like that.");
}

async function take() {
  const asked = typed();
  await answered;
  if (typed() !== asked) return;
  if (!find.value.trim()) {
    if (performance.now() - tickedAt < BOUNCE_MILLISECONDS) return missed("“Enter” was not taken: it had only just ticked a label. Press it again to send.");
    return enter();
  }
  const found = best(typed());
  if (!found && visible().length) return missed("“Enter” was not taken: these labels are only like it. ↓ goes to them.");
  if (!found) return missed(`“Enter” was not taken: no label is like that. “${find.dataset.prefix}” in the empty field shows the commands.`);
  if (one) {
    if (!found.tick.checked) found.tick.click();
    return enter();
  }
  if (keyTooSoon("Enter")) return;
  const { tick } = found, already = tick.checked;
  if (!already) tick.click();
  find.value = "";
  search();
  tickedAt = performance.now();
  tell(already ? `${nameOfLabel(tick)} was ticked already.` : `${nameOfLabel(tick)} is ticked.`);
}

// ---- looked up on the server ----

let answered = Promise.resolve(); // when the server has answered the last search
let asking = new AbortController();
const spelled = (text) => text.replace(/[\p{Cc}\p{Cf}]/gu, (one) => `[U+${one.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}]`);

/** The tick of a label; it is made where the page has none. */
export function offer({ label, text = spelled(label), title = null }) {
  const known = byLabel.get(label);
  if (known || !lookedUp) return known;
  const item = $("one-label").content.firstElementChild.cloneNode(true), tick = item.querySelector("input");
  const [name, beside] = item.querySelectorAll("bdi");
  tick.value = label;
  tick.dataset.text = name.textContent = text;
  if (title) beside.textContent = title; else beside.remove();
  byLabel.set(label, tick);
  ticks.push(tick);
  watch(tick);
  $("choices").append(item);
  return tick;
}

/** List these ticks in this order, and those that are chosen; leave out the others. */
function list(some) {
  const shown = new Set(some);
  const kept = ticks.filter((tick) => shown.has(tick) || atFirst.has(tick) || tick.checked);
  for (const tick of ticks.filter((one) => !kept.includes(one))) {
    byLabel.delete(tick.value);
    tick.closest("li").remove();
  }
  ticks.splice(0, ticks.length, ...kept); // in the order in which they came, so that what is ticked stays where it is
  items = [...some, ...kept.filter((tick) => !shown.has(tick))].map(itemOf);
  $("choices").append(...items.map(({ item }) => item));
  for (const { item, tick } of items) { item.hidden = !shown.has(tick); item.classList.remove("first"); }
}

function lookUp(query, command) {
  asking.abort();
  if (!query) {
    answered = Promise.resolve();
    list([...atFirst, ...ticks.filter((tick) => tick.checked && !atFirst.has(tick))]);
    return tell(command ? commands(find.dataset.prefix) : "");
  }
  const asked = asking = new AbortController();
  answered = new Promise((done) => setTimeout(done, PAUSE_MILLISECONDS))
    .then(() => (asked.signal.aborted ? null : foundLike(query, asked.signal)))
    .then((found) => found && !asked.signal.aborted && showFound(found))
    .catch(() => { if (!asked.signal.aborted) { list([]); tell("Labels cannot be looked up just now. Type on to try again."); } });
}

async function foundLike(query, signal) {
  const reply = await fetch(`${lookedUp}&${new URLSearchParams({ query })}`, { signal: AbortSignal.any([signal, AbortSignal.timeout(15000)]) });
  if (!reply.ok) throw new Error(reply.status);
  return reply.json();
}

function showFound(found) {
  list(found.labels.map(offer));
  const first = found.labels[0], sure = first && first.match !== "similar";
  if (sure) byLabel.get(first.label).closest("li").classList.add("first");
  const n = `${labels(found.labels.length)}${found.more ? " and more" : ""}`;
  tell(!first ? "No label is like that." : sure ? `${n}; Enter ${one ? "sends" : "ticks"} ${first.text}.` : `${n} like it; ↓ goes to them.`);
}

/** A page has come, or a case in the place of another. */
export function begin() {
  [form, find, how, ticked, tally] = ["answer", "find", "how", "ticked", "chosen"].map($);
  ticks = form ? [...form.querySelectorAll("input[name=label]")] : [];
  one = form?.dataset.form === "list";
  lookedUp = find?.dataset.labels;
  findLinks();
  ticks.forEach(watch);
  items = ticks.map(itemOf);
  atFirst = new Set(ticks);
  tickedAt = -Infinity;
  hint = how ? [...how.childNodes] : [];
  asking.abort();
  answered = Promise.resolve();
  $("plain-find")?.remove(); // for browsers without scripts
  if (find) beginSearch();
  for (const chip of document.querySelectorAll("[data-choose]")) makeButton(chip);
  const accept = $("accept");
  accept?.addEventListener("click", (event) => {
    choose(JSON.parse(accept.dataset.labels), true);
    letGo(event);
  });
}

// ---- what the model says ----

/** Tick these labels; where they are ticked all, and `only` is not asked for, untick them. */
function choose(labels, only = false) {
  const some = labels.map((label) => offer({ label }) ?? byLabel.get(label)).filter(Boolean);
  const checked = only || one || !some.every((tick) => tick.checked);
  for (const tick of some) {
    if (tick.checked === checked) continue;
    tick.checked = checked;
    tick.dispatchEvent(new Event("change", { bubbles: true }));
  }
  if (how) tell(checked ? `${some.map(nameOfLabel).join(", ")} ${some.length === 1 ? "is" : "are"} ${one ? "chosen" : "ticked"}.` : "");
}

/** After a click `Enter` sends, and does not press the button again. */
function letGo(event) {
  if (event.detail > 0) (find ?? event.currentTarget)[find ? "focus" : "blur"]();
}

/** A label that the model named can be pressed, where labels are ticked or listed. */
function makeButton(chip) {
  if (!byLabel.has(chip.dataset.choose) && !lookedUp) return;
  const button = Object.assign(document.createElement("button"), { type: "button", className: chip.className });
  button.append(...chip.childNodes);
  button.addEventListener("click", (event) => {
    choose([chip.dataset.choose]);
    letGo(event);
  });
  chip.replaceWith(button);
}

function beginSearch() {
  find.closest(".search").hidden = false;
  if (matchMedia("(pointer: fine)").matches && document.activeElement === document.body) find.focus({ preventScroll: true });
  find.addEventListener("input", () => { taken(); search(); });
  find.addEventListener("keydown", (event) => {
    if (event.isComposing) return;
    if (event.key === "ArrowDown" && visible().length) { event.preventDefault(); visible()[0].tick.focus(); }
    if (event.key !== "Enter") return;
    event.preventDefault();
    if (event.repeat) heldDown("Enter"); else take();
  });
  $("choices").addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const all = visible().map(({ tick }) => tick), to = all.indexOf(document.activeElement) + step;
    if (to < 0) return find.focus();
    const next = all[Math.min(to, all.length - 1)];
    next.focus();
    if (one && !next.checked) next.click();
  });
}
