/**
 * What the server says (docs/formats.md, "Web API").
 *
 * @typedef {{name: string, kind: "switch" | "host", guid: string, ports: number, x: number, y: number}} Device
 * @typedef {{a: number, a_port: number, b: number, b_port: number, bend: number}} Cable
 * @typedef {{fabric: string, topology: string, arrangement: string, time_scale: number, vls: number, devices: Device[],
 *   cables: Cable[], control: boolean, replay: boolean}} FabricMap
 * @typedef {{at_ms: number, state: number[], load: [number, number][], wait: [number, number][], errors: number[],
 *   present: number[], fill: [number, number][], lane?: [number, number][], failure?: string}} Sample
 * @typedef {{at_ms: number, kind: string, text: string, device?: string, port?: number, cable?: number}} Happening
 * @typedef {{at_ms: number[], load: [number, number][], wait: [number, number][], fill: [number, number][], errors: number[]}} Series
 * @typedef {{node: string, guid: string, in: number | null, out: number | null}} Hop
 * @typedef {{source: string, destination: string, dlid: number, sl: number, hops: Hop[], problem: string | null}} Path
 * @typedef {{mgid: string, qkey: number, mtu: number,
 *   members: {name: string, port_guid: string, mlid: number, join_state: number}[]}} Group
 * @typedef {{port: number, guid: string, lid: number, lmc: number, state: string, physical_state: string,
 *   width: string | null, speed: string | null, mtu: number, vls: number, cable: number | null, peer: string | null,
 *   is_known: boolean, is_stale: boolean, resets: number, counters: Record<string, number> | null,
 *   rates: Record<string, number>, fill: number, lanes: Lane[]}} PortDetails
 * @typedef {{input_share: number, input_blocks: number, output_blocks: number, credits: number, xmit_bytes: number,
 *   share: number, wait_s: number}} Lane
 * @typedef {{node: string, port: number, vl: number}} Channel
 * @typedef {{among: string, channels: Channel[]}} CreditLoop
 * @typedef {{switches: number, loops: CreditLoop[]}} Loops
 * @typedef {{name: string, kind: string, guid: string, system_image_guid: string, vendor_id: number, device_id: number,
 *   lid: number, is_present: boolean, ports: PortDetails[],
 *   process: null | {pid: number | null, restarts: number, cpu_s: number, resident_bytes: number, is_elsewhere?: boolean}}} DeviceDetails
 * @typedef {{vl: number, weight: number, percent: number}} Share
 * @typedef {{forwarding: {lid: number, port: number, name: string | null}[], multicast: Record<string, number[]>,
 *   arbitration: {ports: number[], high_limit: number, high: Share[], low: Share[]}[]}} Tables
 * @typedef {{cables: Set<number>, devices: Set<number>, ways?: {cables: number[], way: number}[]}} Highlight
 * @typedef {{lid: number, count: number, device: number}} Lids
 * @typedef {{kind: "device", device: number} | {kind: "cable", cable: number} | null} Selection
 */
export {};
