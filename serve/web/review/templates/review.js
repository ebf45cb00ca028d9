// The scripts of the review pages. Without them every form still works.
import { begin as beginCase } from "./case.js";
import { begin as beginDesk } from "./desk.js";
import { onShow } from "./forward.js";
import { begin as beginGuard } from "./guard.js";
import { begin as beginKeys, takeEarly } from "./keys.js";
import { begin as beginLabels } from "./labels.js";

for (const filters of document.querySelectorAll("form[data-at-once]")) {
  filters.addEventListener("change", () => filters.requestSubmit());
}

// ---- the last answer, while it can be taken back ----

function countDown() {
  for (const undo of document.querySelectorAll("form[data-undo]")) {
    const until = Date.now() + 1000 * Number(undo.dataset.undo);
    const count = () => {
      const left = Math.ceil((until - Date.now()) / 1000);
      if (left <= 0) return undo.remove();
      undo.querySelector(".countdown").textContent = `${left} s`;
      if (undo.isConnected) setTimeout(count, 200);
    };
    count();
  }
}

// ---- pictures that have more to show than fits ----

function enlargeable() {
  const picture = document.getElementById("picture"), zoom = document.getElementById("zoom");
  if (!zoom) return;
  const enlarge = () => zoom.setAttribute("aria-pressed", String(document.querySelector(".case").classList.toggle("large")));
  const lookAt = () => {
    if (Math.max(picture.naturalWidth, picture.naturalHeight) <= 256) return;
    picture.classList.add("many");
    zoom.hidden = false;
    picture.addEventListener("click", enlarge);
  };
  picture.complete ? lookAt() : picture.addEventListener("load", lookAt);
  zoom.addEventListener("click", enlarge);
}

// ---- cases that are like this one, when somebody asks for them ----

function findSimilar() {
  const details = document.querySelector("details[data-similar]");
  details?.addEventListener("toggle", async () => {
    if (!details.open || details.dataset.asked) return;
    details.dataset.asked = "true";
    const place = details.querySelector("p"), kept = [...place.childNodes];
    place.replaceChildren("Looking …");
    try {
      const reply = await fetch(details.dataset.similar, { signal: AbortSignal.timeout(15000) });
      const found = new DOMParser().parseFromString(await reply.text(), "text/html").getElementById("similar-cases");
      if (!reply.ok || !found) throw new Error(reply.status);
      place.replaceWith(found);
    } catch {
      place.replaceChildren(...kept);
      delete details.dataset.asked;
    }
  });
}

// ---- a page, or a case in the place of another ----

function begin() {
  beginGuard();
  beginKeys();
  beginLabels();
  beginCase();
  beginDesk(countDown);
  countDown();
  enlargeable();
  findSimilar();
}

onShow(begin, countDown);
begin();
takeEarly();
