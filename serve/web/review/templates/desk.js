// The desk of those who decide: one case is the current one, and keys mean it. A decision is sent behind, and the case
// keeps its place, so that nothing moves under the pointer.
import { begin as beginGuard, clickTooSoon, missed, taken } from "./guard.js";
import { capital, failing, insist } from "./sending.js";

const $ = (id) => document.getElementById(id);
let current = null;

const open = () => [...document.querySelectorAll("#desk .dispute:not(.decided, .sent)")];

function mark(row, scroll) {
  for (const button of document.querySelectorAll("#desk [data-desk-key]")) button.removeAttribute("data-key");
  current?.classList.remove("current");
  current?.removeAttribute("aria-current");
  current = row;
  if (!row) return;
  row.classList.add("current");
  row.setAttribute("aria-current", "true");
  for (const button of row.querySelectorAll("[data-desk-key]")) button.dataset.key = button.dataset.deskKey;
  if (scroll) row.scrollIntoView({ block: "nearest" });
}

/** The case after this one; behind the last, the first that is left. */
function goOn(from, scroll) {
  const all = [...document.querySelectorAll("#desk .dispute")], left = open().filter((row) => row !== from);
  const next = left.find((row) => all.indexOf(row) > all.indexOf(from)) ?? left[0] ?? (open().includes(from) ? from : null);
  mark(next, scroll);
  beginGuard(); // another case is before them: keys that were meant for the one before are not for it
  if (!next) $("desk-end").hidden = false;
}

async function decide(row, side, countDown, scroll) {
  row.classList.add("sent");
  row.style.minHeight = `${row.getBoundingClientRect().height}px`;
  row.setAttribute("aria-busy", "true");
  side.classList.add("sent");
  const inside = row.contains(document.activeElement), trouble = row.querySelector(".trouble");
  trouble.textContent = "Sending …";
  goOn(row, scroll);
  if (inside) current?.focus({ preventScroll: true });
  const body = { token: Number(row.dataset.token), side: Number(side.value) };
  const reply = await insist(`in-place/${row.dataset.case}/decide`, body, "A decision is not sent yet.", (text) => { trouble.textContent = text; });
  row.removeAttribute("aria-busy");
  if (reply.status !== 200) {
    trouble.textContent = `Your decision was not taken: ${reply.message}. Load the page again to see how it stands.`;
    for (const button of row.querySelectorAll(".sides button")) button.disabled = true;
    missed(`${capital(reply.message)}.`);
    return;
  }
  const aside = new DOMParser().parseFromString(reply.content.last, "text/html").querySelector("aside");
  aside?.removeAttribute("aria-label"); // there may be several
  for (const before of document.querySelectorAll("#desk .decided [data-key]")) before.removeAttribute("data-key"); // the latest is taken back by its key
  row.classList.add("decided");
  row.replaceChildren(...(aside ? [aside] : []));
  row.removeAttribute("aria-labelledby");
  row.setAttribute("aria-label", "Decided");
  countDown();
}

window.addEventListener("beforeunload", (event) => { if (failing && document.querySelector("#desk [aria-busy]")) event.preventDefault(); });

/** A page has come. */
export function begin(countDown) {
  const desk = $("desk");
  if (!desk) return;
  const named = location.hash.startsWith("#case-") ? $(location.hash.slice(1)) : null;
  let pointer = false; // whether the last click came from one, and not from a key
  mark(named ?? open()[0] ?? null, Boolean(named));
  desk.addEventListener("submit", (event) => {
    const row = event.target.closest(".dispute");
    if (!event.target.matches(".sides") || !event.submitter) return;
    event.preventDefault();
    if (row.matches(".sent")) return;
    taken();
    decide(row, event.submitter, countDown, row === current && !pointer);
  });
  desk.addEventListener("click", (event) => {
    if (event.target.closest("[data-later]")) goOn(event.target.closest(".dispute"), true);
  });
  desk.addEventListener("click", (event) => {
    pointer = event.detail > 0;
    if (pointer && event.target.closest(".sides button") && clickTooSoon()) { event.preventDefault(); event.stopPropagation(); }
  }, true);
  desk.addEventListener("focusin", (event) => {
    const row = event.target.closest(".dispute:not(.decided, .sent)");
    if (row && row !== current) mark(row, false);
  });
}
