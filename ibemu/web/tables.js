/** A device's tables. */

import { store } from "./store.js";
import { link, make, table } from "./dom.js";

/** @param {number} device */
const toDevice = (device) => link(store.map.devices[device].name, () => store.select({ kind: "device", device }));

/** @param {import("./types.js").Tables} tables */
export function forwarding({ forwarding }) {
  if (forwarding.length === 0) return make("p", { className: "quiet" }, "It forwards nothing.");
  const rows = forwarding.map(({ lid, port, name }) => {
    const device = name === null ? undefined : store.device(name);
    return [String(lid), device === undefined ? name ?? "" : toDevice(device), String(port)];
  });
  return table("Forwarding table", [{ number: "LID" }, "Of", { number: "Port" }], rows);
}

/** @param {import("./types.js").Tables} tables */
export function multicast({ multicast }) {
  const rows = Object.entries(multicast).map(([mlid, ports]) => [mlid, ports.join(" ")]);
  if (rows.length === 0) return make("p", { className: "quiet" }, "No group passes it.");
  return table("Multicast table", ["Multicast LID", "Ports"], rows);
}

/** @param {import("./types.js").Tables} tables */
export function arbitration({ arbitration }) {
  const shown = make("div");
  const lanes = (/** @type {import("./types.js").Share[]} */ shares) => shares.map(({ vl, percent }) => `VL ${vl}: ${percent} %`).join(", ") || "–";
  const rows = arbitration.map(({ ports, high_limit, high, low }) => [ports.join(" "), lanes(low), lanes(high), high_limit === 255 ? "none" : String(high_limit)]);
  shown.append(table("Arbitration", ["Ports", "Low priority", "High priority", { number: "Limit" }], rows));
  return shown;
}
