// Follow the decisions: ask every two seconds, as long as the page is in sight. What came is text, never markup.
"use strict";
const root = document.body.dataset.root;
const reviews = Boolean(document.querySelector(`.doors a[href="${root}/review/"]`));
const tiles = document.getElementById("tiles"), rows = document.getElementById("decisions");
const status = document.getElementById("status"), pause = document.getElementById("pause"), filter = document.getElementById("filter");
const EVERY = 2000, WORDS = { answer: "answered", review: "held", abstain: "abstained" }, SVG = "http://www.w3.org/2000/svg";

const element = (name, text, attributes = {}, space = null) => {
  const made = space ? document.createElementNS(space, name) : document.createElement(name);
  if (text !== null) made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
};
const percent = (share) => share === null ? "–" : share > 0 && share < 0.001 ? "below 0.1%" : `${(100 * share).toFixed(1)}%`;
const figure = (term, value) => {
  const group = element("div", null);
  group.append(element("dt", term), element("dd", value, { class: "big" }));
  return group;
};

function histogram(model) {
  const width = 300, height = 90, most = Math.max(1, ...model.confidence.map((bin) => bin.answered + bin.held));
  const answered = model.confidence.reduce((sum, bin) => sum + bin.answered, 0), held = model.confidence.reduce((sum, bin) => sum + bin.held, 0);
  const limit = model.limit === null ? "" : `; answers begin at a confidence of ${model.limit.toFixed(3)}`;
  const svg = element("svg", null, { class: "scale", viewBox: `0 0 ${width} ${height + 16}`, role: "img", "aria-label": `Confidence of ${answered} answered and ${held} held predictions${limit}` }, SVG);
  const step = width / Math.max(1, model.confidence.length);
  model.confidence.forEach((bin, place) => {
    const low = height * bin.answered / most, high = height * bin.held / most;
    svg.append(element("rect", null, { class: "answered", x: place * step + 1, y: height - low, width: step - 2, height: low }, SVG));
    svg.append(element("rect", null, { class: "held", x: place * step + 1, y: height - low - high, width: step - 2, height: high }, SVG));
  });
  svg.append(element("line", null, { class: "axis", x1: 0, x2: width, y1: height, y2: height }, SVG));
  if (model.limit !== null) svg.append(element("line", null, { class: "limit", x1: model.limit * width, x2: model.limit * width, y1: 0, y2: height }, SVG));
  for (const [x, text, anchor] of [[0, "0", "start"], [width / 2, "confidence", "middle"], [width, "1", "end"]])
    svg.append(element("text", text, { x, y: height + 13, "text-anchor": anchor }, SVG));
  return svg;
}

function tile(name, model) {
  const card = element("section", null, { class: "card", "aria-label": name });
  card.append(element("h2", name));
  const figures = element("dl", null, { class: "trio" });
  figures.append(figure("a second", model.per_second.toFixed(model.per_second < 10 ? 1 : 0)), figure("held", percent(model.held_share)), figure("ms, half", model.n ? model.milliseconds.p50.toFixed(0) : "–"), figure("ms, 95%", model.n ? model.milliseconds.p95.toFixed(0) : "–"));
  card.append(figures);
  card.append(model.n ? histogram(model) : element("p", "Nothing was decided in the last ten minutes.", { class: "soft" }));
  return card;
}

function row(one) {
  const line = element("tr", null), said = element("td", null), when = new Date(one.at);
  const prediction = one.prediction === null ? "none" : Array.isArray(one.prediction) ? one.prediction.join(", ") || "no label" : String(one.prediction);
  said.append(one.action === "review" && reviews ? element("a", WORDS[one.action], { href: `${root}/review/cases/${one.id}`, class: "said-review" }) : element("span", WORDS[one.action] ?? one.action, { class: `said-${one.action}` }));
  line.append(element("td", when.toLocaleTimeString(), { class: "number", title: one.at }), element("td", one.model), element("td", prediction.slice(0, 200)), element("td", one.confidence === null ? "unknown" : one.confidence.toFixed(3), { class: "number" }), said, element("td", one.reason, { class: "why" }));
  return line;
}

let paused = false, asking = null;
async function look() {
  if (paused || document.hidden) return;
  asking?.abort();
  asking = new AbortController();
  const chosen = new URLSearchParams([...new FormData(filter)].filter(([, value]) => value));
  try {
    const answer = await fetch(`${root}/v1/live?${chosen}`, { signal: asking.signal });
    if (!answer.ok) throw new Error((await answer.json()).error?.message ?? `status ${answer.status}`);
    const seen = await answer.json();
    tiles.replaceChildren(...Object.entries(seen.models).map(([name, model]) => tile(name, model)));
    rows.replaceChildren(...seen.decisions.map(row));
    if (!seen.decisions.length) rows.append(element("tr", null)), rows.lastChild.append(element("td", "Nothing yet.", { colspan: 6, class: "soft" }));
    status.textContent = `${new Date(seen.at).toLocaleTimeString()}; ${seen.open_cases.toLocaleString()} open ${seen.open_cases === 1 ? "case" : "cases"}`;
    status.classList.remove("trouble");
  } catch (error) {
    if (error.name === "AbortError") return;
    status.textContent = `No news: ${error.message}. Trying again.`;
    status.classList.add("trouble");
  }
}
pause.hidden = false;
pause.addEventListener("click", () => {
  paused = !paused;
  pause.setAttribute("aria-pressed", String(paused));
  pause.textContent = paused ? "Go on" : "Pause";
  look();
});
filter.addEventListener("change", look);
filter.addEventListener("submit", (event) => event.preventDefault());
document.addEventListener("visibilitychange", look);
look();
setInterval(look, EVERY);
