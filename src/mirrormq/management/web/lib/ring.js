// Ring of a queue from the API, in one form for single nodes, old servers and down queues too.

function list(value) {
  return Array.isArray(value) ? value : [];
}

// → {epoch, up, members: [{name, state, lag, lacks, untrusted, done, total}], waitsFor: [names]}; the master comes first.
export function ringOf(queue, nodes) {
  const ours = queue.mirrormq || {};
  const given = list(ours.members).length ? list(ours.members) : [queue.node, ...list(queue.slave_nodes)];
  const inSync = new Set(Array.isArray(ours.in_sync) ? ours.in_sync : [given[0], ...list(queue.synchronised_slave_nodes)]);
  const joining = list(ours.joining);
  const stopped = new Set(list(nodes).filter((node) => node.running === false).map((node) => node.name));
  const isDown = queue.state === "down" || queue.state === "crashed" || queue.state === "stopped";
  const names = [...new Set([...given, ...joining])].filter((name) => typeof name === "string" && name);

  const members = names.map((name, index) => {
    const progress = (ours.sync || {})[name];
    const lag = Number((ours.lag || {})[name] ?? 0);
    let state = "behind";
    if (stopped.has(name) || (index === 0 && isDown)) state = "down";
    else if (index === 0) state = "master";
    else if (progress && progress.done < progress.total) state = "syncing";
    else if (inSync.has(name)) state = "synchronised";
    else if (joining.includes(name)) state = "joining";
    const lacks = Number((ours.lacks || {})[name] ?? 0);
    const untrusted = list(ours.untrusted).includes(name);
    return { name, state, lag, lacks, untrusted, done: progress?.done ?? 0, total: progress?.total ?? 0 };
  });
  return {
    epoch: Number.isFinite(ours.epoch) ? ours.epoch : null,
    up: !isDown,
    members,
    waitsFor: list(ours.waits_for),
    recoverable: list(queue.recoverable_slaves).filter((name) => !names.includes(name)),
  };
}

export const isSyncing = (ring) => ring.members.some((member) => member.state === "syncing");
export const isWhole = (ring) => ring.members.every((member) => member.state === "master" || member.state === "synchronised");
