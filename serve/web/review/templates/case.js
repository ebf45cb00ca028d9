// A case that is being answered. What a person has typed or chosen is kept in this browser and on the server until it
// is known to have arrived.
import { busy, keyTooSoon, missed } from "./guard.js";
import { at, goOn, stillHere } from "./forward.js";
import { correction } from "./reply.js";
import { offer, showChosen, ticks } from "./labels.js";
import { capital, online, post, say } from "./sending.js";

const $ = (id) => document.getElementById(id);
const root = document.body.dataset.root;
const THERE_SECONDS = 120; // since somebody moved or pressed anything: the next case is kept for them

function work(form) {
  const over = new AbortController(); // another case is shown
  const { case: caseId, who, model } = form.dataset;
  const comment = $("comment"), reason = $("reason");
  const buttons = [...form.querySelectorAll("button[name=label]:not(.accept)")];
  const none = form.querySelector("button[name=none]");
  const place = `demur ${who} ${caseId}`;
  const token = Number(form.dataset.token);
  let chosen = null; // of buttons, the label that was pressed
  let sending = false, gone = false, failing = false;

  // ---- what was chosen and typed ----

  const kept = {
    read() { try { return JSON.parse(localStorage.getItem(place)); } catch { return null; } },
    write(draft) { try { localStorage.setItem(place, JSON.stringify({ ...draft, at: Date.now() })); } catch { /* full, or forbidden */ } },
    remove() { try { localStorage.removeItem(place); } catch { /* forbidden */ } },
    tidy() {
      try {
        for (const key of Object.keys(localStorage)) {
          if (key.startsWith("demur ") && Date.now() - JSON.parse(localStorage.getItem(key)).at > 7 * 86400e3) localStorage.removeItem(key);
        }
      } catch { /* not ours */ }
    },
  };

  function labelNow() {
    if (form.dataset.form === "ticks") return ticks.filter((tick) => tick.checked).map((tick) => tick.value);
    if (form.dataset.form === "list") return ticks.find((tick) => tick.checked)?.value ?? null;
    return chosen;
  }

  const draftNow = () => ({ label: labelNow(), reason: reason.value || null, comment: comment.value || null, ...correction.now() });
  const isEmpty = (draft) => !draft || !((draft.label && draft.label.length) || draft.reason || draft.comment || correction.isIn(draft));

  function fill(draft) {
    comment.value = draft.comment ?? "";
    comment.closest("details").open = Boolean(draft.comment);
    reason.value = draft.reason ?? "";
    $("cannot").open = Boolean(draft.reason);
    correction.fill(draft);
    const labels = new Set([draft.label ?? []].flat());
    for (const label of labels) offer({ label });
    for (const tick of ticks) tick.checked = labels.has(tick.value);
    for (const button of buttons) {
      button.classList.toggle("before", labels.has(button.value));
      if (labels.has(button.value)) chosen = button.value;
    }
    const there = [labelNow() ?? []].flat();
    if (isEmpty(draft)) return;
    say(draft.reason ? "What you typed is here; it was not sent yet." : there.length
      ? `You had chosen ${there.join(", ")}; it was not sent yet. Enter sends it.` : "What you typed is here.");
  }

  // ---- answering ----

  function occupy(why) {
    form.dataset.busy = why;
    form.setAttribute("aria-busy", "true");
  }

  async function send(answer) {
    if (sending || gone) return;
    sending = true;
    kept.write(answer);
    occupy("your answer before was still being sent");
    say("Sending …");
    const words = answer.label === null ? "that you cannot tell" : [answer.label].flat().join(", ") || "no label";
    const reply = await goOn({ caseId, token, answer, words, model, done: kept.remove });
    if (!reply || gone) return; // another case is shown, or what became of this one
    sending = false;
    delete form.dataset.busy;
    form.removeAttribute("aria-busy");
    if (reply.status === 409) return lost(reply.message);
    say(`${capital(reply.message)}.`, true);
  }

  const withComment = (answer) => send({ ...answer, comment: comment.value.trim() || null });

  function sendChosen() {
    const label = labelNow();
    if (label === null) return missed(form.dataset.form === "list" ? "Nothing is sent: choose a label first." : "Nothing is sent: press the key of a label.");
    if (label.length === 0) return missed(`Nothing is sent: no label is ticked. Does none hold? Press ${none.dataset.key}, “None of these”.`);
    const objection = correction.against(label);
    if (objection) return missed(objection);
    withComment({ label, reason: null, ...correction.now() });
  }

  function sendNone() {
    const label = labelNow();
    if (label.length) return missed(`Nothing is sent: ${label.join(", ")} ${label.length === 1 ? "is" : "are"} ticked. Untick what does not hold first.`);
    withComment({ label, reason: null });
  }

  function sendReason(why) {
    if (why && correction.isIn(correction.now())) missed("Nothing is sent: the reply was corrected, so it can be told. Undo the changes in the editor first.");
    else if (why) withComment({ label: null, reason: why });
    else missed("Nothing is sent: say why it cannot be told.");
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const button = event.submitter;
    if (busy(form, "That") || keyTooSoon("Enter")) return;
    if (button?.name === "none") return sendNone();
    if (button?.name === "reason") return sendReason(button.value);
    if (button?.name === "cannot") return sendReason(reason.value.trim());
    if (button?.classList.contains("accept")) {
      button.classList.add("sent");
      return withComment({ label: button.value, reason: null });
    }
    if (button?.name === "corrected") {
      if (!correction.isIn(correction.now())) return missed("Nothing is sent: the text is still that of the model. Change it, or say that the reply is right.");
      chosen = "wrong";
      return sendChosen();
    }
    if (button?.name === "label") {
      chosen = button.value;
      button.classList.add("sent");
    }
    sendChosen();
  });

  document.addEventListener("submit", (event) => { // it is let go of: that it is not theirs any more is no loss, and it is not taken again
    if (!event.target.matches("#release, #skip, [data-undo]")) return;
    sending = true;
    occupy(event.target.matches("#release, #skip") ? "this case is being given back" : "the answer before is being taken back");
  }, { signal: over.signal });

  // ---- keeping the case ----

  const lease = Number(form.dataset.lease);
  let leaseEnd = Date.now() + 1000 * Number(form.dataset.left);
  let touched = Date.now(), typing = null;
  const quietFor = (seconds) => Date.now() - touched > 1000 * seconds;
  const idle = () => quietFor(2 * lease); // nobody is there: the case shall go to others
  for (const sign of ["keydown", "pointerdown", "pointermove", "wheel", "touchstart"]) {
    document.addEventListener(sign, () => { touched = Date.now(); }, { passive: true, signal: over.signal });
  }

  let beating = false, unsaved = false;
  async function beat() {
    if (sending || gone || beating || idle()) return;
    beating = true;
    const draft = unsaved ? draftNow() : null;
    unsaved = false;
    try {
      const reply = await post(`${caseId}/heartbeat`, { token, draft });
      if (reply.status === 200) {
        leaseEnd = Date.parse(reply.content.lease_until);
        if (failing) say("Connected again.");
        failing = false;
      } else if (reply.status === 409) {
        if (!sending && !gone) lost(reply.message);
      } else if (reply.status < 500) {
        say(`${capital(reply.message)}.`, true);
      } else {
        throw new Error(reply.message);
      }
    } catch {
      failing = true;
      unsaved ||= draft !== null;
      if (!sending && !gone) say("No connection. What you type is kept here.", true);
    }
    beating = false;
  }

  const every = Math.min(30, Math.max(1, lease / 3));
  (async () => {
    while (!over.signal.aborted) {
      await online(failing ? Math.min(5, every) : every);
      if (over.signal.aborted) return;
      await beat();
      if (!quietFor(THERE_SECONDS)) stillHere();
    }
  })();

  function changed() {
    unsaved = true;
    kept.write(draftNow());
    clearTimeout(typing);
    typing = setTimeout(beat, 1500);
  }
  for (const field of [comment, reason, $("text")].filter(Boolean)) field.addEventListener("input", changed);
  form.addEventListener("change", changed); // after what lies above and below a label has followed it

  const showLease = () => {
    const left = Math.max(0, (leaseEnd - Date.now()) / 1000);
    $("lease").textContent = left < 60 ? `Yours for another ${Math.round(left)} s` : `Yours for another ${Math.round(left / 60)} min`;
  };
  const ticking = setInterval(showLease, 1000);

  async function hasEnded() {
    const reply = await fetch(`${root}/v1/cases/${caseId}`, { signal: AbortSignal.timeout(15000) });
    return reply.ok && ["resolved", "expired", "withdrawn"].includes((await reply.json()).status);
  }

  /** Somebody else may have the case now. What was typed stays, and the case is taken again when it is free. */
  async function lost(message) {
    if (gone) return;
    gone = true;
    const draft = kept.read() ?? draftNow();
    if (!isEmpty(draft)) kept.write(draft);
    occupy("the case was not yours at that time");
    form.dataset.lost = "true";
    const typedText = [[draft.label ?? []].flat().join(", "), draft.reason, draft.comment, draft.text && "the corrected reply"].filter(Boolean).join("; ");
    const panel = $("lost");
    panel.hidden = false;
    const line = (text) => panel.appendChild(Object.assign(document.createElement("p"), { textContent: text }));
    panel.replaceChildren();
    line(`${capital(message)}.`);
    if (typedText) line(`Kept, and not sent: ${typedText}.`);
    const what = line("As soon as it is free it is taken for you again.");
    say("");
    for (let pause = 1; !over.signal.aborted; pause = Math.min(2 * pause, 20)) {
      if (idle()) { what.textContent = "Press any key to go on."; await new Promise((done) => document.addEventListener("keydown", done, { once: true })); }
      try {
        const reply = await post(`${caseId}/claim`);
        if (over.signal.aborted) return;
        if (reply.status === 200) return location.reload();
        if (reply.status === 409 && await hasEnded()) { what.textContent = "It has ended, and waits for nobody any more."; return; }
        if (reply.status !== 409 && reply.status < 500) { what.textContent = `${capital(reply.message)}.`; return; }
      } catch { /* no connection: later */ }
      await online(pause);
    }
  }

  // what is kept here is newer than what the server has, also where it is empty
  fill(kept.read() ?? JSON.parse(form.dataset.draft));
  kept.tidy();
  showChosen();
  at({ form, lost, kept: (seconds) => { leaseEnd = Date.now() + 1000 * seconds; } });

  return () => {
    gone = true;
    over.abort();
    clearInterval(ticking);
    clearTimeout(typing);
  };
}

let end = null;

/** A page has come, or a case in the place of another. */
export function begin() {
  end?.();
  const form = $("answer");
  end = form ? work(form) : null;
}
