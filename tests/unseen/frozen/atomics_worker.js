// The main thread blocks in Atomics.wait until the worker is ready; the worker waits for the config message that
// main would only send afterwards.
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
if (isMainThread) {
  const flag = new Int32Array(new SharedArrayBuffer(4));
  let h = 0;
  for (let i = 0; i < 3e6; i++) h = (h * 31 + i) | 0;
  console.log('vocabulary hash', h);
  const w = new Worker(__filename, { workerData: flag });
  Atomics.wait(flag, 0, 0);
  w.postMessage({ batch: 32 });
  w.on('message', (m) => { console.log('result', m); process.exit(0); });
} else {
  parentPort.once('message', (config) => {
    Atomics.store(workerData, 0, 1);
    Atomics.notify(workerData, 0);
    parentPort.postMessage(config.batch * 2);
  });
}
