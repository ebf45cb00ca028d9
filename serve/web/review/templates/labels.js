// Many labels: found by typing, those that are chosen in sight above the list, and labels above labels.
import { enter, isCommand, press } from "./keys.js";
import { heldDown, keyTooSoon, missed, taken } from "./guard.js";

const $ = (id) => document.getElementById(id);
const form = $("answer"), find = $("find"), how = $("how"), ticked = $("ticked"), tally = $("chosen");
export const ticks = form ? [...form.querySelectorAll("input[name=label]")] : [];
const one = form?.dataset.form === "list";
const BOUNCE_MILLISECONDS = 250;
const labels = (n) => `${n} ${n === 1 ? "label" : "labels"}`;

// ---- labels above labels ----

const above = new Map(ticks.map((tick) => [tick.value, JSON.parse(tick.dataset.above ?? "[]")]));
const byLabel = new Map(ticks.map((tick) => [tick.value, tick]));
const below = new Map();
for (const [label, parents] of above) for (const parent of parents) below.set(parent, [...(below.get(parent) ?? []), label]);

function spread(label, links, checked) {
  for (const next of links.get(label) ?? []) {
    const tick = byLabel.get(next);
    if (tick && tick.checked !== checked) { tick.checked = checked; spread(next, links, checked); }
  }
}

for (const tick of ticks) {
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
    const button = Object.assign(document.createElement("button"), { type: "button", className: "chip", textContent: tick.value });
    button.setAttribute("aria-label", `Remove ${tick.value}`);
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
  tell(`${tick.value} is removed.`);
  (ticked.querySelectorAll("button")[place] ?? find).focus();
}

// ---- found by typing ----

const items = ticks.map((tick) => ({ tick, item: tick.closest("li"), text: tick.value.toLowerCase() }));
const visible = () => items.filter(({ item }) => !item.hidden);
let tickedAt = -Infinity;

/** Of the labels that are found the one that Enter takes: that which is called so, else one that begins so, else the first. */
function best(query) {
  const found = visible();
  return found.find(({ text }) => text === query) ?? found.find(({ text }) => text.startsWith(query)) ?? found[0];
}

const hint = how ? [...how.childNodes] : [];
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
  const words = query.split(/\s+/).filter(Boolean);
  for (const { item, text: label } of items) item.hidden = !words.every((word) => label.includes(word));
  const marked = words.length ? best(query) : undefined;
  for (const found of items) found.item.classList.toggle("first", found === marked);
  marked?.item.scrollIntoView({ block: "nearest" });
  tell(text === prefix ? commands(prefix) : !words.length ? "" : marked
    ? `${labels(visible().length)}; Enter ${one ? "sends" : "ticks"} ${marked.tick.value}.` : "No label is like that.");
}

function take() {
  if (!find.value.trim()) {
    if (performance.now() - tickedAt < BOUNCE_MILLISECONDS) return missed("“Enter” was not taken: it had only just ticked a label. Press it again to send.");
    return enter();
  }
  const found = best(typed());
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
  tell(already ? `${tick.value} was ticked already.` : `${tick.value} is ticked.`);
}

if (find) {
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
