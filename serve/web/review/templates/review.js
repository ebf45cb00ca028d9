// The scripts of the review pages. Without them every form still works.
import { takeEarly } from "./keys.js";
import "./case.js";

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

// ---- pictures that have more to show than fits ----

const picture = document.getElementById("picture"), zoom = document.getElementById("zoom");
if (zoom) {
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

takeEarly();
