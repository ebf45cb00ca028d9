// While an audit is being made: how far it has come, and the page anew once anything ends. Without it, reload by hand.
"use strict";

const root = document.body.dataset.root;
const state = (run) => run.status + run.attempts;
let known = null;

async function look() {
  try {
    const response = await fetch(`${root}/v1/audits`, { headers: { accept: "application/json" } });
    if (response.ok) {
      const { runs } = await response.json();
      const now = JSON.stringify(runs.map((run) => [run.id, state(run)]).sort());
      if (known !== null && now !== known) {
        location.reload();
        return;
      }
      known = now;
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
