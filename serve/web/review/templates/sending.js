// Talking to the server, and what the page says of it.

const status = document.getElementById("status");
const root = document.body.dataset.root;

const wait = (seconds) => new Promise((done) => setTimeout(done, seconds * 1000));

export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

export function say(text, trouble = false) {
  if (status.textContent !== text) status.textContent = text;
  status.classList.toggle("trouble", trouble);
}

export async function post(path, body) {
  const reply = await fetch(`${root}/v1/cases/${path}`, {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body ?? {}), signal: AbortSignal.timeout(15000),
  });
  const content = reply.status === 204 ? null : await reply.json().catch(() => null);
  return { status: reply.status, content, message: content?.error?.message ?? `the service answered ${reply.status}` };
}

/** So many seconds, or until there is a connection again. */
export const online = (seconds) => Promise.race([wait(seconds), new Promise((done) => window.addEventListener("online", done, { once: true }))]);

/** Ask until there is an answer that is one. */
export async function insist(path, body, trouble) {
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
