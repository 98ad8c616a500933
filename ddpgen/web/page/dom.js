// Elements, made in one line each.

/** Make an element: attributes (functions are listeners, booleans switch), then children. */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name, value);
    else if (name === "text") made.textContent = value;
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null) made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

export const find = (id) => document.getElementById(id);

/** Write a number with marks between thousands. */
export const count = (number) => number.toLocaleString("en");

/** Write added and removed lines: "+34 −18 lines". */
export function lines(added, removed) {
  const parts = [];
  if (added) parts.push(`+${count(added)}`);
  if (removed) parts.push(`−${count(removed)}`);
  return parts.join(" ") || "±0";
}
