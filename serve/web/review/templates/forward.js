// From one case to the next within the page. The case that comes next is here before it is wanted, so it is shown at once;
// the answer to the one before is sent behind it, and the reply to that brings the one after.
import { carry, carryNothing } from "./guard.js";
import { failing, insist, postTo, say } from "./sending.js";

const $ = (id) => document.getElementById(id);
const root = document.body.dataset.root;
const AGAIN_SECONDS = 30; // so long before its time is up, a case that was sent ahead is asked for anew
const TAKING_BACK = "the answer before is being taken back";

let begin = () => {}, beginLast = () => {}; // what has to be done for a page that has come, and for what it says of the answer before
let current = null; // the case that is shown: { form, lost, kept }
let ahead = null; // { case_id, token, until, page }
let asking = null; // while one is asked for
let unsent = null; // the answer that is on its way, with the case after it shown already
let arriving = false; // an answer is on its way, and the case after it comes with the reply
let leaving = false;

export const onShow = (page, last) => { begin = page; beginLast = last; };

/** The case that is shown from now on, or null. `lost` is called where its claim does not hold, `kept` with its new end. */
export function at(shown) {
  current = shown;
  if (shown && !ahead && !unsent) setTimeout(ask, 300); // when the page has settled
}

const wanted = () => current && Number(current.form.dataset.ahead) > 0 && !arriving && !leaving;
const isHere = () => ahead && ahead.until > Date.now();

function take(sent) {
  ahead = sent?.html ? { ...sent, until: Date.now() + 1000 * (sent.seconds - 2), page: new DOMParser().parseFromString(sent.html, "text/html") }
    : sent && ahead ? { ...ahead, until: Date.now() + 1000 * (sent.seconds - 2) } : null;
}

async function ask(renews = false) {
  if (!wanted() || unsent || asking || (ahead && !renews)) return;
  const model = current.form.dataset.model, have = ahead && { case_id: ahead.case_id, token: ahead.token };
  asking = postTo("in-place/ahead", { model: model || null, have });
  try {
    const reply = await asking;
    if (reply.status === 200 && !unsent && !arriving) take(reply.content.ahead);
  } catch { /* no connection: then it comes with the answer */ }
  asking = null;
}

/** Somebody is at this page: what was sent ahead is kept for them. */
export function stillHere() {
  if (!ahead || ahead.until - Date.now() < 1000 * AGAIN_SECONDS) ask(true);
}

function show(page, address) {
  const missed = $("missed"), main = document.querySelector("main"), help = page.getElementById("help");
  const inside = main.contains(document.activeElement);
  page.getElementById("missed")?.remove();
  document.body.removeAttribute("data-ready");
  history.pushState({}, "", address);
  main.replaceChildren(missed, ...page.querySelector("main").childNodes);
  const links = [...page.querySelectorAll("header a[data-key]")]; // their keys may be others here
  for (const [place, link] of [...document.querySelectorAll("header a[data-key]")].entries()) if (links[place]) link.replaceWith(links[place]);
  $("help")?.remove();
  if (help) document.body.append(help);
  document.title = page.title;
  scrollTo(0, 0);
  carryNothing();
  begin();
  if (inside && document.activeElement === document.body) $("question").focus({ preventScroll: true });
}

function addressOf(caseId, after, model) {
  return `${root}/cases/${caseId}?${new URLSearchParams({ after, ...(model && { model }) })}`;
}

/** What stands above a case until the answer before it has arrived. */
function onItsWay(words, key) {
  const aside = Object.assign(document.createElement("aside"), { className: "last" }), text = document.createElement("p");
  aside.setAttribute("aria-label", "Your last answer");
  const said = Object.assign(document.createElement("strong"), { textContent: words });
  text.append("You said ", said, ". It is on its way.");
  const undo = Object.assign(document.createElement("button"), { type: "button" });
  undo.dataset.key = key;
  undo.append("Undo ", Object.assign(document.createElement("kbd"), { textContent: key }));
  undo.firstElementChild.setAttribute("aria-hidden", "true");
  undo.addEventListener("click", () => {
    aside.dataset.undo = "wanted";
    undo.disabled = true;
    current.form.dataset.busy = TAKING_BACK;
    text.replaceChildren("You said ", said, ". It is taken back as soon as it has arrived.");
  });
  aside.append(text, undo);
  return aside;
}

/** The answer before stands: keys count again for the case that is shown. */
function stands() {
  if (current?.form.dataset.busy === TAKING_BACK) delete current.form.dataset.busy;
}

function told(aside, html) {
  const fresh = new DOMParser().parseFromString(html, "text/html").querySelector("aside");
  if (!fresh?.querySelector("form[data-undo]")) stands();
  if (!aside.isConnected) return;
  if (!fresh) return aside.remove();
  aside.replaceWith(fresh);
  beginLast();
  const undo = fresh.querySelector("form[data-undo]");
  if (aside.dataset.undo === "wanted" && undo) undo.requestSubmit();
}

function refused(aside, from, message) {
  stands();
  const back = Object.assign(document.createElement("a"), { href: `${root}/cases/${from}`, textContent: "Back to that case" });
  const text = document.createElement("p");
  text.append(`Your answer to the case before was not taken: ${message}. It is kept there. `, back);
  text.setAttribute("role", "alert");
  aside.classList.add("refused");
  aside.replaceChildren(text);
}

/** Send an answer, and show the next case: at once if it is here. Returns what kept it from being taken, if anything. */
export async function goOn({ caseId, token, answer, words, model, done }) {
  if (unsent) await unsent;
  if (asking && !isHere()) await asking.catch(() => {});
  const body = { token, ...answer, model: model || null };
  if (!isHere()) {
    arriving = true;
    return arrive(body, { caseId, model, done }).finally(() => { arriving = false; });
  }
  const next = ahead, undoKey = next.page.getElementById("answer")?.dataset.undoKey ?? "u";
  ahead = null;
  const aside = onItsWay(words, undoKey);
  next.page.querySelector("main").prepend(aside);
  show(next.page, addressOf(next.case_id, caseId, model));
  const shown = current;
  unsent = insist(`in-place/${caseId}/answer`, { ...body, opened: { case_id: next.case_id, token: next.token } }, "Your answer before is not sent yet.")
    .then(async (reply) => {
      if (reply.status !== 200) {
        refused(aside, caseId, reply.message);
        const beat = await postTo(`cases/${next.case_id}/heartbeat`, { token: next.token }).catch(() => null);
        if (beat?.status === 409) {
          carry(`Your answer to the case before was not taken: ${reply.message}. It is kept there.`); // this page is loaded again
          shown?.lost(beat.message);
        }
        return;
      }
      done();
      say("");
      take(reply.content.ahead);
      told(aside, reply.content.last);
      if (reply.content.opened.lost) shown?.lost(reply.content.opened.lost);
      else shown?.kept(reply.content.opened.seconds);
    })
    .finally(() => { unsent = null; if (!ahead) setTimeout(ask, 300); });
  return null;
}

/** Without a case at hand: the answer first, then the case that its reply brings. */
async function arrive(body, { caseId, model, done }) {
  const reply = await insist(`in-place/${caseId}/answer`, body, "Not sent yet.");
  if (reply.status !== 200) return reply;
  done();
  const { next, last, ahead: after } = reply.content;
  if (!next) {
    leaving = true;
    location.assign(`${root}/?${new URLSearchParams({ after: caseId, ...(model && { model }), nothing: "true" })}`);
    return null;
  }
  const page = new DOMParser().parseFromString(next.html, "text/html");
  const aside = new DOMParser().parseFromString(last, "text/html").querySelector("aside");
  if (aside) page.querySelector("main").prepend(aside);
  take(after);
  show(page, addressOf(next.case_id, caseId, model));
  return null;
}

window.addEventListener("pagehide", () => {
  leaving = true;
  if (ahead) postTo(`in-place/${ahead.case_id}/leave`, {}).catch(() => {});
  ahead = null;
});
window.addEventListener("beforeunload", (event) => { if (unsent && failing) event.preventDefault(); });
window.addEventListener("popstate", () => location.reload()); // the case may be another's by now
