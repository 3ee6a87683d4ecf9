/** Python in a worker, one for the whole page. What readers change goes there one at a time, and the newest wins. */
import { BYTES_TO_COUNT } from "./assets.js";

const TOO_OLD = "the part that runs Python could not be loaded, or this browser is too old for it";

// How much of the bar each step of a start fills once it is done; the first one is filled by bytes.
const LOADED = 0.6;
const BOOTED = 0.8;
const IMPORTED = 0.97;

/**
 * Events: "started" once Python runs; "settled" {model, error, isIdle} after each change that Python has handled;
 * "stopped" {reason} when the worker is lost.
 */
export class Python extends EventTarget {
  #worker = null;
  #isReady = false;
  #bytes = 0;
  #runs = new Map(); // number -> {resolve, reject, onStep, models: {comm: state}}
  #count = 0;
  #models = new Map(); // comm -> model in the page
  #signals = []; // what must all arrive, in order: [comm, message]
  #patches = new Map(); // comm -> newest state not sent yet
  #sent = null; // the model whose change Python is working on

  get isReady() {
    return this.#isReady;
  }

  /**
   * Runs a cell in a fresh namespace.
   * @param {string} source
   * @param {(text: string, share: number) => void} onStep
   * @returns {Promise<{root: string, models: Object<string, object>}>}  the widget shown, the states of all made
   */
  run(source, onStep) {
    return new Promise((resolve, reject) => {
      this.#start();
      const number = ++this.#count;
      this.#runs.set(number, { resolve, reject, onStep, models: {} });
      this.#worker.postMessage({ kind: "run", number, source });
    });
  }

  /** From now on `model` is the twin of Python's widget `comm`. */
  connect(model, comm) {
    model.comm = comm;
    this.#models.set(comm, model);
  }

  /** Tells the twin of `model` what the reader did. */
  send(model, message) {
    if (message.method === "update") {
      this.#patches.set(model.comm, { ...this.#patches.get(model.comm), ...message.state });
    } else {
      this.#signals.push([model.comm, message]);
    }
    this.#pump();
  }

  #pump() {
    if (this.#sent) return;
    const next = this.#signals.shift() ?? this.#newestPatch();
    if (!next) return;
    const [comm, message] = next;
    this.#sent = this.#models.get(comm);
    this.#worker.postMessage({ kind: "change", comm, message: JSON.stringify(message) });
  }

  #newestPatch() {
    const [first] = this.#patches;
    if (!first) return undefined;
    const [comm, state] = first;
    this.#patches.delete(comm);
    return [comm, { method: "update", state, buffer_paths: [] }];
  }

  #start() {
    if (this.#worker) return;
    if (typeof WebAssembly === "undefined") throw new Error("this browser has WebAssembly turned off, and Python needs it");
    const worker = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
    const isCurrent = () => this.#worker === worker; // what a worker said before it was ended may come late
    worker.onmessage = ({ data }) => isCurrent() && this.#receive(data);
    worker.onerror = (event) => {
      event.preventDefault();
      if (isCurrent()) this.#fail(event.message || TOO_OLD);
    };
    this.#worker = worker;
  }

  #receive(data) {
    switch (data.kind) {
      case "bytes":
        this.#bytes += data.bytes;
        return this.#step("Loading Python", LOADED * Math.min(1, this.#bytes / BYTES_TO_COUNT));
      case "booted":
        return this.#step("Starting Python", BOOTED);
      case "ready":
        this.#isReady = true;
        this.dispatchEvent(new Event("started"));
        return this.#step("Computing", IMPORTED);
      case "opened":
        if (this.#runs.has(data.number)) this.#runs.get(data.number).models[data.comm] = JSON.parse(data.state);
        return undefined;
      case "ran":
        return this.#finish(data);
      case "state":
        return this.#update(data.comm, JSON.parse(data.state));
      case "changed":
        return this.#settle(data.error);
      case "failed":
        return this.#fail(data.reason);
    }
  }

  #step(text, share) {
    for (const { onStep } of this.#runs.values()) onStep(text, share);
  }

  #finish({ number, root, error }) {
    const { resolve, reject, models } = this.#runs.get(number);
    this.#runs.delete(number);
    if (root) resolve({ root, models });
    else reject(new Error(error));
  }

  /** New state of a widget: of one that a run is still making, or of one that the page shows. */
  #update(comm, state) {
    const made = [...this.#runs.values()].find(({ models }) => comm in models)?.models[comm];
    if (made) Object.assign(made, state);
    // A value is old where the reader has moved the same control again meanwhile.
    const newer = this.#patches.get(comm) ?? {};
    this.#models.get(comm)?.update(Object.fromEntries(Object.entries(state).filter(([name]) => !(name in newer))));
  }

  #settle(error) {
    const model = this.#sent;
    this.#sent = null;
    const isIdle = this.#signals.length === 0 && this.#patches.size === 0;
    this.dispatchEvent(new CustomEvent("settled", { detail: { model, error, isIdle } }));
    this.#pump();
  }

  /** Everything that waits learns why, and the next run starts afresh. */
  #fail(reason) {
    this.#worker.terminate();
    this.#worker = null;
    this.#isReady = false;
    this.#bytes = 0;
    this.#sent = null;
    this.#signals = [];
    this.#patches.clear();
    const waiting = [...this.#runs.values()];
    this.#runs.clear();
    for (const { reject } of waiting) reject(new Error(reason));
    this.dispatchEvent(new CustomEvent("stopped", { detail: { reason } }));
  }
}
