// What both pages have: the open file with its changes, notices, and Python that may still be loading.

import { draw } from "./code.js";
import { element, find } from "./dom.js";
import { walk } from "./files.js";
import { ready } from "./transport.js";

let open = null; // the path, the rows and the reasons that are shown
let sides = false;

/** Show a file, at its first change; `why` says which lines prevent a pitfall. */
export function showFile(path, rows, why = {}) {
  open = { path, rows, why };
  find("path").textContent = path;
  const text = find("text");
  text.replaceChildren(draw(path, rows, sides, why));
  const changed = rows.some(([mark]) => mark !== " ");
  find("moves").classList.toggle("on", changed);
  text.classList.toggle("whole", rows.every(([mark]) => mark !== " "));
  text.scrollTo(0, 0);
  if (changed) jump(1);
}

/** Scroll to the next or the previous change. */
function jump(step) {
  const text = find("text");
  const lit = (node) => node && (node.classList.contains("new") || node.classList.contains("gone") || node.classList.contains("none"));
  const rows = [...text.querySelectorAll(".rows:last-child > .line")];
  const starts = rows.filter((row, index) => lit(row) && !lit(rows[index - 1]));
  const top = text.getBoundingClientRect().top;
  const places = starts.map((row) => row.getBoundingClientRect().top - top + text.scrollTop - 60);
  const now = text.scrollTop;
  const next = step > 0 ? places.find((place) => place > now + 4) : places.findLast((place) => place < now - 4);
  if (next !== undefined) text.scrollTo(0, next);
}

/** Say something above the page; an empty list takes it away. */
export function notice(words) {
  find("notice-text").replaceChildren(...words.map((text) => element("p", { text })));
  find("notice").hidden = !words.length;
}

find("tree").addEventListener("keydown", walk);
find("previous").addEventListener("click", () => jump(-1));
find("next").addEventListener("click", () => jump(1));
find("sides").addEventListener("click", () => {
  sides = !sides;
  find("sides").setAttribute("aria-pressed", String(sides));
  if (open) showFile(open.path, open.rows, open.why);
});
find("notice-close").addEventListener("click", () => notice([]));

let waiting = true;
setTimeout(() => { find("loading").hidden = !waiting; }, 150);
ready.catch((error) => notice([`Python does not run in this browser (${error.message}). "ddpgen web" brings this page with Python from your machine.`]))
  .finally(() => { waiting = false; find("loading").hidden = true; });
