// The reply on the page of a case: another text in its place. The form may be another one with each case, so that it is
// looked up whenever something happens.
import { missed } from "./guard.js";

const $ = (id) => document.getElementById(id);

const codes = () => [...document.querySelectorAll("#correct input[name=code]")];
const plain = (text) => text.replace(/\r\n?/g, "\n").trim();

/** What was typed in the place of the reply, and ticked beside it; nothing where it is the reply itself. */
export const correction = {
  now() {
    const area = $("text");
    if (!area) return {};
    const ticked = codes().filter((one) => one.checked).map((one) => one.value);
    const changed = plain(area.value) !== plain(area.dataset.reply);
    return { text: changed && plain(area.value) ? area.value : null, codes: ticked.length ? ticked : null };
  },

  fill(draft) {
    const area = $("text");
    if (!area) return;
    area.value = draft.text ?? area.dataset.reply;
    const ticked = new Set(draft.codes ?? []);
    for (const one of codes()) one.checked = ticked.has(one.value);
    $("correct").open = Boolean(draft.text || draft.codes?.length);
  },

  isIn: (draft) => Boolean(draft?.text || draft?.codes?.length),

  /** Why an answer of this label cannot be sent with what was typed; empty where it can. */
  against(label) {
    const { text, codes: ticked } = this.now();
    if (!text && !ticked) return "";
    return label === "wrong" ? "" : "Nothing is sent: the reply was corrected, so it is wrong. Close the editor without changes to say that it is right.";
  },
};

/** Put back what the model wrote, as long as nobody typed over it. */
function take(button) {
  const area = $("text");
  if (!area) return;
  area.value = button.dataset.text;
  area.dispatchEvent(new Event("input", { bubbles: true }));
  $("correct").open = true;
  area.focus();
}

document.addEventListener("click", (event) => {
  const button = event.target.closest?.("button[data-text]");
  if (button) { event.preventDefault(); take(button); }
});

document.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || document.activeElement !== $("text") || !$("text")) return;
  event.preventDefault();
  if (event.repeat) return missed("Let go of “Enter”: a key that is held down counts once.");
  $("send-text").click();
});
