// The tree of files, and what a change of answers does to it.

import { count, element, find, lines } from "./dom.js";

const SIGNS = { added: "new ", removed: "gone ", changed: "" };
const shut = new Set(); // folders that the user has closed

/** Draw the tree; `open(path)` is called when a file is chosen. */
export function drawTree(files, path, open) {
  const root = { folders: new Map(), files: [] };
  for (const file of files) {
    const parts = file.path.split("/");
    let folder = root;
    for (const name of parts.slice(0, -1)) {
      if (!folder.folders.has(name)) folder.folders.set(name, { folders: new Map(), files: [] });
      folder = folder.folders.get(name);
    }
    folder.files.push({ ...file, name: parts.at(-1) });
  }
  const tree = find("tree");
  const focused = tree.contains(document.activeElement) ? document.activeElement.dataset.path : "";
  tree.replaceChildren(list(root, "", path, open));
  if (focused) [...tree.querySelectorAll("button")].find((node) => node.dataset.path === focused)?.focus();
}

function list(folder, place, path, open) {
  const made = element("ul");
  const hidden = ({ name }) => name.startsWith(".");
  for (const file of [...folder.files.filter((one) => !hidden(one)), ...folder.files.filter(hidden)]) {
    const changed = file.kind !== "same";
    const button = element("button", { type: "button", class: file.kind, "data-path": file.path,
      title: file.was ? `${file.was} before` : null,
      "aria-current": file.path === path ? "true" : null, click: () => open(file.path) },
    element("span", { class: "file", text: file.name }));
    if (changed) button.append(" ", element("span", { class: "much", text: `${SIGNS[file.kind]}${lines(file.added, file.removed)}` }));
    made.append(element("li", {}, button));
  }
  for (const [name, inner] of folder.folders) {
    const inside = `${place}${name}/`;
    const box = element("details", { open: !shut.has(inside), toggle: () => { if (box.open) shut.delete(inside); else shut.add(inside); } },
      element("summary", { text: `${name}/` }), list(inner, inside, path, open));
    made.append(element("li", {}, box));
  }
  return made;
}

/** Choose the file to show: the open one if it differs, or nothing does; else the one that differs most. */
export function toShow(files, path, main) {
  const now = files.find((file) => file.path === path);
  const changed = files.filter(({ kind }) => kind !== "same");
  if (now && (now.kind !== "same" || !changed.length)) return path;
  const much = (file) => (/\.(md|yml)$/.test(file.path) ? 0 : file.added + file.removed);
  return changed.reduce((best, file) => (!best || much(file) > much(best) ? file : best), null)?.path ?? main;
}

/** Let the arrow keys walk through the tree. */
export function walk(event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step) return;
  const stops = [...find("tree").querySelectorAll("button, summary")].filter((node) => node.checkVisibility());
  const next = stops[stops.indexOf(document.activeElement) + step];
  if (next) { event.preventDefault(); next.focus(); }
}

/** Say in a sentence what differs. */
export function sentence(files) {
  const changed = files.filter(({ kind }) => kind !== "same");
  const number = (kind) => changed.filter((file) => file.kind === kind).length;
  const sum = (key) => changed.reduce((total, file) => total + file[key], 0);
  const parts = [["added", "new"], ["removed", "gone"], ["changed", "changed"]]
    .filter(([kind]) => number(kind)).map(([kind, word]) => `${count(number(kind))} ${word}`);
  if (!parts.length) return "no file changes";
  return `${parts.join(", ")}: ${lines(sum("added"), sum("removed"))} lines`;
}
