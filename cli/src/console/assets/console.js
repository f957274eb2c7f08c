// Makes the pages live. Everything can be read without it.

const $ = (selector, root = document) => root.querySelector(selector);
const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];

keys();
slider();
live();

// "/" searches, "[" and "]" go back and forth in a member's time.
function keys() {
  document.addEventListener("keydown", (event) => {
    const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName) && event.target.type !== "range";
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape" && event.target.id === "q") event.target.blur();
    if (typing) return;
    if (event.key === "/") {
      event.preventDefault();
      $("#q").focus();
      $("#q").select();
    }
    const step = { "[": "earlier", "]": "later" }[event.key];
    if (step) move(step);
  });
  document.addEventListener("click", (event) => {
    const step = event.target.closest("a.step");
    if (!step || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    move(step.dataset.step);
  });
}

// One step of the slider, or to its end.
function move(step) {
  const range = $("#asof");
  if (!range) return;
  const to = { earlier: Number(range.value) - 1, later: Number(range.value) + 1, now: Number(range.max) }[step];
  if (to < 0 || to > Number(range.max)) return;
  range.value = to;
  range.dispatchEvent(new Event("input"));
}

// The page as of the slider's stop, fetched and put in place. The slider itself stays, so that it keeps the focus.
function slider() {
  const range = $("#asof");
  if (!range) return;
  range.disabled = false;
  const stops = range.dataset.stops.split(" ");
  let wanted = 0;
  range.addEventListener("input", async () => {
    const asked = ++wanted;
    const url = new URL(location.href);
    if (Number(range.value) === stops.length - 1) url.searchParams.delete("at");
    else url.searchParams.set("at", stops[range.value]);
    $("#asof-text").textContent = `${stops[range.value].slice(0, 16).replace("T", " ")} (${Number(range.value) + 1} of ${stops.length})`;
    // A hand that drags passes many stops; only the one where it rests is fetched.
    await new Promise((done) => setTimeout(done, 60));
    if (asked !== wanted) return;
    const page = await fetched(url);
    if (!page || asked !== wanted) return;
    history.replaceState(null, "", url);
    for (const part of ["#view", "#asof-text", ".steps"]) $(part).replaceWith($(part, page));
    range.setAttribute("aria-valuetext", $("#asof-text").textContent);
    document.dispatchEvent(new CustomEvent("asof"));
  });
}

async function fetched(url) {
  try {
    const answer = await fetch(url, { headers: { accept: "text/html" } });
    // The session is over: the whole page has to go where one signs in, and comes back.
    if (answer.redirected && new URL(answer.url).pathname === "/console/sign-in") location.reload();
    return answer.ok && !answer.redirected ? new DOMParser().parseFromString(await answer.text(), "text/html") : null;
  } catch {
    return null;
  }
}

// Updates from the server, once a second, while a page with something live on it is in sight.
function live() {
  if (!$("[data-live]")) return;
  let source;
  const listen = () => {
    if (document.hidden) {
      source?.close();
      source = null;
    } else if (!source) {
      source = new EventSource("/events");
      source.onopen = () => $("#live")?.classList.add("on");
      source.onerror = () => $("#live")?.classList.remove("on");
      source.onmessage = (message) => show(JSON.parse(message.data));
    }
  };
  document.addEventListener("visibilitychange", listen);
  addEventListener("pagehide", () => source?.close());
  listen();
}

let counts;
let refreshed = 0;

function show(update) {
  for (const place of $$("[data-live]")) {
    const text = update.text[place.dataset.live];
    if (text !== undefined && place.textContent !== text) place.textContent = text;
  }
  if (update.counting !== undefined) return;
  if ($("[data-reload]")) location.reload();
  for (const badge of $$(".badge")) badge.classList.toggle("none", badge.textContent === "0");
  pulse(update.pulse);
  moves(update.moves);
  // The charts are the server's: they are fetched again when the numbers behind them are others, every few seconds at the most.
  const now = ["records", "collected", "at_risk", "in_flight", "waiting"].map((key) => update.text[key]).join();
  const stale = counts !== undefined && counts !== now;
  if (counts === undefined || (stale && Date.now() - refreshed > 3000)) {
    counts = now;
    if (stale) refresh();
  }
}

async function refresh() {
  refreshed = Date.now();
  const places = $$("[data-refresh]");
  const page = places.length > 0 && (await fetched(location.href));
  if (!page) return;
  for (const place of places) {
    const open = $("details", place)?.open;
    const fresh = $(`#${place.id}`, page);
    if (!fresh) continue;
    if (open) $("details", fresh).open = true;
    place.replaceWith(fresh);
  }
}

function pulse(values) {
  const most = Math.max(1, ...values);
  const start = 60 - values.length;
  $("#pulse")?.setAttribute("points", values.map((value, n) => `${start + n},${40 - (value * 36) / most}`).join(" "));
}

let latest;

function moves(entries) {
  const list = $("#moves");
  if (!list) return;
  const first = entries[0]?.key;
  if (latest === undefined || first === latest) {
    latest = first;
    return;
  }
  const known = entries.findIndex((move) => move.key === latest);
  const fresh = known < 0 ? entries : entries.slice(0, known);
  latest = first;
  for (const move of fresh.reverse()) list.prepend(row(move));
  while (list.children.length > entries.length) list.lastElementChild.remove();
}

// Texts are set as texts: whatever an id says, it stays one.
function row(move) {
  const way = element("span", "way");
  if (move.from) way.append(chip(move.from), element("span", "to", "→"));
  else way.append(element("span", "new", "new"));
  way.append(chip(move.to));
  const link = element("a", "", move.user);
  link.href = move.href;
  const item = element("li", "fresh-row");
  item.append(element("span", "when", move.at ?? ""), " ", link, " ", way, " ", element("span", "n", move.amount));
  return item;
}

function chip(status) {
  return element("span", `chip s-${status.class}`, status.name);
}

function element(name, className, text = "") {
  const made = document.createElement(name);
  made.className = className;
  made.textContent = text;
  return made;
}
