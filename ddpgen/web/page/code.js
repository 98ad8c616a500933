// The text of a file: highlighted, with its changes lit up.

import { element } from "./dom.js";

const WORDS = {
  py: /^(?:False|None|True|and|as|assert|async|await|break|class|continue|def|del|elif|else|except|finally|for|from|global|if|import|in|is|lambda|nonlocal|not|or|pass|raise|return|try|while|with|yield)$/,
  sh: /^(?:if|then|else|elif|fi|for|while|until|do|done|case|esac|in|function|local|export|readonly|return|exit|exec|set|shift|trap|source|unset|wait|break|continue)$/,
  toml: /^(?:true|false)$/,
  yaml: /^(?:true|false|null)$/,
};
// Each language's tokens, the first that fits: comment, string, number, word.
const HASH = String.raw`(?<comment>#.*)`;
const NUMBER = String.raw`(?<digit>\b\d[\d_]*(?:\.\d+)?(?:e[+-]?\d+)?\b)`;
const WORD = String.raw`(?<word>[A-Za-z_]\w*)`;
const SHORT = String.raw`"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'`;
const TOKENS = {
  py: [HASH, String.raw`(?<string>[rbfu]{0,2}(?:"""[^]*?"""|'''[^]*?'''|${SHORT}))`, String.raw`(?<special>@[\w.]+)`, NUMBER, WORD],
  toml: [HASH, String.raw`(?<special>^\[.*\]$)`, `(?<string>${SHORT})`, NUMBER, WORD],
  yaml: [String.raw`(?<comment>(?<=^|\s)#.*)`, `(?<string>${SHORT})`, String.raw`(?<special>^[ -]*[\w.\/-]+(?=:))`, NUMBER, WORD],
  sh: [String.raw`(?<comment>(?<=^|\s)#.*)`, String.raw`(?<string>"(?:\\.|[^"\\])*"|'[^']*')`, String.raw`(?<special>\$\{?\w+\}?)`, NUMBER, WORD],
  md: [String.raw`(?<special>^#+ .*$)`, "(?<string>`[^`\\n]+`)", String.raw`(?<digit>\[[^\]\n]*\]\([^)\n]*\))`],
};
const PATTERNS = Object.fromEntries(
  Object.entries(TOKENS).map(([name, parts]) => [name, new RegExp(parts.join("|"), "gm")]),
);
const ENDINGS = { sbatch: "sh", env: "sh", yml: "yaml", Dockerfile: "sh" };

/** Return the language of a file, or "" for plain text. */
export function language(path) {
  const ending = path.split("/").pop().split(".").pop();
  const found = ENDINGS[ending] ?? ending;
  return found in PATTERNS ? found : "";
}

/** Return the lines of a text, each a list of [class, text]. */
export function highlight(text, kind) {
  const found = [[]];
  const add = (style, part) => {
    part.split("\n").forEach((piece, index) => {
      if (index) found.push([]);
      if (piece) found.at(-1).push([style, piece]);
    });
  };
  if (!kind) {
    add("", text);
    return found;
  }
  let at = 0;
  for (const token of text.matchAll(PATTERNS[kind])) {
    const groups = token.groups;
    let style = Object.keys(groups).find((name) => groups[name] !== undefined);
    if (style === "word") style = WORDS[kind].test(token[0]) ? "word" : "";
    if (!style) continue;
    add("", text.slice(at, token.index));
    add(style, token[0]);
    at = token.index + token[0].length;
  }
  add("", text.slice(at));
  return found;
}

const NAMES = { " ": "kept", "+": "new", "-": "gone" };

/** Return the rows of a file as elements, in one column or in two; `why` has the pitfalls that lines prevent, by number. */
export function draw(path, rows, sides, why) {
  const kind = language(path);
  const lines = (mark) => {
    const text = rows.filter(([found]) => found !== mark).map(([, line]) => line);
    return highlight(text.join("\n"), kind);
  };
  const before = lines("+"), after = lines("-");
  const changed = rows.some(([mark]) => mark !== " ");
  let old = 0, now = 0;
  const cells = rows.map(([mark]) => {
    const parts = mark === "-" ? before[old] : after[now];
    if (mark !== "+") old += 1;
    if (mark !== "-") now += 1;
    return { mark, parts, number: mark === "-" ? old : now, old, why: mark === "-" ? [] : why[now] ?? [] };
  });
  return sides && changed ? inTwo(cells) : inOne(cells);
}

function inOne(cells) {
  const table = element("div", { class: "rows" });
  table.append(...cells.map((cell) => line(cell, cell.mark === "-" ? "" : cell.number)));
  return table;
}

function inTwo(cells) {
  const [left, right] = [[], []];
  const fill = () => {
    const most = Math.max(left.length, right.length);
    for (const side of [left, right]) while (side.length < most) side.push(null);
  };
  for (const cell of cells) {
    if (cell.mark === " ") fill();
    if (cell.mark !== "+") left.push({ ...cell, why: [] });
    if (cell.mark !== "-") right.push(cell);
  }
  fill();
  const column = (side, number) => {
    const made = element("div", { class: "rows" });
    made.append(...side.map((cell) => (cell ? line(cell, number(cell)) : element("div", { class: "line none" }))));
    return made;
  };
  return element("div", { class: "two" }, column(left, (cell) => cell.old), column(right, (cell) => cell.number));
}

/** The way from a line to the pitfall that the line prevents. */
function reason([id, mistake]) {
  const words = mistake.replaceAll("`", "");
  return element("a", { class: "reason", href: `pitfalls.html#${id}`, target: "pitfalls", title: words, "aria-label": `${id}: ${words}`, text: id });
}

function line({ mark, parts, why }, number) {
  const code = element("code");
  for (const [style, text] of parts ?? []) code.append(style ? element("span", { class: style, text }) : text);
  code.append("\n");
  const sign = mark === " " ? "" : mark === "+" ? "+" : "−";
  return element("div", { class: `line ${NAMES[mark]}` }, element("span", { class: "number", text: number, "data-sign": sign }), code, ...(why.length ? [element("span", { class: "reasons" }, ...why.map(reason))] : []));
}
