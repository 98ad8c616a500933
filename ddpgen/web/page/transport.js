// How the page reaches Python. Every way has the same calls: ddpgen/web/interface.py names them.

/** Python on this machine: `ddpgen web` answers. */
export async function call(name, args) {
  const reply = await fetch(name, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(args),
  });
  if (!reply.ok) throw new Error(`${name}: ${reply.status}`);
  return name === "archive" ? new Uint8Array(await reply.arrayBuffer()) : reply.json();
}
