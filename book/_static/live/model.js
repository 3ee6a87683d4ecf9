/**
 * One widget's state: first as the build saved it, later as Python has it. Its views follow the state; what the
 * reader changes goes to `onChange`. A model is known by `key` in the page, and by `comm` once Python has its twin.
 */
export class Model {
  constructor(key, state, onChange) {
    this.key = key;
    this.state = state;
    this.onChange = onChange;
    this.comm = null;
    this.refreshers = [];
  }

  get kind() {
    return this.state._model_name;
  }

  get children() {
    return (this.state.children ?? []).map((reference) => reference.replace("IPY_MODEL_", ""));
  }

  /** New state from Python. */
  update(patch) {
    Object.assign(this.state, patch);
    for (const refresh of this.refreshers) refresh();
  }

  /** New state from the reader. */
  change(patch) {
    this.update(patch);
    this.onChange(this, { method: "update", state: patch, buffer_paths: [] });
  }

  /** An event that is not state, such as a button's click. */
  signal(content) {
    this.onChange(this, { method: "custom", content });
  }
}
