// The desk's script. Every page works without it; with it, ages go on, rows follow what happens, and what was typed is kept.
const one = (selector, root = document) => root.querySelector(selector);
const all = (selector, root = document) => [...root.querySelectorAll(selector)];

// Ages, by the database's clock: the page says what it was at the time of the look.
const asOf = one("#as-of");
const ahead = asOf ? Date.parse(asOf.dateTime) - Date.now() : 0;
const MINUTE = 60, HOUR = 3600, DAY = 86400, OLD = 90 * DAY;

function span(seconds) {
  if (seconds < MINUTE) return "";
  if (seconds < HOUR) return `${Math.floor(seconds / MINUTE)} min`;
  if (seconds < 2 * DAY) return `${Math.floor(seconds / HOUR)} h`;
  return `${Math.floor(seconds / DAY)} d`;
}

function age() {
  const now = Math.floor((Date.now() + ahead) / 1000);
  for (const time of all("main time:not([data-absolute]), main time[data-absolute] + .rel")) {
    const at = time.dateTime ?? time.previousElementSibling.dateTime;
    const seconds = now - Math.floor(Date.parse(at) / 1000);
    const words = span(Math.abs(seconds));
    if (Math.abs(seconds) >= OLD) continue;
    if ("age" in time.dataset) time.textContent = words || "< 1 min";
    else if (!words) time.textContent = "just now";
    else time.textContent = seconds < 0 ? `in ${words}` : `${words} ago`;
  }
}
setInterval(age, 30_000);

// Drafts: what was typed stays in this tab until it was accepted, whatever happens to the page.
const PREFIX = "draft:";
const typed = (form) => [...form.elements].filter((field) => field.name && !/hidden|checkbox|submit/.test(field.type));
const untouched = (field) =>
  field.type === "radio" ? field.checked === field.defaultChecked
    : field.options ? [...field.options].every((option) => option.selected === option.defaultSelected || option.index === 0)
      : field.value === field.defaultValue && !field.value;

function keep(form) {
  const values = {};
  for (const field of typed(form)) {
    if (field.type === "radio" ? field.checked && !field.defaultChecked : field.value) values[field.name] = field.value;
  }
  sessionStorage.setItem(PREFIX + form.dataset.draft, JSON.stringify(values));
}

function restore(form) {
  const kept = JSON.parse(sessionStorage.getItem(PREFIX + form.dataset.draft) ?? "{}");
  // What the server gives back is newer than what this tab remembers.
  if (!Object.keys(kept).length || !typed(form).every(untouched)) return;
  for (const field of typed(form)) {
    if (!(field.name in kept)) continue;
    if (field.type === "radio") field.checked = field.value === kept[field.name];
    else field.value = kept[field.name];
  }
  const folded = form.closest("details");
  if (folded) folded.open = true;
}

if ("forget" in document.body.dataset) sessionStorage.clear();
for (const accepted of all("[data-accepted]")) sessionStorage.removeItem(PREFIX + accepted.dataset.accepted);
for (const form of all("form[data-draft]")) {
  restore(form);
  form.addEventListener("input", () => keep(form));
}
const kept = one("#kept");
if (kept) kept.hidden = !Object.keys(sessionStorage).some((key) => key.startsWith(PREFIX));

// A filter that is not set does not stand in the address.
for (const form of all("form[data-bare]")) {
  form.addEventListener("submit", () => {
    const empty = [...form.elements].filter((field) => field.name && !field.value);
    for (const field of empty) field.disabled = true;
    setTimeout(() => empty.forEach((field) => { field.disabled = false; }));
  });
}

for (const wide of all(".diagram")) wide.scrollLeft = (wide.scrollWidth - wide.clientWidth) / 2;

// The selection.
const bulk = one("form.bulk");
const boxes = () => all("form.bulk tbody input");
const every = one("#all");

function count() {
  const chosen = boxes().filter((box) => box.checked).length;
  const says = one("#selected");
  if (says) says.textContent = chosen ? `With the ${chosen} selected` : "With the selected entries";
  if (!every) return;
  every.checked = chosen > 0 && chosen === boxes().length;
  every.indeterminate = chosen > 0 && !every.checked;
}

if (every) {
  every.closest("label").hidden = false;
  every.addEventListener("change", () => {
    for (const box of boxes()) box.checked = every.checked;
    count();
  });
}
bulk?.addEventListener("change", count);
addEventListener("pageshow", count);

// Changes. Rows on screen change in place; what is new waits until somebody asks for it.
const fresh = one("#fresh"), stale = one("#stale"), said = one("#said");
const waiting = new Set(), unseen = new Set();
let soon;

function heard(text) {
  if (!text) return missed();
  const { id, version } = JSON.parse(text);
  if (stale?.dataset.id === id && version > Number(stale.dataset.version)) stale.hidden = false;
  if (!fresh) return;
  const row = document.getElementById(`row-${id}`);
  const whole = "first" in fresh.dataset && (version === 1 || !one("[rel=next]"));
  if (row ? version > Number(row.dataset.version) : whole && !unseen.has(id)) waiting.add(id);
  if (waiting.size) soon ??= setTimeout(look, 300 + 500 * Math.random());
}

function missed() {
  for (const row of all("#rows tr[data-id]")) waiting.add(row.dataset.id);
  if (waiting.size) soon ??= setTimeout(look, 100);
}

async function look() {
  soon = undefined;
  const ids = [...waiting].slice(0, 100);
  for (const id of ids) waiting.delete(id);
  const query = new URLSearchParams(location.search);
  query.delete("cursor");
  query.set("ids", ids.join(","));
  const answer = await fetch(`/queue/rows?${query}`).catch(() => undefined);
  if (!answer?.ok || answer.redirected) return;
  const page = new DOMParser().parseFromString(`<table><tbody>${await answer.text()}</tbody></table>`, "text/html");
  let changed = 0, dropped = 0;
  for (const id of ids) {
    const row = document.getElementById(`row-${id}`), now = page.getElementById(`row-${id}`);
    if (!row) {
      if (now) unseen.add(id);
      continue;
    }
    if (now?.dataset.version === row.dataset.version || row.classList.contains("gone")) continue;
    changed += 1;
    // A selection is of what was seen.
    const box = one("input", row);
    if (box?.checked) dropped += 1;
    if (now) {
      const focused = row.contains(document.activeElement) && document.activeElement.id;
      now.classList.add("changed");
      row.replaceWith(document.adoptNode(now));
      if (focused) document.getElementById(focused)?.focus();
    } else {
      if (box) box.checked = false;
      row.classList.add("gone");
      const note = document.createElement("span");
      note.className = "sub";
      note.textContent = "not in this list any more";
      one("td.state", row).append(note);
    }
  }
  if (changed) said.textContent = `${changed} changed${dropped ? `, ${dropped} of them not selected any more` : ""}.`;
  fresh.hidden = !unseen.size;
  one("a", fresh).textContent = `${unseen.size} new`;
  if (unseen.size && !changed) said.textContent = `${unseen.size} new.`;
  age();
  count();
  if (waiting.size) soon ??= setTimeout(look, 500);
}

// One stream for each browser: six would starve every other request. None while nobody looks.
const live = document.body.dataset.live;
if (live && navigator.locks && (fresh || stale)) {
  const channel = new BroadcastChannel("desk");
  channel.onmessage = ({ data }) => heard(data);
  let leave = () => {};

  const join = () => {
    const waits = new AbortController();
    leave = () => waits.abort();
    const lead = () => new Promise((resolve) => {
      const source = new EventSource(live);
      const tell = ({ data }) => { channel.postMessage(data); heard(data); };
      source.onmessage = tell;
      source.onopen = () => { source.onopen = tell; };
      leave = () => { source.close(); resolve(); };
    });
    navigator.locks.request("desk-live", { signal: waits.signal }, lead).catch(() => {});
  };
  document.addEventListener("visibilitychange", () => {
    leave();
    if (document.hidden) return;
    join();
    missed();
  });
  addEventListener("pagehide", () => leave());
  if (!document.hidden) join();
}
