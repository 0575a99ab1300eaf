// Reads the page again when the server tells of a change. Without scripts, all pages work by reload.
const source = new EventSource(document.currentScript.dataset.changes);
const connection = document.getElementById("connection");

function isInUse(main) {
  const active = document.activeElement;
  return [...main.querySelectorAll("input, textarea, select")].some(
    (field) => field === active || field.dataset.changed === "yes",
  );
}

async function refresh() {
  const main = document.querySelector("main");
  if (isInUse(main) || document.hidden) return; // what is being typed is not overwritten
  const answer = await fetch(location.href, { headers: { accept: "text/html" } });
  if (!answer.ok) return;
  const read = new DOMParser().parseFromString(await answer.text(), "text/html");
  const opened = [...main.querySelectorAll("details[open][id]")].map((one) => one.id);
  const focused = document.activeElement?.id;
  main.replaceChildren(...read.querySelector("main").childNodes);
  for (const id of opened) document.getElementById(id)?.setAttribute("open", "");
  if (focused) document.getElementById(focused)?.focus();
}

document.addEventListener("input", (event) => {
  event.target.dataset.changed = "yes";
});
document.addEventListener("visibilitychange", refresh);
source.addEventListener("open", () => {
  connection.textContent = "live";
});
source.addEventListener("change", refresh);
source.addEventListener("error", () => {
  connection.textContent = "not connected: is `once console` still running?";
});
