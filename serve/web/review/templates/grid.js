// Many cases on one page: one of them is marked, and what is pressed is its answer. Each answer is sent at once.
import { insist, post, postTo, say } from "./sending.js";

const EARLY_MILLISECONDS = 250; // a press that was meant for the page before
const form = document.getElementById("grid");
const tiles = [...document.querySelectorAll(".tile")];
const undo = document.getElementById("undo"), more = document.getElementById("more");
let marked = null, last = null, pending = 0, touched = Date.now();
const came = performance.now();

const isOpen = (tile) => tile && !tile.matches(".answered, .sending, .lost");
const canUndo = (tile) => tile && tile.matches(".answered") && Number(tile.dataset.until) > Date.now();
const nameOf = (tile) => tile.getAttribute("aria-label");

function mark(tile, focus = true) {
  if (!tile) return;
  for (const one of tiles) {
    one.setAttribute("aria-current", String(one === tile));
    one.tabIndex = one === tile ? 0 : -1;
  }
  marked = tile;
  if (focus) tile.focus();
  tile.scrollIntoView({ block: "nearest" });
  showUndo();
}

function markNext(after) {
  const at = tiles.indexOf(after), order = [...tiles.slice(at + 1), ...tiles.slice(0, at)];
  const next = order.find(isOpen);
  if (next) return mark(next);
  if (!tiles.some(isOpen) && pending === 0) {
    say("All are answered.");
    more.classList.add("main");
    more.focus();
  }
}

function showUndo() { undo.disabled = !(canUndo(marked) || canUndo(last)); }

function told(tile, words, label) {
  const place = tile.querySelector(".told");
  place.replaceChildren(words);
  if (label !== undefined) place.append(Object.assign(document.createElement("strong"), { textContent: label }));
}

async function answer(tile, label) {
  if (!isOpen(tile)) return say(tile ? `${nameOf(tile)} is answered already.` : "Mark a case first.", true);
  tile.classList.add("sending");
  told(tile, "You say ", label);
  pending += 1;
  markNext(tile);
  const reply = await insist(`cases/${tile.dataset.case}/answer`, { token: Number(tile.dataset.token), label }, `${nameOf(tile)} is not sent yet.`);
  pending -= 1;
  tile.classList.remove("sending");
  if (reply.status !== 200) {
    tile.classList.add("lost");
    told(tile, `Not taken: ${reply.message}`);
    return say(`${nameOf(tile)}: not taken, ${reply.message}.`, true);
  }
  tile.classList.add("answered");
  tile.dataset.until = Date.parse(reply.content.undo_until ?? 0);
  told(tile, "You said ", label);
  const said = reply.content.prediction.prediction;
  if (!tile.dataset.accept && said !== null) {
    const line = tile.querySelector(".said") ?? tile.insertBefore(document.createElement("p"), tile.querySelector(".told"));
    line.className = "soft said";
    line.textContent = said === label ? "The model said so too" : `The model had said ${said}`;
  }
  last = tile;
  say(`${nameOf(tile)}: ${label}.`);
  showUndo();
  setTimeout(showUndo, Math.max(0, Number(tile.dataset.until) - Date.now()) + 50);
  if (!tiles.some(isOpen)) markNext(tile);
}

async function takeBack(tile) {
  if (!canUndo(tile)) return say("It is too late to take that answer back.", true);
  const reply = await post(`${tile.dataset.case}/undo`, { token: Number(tile.dataset.token) }).catch(() => null);
  if (reply?.status !== 200) return say(reply ? `${reply.message}.` : "No connection: the answer was not taken back.", true);
  tile.dataset.token = reply.content.token;
  tile.classList.remove("answered");
  told(tile, "");
  if (last === tile) last = null;
  say(`${nameOf(tile)}: taken back.`);
  more.classList.remove("main");
  mark(tile);
}

function beside(tile, key) {
  const at = tiles.indexOf(tile), top = tiles[0].getBoundingClientRect().top;
  const columns = tiles.filter((one) => Math.abs(one.getBoundingClientRect().top - top) < 5).length;
  const to = at + { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns }[key];
  return tiles[to];
}

if (form) {
  document.addEventListener("keydown", (event) => {
    if (!event.key.startsWith("Arrow") || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    event.preventDefault();
    event.stopPropagation();
    mark(beside(marked, event.key));
  }, true);
  for (const tile of tiles) {
    if (tile.dataset.undo) tile.dataset.until = Date.now() + 1000 * Number(tile.dataset.undo);
    tile.addEventListener("click", (event) => { if (!event.target.closest("a")) mark(tile); });
  }
  document.getElementById("answers").addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    if (performance.now() - came < EARLY_MILLISECONDS) return say("That was not taken: the cases have only just come.", true);
    if (button === undo) return takeBack(canUndo(marked) ? marked : last);
    if (button.id !== "as-model") return answer(marked, button.dataset.label);
    if (marked?.dataset.accept) return answer(marked, marked.dataset.accept);
    say("What the model said about this case is not shown.", true);
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  window.addEventListener("beforeunload", (event) => { if (pending) event.preventDefault(); });
  for (const sign of ["keydown", "pointerdown", "pointermove", "touchstart"]) document.addEventListener(sign, () => { touched = Date.now(); }, { passive: true });
  const lease = 1000 * Number(form.dataset.lease);
  setInterval(() => { // whoever has gone does not keep them
    if (Date.now() - touched < lease && tiles.some(isOpen)) postTo("grid/keep", { model: form.dataset.model }).catch(() => {});
  }, Math.min(60_000, Math.max(1_000, lease / 3)));
  mark(tiles.find(isOpen) ?? tiles[0]);
}
