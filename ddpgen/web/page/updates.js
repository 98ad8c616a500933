// What an update would bring: two versions, a project's answers, the files of both, and the changelog.

import { element, find } from "./dom.js";
import { drawTree, sentence, toShow } from "./files.js";
import { call } from "./transport.js";
import { notice, showFile } from "./view.js";
import { entries, list } from "./words.js";

const state = { given: {}, files: [], path: "train.py" };
let latest = 0; // the number of the latest choice of versions: replies to earlier ones are not drawn
let opened = 0; // the same for the file that is shown

async function refresh() {
  const number = ++latest;
  const since = find("since").value, to = find("to").value;
  const reply = await call("update", { given: state.given, since, to });
  if (number !== latest) return;
  notice(reply.problem ? [`Version ${to} refuses an answer: ${reply.problem}`] : []);
  if (reply.problem) return;
  state.files = reply.files;
  state.path = toShow(reply.files, state.path, "train.py");
  find("change").classList.add("on");
  find("change-text").textContent = `${since} → ${to}: ${sentence(reply.files)}`;
  find("notes").replaceChildren(
    ...(reply.answers.length ? [element("h2", { text: "Answers" }), list(reply.answers)] : []),
    ...reply.notes.reverse().flatMap(({ version, text }) => [element("h2", { text: version }), ...entries(text)]),
  );
  await show();
}

async function show() {
  const number = ++opened;
  drawTree(state.files, state.path, (path) => { state.path = path; show(); });
  const { rows } = await call("updated", { given: state.given, since: find("since").value, to: find("to").value, path: state.path });
  if (number === opened) showFile(state.path, rows);
}

async function take(file) {
  const { problem, since, given } = await call("recorded", { text: (await file.text()).slice(0, 100_000) });
  notice(problem ? [`${file.name}: ${problem}`] : []);
  if (problem) return;
  state.given = given;
  find("since").value = since;
  find("whose").textContent = `The answers in ${file.name}, of a project made with ${since}.`;
  await refresh();
}

async function begin() {
  const versions = await call("versions", {});
  for (const [id, chosen] of [["since", versions.at(-2)], ["to", versions.at(-1)]]) {
    find(id).replaceChildren(...versions.map((text) => element("option", { value: text, text })));
    find(id).value = chosen;
    find(id).addEventListener("change", refresh);
  }
  if (location.hash.length > 1) {
    const { given, words } = await call("read", { text: location.hash });
    state.given = given;
    notice(words);
    find("back").href = `index.html${location.hash}`;
  }
  await refresh();
}

find("choice").addEventListener("submit", (event) => event.preventDefault());
find("file").addEventListener("change", (event) => { if (event.target.files.length) take(event.target.files[0]); });
for (const kind of ["dragover", "drop"]) {
  addEventListener(kind, (event) => {
    event.preventDefault();
    if (kind === "drop" && event.dataTransfer.files.length) take(event.dataTransfer.files[0]);
  });
}
begin();
