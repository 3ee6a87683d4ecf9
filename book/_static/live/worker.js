/** Runs Pyodide with the course's packages. `bridge.py` stands in for IPython and carries widgets' messages. */
import { COURSE, PYODIDE, PYTHON } from "./assets.js";

const post = (kind, more = {}) => self.postMessage({ kind, ...more });
const fetchAnything = self.fetch.bind(self);

/** Loads a file, counts its bytes as they come and says at once when it is missing. */
async function load(url) {
  const response = await fetchAnything(url).catch(() => missing(url, "no connection"));
  if (!response.ok) missing(url, response.status);
  count(response.clone().body.getReader());
  return response;
}

// Everything is asked for at once; left alone, Pyodide would ask for one part after the other.
const PARTS = [`${PYODIDE}pyodide.asm.wasm`, PYTHON, `${PYODIDE}pyodide-lock.json`];
const parts = new Map(PARTS.map((url) => [url, load(url)]));
self.fetch = (url, options) => parts.get(String(url.url ?? url)) ?? fetchAnything(url, options);

function missing(url, why) {
  const reason = `${new URL(url).pathname.split("/").pop()} could not be loaded (${why})`;
  post("failed", { reason });
  throw new Error(reason);
}

async function count(reader) {
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    post("bytes", { bytes: value.byteLength });
  }
}

// ipywidgets need not repeat to the page what the page has just told it.
const ENVIRONMENT = { HOME: "/home/pyodide", JUPYTER_WIDGETS_ECHO: "0" };

async function boot() {
  const course = load(COURSE).then((response) => response.arrayBuffer());
  const bridge = load(new URL("bridge.py", import.meta.url)).then((response) => response.text());
  const { loadPyodide } = await import(`${PYODIDE}pyodide.mjs`).catch(() => missing(`${PYODIDE}pyodide.mjs`, "not found"));
  const python = await loadPyodide({ indexURL: PYODIDE, stdLibURL: PYTHON, env: ENVIRONMENT });
  post("booted");
  python.unpackArchive(await course, "zip", { extractDir: "/course" });
  python.registerJsModule("live_page", { post: (kind, fields) => post(kind, fields.toJs({ dict_converter: Object.fromEntries })) });
  python.runPython('import sys; sys.path.insert(0, "/course")');
  python.runPython(await bridge);
  post("ready");
  return { run: python.globals.get("run"), change: python.globals.get("change") };
}

const lastLine = (problem) => String(problem?.message ?? problem).trim().split("\n").at(-1);

const ready = boot().catch((problem) => {
  post("failed", { reason: lastLine(problem) });
  return null;
});

self.addEventListener("unhandledrejection", (event) => {
  event.preventDefault();
  post("failed", { reason: lastLine(event.reason) });
});

self.onmessage = async ({ data }) => {
  const python = await ready;
  if (data.kind === "run") python?.run(data.number, data.source);
  if (data.kind === "change") python?.change(data.comm, data.message);
};
