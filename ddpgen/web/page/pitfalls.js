// The catalogue: the mistakes that a generated project makes impossible or notices, each with its examples.

import { element, find } from "./dom.js";
import { blocks, marked } from "./words.js";

const { about, rows } = await (await fetch("pitfalls.json")).json();

function entry({ id, mistake, guards, how, page }) {
  return element("article", { id, tabindex: "-1" },
    element("h3", {}, element("a", { href: `#${id}`, text: id }), " ", ...marked(mistake)),
    element("p", {}, ...marked(how), " ", element("span", { class: "guards", text: guards })),
    ...(page ? [element("details", {}, element("summary", { text: "Wrong and right" }), ...blocks(page))] : []));
}

const sections = Map.groupBy(rows, ({ section }) => section);
find("catalogue").append(
  ...about.map((text) => element("p", {}, ...marked(text))),
  ...[...sections].flatMap(([title, found]) => [element("h2", { text: title }), ...found.map(entry)]),
);

/** Go to the row that the address names, and open its examples. */
function show() {
  const row = rows.find(({ id }) => `#${id}` === location.hash);
  if (!row) return;
  const node = find(row.id);
  document.querySelector(".here")?.classList.remove("here");
  node.classList.add("here");
  const examples = node.querySelector("details");
  if (examples) examples.open = true;
  node.scrollIntoView();
  node.focus({ preventScroll: true });
}
addEventListener("hashchange", show);
show();
