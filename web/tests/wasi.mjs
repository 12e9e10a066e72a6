// Runs a program for WASI: node wasi.mjs PROGRAM ARGUMENT...
import { readFile } from "node:fs/promises";
import { env, argv, exit } from "node:process";
import { WASI } from "node:wasi";

const wasi = new WASI({ version: "preview1", args: argv.slice(2), env, preopens: {}, returnOnExit: true });
const module = await WebAssembly.compile(await readFile(argv[2]));
exit(wasi.start(await WebAssembly.instantiate(module, wasi.getImportObject())));
