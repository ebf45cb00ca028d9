// Ask a model: what is drawn, typed, filled in or dropped becomes one request. What comes back is text, never markup.
"use strict";
function element(name, text = null, attributes = {}, space = null) {
  const made = space ? document.createElementNS(space, name) : document.createElement(name);
  if (text !== null) made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}
function labelled(text, control) {
  const label = element("label", text);
  control.id ||= `field-${document.querySelectorAll("[id^=field-]").length}-${Math.random().toString(36).slice(2, 8)}`;
  label.htmlFor = control.id;
  const both = element("p");
  both.append(label, control);
  return both;
}

// Each kind of input: it fills the form, and says what stands in it now.
const KINDS = {
  image: picture,
  text: (facts, place) => words(place, "Text"),
  chat: (facts, place) => words(place, "Question"),
  text_pair(facts, place) {
    const [first, second] = [element("textarea", null, { rows: 4 }), element("textarea", null, { rows: 4 })];
    place.append(labelled("First text", first), labelled("Second text", second));
    return { read: () => ({ input: { text: first.value, text_pair: second.value } }), show({ input }) { first.value = input?.text ?? ""; second.value = input?.text_pair ?? ""; } };
  },
  choice(facts, place) {
    const [question, options] = [element("textarea", null, { rows: 3 }), element("textarea", null, { rows: 4 })];
    place.append(labelled("Question", question), labelled("Options, one on each line", options));
    return {
      read: () => ({ input: { question: question.value, options: options.value.split("\n").map((line) => line.trim()).filter(Boolean) } }),
      show({ input }) { question.value = input?.question ?? ""; options.value = (input?.options ?? []).join("\n"); },
    };
  },
  table,
};

function words(place, name) {
  const text = element("textarea", null, { rows: 6, required: "" });
  place.append(labelled(name, text));
  return { read: () => ({ input: asJson(text.value) ?? text.value }), show({ input }) { text.value = typeof input === "string" ? input : input == null ? "" : JSON.stringify(input, null, 1); } };
}
function asJson(text) {
  if (!/^\s*[[{]/.test(text)) return null;
  try { return JSON.parse(text); } catch { return null; }
}
function whole(facts, place) {
  const text = element("textarea", null, { rows: 12, spellcheck: "false" });
  place.append(labelled("Request, as JSON, without the model", text));
  return { read: () => JSON.parse(text.value), show(body) { text.value = body ? JSON.stringify(body, null, 1) : ""; } };
}

function table(facts, place) {
  const controls = new Map();
  for (const column of facts.input.columns) {
    const control = column.values.length ? element("select") : element("input", null, { type: "text", inputmode: column.numeric ? "decimal" : "text" });
    for (const value of column.values.length ? ["", ...column.values] : []) control.append(element("option", value));
    controls.set(column.name, [control, column.numeric]);
    place.append(labelled(column.name, control));
  }
  place.classList.add("rows");
  return {
    read: () => ({ input: Object.fromEntries([...controls].map(([name, [control, numeric]]) => [name, control.value.trim() === "" ? null : numeric && !Number.isNaN(Number(control.value)) ? Number(control.value) : control.value])) }),
    show({ input }) {
      [...controls].forEach(([name, [control]], place) => { control.value = String((Array.isArray(input) ? input[place] : input?.[name]) ?? ""); });
    },
  };
}

function picture(facts, place) {
  const { channels, height, width } = facts.input, SIDE = 280;
  const pad = element("canvas", null, { class: "pad", width: SIDE, height: SIDE, tabindex: 0, role: "img", "aria-label": "A pad to draw on with a pointer. Without one, choose a file or an example." });
  const drawn = pad.getContext("2d", { willReadFrequently: true });
  const file = element("input", null, { type: "file", accept: "image/png,image/jpeg,image/webp" });
  const drop = labelled("Or a picture (PNG, JPEG, WebP); drop it here", file);
  drop.className = "drop";
  place.append(pad, drop);
  let chosen = null, last = null;
  const wipe = () => { drawn.fillStyle = "#000"; drawn.fillRect(0, 0, SIDE, SIDE); chosen = null; file.value = ""; };
  const at = (event) => { const box = pad.getBoundingClientRect(); return [(event.clientX - box.left) * SIDE / box.width, (event.clientY - box.top) * SIDE / box.height]; };
  pad.addEventListener("pointerdown", (event) => { if (chosen) wipe(); last = at(event); pad.setPointerCapture(event.pointerId); line(last); });
  pad.addEventListener("pointermove", (event) => { if (last) { const next = at(event); line(next); last = next; } });
  for (const end of ["pointerup", "pointercancel"]) pad.addEventListener(end, () => { last = null; });
  function line(to) {
    Object.assign(drawn, { strokeStyle: "#fff", lineWidth: Math.max(SIDE / 12, Math.min(SIDE / 4, 1.6 * SIDE / width)), lineCap: "round", lineJoin: "round" });
    drawn.beginPath(); drawn.moveTo(...last); drawn.lineTo(...to); drawn.stroke();
  }
  // The mean over each cell of the model's own grid: what the pad shows becomes what the model sees.
  const numbers = () => {
    const { data } = drawn.getImageData(0, 0, SIDE, SIDE), sums = Array.from({ length: height }, () => new Float64Array(width)), counts = sums.map(() => new Float64Array(width));
    for (let y = 0; y < SIDE; y++) for (let x = 0; x < SIDE; x++) {
      const [row, column] = [Math.floor(y * height / SIDE), Math.floor(x * width / SIDE)];
      sums[row][column] += data[4 * (y * SIDE + x)] / 255; counts[row][column]++;
    }
    const plane = sums.map((row, y) => Array.from(row, (sum, x) => Math.round(1000 * sum / Math.max(1, counts[y][x])) / 1000));
    return channels === 1 ? plane : Array.from({ length: channels }, () => plane);
  };
  const read = (given) => new Promise((done, failed) => { const reader = new FileReader(); reader.onload = () => done(reader.result); reader.onerror = () => failed(new Error("the file cannot be read")); reader.readAsDataURL(given); });
  async function take(given) {
    wipe();
    chosen = await read(given);
    const shown = new Image();
    shown.onload = () => { const scale = Math.min(SIDE / shown.width, SIDE / shown.height); drawn.drawImage(shown, (SIDE - shown.width * scale) / 2, (SIDE - shown.height * scale) / 2, shown.width * scale, shown.height * scale); };
    shown.src = chosen;
  }
  file.addEventListener("change", () => file.files[0] && take(file.files[0]));
  for (const over of ["dragenter", "dragover"]) drop.addEventListener(over, (event) => { event.preventDefault(); drop.classList.add("over"); });
  for (const out of ["dragleave", "drop"]) drop.addEventListener(out, () => drop.classList.remove("over"));
  drop.addEventListener("drop", (event) => { event.preventDefault(); if (event.dataTransfer.files[0]) take(event.dataTransfer.files[0]); });
  wipe();
  return {
    read: () => ({ input: chosen ?? (width <= 64 && height <= 64 ? numbers() : pad.toDataURL("image/png")) }),
    show(body) {
      wipe();
      if (!body?.input) return;
      chosen = body.input;
      paint(drawn, body.input, SIDE);
    },
  };
}
// Show numbers [height][width] in [0, 1], or a picture's address.
function paint(context, input, side) {
  if (typeof input === "string") { const shown = new Image(); shown.onload = () => context.drawImage(shown, 0, 0, side, side); shown.src = input; return; }
  const plane = Array.isArray(input[0]?.[0]) ? input[0] : input, small = element("canvas", null, { width: plane[0].length, height: plane.length });
  const brush = small.getContext("2d"), image = brush.createImageData(plane[0].length, plane.length);
  plane.flat().forEach((value, place) => image.data.set([value * 255, value * 255, value * 255, 255], 4 * place));
  brush.putImageData(image, 0, 0);
  context.imageSmoothingEnabled = true;
  context.drawImage(small, 0, 0, side, side);
}

function begin(facts) {
  const root = document.body.dataset.root, form = document.getElementById("ask"), answer = document.getElementById("answer"), key = document.getElementById("key");
  const kind = (KINDS[facts.kind] && !(facts.kind === "table" && !facts.input.columns.length) ? KINDS[facts.kind] : whole)(facts, document.getElementById("fields"));
  let truth = null;
  form.hidden = false;
  if (key) { key.value = sessionStorage.getItem("demur-key") ?? ""; key.addEventListener("change", () => sessionStorage.setItem("demur-key", key.value.trim())); }
  document.getElementById("clear").addEventListener("click", () => { kind.show({}); truth = null; });
  form.addEventListener("input", () => { truth = null; });
  facts.examples.forEach((example, place) => {
    const button = element("button", null, { type: "button" }), item = element("li");
    if (facts.kind === "image") { const small = element("canvas", null, { width: 48, height: 48, role: "img", "aria-label": `Example ${place + 1}` }); paint(small.getContext("2d"), example.body.input, 48); button.append(small); }
    else button.textContent = typeof example.body.input === "string" ? example.body.input.slice(0, 120) : JSON.stringify(example.body.input ?? example.body.output).slice(0, 120);
    button.addEventListener("click", () => { kind.show(example.body); truth = example.label; ask(example.body); });
    item.append(button);
    document.getElementById("examples").append(item);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    try { ask(kind.read()); } catch (error) { answer.replaceChildren(element("p", `This is no JSON: ${error.message}`, { class: "state-bad" })); }
  });

  async function ask(brings) {
    const body = { model: facts.model, ...brings }, headers = { "content-type": "application/json" };
    if (key?.value) headers.authorization = `Bearer ${key.value.trim()}`;
    answer.setAttribute("aria-busy", "true");
    const began = performance.now();
    try {
      const reply = await fetch(`${root}/v1/predict`, { method: "POST", headers, body: JSON.stringify(body) }), said = await reply.json();
      const after = Math.round(performance.now() - began);
      answer.replaceChildren(...(reply.ok ? shown(said, after) : refused(said, reply.status)), ...copies(body));
      answer.className = `card answer-box ${reply.ok ? (said.abstained ? "held" : "answered") : ""}`;
    } catch (error) {
      answer.replaceChildren(element("p", `Nothing came back: ${error.message}. Is the service still there?`, { class: "state-bad" }));
    } finally { answer.removeAttribute("aria-busy"); }
  }
  const said_as = (value) => value === null ? "nothing usable" : Array.isArray(value) ? value.join(", ") || "no label" : String(value);
  function refused(said, status) {
    return [element("h2", "Refused"), element("p", said.error?.message ?? `status ${status}`, { class: "state-bad" })];
  }
  function shown(said, after) {
    const held = said.abstained, parts = [element("h2", held ? "Held: a person should look" : said_as(said.prediction))];
    if (held) parts.push(element("p", `The model would have said: ${said_as(said.prediction)}`));
    parts.push(element("p", `${said.reason.slice(0, 1).toUpperCase()}${said.reason.slice(1)}.`), scale(said.confidence));
    const rows = element("dl");
    const add = (name, value) => value && rows.append(element("dt", name), element("dd", value));
    add("Cannot be ruled out", said.prediction_set?.join(", "));
    add("Scores", Object.entries(said.scores).map(([name, value]) => `${name} ${value === null ? "undefined" : value.toPrecision(3)}`).join(", "));
    add("Decided by", said.artifact);
    add("Truth", truth);
    add("Time", `${after} ms, as this browser saw it`);
    parts.push(rows);
    if (said.review) {
      const line = element("p", facts.reviews ? null : "A person will look at it.");
      if (facts.reviews) line.append(element("a", "Open the case", { href: `${root}/review/cases/${said.id}` }));
      parts.push(line);
    }
    return parts;
  }
  function scale(confidence) {
    if (confidence === null) return element("p", "The confidence is unknown.", { class: "state-note" });
    const width = 400, space = "http://www.w3.org/2000/svg", limit = facts.limit;
    const words = `Confidence ${confidence.toFixed(3)}${limit === null ? "" : `; answers begin at ${limit.toFixed(3)}`}`;
    const svg = element("svg", null, { class: "scale", viewBox: `-8 0 ${width + 16} 46`, role: "img", "aria-label": words }, space);
    if (limit !== null) svg.append(element("rect", null, { class: "held", x: 0, y: 16, width: limit * width, height: 8 }, space), element("rect", null, { class: "answered", x: limit * width, y: 16, width: (1 - limit) * width, height: 8 }, space));
    else svg.append(element("line", null, { class: "axis", x1: 0, x2: width, y1: 20, y2: 20 }, space));
    svg.append(element("circle", null, { class: "mark", cx: confidence * width, cy: 20, r: 6 }, space));
    const near = confidence > 0.8 ? "end" : confidence < 0.2 ? "start" : "middle";
    svg.append(element("text", `confidence ${confidence.toFixed(3)}`, { x: confidence * width, y: 10, "text-anchor": near }, space));
    if (limit !== null) svg.append(element("text", `answers from ${limit.toFixed(3)}`, { x: limit * width, y: 40, "text-anchor": limit > 0.7 ? "end" : "start" }, space));
    return svg;
  }
  function copies(body) {
    const text = JSON.stringify(body), origin = `${location.origin}${root}`, auth = facts.key ? ' -H "Authorization: Bearer $DEMUR_KEY"' : "";
    const curl = `curl -s ${origin}/v1/predict${auth} -H 'content-type: application/json' -d '${text.replaceAll("'", "'\\''")}'`;
    const given = Object.entries(body).filter(([name]) => name !== "model").map(([name, value]) => `${name}=json.loads(${JSON.stringify(JSON.stringify(value))})`).join(", ");
    const python = `import json\n\nimport demur\n\nwith demur.Client("${origin}") as client:\n    said = client.predict("${facts.model}", ${given})\n    print(said)`;
    return [["curl", curl], ["Python", python]].map(([name, code]) => {
      const folded = element("details"), copy = element("button", "Copy", { type: "button" });
      copy.addEventListener("click", async () => { await navigator.clipboard.writeText(code); copy.textContent = "Copied"; });
      folded.append(element("summary", `The same with ${name}`), copy, element("pre", code, { class: "code", tabindex: 0 }));
      return folded;
    });
  }
}

const told = document.getElementById("facts");
if (told) begin(JSON.parse(told.textContent));
