/**
 * Colours of cables. The scale is Viridis-like: lightness rises or falls steadily, so that it is read without telling
 * red from green, and in print. Each step was checked against both backgrounds.
 */

/** @typedef {{name: string, short: string, unit: string, ticks: string[], of: (value: number) => number}} Layer */

/** From little to much. */
const LIGHT = ["#b8c4cf", "#7fb8c9", "#3b94b5", "#3a63a8", "#5b2a86", "#2d0a3d"];
const DARK = ["#4a5a68", "#35698c", "#2f93a3", "#4fc08d", "#b5dd4b", "#fdf28a"];

/** Cables that are Down, and that wait for the subnet manager. Also told apart by dashes and a mark. */
const STATES = {
  light: { down: "#c2410c", init: "#b7791f", unknown: "#8895a2", ink: "#1b2530", paper: "#ffffff", quiet: "#5b6875", mark: "#d4007a" },
  dark: { down: "#ff8a5c", init: "#f6c453", unknown: "#66737f", ink: "#e8edf2", paper: "#12181f", quiet: "#8d9aa7", mark: "#ff7ac6" },
};

/** Ways that are drawn side by side: Okabe and Ito's colours, which are told apart by everybody, on light and on dark. */
export const WAYS = ["#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6bb1", "#7f7f00"];

/** Step 0 is nothing; thousandths are shown on a scale that tells small loads apart. @type {Record<string, Layer>} */
export const LAYERS = {
  load: { short: "Load", name: "Load", unit: "of the link's rate", ticks: ["0", "1 %", "10 %", "30 %", "60 %", "90 %"], of: (v) => step(v, [1, 10, 100, 300, 600, 900]) },
  wait: { short: "Wait", name: "Wait (PortXmitWait)", unit: "of the time", ticks: ["0", "0.1 %", "1 %", "10 %", "30 %", "60 %"], of: (v) => step(v, [1, 1, 10, 100, 300, 600]) },
  fill: { short: "Lanes", name: "Lanes (occupancy)", unit: "of an input buffer", ticks: ["0", "0.1 %", "5 %", "20 %", "50 %", "80 %"], of: (v) => step(v, [1, 1, 50, 200, 500, 800]) },
  errors: { short: "Errors a second", name: "Errors", unit: "a second", ticks: ["0", "> 0", "1", "10", "100", "1000"], of: (v) => step(v, [1e-6, 1e-6, 1, 10, 100, 1000]) },
};

/** @param {number} value @param {number[]} from */
function step(value, from) {
  let at = 0;
  for (let index = 1; index < from.length; index += 1) if (value >= from[index]) at = index;
  return at;
}

/** Whether the page is dark. */
export function isDark() {
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

/** The colours of now. */
export function colours() {
  return isDark() ? { steps: DARK, ...STATES.dark } : { steps: LIGHT, ...STATES.light };
}

/**
 * The value of each cable in a layer: of its two directions the larger one.
 * @param {import("./types.js").Sample | null} sample @param {string} layer @returns {(cable: number) => number}
 */
export function valueOf(sample, layer) {
  if (sample === null) return () => 0;
  if (layer === "errors") return (cable) => sample.errors[cable];
  const pairs = layer === "wait" ? sample.wait : layer === "fill" ? sample.lane ?? sample.fill : sample.load;
  return (cable) => Math.max(pairs[cable][0], pairs[cable][1]);
}
