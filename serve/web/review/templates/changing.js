// The list of cases for whoever leads: ticks are counted, and one tick in the head ticks the whole page.
const form = document.getElementById("changing"), all = document.getElementById("tick-all");
const ticks = [...document.querySelectorAll("input[name=id][form=changing]")];

function count() {
  const n = ticks.filter((tick) => tick.checked).length;
  document.getElementById("ticked-cases").textContent = `(${n} of ${ticks.length} on this page)`;
  all.checked = n === ticks.length && n > 0;
  all.indeterminate = n > 0 && n < ticks.length;
  if (n) form.querySelector("input[name=every][value=false]").checked = true;
}

if (form && all) {
  let last = null; // what was ticked just before: with Shift, all between it and this one
  for (const tick of ticks) tick.addEventListener("click", (event) => {
    if (event.shiftKey && last) {
      const [from, to] = [ticks.indexOf(last), ticks.indexOf(tick)].sort((a, b) => a - b);
      for (const one of ticks.slice(from, to + 1)) one.checked = tick.checked;
    }
    last = tick;
    count();
  });
  all.addEventListener("change", () => { for (const tick of ticks) tick.checked = all.checked; count(); });
  for (const field of form.querySelectorAll(".change-what p > :is(input, select)")) { // what is filled in is what is meant
    field.addEventListener("input", () => { field.closest("p").querySelector("input[type=radio]").checked = true; });
  }
  form.addEventListener("submit", () => { setTimeout(() => { form.querySelector("button").disabled = true; }); });
  window.addEventListener("pageshow", () => { form.querySelector("button").disabled = false; count(); });
  count();
}
