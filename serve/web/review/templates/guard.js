// A press that was meant for another case is not taken, and the page says so. No press is lost without a sign.

const KEY_MILLISECONDS = 250; // a key that was still meant for the last case must not answer this one
const CLICK_MILLISECONDS = 500; // nor the second half of a double click
const CARRIED = "demur not taken"; // from page to page, in this tab

const sign = document.getElementById("missed");
let quietSince = Infinity; // the first picture of this page, or the last press that came too soon
let hiding = null;
let pressedAt = 0; // when it was pressed, by the event itself: a page that was busy hears of it later

for (const type of ["keydown", "click"]) window.addEventListener(type, (event) => { pressedAt = event.timeStamp; }, true);

let page = 0; // which one it is, in this tab
const ready = () => document.body.setAttribute("data-ready", "");

/** A page has come, or a case in the place of another. */
export function begin() {
  const which = ++page;
  quietSince = Infinity;
  if (!document.querySelector("#answer, #desk .dispute")) return ready();
  requestAnimationFrame(() => requestAnimationFrame(() => {
    if (which !== page) return;
    quietSince = performance.now();
    setTimeout(() => { if (which === page) ready(); }, KEY_MILLISECONDS);
  }));
}

export const nameOf = (key) => (key === " " ? "Space" : `“${key}”`);

/** Show that a press did nothing, and why. */
export function missed(text) {
  sign.textContent = text;
  clearTimeout(hiding);
  hiding = setTimeout(taken, 8000);
}

/** A press did something: what was said of the one before is over. */
export function taken() {
  sign.textContent = "";
}

/** What is to be said still when this page has been loaded again. */
export function carry(text) {
  try { sessionStorage.setItem(CARRIED, text); } catch { /* forbidden */ }
}

/** What was said on this page need not be said on another one. */
export function carryNothing() {
  try { sessionStorage.removeItem(CARRIED); } catch { /* forbidden */ }
}

function tooSoon(what, milliseconds) {
  if (pressedAt - quietSince >= milliseconds) return false;
  if (quietSince !== Infinity) quietSince = Math.max(quietSince, pressedAt); // whoever presses on and on looks at nothing
  missed(`${what} was not taken: this case has only just come. Look at it, and try again.`);
  return true;
}

/** Whether a key came so soon that it cannot be meant for this case. It is said if so. */
export const keyTooSoon = (key) => tooSoon(nameOf(key), KEY_MILLISECONDS);

/** Whether a click came so soon that it cannot be meant for this case. It is said if so. */
export const clickTooSoon = () => tooSoon("Your click", CLICK_MILLISECONDS);

/** Whether the case cannot take anything just now, as while an answer is being sent. It is said if so, here and on the next page. */
export function busy(form, what) {
  if (!form?.dataset.busy) return false;
  const text = `${what} was not taken: ${form.dataset.busy}.`;
  missed(text);
  carry(text);
  return true;
}

/** A key that is held down counts once. */
export const heldDown = (key) => missed(`Let go of ${nameOf(key)}: a key that is held down counts once.`);

try {
  const carried = sessionStorage.getItem(CARRIED);
  sessionStorage.removeItem(CARRIED);
  if (carried) missed(carried);
} catch { /* forbidden */ }

window.addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); }); // from the back button: the case may be another's by now
