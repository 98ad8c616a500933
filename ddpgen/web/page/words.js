// Markdown, as much of it as ddpgen's own texts use.

import { highlight } from "./code.js";
import { element } from "./dom.js";

/** Words: what stands between backticks is code, between two stars strong, and links are their words. */
export function marked(text) {
  const words = text.trim().replace(/\s+/g, " ").replace(/\[([^\]]+)\]\([^)]*\)/g, "$1");
  return words.split(/(`[^`]+`|\*\*[^*]+\*\*)/).filter(Boolean).map((part) => {
    if (part.startsWith("`")) return element("code", { text: part.slice(1, -1) });
    return part.startsWith("**") ? element("strong", { text: part.slice(2, -2) }) : part;
  });
}

export const list = (texts) => element("ul", {}, ...texts.map((text) => element("li", {}, ...marked(text))));

/** The entries of a changelog: paragraphs, and lists whose entries begin with "- ". */
export function entries(text) {
  const found = [];
  for (const part of text.trim().split(/\n\n+/)) {
    if (/^ddpgen \d\S*$/.test(part)) continue; // the heading says it
    const items = part.split(/^- /m);
    if (items[0].trim()) found.push(element("p", {}, ...marked(items[0])));
    if (items.length > 1) found.push(list(items.slice(1)));
  }
  return found;
}

const LANGUAGES = { python: "py", bash: "sh" };

/** The page of a rule: paragraphs, headings, and examples between fences. */
export function blocks(text) {
  return text.split(/^(```\w+\n[^]*?^```)$/m).flatMap((part) => {
    const fence = part.match(/^```(\w+)\n([^]*)\n```$/);
    return fence ? [example(LANGUAGES[fence[1]], fence[2])] : part.split(/\n\n+/).filter((one) => one.trim()).map(block);
  });
}

function block(text) {
  const heading = text.match(/^\s*#+ (.*)/);
  return heading ? element("h4", { text: heading[1] }) : element("p", {}, ...marked(text));
}

function example(kind, text) {
  const code = element("code");
  for (const line of highlight(text, kind)) {
    for (const [style, part] of line) code.append(style ? element("span", { class: style, text: part }) : part);
    code.append("\n");
  }
  return element("pre", { tabindex: "0" }, code);
}
