// How the page reaches Python where no server answers: Python runs in a worker of this browser.

const replies = await (await fetch("first.json")).json(); // of the first calls, made when the site was built
// Only the page about updates needs the earlier versions.
const more = location.pathname.endsWith("/updates.html") ? "?releases" : "";
const worker = new Worker(`worker.js${more}`, { type: "module" });
const waiting = new Map();
let last = 0;

/** Settled when Python has begun, or cannot. */
export const ready = new Promise((resolve, reject) => {
  worker.addEventListener("message", ({ data }) => {
    if (data.ready) resolve();
    else if (data.failed) reject(new Error(data.failed));
    else {
      const { done, fail } = waiting.get(data.id);
      waiting.delete(data.id);
      if (data.error) fail(new Error(data.error));
      else done(data.reply instanceof Uint8Array ? data.reply : JSON.parse(data.reply));
    }
  });
  worker.addEventListener("error", () => reject(new Error("the worker does not start")));
});

/** Python in this browser: what was not answered when the site was built waits until it has begun. */
export async function call(name, args) {
  const text = JSON.stringify(args);
  const known = replies[`${name} ${text}`];
  if (known) return known;
  await ready;
  return new Promise((done, fail) => {
    waiting.set(++last, { done, fail });
    worker.postMessage({ id: last, name, text });
  });
}
