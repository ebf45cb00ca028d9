// Keys, heartbeat and sending for the review pages. Without it every form still works.
// What a person has typed or chosen is kept in this browser and on the server until it is known to have arrived.
"use strict";

(() => {
  const root = document.body.dataset.root;
  const form = document.getElementById("answer");
  const $ = (id) => document.getElementById(id);
  const wait = (seconds) => new Promise((done) => setTimeout(done, seconds * 1000));
  document.documentElement.classList.add("with-script");

  // ---- keys ----

  const help = $("help");
  const opened = Date.now();
  const READY_AFTER = 250; // milliseconds: a key that was still meant for the last case must not answer this one
  setTimeout(() => document.body.setAttribute("data-ready", ""), READY_AFTER);

  const writesInto = (element) =>
    element instanceof HTMLTextAreaElement || (element instanceof HTMLInputElement && /^(text|search)$/.test(element.type));
  const isThere = (element) => !element.disabled && element.getClientRects().length > 0;

  function press(element) {
    if (writesInto(element) || element instanceof HTMLSelectElement) {
      const folded = element.closest("details");
      if (folded) folded.open = true;
      element.focus();
    } else if (element.tagName === "SUMMARY") { // at once, so that the next key finds the focus there
      const details = element.parentElement;
      details.open = !details.open;
      (details.open ? details.querySelector("button") : element).focus();
    } else {
      element.click();
    }
  }

  function elementFor(key) {
    const cannot = $("cannot");
    if (cannot && cannot.open) {
      const reason = cannot.querySelector(`[data-reason="${CSS.escape(key)}"]`);
      if (reason) return reason;
    }
    const found = [...document.querySelectorAll(`[data-key="${CSS.escape(key)}"]`)];
    if (found.includes($("comment"))) return $("comment");
    return found.find(isThere);
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const at = document.activeElement;
    if (help && (key === help.dataset.key || (help.open && key === "Escape"))) {
      if (writesInto(at)) return leave(event, at);
      event.preventDefault();
      return help.open ? help.close() : help.showModal();
    }
    if ((help && help.open) || event.repeat) return;
    if (key === "Escape") return leave(event, at);
    if (writesInto(at) || at instanceof HTMLSelectElement) return;
    if (Date.now() - opened < READY_AFTER) return event.preventDefault();
    if (key === "Enter" && (at === document.body || (at && at.name === "label" && at.type !== "submit"))) {
      if (form) { event.preventDefault(); sendChosen(); }
      return;
    }
    const target = elementFor(key);
    if (target) { event.preventDefault(); return press(target); }
    if (at === document.body && $("scrolls")) scrollBy(event, key);
  });

  function leave(event, at) {
    if (event.key !== "Escape") return;
    if (writesInto(at)) { event.preventDefault(); at.blur(); return; }
    const cannot = $("cannot");
    if (cannot && cannot.open) cannot.open = false;
  }

  function scrollBy(event, key) {
    const by = { ArrowDown: 0.1, ArrowUp: -0.1, " ": 0.9, PageDown: 0.9, PageUp: -0.9 }[key];
    if (!by) return;
    event.preventDefault();
    $("scrolls").scrollBy({ top: by * $("scrolls").clientHeight });
  }

  for (const filters of document.querySelectorAll("form[data-at-once]")) {
    filters.addEventListener("change", () => filters.requestSubmit());
  }

  // ---- the last answer, while it can be taken back ----

  for (const undo of document.querySelectorAll("form[data-undo]")) {
    const until = Date.now() + 1000 * Number(undo.dataset.undo);
    const count = () => {
      const left = Math.ceil((until - Date.now()) / 1000);
      if (left <= 0) return undo.remove();
      undo.querySelector(".countdown").textContent = `${left} s`;
      setTimeout(count, 200);
    };
    count();
  }

  // ---- pictures ----

  const picture = $("picture");
  if (picture) {
    const zoom = $("zoom");
    const lookAt = () => {
      const few = Math.max(picture.naturalWidth, picture.naturalHeight) <= 256;
      picture.classList.add(few ? "few" : "many");
      zoom.hidden = false;
    };
    const enlarge = () => zoom.setAttribute("aria-pressed", String(document.querySelector(".case").classList.toggle("large")));
    picture.complete ? lookAt() : picture.addEventListener("load", lookAt);
    zoom.addEventListener("click", enlarge);
    picture.addEventListener("click", enlarge);
  }

  if (!form) return;

  // ---- what was chosen and typed ----

  const { case: caseId, who, model } = form.dataset;
  const comment = $("comment"), reason = $("reason"), status = $("status");
  const ticks = [...form.querySelectorAll("input[name=label]")];
  const place = `demur ${who} ${caseId}`;
  let token = Number(form.dataset.token);
  let chosen = null; // of buttons, the label that was pressed
  let sending = false, gone = false, failing = false;

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

  function say(text, trouble = false) {
    if (status.textContent !== text) status.textContent = text;
    status.classList.toggle("trouble", trouble);
  }

  function labelNow() {
    if (form.dataset.form === "ticks") return ticks.filter((tick) => tick.checked).map((tick) => tick.value);
    if (form.dataset.form === "list") return ticks.find((tick) => tick.checked)?.value ?? null;
    return chosen;
  }

  const draftNow = () => ({ label: labelNow(), reason: reason.value || null, comment: comment.value || null });
  const isEmpty = (draft) => !draft || !((draft.label && draft.label.length) || draft.reason || draft.comment);

  function fill(draft) {
    if (draft.comment) { comment.value = draft.comment; comment.closest("details").open = true; }
    if (draft.reason) { reason.value = draft.reason; $("cannot").open = true; }
    const labels = new Set([draft.label ?? []].flat());
    for (const tick of ticks) tick.checked = labels.has(tick.value);
    if (form.dataset.form === "buttons" && labels.size) {
      chosen = draft.label;
      for (const button of form.elements.label.length ? form.elements.label : [form.elements.label]) button.classList.toggle("before", button.value === chosen);
    }
    say(draft.reason ? "What you typed is here; it was not sent yet." : labels.size
      ? `You had chosen ${[...labels].join(", ")}; it was not sent yet. Enter sends it.` : "What you typed is here.");
  }

  // ---- talking to the server ----

  async function post(path, body) {
    const reply = await fetch(`${root}/v1/cases/${path}`, {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body ?? {}), signal: AbortSignal.timeout(15000),
    });
    const content = reply.status === 204 ? null : await reply.json().catch(() => null);
    return { status: reply.status, content, message: content?.error?.message ?? `the service answered ${reply.status}` };
  }

  const online = (seconds) => Promise.race([wait(seconds), new Promise((done) => window.addEventListener("online", done, { once: true }))]);

  /** Ask until there is an answer that is one. */
  async function insist(path, body, trouble) {
    for (let pause = 1; ; pause = Math.min(2 * pause, 15)) {
      try {
        const reply = await post(path, body);
        if (reply.status < 500 && reply.status !== 429) return reply;
        say(`${trouble} The service answers ${reply.status}: trying again.`, true);
      } catch {
        say(`${trouble} No connection: trying again.`, true);
      }
      await online(pause);
    }
  }

  async function send(answer) {
    if (sending || gone) return;
    sending = true;
    kept.write(answer);
    form.setAttribute("aria-busy", "true");
    say("Sending …");
    const reply = await insist(`${caseId}/answer`, { token, ...answer }, "Not sent yet.");
    if (reply.status === 200) {
      gone = true;
      kept.remove();
      return next();
    }
    sending = false;
    form.removeAttribute("aria-busy");
    if (reply.status === 409) return lost(reply.message);
    say(capital(reply.message), true);
  }

  async function next() {
    say("Sent. The next case is coming …");
    const reply = await insist("next", model ? { model } : {}, "Sent.");
    const query = new URLSearchParams({ after: caseId, ...(model && { model }) });
    location.assign(reply.status === 200 ? `${root}/cases/${reply.content.case_id}?${query}` : `${root}/?${query}&nothing=true`);
  }

  function sendChosen() {
    const label = labelNow();
    if (label === null) return say(form.dataset.form === "list" ? "Choose a label first." : "Press the key of a label.");
    send({ label, reason: null, comment: comment.value.trim() || null });
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const button = event.submitter;
    if (button?.name === "label" && !sending) {
      chosen = button.value;
      button.classList.add("sent");
    }
    sendChosen();
  });
  for (const one of document.querySelectorAll("#cannot form")) {
    one.addEventListener("submit", (event) => {
      event.preventDefault();
      const why = event.submitter?.name === "reason" ? event.submitter.value : reason.value.trim();
      if (why) send({ label: null, reason: why, comment: comment.value.trim() || null });
    });
  }

  // ---- keeping the case ----

  const lease = Number(form.dataset.lease);
  let leaseEnd = Date.now() + 1000 * Number(form.dataset.left);
  let touched = Date.now(), typed = null;
  const idle = () => Date.now() - touched > 2000 * lease; // nobody is there: the case shall go to others
  for (const sign of ["keydown", "pointerdown", "pointermove", "wheel", "touchstart"]) {
    document.addEventListener(sign, () => { touched = Date.now(); }, { passive: true });
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
  (async () => { for (;;) { await online(failing ? Math.min(5, every) : every); await beat(); } })();

  function changed() {
    unsaved = true;
    kept.write(draftNow());
    clearTimeout(typed);
    typed = setTimeout(beat, 1500);
  }
  for (const field of [comment, reason, ...ticks]) field.addEventListener("input", changed);

  const showLease = () => {
    const left = Math.max(0, (leaseEnd - Date.now()) / 1000);
    $("lease").textContent = left < 60 ? `Yours for another ${Math.round(left)} s` : `Yours for another ${Math.round(left / 60)} min`;
  };
  setInterval(showLease, 1000);

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
    form.setAttribute("aria-busy", "true");
    const typedText = [[draft.label ?? []].flat().join(", "), draft.reason, draft.comment].filter(Boolean).join("; ");
    const panel = $("lost");
    panel.hidden = false;
    const line = (text) => panel.appendChild(Object.assign(document.createElement("p"), { textContent: text }));
    panel.replaceChildren();
    line(`${capital(message)}.`);
    if (typedText) line(`Kept, and not sent: ${typedText}.`);
    const what = line("As soon as it is free it is taken for you again.");
    say("");
    for (let pause = 1; ; pause = Math.min(2 * pause, 20)) {
      if (idle()) { what.textContent = "Press any key to go on."; await new Promise((done) => document.addEventListener("keydown", done, { once: true })); }
      try {
        const reply = await post(`${caseId}/claim`);
        if (reply.status === 200) return location.reload();
        if (reply.status === 409 && await hasEnded()) { what.textContent = "It has ended, and waits for nobody any more."; return; }
        if (reply.status !== 409 && reply.status < 500) { what.textContent = `${capital(reply.message)}.`; return; }
      } catch { /* no connection: later */ }
      await online(pause);
    }
  }

  const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

  // ---- many labels, and labels above labels ----

  const above = new Map(ticks.map((tick) => [tick.value, JSON.parse(tick.dataset.above ?? "[]")]));
  const byLabel = new Map(ticks.map((tick) => [tick.value, tick]));
  const below = new Map();
  for (const [label, parents] of above) for (const parent of parents) below.set(parent, [...(below.get(parent) ?? []), label]);

  function spread(label, links, checked) {
    for (const one of links.get(label) ?? []) {
      const tick = byLabel.get(one);
      if (tick && tick.checked !== checked) { tick.checked = checked; spread(one, links, checked); }
    }
  }

  function tally() {
    if (!$("chosen")) return;
    const n = ticks.filter((tick) => tick.checked).length;
    $("chosen").textContent = form.dataset.form === "ticks" ? `${n} ticked` : "";
  }

  for (const tick of ticks) {
    tick.addEventListener("change", () => {
      spread(tick.value, tick.checked ? above : below, tick.checked);
      tally();
    });
  }

  const find = $("find");
  if (find) {
    find.closest(".search").hidden = false;
    if (find.autofocus) find.focus();
    const items = ticks.map((tick) => ({ tick, item: tick.closest("li"), text: tick.value.toLowerCase() }));
    const visible = () => items.filter(({ item }) => !item.hidden).map(({ tick }) => tick);
    find.addEventListener("input", () => {
      const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
      let first = true;
      for (const { item, text } of items) {
        item.hidden = !words.every((word) => text.includes(word));
        item.classList.toggle("first", words.length > 0 && first && !item.hidden);
        if (!item.hidden) first = false;
      }
      say(words.length ? `${visible().length} labels` : "");
    });
    find.addEventListener("keydown", (event) => {
      const [first] = visible();
      if (event.key === "ArrowDown" && first) { event.preventDefault(); first.focus(); }
      if (event.key !== "Enter") return;
      event.preventDefault();
      if (!find.value.trim()) return sendChosen();
      if (!first) return say("No label is like that.");
      if (form.dataset.form === "list") { first.checked = true; changed(); return sendChosen(); }
      first.click();
      changed();
      find.value = "";
      find.dispatchEvent(new Event("input"));
    });
    $("choices").addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      const all = visible(), to = all.indexOf(document.activeElement) + step;
      if (to < 0) return find.focus();
      all[Math.min(to, all.length - 1)].focus();
      if (form.dataset.form === "list") { document.activeElement.checked = true; changed(); }
    });
  }

  const before = kept.read();
  if (!isEmpty(before)) fill(before);
  else { const draft = JSON.parse(form.dataset.draft); if (!isEmpty(draft)) fill(draft); }
  kept.tidy();
  tally();
})();
