// Send the examples of the page. What comes back is shown as text, never as markup.
"use strict";
const key = document.getElementById("key");
if (key) {
  key.value = sessionStorage.getItem("demur-key") ?? "";
  key.addEventListener("change", () => sessionStorage.setItem("demur-key", key.value.trim()));
}
for (const hidden of document.querySelectorAll(".for-script")) hidden.hidden = false;

async function send(form) {
  const { method, path } = form.closest(".operation").dataset;
  const told = form.querySelector("[role=status]"), shown = form.querySelector(".reply");
  const headers = new Headers({ accept: "application/json" }), query = new URLSearchParams();
  let address = path;
  for (const [name, value] of new FormData(form)) {
    const [where, of] = [name.slice(0, name.indexOf(":")), name.slice(name.indexOf(":") + 1)];
    if (where === "path") address = address.replace(`{${of}}`, encodeURIComponent(value));
    else if (where === "query" && value) query.set(of, value);
    else if (where === "header" && value) headers.set(of, value);
  }
  if (key?.value) headers.set("authorization", `Bearer ${key.value.trim()}`);
  const body = form.elements.body?.value;
  if (body !== undefined) headers.set("content-type", "application/json");
  told.textContent = "Sent; waiting for the reply.";
  try {
    const began = performance.now();
    const reply = await fetch(query.size ? `${address}?${query}` : address, { method, headers, body });
    const text = await reply.text();
    told.textContent = `${reply.status} ${reply.statusText} after ${Math.round(performance.now() - began)} ms`;
    try { shown.textContent = JSON.stringify(JSON.parse(text), null, 2); } catch { shown.textContent = text; }
    shown.hidden = false;
  } catch (error) {
    told.textContent = `Nothing came back: ${error.message}. Is the service still there?`;
  }
}
document.addEventListener("submit", (event) => {
  if (!event.target.closest(".send")) return;
  event.preventDefault();
  send(event.target);
});
const open = () => document.querySelector(`${location.hash || "#none"} .send`)?.setAttribute("open", "");
window.addEventListener("hashchange", open);
open();
