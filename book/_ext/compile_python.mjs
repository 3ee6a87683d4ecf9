// Compiles the Python files of an archive with Pyodide itself, so that no reader's browser has to.
// node compile_python.mjs <folder of Pyodide> <archive of sources> <archive to write> <folders that keep docstrings...>
import { readFileSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [folder, sources, compiled, ...documented] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(resolve(folder, "pyodide.mjs")));
const python = await loadPyodide({ indexURL: resolve(folder) });

python.FS.writeFile("/sources.zip", readFileSync(sources));
python.globals.set("documented", python.toPy(documented));
python.runPython(`
import zipfile
from importlib import _bootstrap_external, util

def pyc(name, source):
    level = 0 if name.split("/")[0] in documented else 2
    code = compile(source, f"/lib/{name}", "exec", dont_inherit=True, optimize=level)
    return bytes(_bootstrap_external._code_to_hash_pyc(code, util.source_hash(source), False))

with zipfile.ZipFile("/sources.zip") as sources, zipfile.ZipFile("/compiled.zip", "w") as compiled:
    for entry in sources.infolist():
        name, body = entry.filename, sources.read(entry)
        if name.endswith(".py"):
            name, body = name + "c", pyc(name, body)
        compiled.writestr(zipfile.ZipInfo(name), body, zipfile.ZIP_DEFLATED, 9)
`);
writeFileSync(compiled, python.FS.readFile("/compiled.zip"));
