/** A device's tables, with names. */

import { get } from "./api.js";
import { store } from "./store.js";
import { link, make, table, toDevice, wide } from "./dom.js";
import { percent } from "./format.js";

/** What a port leads to. @param {number} device @param {number} port */
function leadsTo(device, port) {
  if (port === 0) return "itself";
  const cable = store.cableAt(device, port);
  if (cable === undefined) return "";
  const { a, a_port, b } = store.map.cables[cable];
  const peer = a === device && a_port === port ? b : a;
  return link(store.map.devices[peer].name, () => store.select({ kind: "cable", cable }));
}

/** @param {number} device @param {import("./types.js").Tables} tables */
export function forwarding(device, { forwarding }) {
  if (forwarding.length === 0) return make("p", { className: "quiet" }, "It forwards nothing.");
  const rows = forwarding.map(({ lid, port, name }) => [String(lid), name === null ? "" : toDevice(name), String(port), leadsTo(device, port)]);
  return table("Forwarding table", [{ number: "LID" }, "Of", { number: "Port" }, "Leads to"], rows);
}

/** @param {number} device @param {import("./types.js").Tables} tables */
export function multicast(device, { multicast }) {
  const entries = Object.entries(multicast);
  if (entries.length === 0) return make("p", { className: "quiet" }, "No group passes it.");
  const names = entries.map(([mlid]) => make("span", { className: "quiet" }, mlid));
  const rows = entries.map(([mlid, ports], row) => {
    const ways = ports.flatMap((port) => [make("span", { className: "way" }, `${port} `, leadsTo(device, port)), " "]);
    return [mlid, names[row], make("span", {}, ...ways)];
  });
  // Which group has which LID, subnet administration tells.
  get("groups").then((/** @type {import("./types.js").Group[]} */ groups) => {
    entries.forEach(([mlid], row) => {
      const group = groups.find(({ members }) => members.some((member) => member.mlid === Number(mlid)));
      names[row].textContent = group?.mgid ?? "no members now";
    });
  }, () => {});
  return wide("Multicast table", table("Multicast table", ["LID", "Group", "Ports, and what they lead to"], rows));
}

/** Weights as they are set, and what the arbiter has given. @param {import("./types.js").Tables} tables @param {import("./types.js").DeviceDetails} device */
export function arbitration({ arbitration }, { ports: all }) {
  const shown = make("div");
  for (const { ports, high_limit, high, low } of arbitration) {
    const limit = high_limit === 255 ? "all it has" : high_limit === 0 ? "one packet" : `${high_limit * 4} KiB`;
    const vls = [...new Set([...low, ...high].map(({ vl }) => vl))].sort((a, b) => a - b);
    const of = (/** @type {import("./types.js").Share[]} */ shares, /** @type {number} */ vl) => {
      const share = shares.find((share) => share.vl === vl);
      return share ? `${share.weight} (${share.percent} %)` : "";
    };
    const title = `${ports.length > 1 ? "Ports" : "Port"} ${ports.join(", ")}`;
    shown.append(make("h3", {}, title));
    if (vls.length === 0) {
      shown.append(make("p", { className: "quiet" }, "No lane has an entry: it sends nothing."));
      continue;
    }
    const rows = vls.map((vl) => [`VL ${vl}`, of(low, vl), of(high, vl)]);
    const note = `Weights, and their part of the table. High priority sends ${limit} before low priority has its turn.`;
    shown.append(table(`Arbitration of ${title}`, ["Lane", { number: "Low priority" }, { number: "High priority" }], rows), make("p", { className: "quiet note" }, note));
    const busy = ports.flatMap((number) => all.filter(({ port, lanes }) => port === number && lanes.some(({ share }) => share > 0)));
    const given = busy.map(({ port, lanes }) => [`Port ${port}`, ...vls.map((vl) => percent((lanes[vl]?.share ?? 0) * 1000))]);
    const none = make("p", { className: "quiet" }, "No port has sent anything lately.");
    shown.append(given.length ? table(`What the arbiters of ${title} gave`, ["Gave lately", ...vls.map((vl) => ({ number: `VL ${vl}` }))], given) : none);
  }
  return shown;
}
