// Main blocks in Atomics.wait with a time-out for a worker that itself waits for main's message; then main gives way.
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
if (isMainThread) {
  const flag = new Int32Array(new SharedArrayBuffer(4));
  const w = new Worker(__filename, { workerData: flag });
  const s = Number(process.env.UNSEEN_SECONDS || 15);
  if (Atomics.wait(flag, 0, 0, s * 1000) !== 'timed-out') process.exit(1);
  w.on('message', (m) => { console.log('alive'); process.exit(m === 64 ? 0 : 1); });
  w.postMessage({ batch: 32 });
} else {
  parentPort.once('message', (config) => parentPort.postMessage(config.batch * 2));
}
