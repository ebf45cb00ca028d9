// Which press does what.
import { busy, clickTooSoon, heldDown, keyTooSoon, missed, nameOf, taken } from "./guard.js";

const $ = (id) => document.getElementById(id);
let form, help, find, cannot, scrolls; // of the case that is shown

/** A page has come, or a case in the place of another. */
export function begin() {
  [form, help, find, cannot, scrolls] = ["answer", "help", "find", "cannot", "scrolls"].map($);
  help?.addEventListener("close", () => { $("help-missed").textContent = ""; });
  form?.addEventListener("input", (event) => { // the next case does not have it; of a lost one it is kept
    if (writesInto(event.target) && !form.dataset.lost) busy(form, "What you typed");
  });
}

const writesInto = (element) => element instanceof HTMLTextAreaElement || element instanceof HTMLSelectElement
  || (element instanceof HTMLInputElement && /^(text|search|password)$/.test(element.type));
const actsByItself = (element) => element?.matches("a, button, summary, input:not([name=label], #pixels, #raw)");
const isNowhere = (element) => element === document.body || element === $("question"); // nothing has the focus, or the title of a case that just came
const isThere = (element) => !element.disabled && element.getClientRects().length > 0;
const opensOnly = (element) => element.matches("summary, textarea, #pixels, #raw, #zoom");
const isLabel = (element) => element.name === "label" || element.name === "none";

const reasonFor = (key) => (cannot?.open && cannot.querySelector(`[data-reason="${CSS.escape(key)}"]`)) || undefined;

function elementFor(key) {
  const reason = reasonFor(key);
  if (reason) return reason;
  const found = [...document.querySelectorAll(`[data-key="${CSS.escape(key)}"]`)];
  return found.includes($("comment")) ? $("comment") : found.find(isThere);
}

function activate(element) {
  if (writesInto(element)) {
    const folded = element.closest("details");
    if (folded) folded.open = true;
    element.focus();
  } else if (element.tagName === "SUMMARY") { // at once, so that the next key finds the focus there
    const details = element.parentElement;
    details.open = !details.open;
    ((details.open && details.querySelector("[data-first], button")) || element).focus();
  } else {
    element.click();
  }
}

/** Whether a press, or what is typed for a command, is one of this page. */
export const isCommand = (key) => key === help?.dataset.key || elementFor(key) !== undefined;

/** Do what a press stands for, or say why nothing happens. */
export function press(key) {
  if (help && key === help.dataset.key) return help.showModal();
  const element = elementFor(key);
  if (!element) return help && missed(`${nameOf(key)} does nothing here; “${help.dataset.key}” lists all keys.`);
  if (!opensOnly(element)) {
    const leaves = element.tagName === "A";
    if (!(leaves && form?.dataset.lost) && busy(form, nameOf(key))) return;
    if (element.closest("#answer, #release, #desk .sides") && keyTooSoon(key)) return;
    if (cannot?.open && isLabel(element)) return missed(`${nameOf(key)} was not taken: “Cannot tell” is open. Esc closes it.`);
  }
  taken();
  activate(element);
}

/** Send what is chosen, as Enter does. */
export function enter() {
  if (!form || busy(form, nameOf("Enter")) || keyTooSoon("Enter")) return;
  taken();
  form.requestSubmit();
}

/** Let the key that is just pressed be typed there. */
function goToSearch() {
  if (cannot) cannot.open = false;
  find.focus();
  find.setSelectionRange(find.value.length, find.value.length);
}

function leave(at) {
  if (at === find && find.value) {
    find.value = "";
    find.dispatchEvent(new Event("input"));
  } else if (writesInto(at)) {
    at.blur();
    if (find && at !== find) find.focus();
  } else if (cannot?.open) {
    cannot.open = false;
  }
}

function scrollBy(key) {
  const by = { ArrowDown: 0.1, ArrowUp: -0.1, " ": 0.9, PageDown: 0.9, PageUp: -0.9 }[key];
  if (by) scrolls.scrollBy({ top: by * scrolls.clientHeight });
  return Boolean(by);
}

function inHelp(event, key) {
  if (key === help.dataset.key.at(-1) || key === "Escape") { event.preventDefault(); help.close(); }
  else if (key.length === 1 && key !== " ") $("help-missed").textContent = `${nameOf(key)} was not taken: close this list first, with Esc.`;
}

document.addEventListener("keydown", (event) => {
  const typesSpecial = event.getModifierState("AltGraph");
  if (event.isComposing || event.metaKey || ((event.ctrlKey || event.altKey) && !typesSpecial)) return;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const at = document.activeElement;
  if (help?.open) return inHelp(event, key);
  if (key === "Escape") { event.preventDefault(); return leave(at); }
  if (event.repeat && !writesInto(at) && (key === "Enter" || (key === " " && actsByItself(at)) || (key.length === 1 && elementFor(key)))) {
    event.preventDefault();
    return heldDown(key);
  }
  if (key === "Enter" && at === $("reason")) { event.preventDefault(); return event.repeat ? heldDown(key) : $("send-reason").click(); }
  if (scrolls && (isNowhere(at) || (at === find && !find.value && !key.startsWith("Arrow"))) && scrollBy(key)) return event.preventDefault();
  if (writesInto(at)) return;
  if (key === "Enter") {
    if (form && !actsByItself(at)) { event.preventDefault(); enter(); }
    return;
  }
  if (key.length > 1 || key === " ") return;
  if (find && !reasonFor(key)) return goToSearch();
  if (isCommand(key)) event.preventDefault();
  press(key);
});

document.addEventListener("click", (event) => {
  const byKey = event.detail === 0;
  if (!form || byKey || !event.target.closest("#answer :is(button, input, .choices label), #release button, [data-undo] button")) return;
  if (busy(form, "Your click") || (!event.target.closest("[data-undo]") && clickTooSoon())) { event.preventDefault(); event.stopPropagation(); }
  else taken();
}, true);

/** What was pressed before this page could act on it. */
export function takeEarly() {
  document.removeEventListener("keydown", window.demurEarly.note, true);
  for (const key of window.demurEarly.keys) {
    if (find && key.length === 1) {
      find.value += key;
      find.dispatchEvent(new Event("input"));
    } else if (form) {
      keyTooSoon(key);
    } else if (key.length === 1) {
      press(key.toLowerCase());
    }
  }
}
