// Main thread and a worker hand a buffer over with Atomics.wait; each waits for the other's flag first.
const { Worker, isMainThread, workerData } = require('worker_threads');
if (isMainThread) {
  const sab = new SharedArrayBuffer(16);
  const f = new Int32Array(sab);           // [0]=main ready, [1]=worker ready, [2]=online
  const w = new Worker(__filename, { workerData: sab });
  w.on('online', () => {
    console.log('worker online');
    console.log('frozen soon');
    Atomics.wait(f, 1, 0);
    Atomics.store(f, 0, 1); Atomics.notify(f, 0);
    console.log('done');
  });
} else {
  const f = new Int32Array(workerData);
  Atomics.wait(f, 0, 0);
  Atomics.store(f, 1, 1); Atomics.notify(f, 1);
}
