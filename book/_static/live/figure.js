/** One live figure: still at first, started by the first touch, then computed again at every move. */
import { BYTES_ON_THE_WIRE } from "./assets.js";
import { loadVega } from "./chart.js";
import { megabytes } from "./format.js";
import { Model } from "./model.js";
import { draw, make } from "./views.js";

const STILL = "still";
const ASKING = "asking";
const STARTING = "starting";
const LIVE = "live";
const FAILED = "failed";

export class Figure {
  #element;
  #python;
  #models;
  #source;
  #root;
  #status;
  #state;
  #chosen = new Map(); // model -> state that the reader chose, kept to be told again to a fresh Python
  #signals = []; // [model, message] that Python has not heard of yet
  #mayLoad = !savesData();

  /**
   * @param {HTMLElement} element  as the build made it: the still figure and the saved state of its widgets
   * @param {Python} python
   */
  constructor(element, python) {
    const cell = JSON.parse(element.querySelector(".live-cell").textContent);
    const onChange = (model, message) => this.#changed(model, message);
    this.#element = element;
    this.#python = python;
    this.#source = cell.source;
    this.#models = new Map(Object.entries(cell.models).map(([key, state]) => [key, new Model(key, state, onChange)]));
    this.#root = this.#models.get(cell.root);
    this.still = element.querySelector(".live-body");
    const body = make("div", { className: "live-body" }, draw(this.#root, this));
    this.still.replaceWith(body);
    this.#status = element.querySelector(".live-status");
    this.#enter(STILL);
    this.#status.setAttribute("role", "status");
    python.addEventListener("started", () => this.#state === STILL && this.#enter(STILL));
    python.addEventListener("stopped", ({ detail }) => this.isLive && this.#enter(FAILED, detail.reason));
    python.addEventListener("settled", ({ detail }) => this.#settled(detail));
  }

  /** For views: the model called `key`. */
  model(key) {
    return this.#models.get(key);
  }

  /** For views: whether charts are to be drawn; until then their still pictures are right. */
  get isLive() {
    return this.#state === LIVE;
  }

  #changed(model, message) {
    this.#element.setAttribute("aria-busy", "true");
    if (message.state) this.#chosen.set(model, { ...this.#chosen.get(model), ...message.state });
    if (this.isLive) return this.#python.send(model, message);
    if (!message.state) this.#signals.push([model, message]);
    if (this.#state === STARTING) return undefined;
    return this.#mayLoad || this.#python.isReady ? this.#start() : this.#enter(ASKING);
  }

  async #start() {
    this.#mayLoad = true;
    this.#enter(STARTING);
    try {
      const [twin] = await Promise.all([this.#python.run(this.#source, (...step) => this.#progress(...step)), loadVega()]);
      const pairs = match(this.#root, twin.root, this.#models, twin.models);
      this.#enter(LIVE);
      this.#takeOver(pairs, twin.models);
    } catch (problem) {
      console.warn(problem);
      this.#enter(FAILED, problem.message);
    }
  }

  /** Joins the drawn widgets with Python's, then tells Python what the reader has done so far. */
  #takeOver(pairs, states) {
    for (const [model, comm] of pairs) {
      this.#python.connect(model, comm);
      const { children, ...state } = states[comm];
      model.update({ ...state, ...this.#chosen.get(model) });
    }
    for (const [model, state] of this.#chosen) this.#python.send(model, { method: "update", state });
    for (const [model, message] of this.#signals.splice(0)) this.#python.send(model, message);
  }

  #settled({ model, error, isIdle }) {
    if (![...this.#models.values()].includes(model)) return;
    this.#say(error ? [`These settings do not work: ${error}`] : LIVE_TEXT, { isBad: Boolean(error) });
    if (isIdle) this.#element.removeAttribute("aria-busy");
  }

  #enter(state, reason) {
    this.#state = state;
    this.#element.dataset.state = state;
    this.#element.querySelector(".live-progress")?.remove();
    if (state === STILL) this.#say(hint(this.#python.isReady));
    if (state === ASKING) this.#ask();
    if (state === STARTING) this.#progress("Loading Python", 0);
    if (state === LIVE) this.#say(LIVE_TEXT);
    if (state === FAILED) this.#sayFailed(reason);
  }

  #ask() {
    const load = make("button", { type: "button", textContent: `Load ${megabytes(BYTES_ON_THE_WIRE)}` });
    load.addEventListener("click", () => this.#start());
    this.#say(["Your browser asks to save data. To compute with your settings this page has to load Python once. ", load]);
  }

  #sayFailed(reason) {
    this.#element.removeAttribute("aria-busy");
    const retry = make("button", { type: "button", textContent: "Try again" });
    retry.addEventListener("click", () => this.#start());
    const help =
      `The figure could not start: ${reason}. Its picture and sentence still show the settings it came with. ` +
      "Check the connection and try again; if that does not help, reload the page or use another browser. ";
    this.#say([help, retry], { isBad: true });
  }

  #progress(text, share) {
    if (this.#state !== STARTING) return; // another part has failed meanwhile
    let bar = this.#element.querySelector(".live-progress");
    if (!bar) {
      bar = make("progress", { className: "live-progress", max: 100, "aria-label": "Starting the figure" });
      this.#status.after(bar);
    }
    bar.value = Math.round(100 * share);
    this.#say([text === "Loading Python" ? `Loading Python, ${megabytes(BYTES_ON_THE_WIRE)}, once` : text, "…"]);
  }

  /** Puts text and elements into the line under the figure, unless it says so already. */
  #say(parts, { isBad = false } = {}) {
    const line = make("p", { className: isBad ? "live-problem" : "live-hint" }, ...parts);
    if (!this.#status.firstElementChild?.isEqualNode(line)) this.#status.replaceChildren(line);
  }
}

const LIVE_TEXT = ["Live: every move is computed in this page by the course’s own package."];

function hint(isReady) {
  const cost = isReady ? "" : ` The first move loads ${megabytes(BYTES_ON_THE_WIRE)}, once.`;
  return [`Move a control and the figure follows.${cost}`];
}

function savesData() {
  return Boolean(navigator.connection?.saveData) || matchMedia("(prefers-reduced-data: reduce)").matches;
}

/** Pairs of a drawn model and Python's widget in the same place of the tree. */
function match(model, comm, drawn, states) {
  const children = (states[comm]?.children ?? []).map((reference) => reference.replace("IPY_MODEL_", ""));
  if (states[comm]?._model_name !== model.kind || children.length !== model.children.length) {
    throw new Error("its code made other controls than when the book was built");
  }
  const below = model.children.flatMap((key, place) => match(drawn.get(key), children[place], drawn, states));
  return [[model, comm], ...below];
}
