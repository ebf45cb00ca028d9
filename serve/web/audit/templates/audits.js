// While an audit is being made: how far it has come, and the page anew once anything ends. Without it, reload by hand.
"use strict";

const root = document.body.dataset.root;
const known = document.currentScript.dataset.known; // as it stood when the page was made, which may be a while ago
const state = (run) => `${run.id}:${run.status}${run.attempts}`;

async function look() {
  try {
    const response = await fetch(`${root}/v1/audits`, { headers: { accept: "application/json" } });
    if (response.ok) {
      const { runs } = await response.json();
      if (runs.map(state).sort().join(" ") !== known) {
        location.reload();
        return;
      }
      for (const run of runs) show(run);
    }
  } catch {
    // the service may be restarting; the next look tells
  }
  setTimeout(look, 2000);
}

function show(run) {
  const place = document.querySelector(`[data-run="${run.id}"]`);
  const stage = place?.querySelector(".stage");
  if (!stage) return;
  stage.textContent = run.stage ?? "starting";
  const bar = place.querySelector("progress");
  if (run.share) bar.value = run.share;
  else bar.removeAttribute("value");
}

look();
