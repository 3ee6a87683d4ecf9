/** Draws widget models as native controls, with labels, readouts and what assistive technology needs. */
import { Chart } from "./chart.js";
import { readout } from "./format.js";
import { clean } from "./clean.js";

/**
 * @param {Model} model
 * @param {{model: (key: string) => Model, still: Element, isLive: boolean}} figure  finds models, and the still figure whose
 *   pictures the drawn one takes over
 * @returns {Element}
 */
export const draw = (model, figure) => VIEWS[model.kind](model, figure);

let made = 0;
const newId = () => `live-control-${++made}`;

/** An element; properties that it has are set, everything else becomes an attribute. */
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in element) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

/** Calls `refresh` now and whenever the model's state changes. */
function follow(model, refresh) {
  model.refreshers.push(refresh);
  refresh();
}

/** One cell of the grid of controls: label and readout in the first line, the control in the second. */
function control(model, input, ...more) {
  input.id = newId();
  const label = make("label", { className: "live-label", htmlFor: input.id }, model.state.description ?? "");
  return make("div", { className: "live-control" }, label, ...more, input);
}

// What each kind of slider moves over, and what a position of its thumb means.
const LINEAR = {
  range: (state) => [state.min, state.max, state.step ?? "any"],
  position: (state) => state.value,
  patch: (_state, position) => ({ value: position }),
  text: (state) => readout(state.value, state.readout_format),
};
const POWERS = {
  ...LINEAR,
  position: (state) => Math.log(state.value) / Math.log(state.base),
  patch: (state, position) => ({ value: state.base ** position }),
};
const OPTIONS = {
  range: (state) => [0, state._options_labels.length - 1, 1],
  position: (state) => state.index,
  patch: (_state, position) => ({ index: position }),
  text: (state) => state._options_labels[state.index],
};

const slider = (scale) => (model) => {
  const input = make("input", { type: "range" });
  // Not an <output>: that would be read aloud on top of the slider's own value.
  const shown = make("span", { className: "live-readout", hidden: model.state.readout === false });
  follow(model, () => {
    [input.min, input.max, input.step] = scale.range(model.state);
    input.disabled = Boolean(model.state.disabled);
    input.value = scale.position(model.state);
    const share = (input.value - input.min) / (input.max - input.min);
    input.style.setProperty("--live-share", `${100 * share}%`);
    shown.textContent = scale.text(model.state);
    input.setAttribute("aria-valuetext", shown.textContent);
  });
  input.addEventListener("input", () => model.change(scale.patch(model.state, Number(input.value))));
  return control(model, input, shown);
};

function dropdown(model) {
  const select = make("select");
  let shown;
  follow(model, () => {
    if (shown !== model.state._options_labels) {
      shown = model.state._options_labels;
      select.replaceChildren(...shown.map((label, index) => make("option", { value: index, textContent: label })));
    }
    select.value = model.state.index ?? "";
    select.disabled = Boolean(model.state.disabled);
  });
  select.addEventListener("change", () => model.change({ index: Number(select.value) }));
  return control(model, select);
}

function radios(model) {
  const name = newId();
  const inputs = model.state._options_labels.map((_label, index) => {
    const input = make("input", { type: "radio", name, id: `${name}-${index}`, value: index });
    input.addEventListener("change", () => model.change({ index }));
    return input;
  });
  const choices = inputs.map((input, index) =>
    make("label", { className: "live-choice", htmlFor: input.id }, input, make("span", {}, model.state._options_labels[index])),
  );
  follow(model, () => {
    inputs.forEach((input, index) => {
      input.checked = index === model.state.index;
      input.disabled = Boolean(model.state.disabled);
    });
  });
  // A legend cannot sit in a grid, so the group takes its name from an ordinary element.
  const label = make("span", { className: "live-label", id: `${name}-label` }, model.state.description ?? "");
  const group = make("div", { className: "live-choices" }, ...choices);
  return make("div", { className: "live-control", role: "radiogroup", "aria-labelledby": label.id }, label, group);
}

function checkbox(model) {
  const input = make("input", { type: "checkbox", id: newId() });
  input.addEventListener("change", () => model.change({ value: input.checked }));
  follow(model, () => {
    input.checked = model.state.value;
    input.disabled = Boolean(model.state.disabled);
  });
  const label = make("label", { className: "live-choice", htmlFor: input.id }, input, make("span", {}, model.state.description ?? ""));
  return make("div", { className: "live-control live-control-alone" }, label);
}

function button(model) {
  const element = make("button", { type: "button", className: "live-button" });
  element.addEventListener("click", () => model.signal({ event: "click" }));
  follow(model, () => {
    element.textContent = model.state.description ?? "";
    element.disabled = Boolean(model.state.disabled);
  });
  return make("div", { className: "live-control live-control-alone" }, element);
}

const box = (className) => (model, figure) => {
  const element = make("div", { className });
  let shown;
  follow(model, () => {
    if (shown === model.state.children) return;
    shown = model.state.children;
    element.replaceChildren(...model.children.map((key) => draw(figure.model(key), figure)));
  });
  return element;
};

/** HTML: a sentence, or a chart with its title. A chart keeps its element, so that nothing flickers. */
function htmlView(model, figure) {
  const element = make("div", { className: "live-html" });
  let chart = null;
  let shown;
  follow(model, () => {
    const fragment = clean(model.state.value);
    const spec = fragment.querySelector(".aiinfra-spec");
    const slot = spec && fragment.querySelector(".aiinfra-chart");
    spec?.remove();
    const text = make("div", {}, fragment.cloneNode(true)).innerHTML;
    if (text !== shown) {
      shown = text;
      element.replaceChildren(fragment);
      if (slot) {
        chart ??= new Chart(figure.still.querySelector(`[data-model="${model.key}"]`) ?? slot);
        chart.element.setAttribute("aria-label", slot.getAttribute("aria-label"));
        slot.replaceWith(chart.element);
      } else {
        element.setAttribute("aria-live", "polite");
      }
    }
    if (slot && figure.isLive) chart.show(JSON.parse(spec.textContent));
  });
  return element;
}

function labelView(model) {
  const element = make("div", { className: "live-html", "aria-live": "polite" });
  follow(model, () => {
    element.textContent = model.state.value;
  });
  return element;
}

const VIEWS = {
  IntSliderModel: slider(LINEAR),
  FloatSliderModel: slider(LINEAR),
  FloatLogSliderModel: slider(POWERS),
  SelectionSliderModel: slider(OPTIONS),
  DropdownModel: dropdown,
  RadioButtonsModel: radios,
  ToggleButtonsModel: radios,
  CheckboxModel: checkbox,
  ButtonModel: button,
  VBoxModel: box("live-vbox"),
  HBoxModel: box("live-hbox"),
  BoxModel: box("live-hbox"),
  HTMLModel: htmlView,
  LabelModel: labelView,
};
