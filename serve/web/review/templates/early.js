// Runs before the page is there: keys that are pressed until the other scripts are ready are kept for them.
"use strict";

document.documentElement.classList.add("with-script");

const early = { keys: [], note: null };
early.note = (event) => {
  const modified = event.ctrlKey || event.metaKey || event.altKey;
  if (!modified && !event.repeat && !event.isComposing && (event.key.length === 1 || event.key === "Enter")) early.keys.push(event.key);
};
document.addEventListener("keydown", early.note, true);
window.demurEarly = early;
