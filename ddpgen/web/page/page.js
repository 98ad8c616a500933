// The page: answers go to Python, what Python says of them is drawn. Nothing is decided here.

import { count, element, find } from "./dom.js";
import { drawTree, sentence, toShow } from "./files.js";
import { drawQuestions } from "./questions.js";
import { call, ready } from "./transport.js";
import { notice, showFile } from "./view.js";

const MAIN = "train.py"; // the file that is shown first
const RECENT = "recent";

const state = {
  given: {}, // the answers as texts, as `--data` takes them
  base: null, // the answers that the project is compared with
  words: "", // what was changed
  pinned: false, // whether the base stays
  path: MAIN,
  typed: "", // the question that is being typed in
  project: null,
};
let latest = 0; // the number of the latest change: replies to earlier ones are not drawn
let opened = 0; // the same for the file that is shown

/** Ask Python for the project of the current answers, and draw it. */
async function refresh() {
  const number = ++latest;
  const project = await call("project", { given: state.given, base: state.base });
  if (number !== latest) return;
  state.project = project;
  history.replaceState(null, "", `#${project.address}`);
  find("updates").href = `updates.html#${project.address}`;
  drawQuestions(find("questions"), project.groups, change, wonder);
  drawNumbers(project.numbers);
  drawCommand();
  drawChange();
  choose();
  await show();
}

/** Answer a question, or take an answer back with null; a text may come letter by letter. */
function change(name, text, typing = false) {
  if (text === null ? !(name in state.given) : state.given[name] === text) {
    if (!typing) state.typed = "";
    return;
  }
  if (!state.pinned && state.typed !== name) state.base = { ...state.given };
  state.typed = typing ? name : "";
  const before = state.given[name] ?? valueOf(name);
  if (text === null) delete state.given[name];
  else state.given = { ...state.given, [name]: text };
  if (!state.pinned) state.words = `${name}: ${before || "empty"} → ${text === null ? "default" : text || "empty"}`;
  refresh();
}

function valueOf(name) {
  const all = state.project.groups.flatMap(({ questions }) => questions);
  return all.find((question) => question.name === name)?.value ?? "";
}

/** Say what each choice of a question would change: asked one by one, until the answers change. */
let python = false; // whether calls are answered at once
ready.finally(() => { python = true; }).catch(() => {});
let wondering = "";
async function wonder(name, choices) {
  const key = `${name} ${JSON.stringify(state.given)}`;
  if (wondering === key || !python) return;
  wondering = key;
  for (const { text, same, show: say } of choices) {
    const other = { ...state.given, [name]: text };
    const found = same ? null : await call("cost", { given: state.given, other });
    if (wondering !== key) return;
    say(found && !found.problem ? found : null);
  }
}

function drawNumbers(numbers) {
  find("numbers").replaceChildren(...numbers.map(({ word, value, how }) =>
    element("div", { title: how || null }, element("dt", { text: word }), element("dd", { text: count(value) }))));
}

function drawCommand() {
  const problems = Object.keys(state.project.problems);
  const node = find("command");
  node.textContent = problems.length ? `An answer is refused: ${problems.join(", ")}. Shown is the project without it.` : state.project.command;
  node.classList.toggle("problem", Boolean(problems.length));
  for (const id of ["copy", "download", "address"]) find(id).disabled = Boolean(problems.length);
}

function drawChange() {
  const compared = state.base !== null;
  find("change").classList.toggle("on", compared);
  find("change-text").textContent = compared ? `${state.words}: ${sentence(state.project.files)}` : "Change an answer to see what follows.";
  find("seen").hidden = !compared;
  find("pin").setAttribute("aria-pressed", String(state.pinned));
}

function choose() {
  state.path = toShow(state.project.files, state.path, MAIN);
}

async function show() {
  const number = ++opened;
  const { given, base, path } = state;
  drawTree(state.project.files, path, open);
  const { rows, why } = await call("file", { given, base, path });
  if (number !== opened) return;
  showFile(path, rows, why);
}

function open(path) {
  state.path = path;
  show();
}

async function copy(button, text) {
  await navigator.clipboard.writeText(text);
  const before = button.textContent;
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = before; }, 1200);
  remember();
}

async function download() {
  const zip = await call("archive", { given: state.given });
  const link = element("a", { href: URL.createObjectURL(new Blob([zip], { type: "application/zip" })), download: `${state.project.name}.zip` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  remember();
}

// --- Recent projects, in this browser's storage ---------------------------------------------

function recent() {
  try {
    const found = JSON.parse(localStorage.getItem(RECENT) ?? "[]");
    return found.filter(({ name, address }) => typeof name === "string" && typeof address === "string");
  } catch {
    return [];
  }
}

function remember() {
  const { name, address } = state.project;
  const others = recent().filter((one) => one.address !== address);
  try {
    localStorage.setItem(RECENT, JSON.stringify([{ name, address }, ...others].slice(0, 8)));
  } catch {
    return; // storage may be switched off
  }
  drawRecent();
}

function drawRecent() {
  const found = recent();
  find("recent").hidden = !found.length;
  find("recent").querySelector("ul").replaceChildren(...found.map(({ name, address }) =>
    element("li", {}, element("a", { href: `#${address}`, text: `${name}  ${address.split("&").slice(1).join(" ")}` }))));
}

// --- Beginning ------------------------------------------------------------------------------

/** Take the answers from the address. */
async function begin() {
  const { given, words } = await call("read", { text: location.hash });
  Object.assign(state, { given, base: null, words: "", pinned: false, typed: "", path: MAIN });
  notice(words);
  await refresh();
}

find("questions").addEventListener("submit", (event) => event.preventDefault());
find("copy").addEventListener("click", (event) => copy(event.currentTarget, state.project.command));
find("address").addEventListener("click", (event) => copy(event.currentTarget, location.href));
find("download").addEventListener("click", download);
find("seen").addEventListener("click", () => { Object.assign(state, { base: null, pinned: false, words: "" }); refresh(); });
find("pin").addEventListener("click", () => {
  Object.assign(state, state.pinned
    ? { pinned: false, base: null, words: "" }
    : { pinned: true, base: { ...state.given }, words: "Compared with what was pinned" });
  refresh();
});
addEventListener("hashchange", () => { if (location.hash.slice(1) !== state.project?.address) begin(); });
for (const link of document.querySelectorAll("nav a")) {
  // The address belongs to the answers: these links move, and leave it as it is.
  link.addEventListener("click", (event) => { event.preventDefault(); find(link.hash.slice(1)).focus(); });
}

drawRecent();
begin();
