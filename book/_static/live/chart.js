/** Draws a chart's spec with Vega, which is only loaded when a figure starts. */
import { VEGA } from "./assets.js";

let tries = 0;
let loading = null;

/** Loads Vega once. A module that failed to load stays failed, so another try needs another address. */
export function loadVega() {
  loading ??= import(tries++ ? `${VEGA}?try=${tries}` : VEGA).catch((problem) => {
    loading = null;
    throw new Error(`${problem.message}`);
  });
  return loading;
}

const NARROW = 480; // as in live.css; below it a legend is one column

export class Chart {
  /** @param {Element} element  holds the still pictures until the first live one is ready */
  constructor(element) {
    this.element = element;
    this.view = null;
    this.drawing = null;
    this.next = null;
    this.frame = "";
    this.scale = 0;
    new ResizeObserver(() => this.#resize()).observe(element);
  }

  /** Shows `spec`. While one picture is being drawn only the newest of the next ones is kept. */
  show(spec) {
    this.next = spec;
    this.drawing ??= this.#drawAll().finally(() => {
      this.drawing = null;
    });
    return this.drawing;
  }

  async #drawAll() {
    while (this.next) {
      const spec = this.next;
      this.next = null;
      const { datasets, ...frame } = spec;
      const text = JSON.stringify(frame) + this.#isNarrow();
      if (this.view && text === this.frame) {
        await this.view.data("rows", datasets.rows).runAsync();
      } else {
        await this.#build(spec);
        this.frame = text;
      }
      this.spec = spec;
    }
  }

  /** Draws beside the page and swaps when ready, so that the old picture stays until then. */
  async #build(spec) {
    const mount = document.createElement("div");
    mount.setAttribute("aria-hidden", "true"); // the element around it says what it shows
    const legend = { ...spec.config?.legend, ...(this.#isNarrow() ? { columns: 1 } : {}) };
    this.scale ||= this.element.clientHeight / spec.height || 1; // as tall as the still picture, so that nothing jumps
    const fitted = { ...spec, width: this.#width(), height: Math.round(this.scale * spec.height), config: { ...spec.config, legend } };
    const options = { renderer: "svg", actions: false, defaultStyle: false, ast: false };
    const { view } = await window.vegaEmbed(mount, fitted, options);
    this.view?.finalize();
    this.view = view;
    this.element.replaceChildren(mount);
  }

  #resize() {
    if (!this.view || this.drawing) return;
    const narrowed = !this.frame.endsWith(String(this.#isNarrow()));
    if (narrowed) this.show(this.spec);
    else if (this.view.width() !== this.#width()) this.view.width(this.#width()).runAsync();
  }

  #width() {
    return Math.max(200, Math.floor(this.element.clientWidth));
  }

  #isNarrow() {
    return this.element.clientWidth < NARROW;
  }
}
