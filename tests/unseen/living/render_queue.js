// Render queue: a worker thread sleeps in Atomics.wait until its slot comes, then reports.
const { Worker, isMainThread, workerData, parentPort } = require('worker_threads');

const seconds = parseFloat(process.env.UNSEEN_SECONDS || '15');

if (isMainThread) {
  const slot = new SharedArrayBuffer(4);
  const worker = new Worker(__filename, { workerData: { slot, ms: seconds * 1000 } });
  worker.on('message', (m) => {
    if (m !== 'rendered') process.exit(1);
    console.log('alive');
  });
  worker.on('error', (e) => {
    console.error(e);
    process.exit(1);
  });
} else {
  const cell = new Int32Array(workerData.slot);
  const how = Atomics.wait(cell, 0, 0, workerData.ms);
  parentPort.postMessage(how === 'timed-out' ? 'rendered' : how);
}
