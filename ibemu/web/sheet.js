/**
 * What takes long to draw, kept as it was drawn for one view, with a margin: while a map is moved and zoomed it is shifted and stretched, and drawn
 * anew only where it ends or becomes blurred.
 */

/** @typedef {import("./view.js").View} View */
/** @typedef {{scale: number, upright: number, x: number, y: number, width: number, height: number, dots: number}} Drawn */

/** The margin at each side, a part of the window's. */
const MARGIN = 0.25;
/** How much it may be stretched. */
const STRETCH_MAX = 1.4;

export class Sheet {
  #canvas = document.createElement("canvas");
  /** The view for which it was drawn, from the upper left corner of the window, and the window. */
  #drawn = /** @type {Drawn} */ ({ scale: 0, upright: 0, x: 0, y: 0, width: 0, height: 0, dots: 0 });

  /** What was drawn looks different now. */
  clear() {
    this.#drawn.scale = 0;
  }

  /**
   * Puts it onto a window; draws it anew if it does not cover that, or is blurred though nothing moves.
   * @param {CanvasRenderingContext2D} context @param {View} view @param {number} dots of the screen a pixel @param {number} width @param {number} height
   * @param {boolean} isMoving @param {(context: CanvasRenderingContext2D, matrix: DOMMatrix) => void} draw
   */
  paint(context, view, dots, width, height, isMoving, draw) {
    const now = { scale: view.scale, upright: view.upright, x: view.x, y: view.y, width, height, dots };
    let place = this.#place(now, isMoving);
    if (!place) {
      this.#drawn = now;
      this.#draw(view, draw);
      place = this.#place(now, isMoving);
    }
    if (place) context.drawImage(this.#canvas, place.left, place.top, place.wide, place.high);
  }

  /** Where it is to be put, pixels of the window; null if it is of no use. @param {Drawn} now @param {boolean} isMoving */
  #place(now, isMoving) {
    const drawn = this.#drawn;
    if (drawn.scale === 0 || drawn.width !== now.width || drawn.height !== now.height || drawn.dots !== now.dots) return null;
    const [across, down] = [now.scale / drawn.scale, now.upright / drawn.upright];
    const isStretched = across !== 1 || down !== 1;
    if (isStretched && !isMoving) return null;
    if ([across, down].some((by) => by > STRETCH_MAX || by < 1 / STRETCH_MAX)) return null;
    const [besides, above] = [Math.ceil(now.width * MARGIN), Math.ceil(now.height * MARGIN)];
    // On whole dots it is as sharp as it was drawn.
    const round = (/** @type {number} */ at) => (isStretched ? at : Math.round(at * now.dots) / now.dots);
    const left = round(now.x - (drawn.x + besides) * across);
    const top = round(now.y - (drawn.y + above) * down);
    const [wide, high] = [(now.width + 2 * besides) * across, (now.height + 2 * above) * down];
    const covers = left <= 0 && top <= 0 && left + wide >= now.width && top + high >= now.height;
    return covers ? { left, top, wide, high } : null;
  }

  /** @param {View} view @param {(context: CanvasRenderingContext2D, matrix: DOMMatrix) => void} draw */
  #draw(view, draw) {
    const { width, height, dots } = this.#drawn;
    const [besides, above] = [Math.ceil(width * MARGIN), Math.ceil(height * MARGIN)];
    const [wide, high] = [width + 2 * besides, height + 2 * above].map((side) => Math.round(side * dots));
    if (this.#canvas.width !== wide || this.#canvas.height !== high) [this.#canvas.width, this.#canvas.height] = [wide, high];
    const context = this.#canvas.getContext("2d", { alpha: false });
    if (!context) return;
    context.setTransform(dots, 0, 0, dots, dots * besides, dots * above);
    draw(context, view.matrix);
  }
}
