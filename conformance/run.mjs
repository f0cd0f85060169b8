// Runs the public conformance suite against Headwater, once for each surface.
//
//   node run.mjs (--binary PATH | --url URL) [--surface base|ds|root] [--subscriptions]
//                [--filter TEXT]
//
// `--binary` starts the server on a temporary directory; `--url` uses one that runs already
// (its long-poll timeout must be well below 5 s). `--filter` runs only tests whose name contains
// TEXT, for debugging. Exit code 0 means: every test of the suite ran and passed on each surface,
// `--subscriptions` included if asked for (the suite's own switch for an API of the base surface).

import { spawn } from "node:child_process"
import { once } from "node:events"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { parseArgs } from "node:util"
import { ensureBucket, openServer } from "../tests/support/server.mjs"
import { startProxy } from "./proxy.mjs"

// Suite 0.3.6 has 338 tests. Without its own `subscriptions` flag it skips one block of 6, an API
// beside the base protocol. The numbers are demanded exactly, so that no test vanishes silently.
const BASE_TESTS = 332
const SUBSCRIPTION_TESTS = 6
const SUBSCRIPTION_BLOCK = "Reserved subscription APIs"
// Twenty times what a run takes: only there so that a hanging server ends the job.
const LIMIT_MS = 15 * 60_000

const HERE = fileURLToPath(new URL(".", import.meta.url))
const SURFACES = [
  { name: "base" },
  { name: "ds", bucket: "/ds/conf-ds" },
  { name: "root", bucket: "/conf-root" },
]

const { values: options } = parseArgs({
  options: {
    binary: { type: "string" },
    url: { type: "string" },
    surface: { type: "string" },
    subscriptions: { type: "boolean", default: false },
    filter: { type: "string" },
  },
})
const only = options.subscriptions ? "base" : options.surface
const chosen = SURFACES.filter((s) => !only || s.name === only)
if (chosen.length === 0) throw new Error(`--surface is one of ${SURFACES.map((s) => s.name)}`)

const server = await openServer(options)
let good = true
for (const surface of chosen) {
  good = (await runSurface(surface)) && good
}
await server.stop()
process.exitCode = good ? 0 : 1

async function runSurface({ name, bucket }) {
  if (!bucket) return report(name, await runSuite(server.url))
  await ensureBucket(server.url + bucket)
  const proxy = await startProxy(server.url, bucket)
  const tests = await runSuite(proxy.url)
  await proxy.stop()
  return report(name, tests)
}

/** Runs vitest on the suite and returns its list of test results. */
async function runSuite(url) {
  const scratch = mkdtempSync(join(tmpdir(), "headwater-conformance-"))
  const json = join(scratch, "report.json")
  const args = ["node_modules/vitest/vitest.mjs", "run", "suite.test.mjs", "--no-coverage"]
  args.push("--reporter=json", `--outputFile.json=${json}`)
  if (options.filter) args.push("--testNamePattern", escapeRegExp(options.filter))
  const vitest = spawn(process.execPath, args, {
    cwd: HERE,
    env: {
      ...process.env,
      CONFORMANCE_URL: url,
      CONFORMANCE_SUBSCRIPTIONS: options.subscriptions ? "1" : "",
    },
    stdio: ["ignore", "ignore", "inherit"],
    timeout: LIMIT_MS,
  })
  const [code, signal] = await once(vitest, "exit")
  try {
    const files = JSON.parse(readFileSync(json, "utf8")).testResults
    const broken = files.find((f) => f.assertionResults.length === 0)
    if (broken) throw new Error(broken.message)
    return files.flatMap((f) => f.assertionResults)
  } catch (cause) {
    throw new Error(`vitest gave no usable report (exit ${code ?? signal})`, { cause })
  } finally {
    rmSync(scratch, { recursive: true })
  }
}

/** Prints what failed and one closing line; true if the numbers are the ones we demand. */
function report(surface, tests) {
  const failed = tests.filter((t) => t.status === "failed")
  const passed = tests.filter((t) => t.status === "passed")
  const skipped = tests.filter((t) => t.status !== "failed" && t.status !== "passed")
  for (const test of failed) {
    const why = String(test.failureMessages[0] ?? "").split("\n")[0]
    console.log(`FAILED  ${surface}  ${test.fullName}\n        ${why.slice(0, 300)}`)
  }
  const closing = `${passed.length} passed, ${failed.length} failed, ${skipped.length} skipped`
  console.log(`${surface}: ${closing}`)
  if (options.filter) return failed.length === 0 && passed.length > 0

  const expected = BASE_TESTS + (options.subscriptions ? SUBSCRIPTION_TESTS : 0)
  const executed = passed.length + failed.length
  const ours = skipped.filter((t) => !t.fullName.startsWith(SUBSCRIPTION_BLOCK))
  for (const test of ours) console.log(`SKIPPED ${surface}  ${test.fullName}`)
  if (executed !== expected) console.log(`${surface}: ${executed} tests ran, not ${expected}`)
  return passed.length === expected && failed.length === 0 && ours.length === 0
}

function escapeRegExp(text) {
  return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")
}
