"use strict";
// The page is whole without this: here it is fetched again every few seconds, unless somebody is writing in it.
{
  const SECONDS = 10;
  const note = document.getElementById("live");
  const refresh = async () => {
    const shown = document.getElementById("monitors");
    if (document.hidden || shown.contains(document.activeElement) || shown.querySelector("details[open]")) return;
    try {
      const answer = await fetch(location.href, { headers: { accept: "text/html" }, cache: "no-store" });
      if (!answer.ok) throw new Error(String(answer.status));
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = page.getElementById("monitors");
      if (!fresh) throw new Error("another page");
      shown.replaceWith(document.adoptNode(fresh));
      note.textContent = "It refreshes itself.";
    } catch {
      note.textContent = "It cannot be refreshed now; what is shown may be old.";
    }
  };
  note.textContent = "It refreshes itself.";
  setInterval(refresh, SECONDS * 1000);
}
