// The page at /: a chat over /v1/chat/completions and a view of the engine over /metrics. No library, no request to another host.
"use strict";

const byId = id => document.getElementById(id);
const messages = byId("messages"), ask = byId("ask"), text = byId("text"), sampling = byId("sampling"), statusLine = byId("status");
let history = [];     // what the next request sends
let running = null;   // AbortController of the answer that is being made

function headers() {
  const key = sampling.elements.key.value;
  return {"Content-Type": "application/json", ...(key && {Authorization: "Bearer " + key})};
}

function say(words, bad = false) {
  statusLine.textContent = words;
  statusLine.classList.toggle("bad", bad);
}

// What an answer without success says: the API's message when there is one.
async function complaint(answer) {
  const body = await answer.text();
  try {
    return JSON.parse(body).error.message;
  } catch {
    return `${answer.status} ${answer.statusText}`;
  }
}

// ---- the conversation ------------------------------------------------------------------------------------------------------------

function add(kind, who) {
  const item = document.createElement("li");
  item.className = kind;
  const part = name => item.appendChild(Object.assign(document.createElement("div"), {className: name}));
  part("who").textContent = who;
  messages.append(item);
  return {item, body: part("body"), figures: part("figures")};
}

// Code between ``` lines goes into <pre>; everything is set as text, so an answer can never become markup.
function show(body, words) {
  body.replaceChildren();
  const pieces = words.split(/^```[^\n]*\n?/m);
  pieces.forEach((piece, i) => {
    if (i % 2 === 0) return void (piece && body.append(piece));
    const code = document.createElement("code");
    code.textContent = piece;
    body.appendChild(document.createElement("pre")).append(code);
  });
}

function showThought(entry, words) {
  if (!entry.thought) {
    const details = document.createElement("details");
    details.className = "thought";
    details.append(Object.assign(document.createElement("summary"), {textContent: "Thinking"}), document.createElement("div"));
    entry.item.insertBefore(details, entry.body);
    entry.thought = details.lastChild;
  }
  entry.thought.textContent = words;
}

function atEnd() { return messages.scrollHeight - messages.scrollTop - messages.clientHeight < 48; }

// Fields of the form that hold a number become fields of the request.
function settings() {
  const out = {};
  for (const input of sampling.querySelectorAll("input[type=number]")) if (input.value !== "") out[input.name] = Number(input.value);
  return out;
}

// Server-sent events: calls take() with each one's JSON.
async function readEvents(stream, take) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const {value, done} = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) if (line.startsWith("data: ") && line !== "data: [DONE]") take(JSON.parse(line.slice(6)));
  }
}

function figuresOf(usage, began, first, reason) {
  const now = performance.now(), seconds = (now - first) / 1000, cached = usage.prompt_tokens_details?.cached_tokens ?? 0;
  const speed = usage.completion_tokens > 1 && seconds > 0 ? `, ${((usage.completion_tokens - 1) / seconds).toFixed(1)} tokens/s` : "";
  return `${usage.prompt_tokens} prompt tokens (${cached} cached), first token after ${((first - began) / 1000).toFixed(2)} s, ` +
    `${usage.completion_tokens} tokens${speed}${reason === "length" ? ", stopped at the limit" : ""}`;
}

async function answer() {
  const system = sampling.elements.system.value.trim();
  const request = {...settings(), model: byId("model").value || undefined, stream: true, stream_options: {include_usage: true},
                   messages: [...(system ? [{role: "system", content: system}] : []), ...history]};
  const entry = add("assistant", "Model");
  const began = performance.now();
  let content = "", thought = "", first = null, reason = null, failed = null, drawing = false;
  const redraw = () => {
    drawing = false;
    const follow = atEnd();
    show(entry.body, content);
    if (thought) showThought(entry, thought);
    if (follow) messages.scrollTop = messages.scrollHeight;
  };
  const redrawSoon = () => {  // once a frame, however many events come
    if (!drawing) requestAnimationFrame(redraw);
    drawing = true;
  };
  running = new AbortController();
  byId("stop").hidden = false;
  byId("send").hidden = true;
  try {
    const reply = await fetch("v1/chat/completions", {method: "POST", headers: headers(), body: JSON.stringify(request), signal: running.signal});
    if (!reply.ok) throw new Error(await complaint(reply));
    await readEvents(reply.body, event => {
      if (event.error) throw new Error(event.error.message);
      const choice = event.choices?.[0];
      if (choice) {
        const delta = choice.delta ?? {};
        const thinking = delta.reasoning ?? delta.reasoning_content ?? "";
        if (delta.content || thinking) first ??= performance.now();
        thought += thinking;
        content += delta.content ?? "";
        redraw();
        reason = choice.finish_reason ?? reason;
      }
      if (event.usage) entry.figures.textContent = figuresOf(event.usage, began, first ?? performance.now(), reason);
    });
  } catch (error) {
    failed = error.name === "AbortError" ? "Stopped." : error.message;
  }
  running = null;
  byId("stop").hidden = true;
  byId("send").hidden = false;
  if (content) history.push({role: "assistant", content});
  if (failed && !content) {  // nothing to go on from: the question can be asked again
    history.pop();
    entry.item.classList.add("error");
    content = failed;
  } else if (failed) {
    entry.figures.textContent = failed;
  }
  redraw();
  entry.item.dataset.done = "true";
  text.focus();
}

ask.addEventListener("submit", event => {
  event.preventDefault();
  const words = text.value.trim();
  if (!words || running) return;
  if (!sampling.reportValidity()) return;
  history.push({role: "user", content: words});
  show(add("user", "You").body, words);
  text.value = "";
  messages.scrollTop = messages.scrollHeight;
  answer();
});
text.addEventListener("keydown", event => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    ask.requestSubmit();
  }
});
byId("stop").addEventListener("click", () => running?.abort());
byId("new").addEventListener("click", () => {
  running?.abort();
  history = [];
  messages.replaceChildren();
  text.focus();
});

// ---- the engine ------------------------------------------------------------------------------------------------------------------

const kPeriod = 1000, kPoints = 60;
const series = {};
for (const figure of document.querySelectorAll("figure[data-series]"))
  series[figure.dataset.series] = {values: [], line: figure.querySelector("polyline"), value: figure.querySelector("output")};

function draw(name, value, words) {
  const s = series[name];
  s.values.push(value);
  if (s.values.length > kPoints) s.values.shift();
  const top = Math.max(...s.values) || 1, step = 120 / (kPoints - 1), start = 120 - (s.values.length - 1) * step;
  s.line.setAttribute("points", s.values.map((v, i) => `${(start + i * step).toFixed(1)},${(30 - 28 * v / top).toFixed(1)}`).join(" "));
  s.value.textContent = words;
}

// Sums of a metric over its labels (one engine for each data-parallel rank), in the text format of Prometheus.
function readMetrics(body) {
  const sums = new Map(), counts = new Map();
  for (const line of body.split("\n")) {
    const found = /^([A-Za-z_:][\w:]*)(?:\{.*\})? (\S+)$/.exec(line);
    if (!found || !Number.isFinite(Number(found[2]))) continue;
    sums.set(found[1], (sums.get(found[1]) ?? 0) + Number(found[2]));
    counts.set(found[1], (counts.get(found[1]) ?? 0) + 1);
  }
  return {sum: name => sums.get(name) ?? 0, mean: name => (sums.get(name) ?? 0) / (counts.get(name) ?? 1)};
}

let before = null;  // {time, tokens} of the last look
async function look() {
  const reply = await fetch("metrics");
  if (!reply.ok) throw new Error(await complaint(reply));
  const m = readMetrics(await reply.text()), tokens = m.sum("vllm:generation_tokens_total"), time = performance.now();
  const speed = before && tokens >= before.tokens ? (tokens - before.tokens) / (time - before.time) * 1000 : 0;
  before = {time, tokens};
  draw("speed", speed, speed.toFixed(1));
  for (const name of ["running", "waiting"]) draw(name, m.sum(`vllm:num_requests_${name}`), m.sum(`vllm:num_requests_${name}`));
  const used = m.mean("vllm:kv_cache_usage_perc");
  draw("cache", used, (100 * used).toFixed(1) + " %");
  byId("prompt-tokens").textContent = m.sum("vllm:prompt_tokens_total");
  byId("cached-tokens").textContent = m.sum("vllm:prompt_tokens_cached_total");
}

async function loadModels() {
  const reply = await fetch("v1/models", {headers: headers()});
  if (!reply.ok) throw new Error(await complaint(reply));
  const names = (await reply.json()).data.map(model => model.id);
  byId("model").replaceChildren(...names.map(name => new Option(name, name)));
  document.title = `${names[0]} – Isotope`;
}

async function watch() {
  try {
    if (!byId("model").options.length) await loadModels();
    await look();
    say("ready");
  } catch (error) {
    before = null;
    say(error instanceof TypeError ? "the server does not answer" : error.message, true);
  }
  setTimeout(watch, document.hidden ? 5 * kPeriod : kPeriod);
}
sampling.elements.key.addEventListener("change", () => byId("model").replaceChildren());
watch();
text.focus();
