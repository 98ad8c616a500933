// The questions: one element for each, kept while the question is asked, so that the focus stays.

import { element, lines } from "./dom.js";

const OPEN = new Map(); // name -> { node, shape, update }

/** Draw the groups of questions; `change(name, text)` is called with every answer, null takes one back. */
export function drawQuestions(form, groups, change, wonder) {
  const sections = groups.map(({ title, questions }) => {
    const often = [], rarely = [];
    for (const question of questions) (question.asked ? often : rarely).push(part(question, change, wonder));
    const nodes = [...often];
    if (rarely.length) nodes.push(keep(`more ${title}`, "more", more).node);
    const section = keep(`group ${title}`, "group", () => group(title));
    place(section.node, [section.node.firstChild, ...nodes]);
    if (rarely.length) {
      const box = OPEN.get(`more ${title}`).node;
      place(box, [box.firstChild, ...rarely]);
      if (questions.some(({ asked, given }) => !asked && given)) box.open = true;
    }
    return section.node;
  });
  place(form, sections);
}

/** Put nodes into a parent in this order; those that are there already are not touched. */
function place(parent, nodes) {
  for (const child of [...parent.childNodes]) if (!nodes.includes(child)) child.remove();
  nodes.forEach((node, index) => {
    if (parent.childNodes[index] !== node) parent.insertBefore(node, parent.childNodes[index] ?? null);
  });
}

function keep(name, shape, make) {
  if (OPEN.get(name)?.shape !== shape) {
    const made = make();
    OPEN.set(name, { shape, ...(made instanceof Node ? { node: made } : made) });
  }
  return OPEN.get(name);
}

function group(title) {
  return element("section", {}, element("h2", { text: title }));
}

function more() {
  return element("details", { class: "more" }, element("summary", { text: "Rarely needed" }));
}

function part(question, change, wonder) {
  const shape = JSON.stringify([question.kind, question.help, question.choices.map(({ value }) => value)]);
  const found = keep(question.name, shape, () => MAKERS[question.kind](question, change, wonder));
  found.update(question);
  return found.node;
}

/** What every question has beside its control: the option's name, a way back, and why an answer is refused. */
function frame(tag, label, question, change, ...inner) {
  const back = element("button", { type: "button", class: "back", text: "default", click: () => change(question.name, null) });
  const problem = element("p", { class: "problem", id: `why-${question.name}`, role: "alert" });
  const node = element(tag, { class: "question" }, label, ...inner, problem);
  label.append(element("span", { class: "name" }, element("code", { text: question.name }), back));
  const update = (now) => {
    back.hidden = !now.given || now.value === now.default;
    back.setAttribute("aria-label", `${now.name}: back to the default, ${now.default || "empty"}`);
    if (problem.textContent !== now.problem) problem.textContent = now.problem;
    problem.hidden = !now.problem;
    node.classList.toggle("changed", now.given && now.value !== now.default);
  };
  return { node, update, problem };
}

/** Show beside a choice how many lines would come and go. */
function price(cost, found) {
  cost.textContent = found ? lines(found.added, found.removed) : "";
  cost.title = found ? `${found.files} files` : "";
}

/** The words for a choice, where they say more than its value. */
const words = ({ value, words: text }) => (text.toLowerCase() === value ? "" : text);

function asked(node, ask) {
  for (const event of ["pointerenter", "focusin"]) node.addEventListener(event, ask);
}

function options(question, change, wonder) {
  const several = question.kind === "several";
  const legend = element("legend", {}, element("span", { class: "help", text: question.help }));
  const rows = question.choices.map((choice) => {
    const id = `${question.name}-${choice.value}`;
    const input = element("input", { type: several ? "checkbox" : "radio", id, name: question.name, value: choice.value });
    const cost = element("span", { class: "cost" });
    const why = element("span", { class: "why", id: `${id}-why` });
    const label = element("label", { for: id }, input, element("span", { class: "choice" },
      element("code", { text: choice.value }), " ", element("span", { class: "words", text: words(choice) }), why), cost);
    return { input, label, cost, why };
  });
  const base = frame("fieldset", legend, question, change, ...rows.map(({ label }) => label));
  const chosen = () => rows.filter(({ input }) => input.checked).map(({ input }) => input.value);
  base.node.addEventListener("change", () => change(question.name, chosen().join(",")));
  const other = (value) => {
    if (!several) return value;
    const now = chosen();
    return (now.includes(value) ? now.filter((one) => one !== value) : [...now, value]).join(",");
  };
  const ask = () => wonder(question.name, rows.map(({ input, cost }) => ({
    text: other(input.value), same: !several && input.checked, show: (found) => price(cost, found),
  })));
  asked(base.node, ask);
  const update = (now) => {
    base.update(now);
    for (const { cost } of rows) price(cost, null);
    if (base.node.matches(":hover, :focus-within")) queueMicrotask(ask);
    const values = several ? now.value.split(",") : [now.value];
    now.choices.forEach((choice, index) => {
      const { input, label, why } = rows[index];
      input.checked = values.includes(choice.value);
      // What is chosen stays open, so that it can be taken back.
      input.disabled = Boolean(choice.refused) && !input.checked;
      why.textContent = choice.refused;
      label.classList.toggle("refused", Boolean(choice.refused));
      input.toggleAttribute("aria-describedby", false);
      if (choice.refused) input.setAttribute("aria-describedby", why.id);
    });
    if (now.problem) base.node.setAttribute("aria-describedby", base.problem.id);
    else base.node.removeAttribute("aria-describedby");
  };
  return { node: base.node, update };
}

function toggle(question, change, wonder) {
  const input = element("input", { type: "checkbox", id: question.name, "aria-describedby": `why-${question.name}`,
    change: () => change(question.name, String(input.checked)) });
  const cost = element("span", { class: "cost" });
  const label = element("div", { class: "head" },
    element("label", { for: question.name, class: "switch" }, input, element("span", { class: "help", text: question.help }), cost));
  const base = frame("div", label, question, change);
  const ask = () => wonder(question.name, [{ text: String(!input.checked), same: false, show: (found) => price(cost, found) }]);
  asked(base.node, ask);
  const update = (now) => {
    base.update(now);
    input.checked = now.value === "true";
    price(cost, null);
    if (base.node.matches(":hover, :focus-within")) queueMicrotask(ask);
  };
  return { node: base.node, update };
}

function field(question, change) {
  const input = element("input", { type: "text", id: question.name, "aria-describedby": `why-${question.name}`,
    autocomplete: "off", autocapitalize: "off", spellcheck: "false",
    inputmode: question.kind === "int" ? "numeric" : null,
    input: () => change(question.name, input.value, true),
    change: () => change(question.name, input.value, false) });
  const label = element("div", { class: "head" },
    element("label", { for: question.name }, element("span", { class: "help", text: question.help })));
  const base = frame("div", label, question, change, input);
  const update = (now) => {
    base.update(now);
    if (document.activeElement !== input || !now.given) input.value = now.value;
    input.setAttribute("aria-invalid", String(Boolean(now.problem)));
  };
  return { node: base.node, update };
}

const MAKERS = { one: options, several: options, bool: toggle, int: field, str: field };
