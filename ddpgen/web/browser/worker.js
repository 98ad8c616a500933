// Python in a worker of the browser. All that it loads lies beside this file.

import { loadPyodide } from "./pyodide/pyodide.mjs";

const UNPACK = `
import os, sys, zipfile
for name in names:
    with zipfile.ZipFile(f"/{name}") as archive:
        for entry in archive.infolist():
            path = archive.extract(entry, "/python")
            os.chmod(path, entry.external_attr >> 16)
sys.path.insert(0, "/python")
from ddpgen.web import interface
page = interface.start()
steps = page.prepared()
call, step = page.call, lambda: next(steps, "")
`;

async function begin() {
  const names = location.search === "?releases" ? ["python.zip", "releases.zip"] : ["python.zip"];
  const [python, ...zips] = await Promise.all([
    loadPyodide({ indexURL: "./pyodide/" }),
    ...names.map((name) => fetch(name).then((reply) => reply.arrayBuffer())),
  ]);
  names.forEach((name, index) => python.FS.writeFile(`/${name}`, new Uint8Array(zips[index])));
  python.globals.set("names", names);
  python.runPython(UNPACK);
  return ["call", "step"].map((name) => python.globals.get(name));
}

const begun = begin();
begun.then(([, step]) => {
  postMessage({ ready: true });
  // Between two steps calls are answered.
  const more = () => { if (step()) setTimeout(more); };
  more();
}, (error) => postMessage({ failed: String(error) }));

addEventListener("message", async ({ data: { id, name, text } }) => {
  try {
    const [call] = await begun;
    const found = call(name, text);
    postMessage({ id, reply: typeof found === "string" ? found : found.toJs() });
  } catch (error) {
    postMessage({ id, error: String(error) });
  }
});
