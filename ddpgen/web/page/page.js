// The page: answers go to Python, what Python says of them is drawn. Nothing is decided here.

import { draw } from "./code.js";
import { count, element, find } from "./dom.js";
import { drawTree, sentence, walk } from "./files.js";
import { drawQuestions } from "./questions.js";
import { call } from "./transport.js";

const MAIN = "train.py"; // the file that is shown first
const RECENT = "recent";

const state = {
  given: {}, // the answers as texts, as `--data` takes them
  base: null, // the answers that the project is compared with
  words: "", // what was changed
  pinned: false, // whether the base stays
  path: MAIN,
  sides: false,
  typed: "", // the question that is being typed in
  project: null,
};
let latest = 0; // the number of the latest change: replies to earlier ones are not drawn

/** Ask Python for the project of the current answers, and draw it. */
async function refresh() {
  const number = ++latest;
  const project = await call("project", { given: state.given, base: state.base });
  if (number !== latest) return;
  state.project = project;
  history.replaceState(null, "", `#${project.address}`);
  drawQuestions(find("questions"), project.groups, change, wonder);
  drawNumbers(project.numbers);
  drawCommand();
  drawChange();
  choose();
  await show(number);
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
let wondering = "";
async function wonder(name, choices) {
  const key = `${name} ${JSON.stringify(state.given)}`;
  if (wondering === key) return;
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

/** Stay at the open file if it is there, and differs where anything does; else go to what differs most. */
function choose() {
  const { files } = state.project;
  const now = files.find(({ path }) => path === state.path);
  const changed = files.filter(({ kind }) => kind !== "same");
  if (now && (now.kind !== "same" || !changed.length)) return;
  const much = ({ path, added, removed }) => (/\.(md|yml)$/.test(path) ? 0 : added + removed);
  const most = changed.reduce((best, file) => (!best || much(file) > much(best) ? file : best), null);
  state.path = most?.path ?? MAIN;
}

async function show(number = ++latest) {
  const { given, base, path } = state;
  drawTree(state.project.files, path, open);
  const { rows } = await call("file", { given, base, path });
  if (number !== latest) return;
  find("path").textContent = path;
  const text = find("text");
  text.replaceChildren(draw(path, rows, state.sides));
  const changed = rows.some(([mark]) => mark !== " ");
  find("moves").classList.toggle("on", changed);
  text.classList.toggle("whole", rows.every(([mark]) => mark !== " "));
  find("sides").setAttribute("aria-pressed", String(state.sides));
  text.scrollTo(0, 0);
  if (changed) jump(1);
}

function open(path) {
  state.path = path;
  show();
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

function notice(words) {
  find("notice-text").replaceChildren(...words.map((text) => element("p", { text })));
  find("notice").hidden = !words.length;
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
find("tree").addEventListener("keydown", walk);
find("notice-close").addEventListener("click", () => notice([]));
find("copy").addEventListener("click", (event) => copy(event.currentTarget, state.project.command));
find("address").addEventListener("click", (event) => copy(event.currentTarget, location.href));
find("download").addEventListener("click", download);
find("previous").addEventListener("click", () => jump(-1));
find("next").addEventListener("click", () => jump(1));
find("sides").addEventListener("click", () => { state.sides = !state.sides; show(); });
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
