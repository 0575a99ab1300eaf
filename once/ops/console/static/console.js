// Reads the page again every five seconds, and faster while something is being read or changed.
// Without scripts, all pages work by reload.
const FAST = 400, SLOW = 5_000;
const connection = document.getElementById("connection");
const zone = document.getElementById("zone");
let staleSince = null;
let answered = true; // whether the console answered the last request
let isBusy = false;

function isInUse(main) {
  const active = document.activeElement;
  return [...main.querySelectorAll("input, textarea, select")].some(
    (field) => field === active || field.dataset.changed === "yes",
  );
}

function tell() {
  const paused = isInUse(document.querySelector("main"));
  const isOld = document.querySelector("main [data-stale]");
  connection.className = staleSince || isOld ? "stale" : paused ? "paused" : "live";
  connection.textContent = staleSince
    ? `stale since ${format(staleSince)}: ${answered ? "no answer from AWS" : "is once console still running?"}`
    : isOld ? "stale: no answer from AWS"
    : paused ? "paused while you fill in a form" : "live";
}

function format(moment, options = { timeStyle: "medium" }) {
  return new Intl.DateTimeFormat("sv-SE", { ...options, timeZone: zone.value }).format(moment);
}

function writeTimes() {
  const name = zone.value === "UTC" ? "UTC" : zone.selectedOptions[0].textContent;
  for (const time of document.querySelectorAll("time")) {
    const at = new Date(time.dateTime);
    const exact = `${format(at, { dateStyle: "short", timeStyle: "medium" })} ${name}`;
    time.title = exact;
    if ("exact" in time.dataset) time.textContent = exact;
  }
  for (const title of document.querySelectorAll("title[data-at]")) {
    const value = title.textContent.slice(title.textContent.lastIndexOf(":") + 1);
    title.textContent = `${format(new Date(title.dataset.at), { timeStyle: "short" })} ${name}:${value}`;
  }
  const clock = { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3 };
  for (const text of document.querySelectorAll("text[data-at]")) {
    text.textContent = format(new Date(text.dataset.at), clock).replace(",", ".");
  }
  const label = document.getElementById("zone-name");
  if (label) label.textContent = zone.selectedOptions[0].textContent.split("/").pop();
  for (const all of document.querySelectorAll("input.all")) all.closest("label").hidden = false;
}

function focusable(main) {
  return [...main.querySelectorAll("a, button, summary, [tabindex]")];
}

function alike(one, other) {
  return one.tagName === other.tagName && one.textContent === other.textContent && one.href === other.href;
}

async function refresh() {
  const main = document.querySelector("main");
  if (isBusy || isInUse(main) || document.hidden) return; // what is being typed is not overwritten
  isBusy = true;
  try {
    answered = false;
    const answer = await fetch(location.href, { headers: { accept: "text/html" } });
    answered = true;
    if (!answer.ok && !main.querySelector("[data-reading]")) throw new Error(answer.statusText);
    const read = new DOMParser().parseFromString(await answer.text(), "text/html");
    staleSince = null;
    if (isInUse(main)) return;
    const opened = [...main.querySelectorAll("details[open][id]")].map((one) => one.id);
    const place = focusable(main).indexOf(document.activeElement), active = document.activeElement;
    document.title = read.title;
    main.replaceChildren(...read.querySelector("main").childNodes);
    for (const id of opened) document.getElementById(id)?.setAttribute("open", "");
    if (place >= 0) {
      // Of several alike, such as links with one text, the nearest: the first may be pages above.
      const all = focusable(main), distance = (one) => Math.abs(all.indexOf(one) - place);
      const same = all.filter((one) => alike(one, active)).sort((a, b) => distance(a) - distance(b));
      (document.getElementById(active.id) ?? same[0])?.focus();
    }
    writeTimes();
  } catch {
    staleSince ??= new Date();
  } finally {
    isBusy = false;
    tell();
  }
}

function follow() {
  const isQuick = document.querySelector("main [data-reading]") && !staleSince;
  setTimeout(() => refresh().finally(follow), isQuick ? FAST : SLOW);
}

// A box that checks all others, and the choice between all messages and the checked ones.
function choose(box) {
  const form = box.form;
  const boxes = [...form.elements].filter((one) => one.type === "checkbox" && one.name === box.dataset.of);
  if (box.classList.contains("all")) for (const one of boxes) one.checked = box.checked;
  const which = form.elements.which;
  if (which) which.value = boxes.some((one) => one.checked) ? "chosen" : "all";
}

document.addEventListener("input", (event) => {
  event.target.dataset.changed = "yes";
  if (event.target.dataset.of) choose(event.target);
  tell();
});
document.addEventListener("focusin", tell);
document.addEventListener("focusout", () => setTimeout(tell));
document.addEventListener("visibilitychange", refresh);
const own = Intl.DateTimeFormat().resolvedOptions().timeZone;
if (own && own !== "UTC") zone.add(new Option(own, own));
zone.value = localStorage.getItem("zone") ?? "UTC";
if (!zone.value) zone.value = "UTC";
zone.closest("label").hidden = false;
zone.addEventListener("change", () => {
  localStorage.setItem("zone", zone.value);
  writeTimes();
});
writeTimes();
tell();
follow();
