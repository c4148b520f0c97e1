// A hundred durable steps, one after the other, of one package: hundred.mjs PACKAGE FOLDER DATABASE PROSE
//
// Each step gives the same text of 1 KiB. Prints steps per second, from before the first step until after the last:
// starting a server or a worker, and its looking for work, are not counted. Those that need PostgreSQL use DATABASE,
// the others FOLDER.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { dirname, join } from "node:path";

const [name, folder, database, prose] = process.argv.slice(2);
const STEPS = 100;
// Longer than any of them takes; what it started ends with it.
setTimeout(() => fail("it did not end within two minutes"), 120_000).unref();

/** The last line says why. */
function fail(why) {
  console.error(String(why).split("\n")[0]);
  process.exit(1);
}

async function timed(step) {
  const begun = performance.now();
  for (let number = 0; number < STEPS; number += 1) {
    if ((await step(`s${number}`, async () => prose)) !== prose) throw new Error(`another value of step ${number}`);
  }
  return STEPS / ((performance.now() - begun) / 1000);
}

const packages = {
  async relight() {
    const { open } = await import("relight");
    const store = await open({ home: folder, store: database || `sqlite:${folder}/relight.db` });
    const task = await store.task(`hundred-${Date.now()}`);
    const rate = await timed((name, work) => task.step(name, work));
    await task.done();
    return rate;
  },

  async openworkflow() {
    const { OpenWorkflow } = await import("openworkflow");
    const { BackendSqlite } = await import("openworkflow/sqlite");
    const client = new OpenWorkflow({ backend: BackendSqlite.connect(`${folder}/openworkflow.db`) });
    const hundred = client.defineWorkflow({ name: "hundred" }, ({ step }) => timed((name, work) => step.run({ name }, work)));
    await client.newWorker().start();
    return (await hundred.run()).result();
  },

  async dbos() {
    const { DBOS } = await import("@dbos-inc/dbos-sdk");
    DBOS.setConfig({ name: "bench", systemDatabaseUrl: database, logLevel: "error" });
    const hundred = () => timed((name, work) => DBOS.runStep(work, { name }));
    const workflow = DBOS.registerWorkflow(hundred, { name: "hundred" });
    await DBOS.launch();
    return workflow();
  },

  /** `absurdctl init` comes first. */
  async absurd() {
    const { Absurd } = await import("absurd-sdk");
    const app = new Absurd({ db: database, queueName: "bench" });
    await app.createQueue();
    app.registerTask({ name: "hundred" }, (_, context) => timed((name, work) => context.step(name, work)));
    await app.startWorker();
    const { taskID } = await app.spawn("hundred", {});
    const ended = await app.awaitTaskResult(taskID);
    if (ended.state !== "completed") throw new Error(JSON.stringify(ended));
    return ended.result;
  },

  async restate() {
    const restate = await import("@restatedev/restate-sdk");
    const hundred = (context) => timed((name, work) => context.run(name, work));
    const service = restate.service({ name: "bench", handlers: { hundred } });
    const [port, node, ingress, admin] = await freePorts(4);
    await restate.serve({ services: [service], port });
    await startRestate({
      RESTATE_BASE_DIR: folder,
      RESTATE_BIND_ADDRESS: `127.0.0.1:${node}`,
      RESTATE_INGRESS__BIND_ADDRESS: `127.0.0.1:${ingress}`,
      RESTATE_ADMIN__BIND_ADDRESS: `127.0.0.1:${admin}`,
    });
    await answer(`http://127.0.0.1:${admin}/deployments`, { uri: `http://127.0.0.1:${port}` });
    return answer(`http://127.0.0.1:${ingress}/bench/hundred`);
  },
};

async function startRestate(environment) {
  const manifest = createRequire(import.meta.url).resolve(`@restatedev/restate-server-linux-${process.arch}/package.json`);
  const server = spawn(join(dirname(manifest), "bin", "restate-server"), [], {
    env: { ...process.env, DO_NOT_TRACK: "1", ...environment },
    stdio: ["ignore", "ignore", "inherit"],
  });
  process.on("exit", () => server.kill("SIGKILL"));
  server.on("exit", (code, signal) => fail(`restate-server ended with ${code ?? signal}`));
  await once(server, "spawn");
}

/** The answer to a request, once there is somebody who gives one. */
async function answer(url, body) {
  const request = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  for (;;) {
    const response = await fetch(url, request).catch(() => undefined);
    if (response?.ok) return response.json();
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

async function freePorts(count) {
  const servers = Array.from({ length: count }, () => createServer().listen(0, "127.0.0.1"));
  await Promise.all(servers.map((server) => once(server, "listening")));
  const ports = servers.map((server) => server.address().port);
  await Promise.all(servers.map((server) => (server.close(), once(server, "close"))));
  return ports;
}

const rate = await packages[name]().catch(fail);
process.stdout.write(`${rate}\n`, () => process.exit(0));
