// Talking to the server, and what the page says of it.

const root = document.body.dataset.root;

const wait = (seconds) => new Promise((done) => setTimeout(done, seconds * 1000));

export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

export function say(text, trouble = false) {
  const status = document.getElementById("status"); // of the case that is shown
  if (!status) return;
  if (status.textContent !== text) status.textContent = text;
  status.classList.toggle("trouble", trouble);
}

const AFTER_LEAVING = 60_000; // characters of a body that a browser still sends when the page is left

export async function postTo(path, value) {
  const body = JSON.stringify(value ?? {});
  const reply = await fetch(`${root}/v1/${path}`, {
    method: "POST", headers: { "Content-Type": "application/json" }, body, keepalive: body.length < AFTER_LEAVING, signal: AbortSignal.timeout(15000),
  });
  const content = reply.status === 204 ? null : await reply.json().catch((error) => {
    if (reply.ok) throw error; // it was cut off: as without a connection, nobody knows
    return null;
  });
  return { status: reply.status, content, message: content?.error?.message ?? `the service answered ${reply.status}` };
}

export const post = (path, body) => postTo(`cases/${path}`, body);

/** So many seconds, or until there is a connection again. */
export const online = (seconds) => Promise.race([wait(seconds), new Promise((done) => window.addEventListener("online", done, { once: true }))]);

/** Whether something that is insisted on does not get through. */
export let failing = false;

/** Ask until there is an answer that is one. `tell` is told what is in the way. */
export async function insist(path, body, trouble, tell = (text) => say(text, true)) {
  for (let pause = 1; ; pause = Math.min(2 * pause, 15)) {
    try {
      const reply = await postTo(path, body);
      failing = reply.status >= 500 || reply.status === 429;
      if (!failing) return reply;
      tell(`${trouble} The service answers ${reply.status}: trying again.`);
    } catch {
      failing = true;
      tell(`${trouble} No connection: trying again.`);
    }
    await online(pause);
  }
}
